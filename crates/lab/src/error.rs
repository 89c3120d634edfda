//! Errors of the laboratory's commands.

use std::fmt;
use std::process::ExitCode;

/// The result type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a command ended early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// It failed. The message is in PostgreSQL's style: lower case, no full stop.
    Failed {
        /// What went wrong.
        message: String,
        /// What to do about it, one line each.
        hints: Vec<String>,
    },
    /// The user ended it, by this signal.
    Interrupted {
        /// Number of the signal, such as 2 for SIGINT.
        signal: i32,
    },
}

impl Error {
    /// A failure without advice.
    pub fn new(message: impl Into<String>) -> Self {
        Error::Failed {
            message: message.into(),
            hints: Vec::new(),
        }
    }

    /// Adds advice: what to do about the failure.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        if let Error::Failed { hints, .. } = &mut self {
            hints.push(hint.into());
        }
        self
    }

    /// Adds what was being done: `context: message`.
    #[must_use]
    pub fn context(mut self, context: impl fmt::Display) -> Self {
        if let Error::Failed { message, .. } = &mut self {
            *message = format!("{context}: {message}");
        }
        self
    }

    /// The exit status of a process that ended like this: after a signal 128 and its number, as in shells.
    pub fn exit_status(&self) -> ExitCode {
        match self {
            Error::Failed { .. } => ExitCode::FAILURE,
            Error::Interrupted { signal } => ExitCode::from(u8::try_from(128 + signal).unwrap_or(1)),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Failed { message, hints } => {
                write!(f, "{message}")?;
                hints.iter().try_for_each(|hint| write!(f, "\n    hint: {hint}"))
            }
            Error::Interrupted { .. } => write!(f, "interrupted"),
        }
    }
}

impl std::error::Error for Error {}

impl From<String> for Error {
    fn from(message: String) -> Self {
        Error::new(message)
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Error::new(error.to_string())
    }
}
