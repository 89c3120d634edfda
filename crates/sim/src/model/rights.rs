//! A schema that some roles may not use. PostgreSQL checks that when it analyses a statement, and not when it runs it.

use super::cursor::Rows;
use super::error::ServerError;
use super::statement::Statement;
use super::value::Value;

/// The text that needs the right.
const TEXT: &str = "select gold from vault";

/// The statement of this text.
pub(super) fn statement(text: &str) -> Option<Vec<Statement>> {
    (text == TEXT).then(|| vec![Statement::Vault])
}

/// 42501 unless the last digit in the name of the current role is even.
pub(super) fn check(role: &str) -> Result<(), ServerError> {
    let last = role.chars().rev().find_map(|c| c.to_digit(10));
    match last.is_some_and(|digit| digit % 2 == 0) {
        true => Ok(()),
        false => Err(ServerError::error("42501", "permission denied for schema vault")),
    }
}

pub(super) fn rows() -> Rows {
    Rows::Given([vec![Value::Text("gold".into())]].into())
}

/// The text, for clients.
pub fn text() -> &'static str {
    TEXT
}
