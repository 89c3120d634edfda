//! Whether a server matches `target_session_attrs` of its database.
//!
//! PostgreSQL 14 and newer report their state at login (`in_hot_standby`, `default_transaction_read_only`). Older ones
//! are asked.

use pgweir_config::TargetSessionAttrs;

/// The query for a server that has not reported enough. The answer is one row: `t` or `f`, and `on` or `off`.
pub(crate) const QUESTION: &str =
    "SELECT pg_catalog.pg_is_in_recovery(), pg_catalog.current_setting('transaction_read_only')";

/// What a server has reported of itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, pgweir_freeze::Freeze)]
pub(crate) struct Standing {
    /// It is a standby.
    in_hot_standby: Option<bool>,
    /// Transactions are read-only unless they say otherwise.
    read_only: Option<bool>,
}

/// Whether the server is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Judgement {
    /// It is wanted.
    Wanted,
    /// It serves only if there is no better one, with the reason.
    SecondChoice(&'static str),
    /// It must not serve; the reason in libpq's words.
    Unwanted(&'static str),
    /// It has not reported enough.
    Unknown,
}

impl Standing {
    /// Notes a setting that the server reports.
    pub(crate) fn note(&mut self, name: &[u8], value: &[u8]) {
        match name {
            b"in_hot_standby" => self.in_hot_standby = Some(value == b"on"),
            b"default_transaction_read_only" => self.read_only = Some(value == b"on"),
            _ => {}
        }
    }

    /// Notes the answer to [`QUESTION`].
    pub(crate) fn answered(in_recovery: &[u8], read_only: &[u8]) -> Standing {
        Standing {
            in_hot_standby: Some(in_recovery != b"f"),
            read_only: Some(read_only != b"off"),
        }
    }

    pub(crate) fn judge(self, wanted: TargetSessionAttrs) -> Judgement {
        // A standby accepts no writes, whatever its default is.
        let writes = match (self.in_hot_standby, self.read_only) {
            (Some(true), _) | (_, Some(true)) => Some(false),
            (Some(false), Some(false)) => Some(true),
            _ => None,
        };
        let (is_wanted, otherwise) = match wanted {
            TargetSessionAttrs::Any => (Some(true), Judgement::Wanted),
            TargetSessionAttrs::ReadWrite => (writes, Judgement::Unwanted("session is read-only")),
            TargetSessionAttrs::ReadOnly => (writes.map(|w| !w), Judgement::Unwanted("session is not read-only")),
            TargetSessionAttrs::Primary => (
                self.in_hot_standby.map(|s| !s),
                Judgement::Unwanted("server is in hot standby mode"),
            ),
            TargetSessionAttrs::Standby => (
                self.in_hot_standby,
                Judgement::Unwanted("server is not in hot standby mode"),
            ),
            TargetSessionAttrs::PreferStandby => (
                self.in_hot_standby,
                Judgement::SecondChoice("server is not in hot standby mode"),
            ),
        };
        match is_wanted {
            None => Judgement::Unknown,
            Some(true) => Judgement::Wanted,
            Some(false) => otherwise,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use TargetSessionAttrs::{Any, PreferStandby, Primary, ReadOnly, ReadWrite, Standby};

    /// Rows: in_hot_standby and default_transaction_read_only. Columns: the wanted attributes. As in libpq's
    /// documentation.
    #[test]
    fn every_wish_and_every_server() {
        let wishes = [Any, ReadWrite, ReadOnly, Primary, Standby, PreferStandby];
        for (servers, expected) in [
            ((Some(false), Some(false)), "wwuwus"),
            ((Some(false), Some(true)), "wuwwus"),
            ((Some(true), Some(false)), "wuwuww"),
            ((Some(true), Some(true)), "wuwuww"),
            ((None, None), "w?????"),
            ((None, Some(true)), "wuw???"),
        ] {
            let (in_hot_standby, read_only) = servers;
            let standing = Standing {
                in_hot_standby,
                read_only,
            };
            let judged = wishes.map(|wanted| match standing.judge(wanted) {
                Judgement::Wanted => 'w',
                Judgement::SecondChoice(_) => 's',
                Judgement::Unwanted(_) => 'u',
                Judgement::Unknown => '?',
            });
            assert_eq!(judged.iter().collect::<String>(), expected, "{servers:?}");
        }
    }

    #[test]
    fn an_answer_that_is_not_understood_is_that_of_a_standby() {
        assert_eq!(
            Standing::answered(b"", b"").judge(ReadWrite),
            Judgement::Unwanted("session is read-only")
        );
        assert_eq!(Standing::answered(b"f", b"off").judge(ReadWrite), Judgement::Wanted);
    }
}
