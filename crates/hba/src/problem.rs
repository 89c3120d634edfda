//! Problems of a file, and their places.

use std::fmt;
use std::sync::Arc;

/// A line of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The name by which the file was opened.
    pub file: Arc<str>,
    /// Line, from 1; 0 for the file as a whole. A line that is continued after a backslash has the number of its first
    /// part.
    pub line: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.file),
            line => write!(f, "{}:{line}", self.file),
        }
    }
}

/// The severity of a [`Problem`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// The file can be used, but a part of it does nothing.
    Warning,
    /// The file is refused.
    Error,
}

/// One problem, in PostgreSQL's style.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The place.
    pub place: Place,
    /// The severity.
    pub level: Level,
    /// The message: what was expected, and what was found.
    pub message: String,
    /// What to do about it; empty if there is no advice.
    pub hint: &'static str,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)?;
        match self.hint {
            "" => Ok(()),
            hint => write!(f, " (HINT: {hint})"),
        }
    }
}

/// A problem of a part of a line, before its place is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) message: String,
    pub(crate) hint: &'static str,
}

impl Fault {
    pub(crate) fn new(message: impl Into<String>) -> Fault {
        Fault {
            message: message.into(),
            hint: "",
        }
    }

    pub(crate) fn hint(self, hint: &'static str) -> Fault {
        Fault { hint, ..self }
    }

    pub(crate) fn at(self, place: &Place, level: Level) -> Problem {
        Problem {
            place: place.clone(),
            level,
            message: self.message,
            hint: self.hint,
        }
    }
}
