//! Problems of a configuration: what is wrong, where, and what to do about it.

use std::fmt;
use std::sync::Arc;

/// How bad a [`Problem`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The configuration can be used, but probably does not do what its author intended.
    Warning,
    /// The configuration is refused; a running pooler keeps its old one.
    Error,
}

impl Severity {
    /// The word printed before the message.
    pub fn word(self) -> &'static str {
        match self {
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }
}

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The name by which the file was opened.
    pub file: Arc<str>,
    /// Line, from 1; `None` when the problem is about the file as a whole.
    pub line: Option<u32>,
    /// Column in bytes, from 1, if it is known.
    pub column: Option<u32>,
}

impl Place {
    /// The file as a whole.
    pub fn file(file: &str) -> Place {
        Place {
            file: file.into(),
            line: None,
            column: None,
        }
    }

    pub(crate) fn at_column(&self, column: usize) -> Place {
        Place {
            column: Some(u32::try_from(column).unwrap_or(u32::MAX)),
            ..self.clone()
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
            if let Some(column) = self.column {
                write!(f, ":{column}")?;
            }
        }
        Ok(())
    }
}

/// Where PgBouncer's lines of the log name file and line.
const IN_CONFIGURATION: &str = " in configuration";

/// What PgBouncer's lines of the log say of a line of another file: its number, and nothing more.
const NOT_PARSED: [&str; 2] = ["could not parse hba config line ", "could not parse ident config line "];

/// How PgBouncer's lines begin of which it says next that TLS could not be configured.
const TLS_SETUP: [&str; 6] = [
    "TLS setup failed: ",
    "To allow TLS connections from clients, ",
    "auth_type=cert requires ",
    "client_tls_sslmode requires ",
    "invalid client_tls_",
    "invalid server_tls_",
];

/// How other lines of PgBouncer's log begin. Programs that read logs look for these words.
const PGBOUNCERS: [&str; 14] = [
    "TLS configuration could not be reloaded",
    "config file loading failed",
    "could not load file ",
    "could not open auth_file ",
    "could not open hba config file ",
    "could not open ident config file ",
    NOT_PARSED[0],
    NOT_PARSED[1],
    "ids of peers must be ",
    "invalid section ",
    "invalid value ",
    "syntax error in ",
    "unknown parameter: ",
    "unrecognized ",
];

/// One problem of a configuration. The message is in PostgreSQL's style: lower case, no full stop; the hint is
/// separate.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// The place of the problem. Console commands use the file name `console`.
    pub place: Place,
    /// Whether the configuration can be used nevertheless.
    pub severity: Severity,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl Problem {
    /// A problem that makes the configuration unusable.
    pub fn error(place: &Place, message: impl Into<String>) -> Problem {
        Problem {
            place: place.clone(),
            severity: Severity::Error,
            message: message.into(),
            hint: None,
        }
    }

    /// A problem that the author should know of.
    pub fn warning(place: &Place, message: impl Into<String>) -> Problem {
        Problem {
            place: place.clone(),
            severity: Severity::Warning,
            message: message.into(),
            hint: None,
        }
    }

    /// What PgBouncer says last when a RELOAD is refused.
    pub fn not_loaded(file: &Place) -> Problem {
        Problem::warning(file, "config file loading failed")
    }

    /// What PgBouncer says last when certificates, keys or settings of TLS cannot be used.
    pub fn tls_not_reloaded(place: &Place) -> Problem {
        let text = "TLS configuration could not be reloaded, keeping old configuration";
        Problem::error(place, text)
    }

    /// Whether PgBouncer finds the problem when it configures TLS.
    pub fn is_of_tls_setup(&self) -> bool {
        TLS_SETUP.iter().any(|words| self.message.starts_with(words))
    }

    /// Adds a hint: what to do about the problem.
    pub fn hint(mut self, hint: impl Into<String>) -> Problem {
        self.hint = Some(hint.into());
        self
    }

    /// The problem in one line, for the log. Its severity is the level of the line. Where PgBouncer has a line about it,
    /// this one begins with the same words.
    pub fn line(&self) -> String {
        let Problem {
            place, message, hint, ..
        } = self;
        let in_file = match place.line {
            Some(line) => format!("({}:{line})", place.file),
            None => format!("({})", place.file),
        };
        let text = match (self.is_pgbouncers(), message.split_once(IN_CONFIGURATION)) {
            (false, _) => format!("{place}: {message}"),
            (true, Some((what, more))) => format!("{what}{IN_CONFIGURATION} {in_file}{more}"),
            (true, None) => format!("{message} {in_file}"),
        };
        match hint {
            Some(hint) => format!("{text} (HINT: {hint})"),
            None => text,
        }
    }

    fn is_pgbouncers(&self) -> bool {
        self.is_of_tls_setup() || PGBOUNCERS.iter().any(|words| self.message.starts_with(words))
    }

    /// The message behind the place, which it need not name again.
    fn behind_place(&self) -> String {
        let is_not_parsed = NOT_PARSED.iter().any(|words| self.message.starts_with(words));
        match (is_not_parsed, self.message.split_once(": ")) {
            (true, Some((_, why))) => why.to_string(),
            _ if self.is_pgbouncers() => self.message.replacen(IN_CONFIGURATION, "", 1),
            _ => self.message.clone(),
        }
    }

    /// The problem of a command, which is in no configuration file.
    pub(crate) fn on_console(self) -> Problem {
        Problem {
            message: self.message.replacen(IN_CONFIGURATION, "", 1),
            ..self
        }
    }

    pub(crate) fn maybe_hint(mut self, hint: Option<String>) -> Problem {
        self.hint = hint;
        self
    }
}

/// `pgbouncer.ini:12:5: error: message`, and on its own line `    hint: ...`.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.place, self.severity.word(), self.behind_place())?;
        if let Some(hint) = &self.hint {
            write!(f, "\n    hint: {hint}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problem {}

/// The candidate that a mistyped word most likely meant, if one is similar enough.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    const WORD_BYTES_MAX: usize = 64;
    if word.is_empty() || word.len() > WORD_BYTES_MAX {
        return None;
    }
    let word = word.to_ascii_lowercase();
    let allowed = (word.len() / 3).clamp(1, 4);
    candidates
        .into_iter()
        .map(|candidate| {
            (
                strsim::damerau_levenshtein(&word, &candidate.to_ascii_lowercase()),
                candidate,
            )
        })
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// The only candidate that begins with `word`, if the word has at least three characters: probably the rest was
/// forgotten.
pub(crate) fn completed<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    const WORD_BYTES_MIN: usize = 3;
    let begins = |candidate: &&str| {
        let start = candidate.get(..word.len());
        word.len() >= WORD_BYTES_MIN && start.is_some_and(|start| start.eq_ignore_ascii_case(word))
    };
    let mut found = candidates.into_iter().filter(begins);
    let first = found.next()?;
    found.next().is_none().then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_reads_like_a_compiler_message() {
        let place = Place {
            file: "a.ini".into(),
            line: Some(3),
            column: None,
        };
        let problem = Problem::error(&place, "unknown setting \"x\"").hint("did you mean \"y\"?");
        assert_eq!(
            problem.to_string(),
            "a.ini:3: error: unknown setting \"x\"\n    hint: did you mean \"y\"?"
        );
        let there = Problem::warning(&place.at_column(7), "odd");
        assert_eq!(there.to_string(), "a.ini:3:7: warning: odd");
        assert_eq!(
            Problem::warning(&Place::file("b"), "odd").to_string(),
            "b: warning: odd"
        );
    }

    /// Programs that read PgBouncer's log look for its words.
    #[test]
    fn a_line_of_the_log_begins_like_pgbouncers() {
        let place = Place {
            file: "a.ini".into(),
            line: Some(8),
            column: Some(13),
        };
        let line = |message: &str| Problem::error(&place, message).line();
        assert_eq!(
            line("invalid value \"abc\" for parameter pool_mode in configuration: expected x"),
            "invalid value \"abc\" for parameter pool_mode in configuration (a.ini:8): expected x"
        );
        assert_eq!(
            line("unknown parameter: pgbouncer/x"),
            "unknown parameter: pgbouncer/x (a.ini:8)"
        );
        assert_eq!(line("odd in configuration"), "a.ini:8:13: odd in configuration");
        let whole = Problem::error(&Place::file("a.ini"), "config file loading failed").hint("look");
        assert_eq!(whole.line(), "config file loading failed (a.ini) (HINT: look)");
        let not_parsed = Problem::error(&place, "could not parse hba config line 8: odd: x");
        assert_eq!(not_parsed.line(), "could not parse hba config line 8: odd: x (a.ini:8)");
        assert_eq!(not_parsed.to_string(), "a.ini:8:13: error: odd: x");
        let shown = Problem::error(&place, "invalid section \"x\" in configuration").to_string();
        assert_eq!(shown, "a.ini:8:13: error: invalid section \"x\"");
    }

    #[test]
    fn a_word_is_completed_where_only_one_can_be_meant() {
        let words = ["scram-sha-256", "session", "verify-ca", "verify-full"];
        assert_eq!(completed("SCRAM", words), Some("scram-sha-256"));
        assert_eq!(completed("verify", words), None);
        assert_eq!(completed("se", words), None);
        assert_eq!(completed("sés", words), None);
    }

    #[test]
    fn nearest_finds_slips_and_refuses_strangers() {
        let names = ["pool_mode", "pool_size", "max_client_conn"];
        assert_eq!(nearest("poolmode", names), Some("pool_mode"));
        assert_eq!(nearest("max_client_connections", names), None);
        assert_eq!(nearest("POOL_MODE", names), Some("pool_mode"));
        assert_eq!(nearest("zebra", names), None);
        assert_eq!(nearest(&"x".repeat(10_000), names), None);
    }
}
