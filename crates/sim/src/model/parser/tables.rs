//! The names of tables, and the condition on the key.

use super::Parser;
use crate::model::error::ServerError;
use crate::model::expression::Expression;

/// The beginning of every temporary table's name, so that the name alone shows what it is.
const TEMPORARY_PREFIX: &str = "tmp";

impl Parser {
    /// The name of a temporary table, or none for `kv`.
    pub(super) fn table_name(&mut self) -> Result<Option<String>, ServerError> {
        let start = self.at;
        let name = self.dotted()?;
        if name.starts_with(TEMPORARY_PREFIX) {
            return Ok(Some(name));
        }
        self.at = start;
        self.table().map(|()| None)
    }

    /// `kv`, or the analyser's error: nothing else can fail after this.
    pub(super) fn table(&mut self) -> Result<(), ServerError> {
        let name = self.dotted()?;
        if name == "kv" {
            Ok(())
        } else {
            Err(ServerError::error(
                "42P01",
                format!("relation \"{name}\" does not exist"),
            ))
        }
    }

    pub(super) fn where_key(&mut self) -> Result<Option<Expression>, ServerError> {
        if !self.keyword("where") {
            return Ok(None);
        }
        self.expect("k")?;
        self.expect_symbol("=")?;
        self.expression(&["k", "v"]).map(Some)
    }
}
