//! A statement that consists of one call of `pg_terminate_backend()` or `pg_cancel_backend()`.

/// The longest statement that is recognised as such a call, bytes.
const CALL_BYTES_MAX: usize = 128;

/// The function that is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, pgweir_freeze::Freeze)]
pub enum Signal {
    /// `pg_terminate_backend()`.
    Terminate,
    /// `pg_cancel_backend()`.
    Cancel,
}

impl Signal {
    /// The statement that is sent in place of the call. It returns what the call would return. `own`: the client
    /// cancels what it runs itself, so the server process must do that.
    pub fn answer(self, own: bool) -> &'static [u8] {
        match self {
            Signal::Terminate => b"SELECT true AS pg_terminate_backend",
            Signal::Cancel if own => b"SELECT pg_catalog.pg_cancel_backend(pg_catalog.pg_backend_pid())",
            Signal::Cancel => b"SELECT true AS pg_cancel_backend",
        }
    }
}

/// The process that a call names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, pgweir_freeze::Freeze)]
pub enum SignalTarget {
    /// This process id.
    ProcessId(u32),
    /// `$1`.
    Parameter,
}

/// A statement that consists of such a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, pgweir_freeze::Freeze)]
pub struct SignalCall {
    /// The function.
    pub kind: Signal,
    /// The process.
    pub target: SignalTarget,
    /// The name has its schema: pg_catalog.
    pub qualified: bool,
}

impl SignalCall {
    /// A statement whose one row says whether the call means PostgreSQL's own function, and whether the current role may
    /// call it. The name must have one meaning only: with a second function of that name in the search path, the types
    /// of the arguments would decide.
    pub fn question(&self) -> String {
        let name = match self.kind {
            Signal::Terminate => "pg_terminate_backend",
            Signal::Cancel => "pg_cancel_backend",
        };
        let schema = if self.qualified { "pg_catalog." } else { "" };
        format!(
            "SELECT pg_catalog.has_function_privilege(pg_catalog.to_regproc('{schema}{name}')::pg_catalog.oid, 'EXECUTE') \
             AND pg_catalog.to_regproc('{schema}{name}') OPERATOR(pg_catalog.=) pg_catalog.to_regproc('pg_catalog.{name}')"
        )
    }
}

/// Whether a text may be such a call. The letters from the eighth on tell it from nearly all other texts.
#[inline]
pub fn is_signal(text: &[u8]) -> bool {
    text.get(7..10) == Some(b"pg_") && signal_call(text).is_some()
}

/// Reads a text that consists of such a call.
pub fn signal_call(text: &[u8]) -> Option<SignalCall> {
    let text = std::str::from_utf8(text).ok().filter(|t| t.len() <= CALL_BYTES_MAX)?;
    let text = text.trim();
    let text = text.strip_suffix(';').unwrap_or(text).trim_end().to_ascii_lowercase();
    let call = text.strip_prefix("select ")?;
    let bare = call.strip_prefix("pg_catalog.");
    let (qualified, call) = (bare.is_some(), bare.unwrap_or(call));
    let (kind, rest) = if let Some(rest) = call.strip_prefix("pg_terminate_backend") {
        (Signal::Terminate, rest)
    } else {
        (Signal::Cancel, call.strip_prefix("pg_cancel_backend")?)
    };
    let arguments = rest.trim_start().strip_prefix('(')?.strip_suffix(')')?;
    let mut arguments = arguments.split(',').map(str::trim);
    let (first, second) = (arguments.next()?, arguments.next());
    let timeout_allowed = kind == Signal::Terminate;
    if arguments.next().is_some() || second.is_some_and(|s| !timeout_allowed || s.parse::<u32>().is_err()) {
        return None;
    }
    let bare = ["::int", "::int4", "::integer"]
        .iter()
        .find_map(|cast| first.strip_suffix(cast))
        .unwrap_or(first);
    let target = match bare {
        "$1" => SignalTarget::Parameter,
        number if number.bytes().all(|b| b.is_ascii_digit()) => SignalTarget::ProcessId(number.parse().ok()?),
        _ => return None,
    };
    Some(SignalCall {
        kind,
        target,
        qualified,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_statement_that_is_nothing_but_the_call_is_one() {
        let call = |qualified, kind, target| {
            Some(SignalCall {
                kind,
                target,
                qualified,
            })
        };
        use SignalTarget::{Parameter, ProcessId};
        for (text, expected) in [
            (
                "SELECT pg_terminate_backend(5000000)",
                call(false, Signal::Terminate, ProcessId(5_000_000)),
            ),
            (
                "select pg_catalog.pg_cancel_backend ( $1 );",
                call(true, Signal::Cancel, Parameter),
            ),
            (
                "select pg_terminate_backend($1::int, 1000)",
                call(false, Signal::Terminate, Parameter),
            ),
            ("select pg_cancel_backend(5000000, 1)", None),
            ("select pg_terminate_backend(pid) from pg_stat_activity", None),
            ("select pg_terminate_backend(5000000), 1", None),
            ("select pg_terminate_backend(5000000) where false", None),
            ("select pg_terminate_backend(5000000) or pg_cancel_backend(1)", None),
            ("select pg_terminate_backend($2)", None),
            ("select pg_backend_pid()", None),
        ] {
            assert_eq!(signal_call(text.as_bytes()), expected, "{text}");
        }
    }
}
