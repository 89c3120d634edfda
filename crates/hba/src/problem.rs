//! What is wrong with a file, and where.

use std::fmt;
use std::sync::Arc;

/// A line of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The name by which the file was asked for.
    pub file: Arc<str>,
    /// Line, from 1; 0 for the file as a whole. A line that goes on behind a backslash has the number of its first part.
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

/// How bad a [`Problem`] is.
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
    /// Where.
    pub place: Place,
    /// How bad.
    pub level: Level,
    /// What is wrong: what was expected, and what is there.
    pub message: String,
    /// What to do about it; may be empty.
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

/// What is wrong with a part of a line, before its place is known.
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
