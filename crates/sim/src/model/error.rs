//! Errors a server reports.

use super::value::INCORRECT_BINARY;
use pgweir_wire::write::ErrorText;

/// The content of an ErrorResponse or NoticeResponse.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerError {
    /// ERROR, FATAL, WARNING, NOTICE.
    pub severity: &'static str,
    /// SQLSTATE.
    pub sqlstate: &'static str,
    /// Primary message.
    pub message: String,
    /// The character of the text where its grammar ends, counted from 1.
    pub position: Option<usize>,
}

impl ServerError {
    /// An error that ends the transaction.
    pub fn error(sqlstate: &'static str, message: impl Into<String>) -> Self {
        ServerError {
            severity: "ERROR",
            sqlstate,
            message: message.into(),
            position: None,
        }
    }

    /// An error that ends the connection.
    pub fn fatal(sqlstate: &'static str, message: impl Into<String>) -> Self {
        ServerError {
            severity: "FATAL",
            ..Self::error(sqlstate, message)
        }
    }

    /// The same, with the number of the parameter, counted from 0 here, if it is about the parameter's format.
    pub(super) fn of_parameter(mut self, index: usize) -> Self {
        if self.message == INCORRECT_BINARY {
            self.message = format!("{INCORRECT_BINARY} {}", index + 1);
        }
        self
    }

    /// A warning.
    pub fn warning(sqlstate: &'static str, message: impl Into<String>) -> Self {
        ServerError {
            severity: "WARNING",
            ..Self::error(sqlstate, message)
        }
    }

    /// A syntax error at this character of a text, counted from 1.
    pub fn of_grammar(message: impl Into<String>, position: usize) -> Self {
        ServerError {
            position: Some(position),
            ..Self::error("42601", message)
        }
    }

    /// A statement that PostgreSQL accepts and the model does not know. No script may use it.
    pub fn unmodelled(what: impl std::fmt::Display) -> Self {
        Self::error("XX000", format!("the model does not know {what}"))
    }

    /// A malformed message.
    pub fn protocol(message: impl Into<String>) -> Self {
        Self::error("08P01", message)
    }

    pub(super) fn text(&self) -> ErrorText<'_> {
        ErrorText {
            severity: self.severity,
            sqlstate: self.sqlstate,
            message: &self.message,
            detail: "",
            hint: "",
        }
    }
}

impl From<pgweir_wire::ReadError> for ServerError {
    /// In PostgreSQL's words: pqformat.c.
    fn from(e: pgweir_wire::ReadError) -> Self {
        use pgweir_wire::ReadError as R;
        Self::protocol(match e {
            R::Short { .. } => "insufficient data left in message",
            R::Unterminated => "invalid string in message",
            R::Count { .. } | R::Trailing { .. } => "invalid message format",
        })
    }
}
