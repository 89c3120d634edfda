//! The table `later`, whose foreign key is checked when a transaction commits.

use super::error::ServerError;
use super::expression::Expression;
use super::session::Session;
use super::value::Value;

impl Session {
    pub(super) fn insert_later(&mut self, key: &Expression) -> Result<(), ServerError> {
        match self.value(key, &[])? {
            Value::Int(key @ i64::MIN..0) => self.transaction.lacking = Some(key as i32),
            _ => return Err(ServerError::unmodelled("keys in later that kv may have")),
        }
        Ok(())
    }
}

/// The error of such a commit.
pub(super) fn violated() -> ServerError {
    ServerError::error(
        "23503",
        "insert or update on table \"later\" violates foreign key constraint \"later_k_fkey\"",
    )
}
