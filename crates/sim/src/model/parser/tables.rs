//! The names of tables, and the condition on the key.

use super::Parser;
use crate::model::error::ServerError;
use crate::model::expression::Expression;
use crate::model::lexer::Kind;
use crate::model::statement::Statement;
use crate::model::value::Type;

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

    /// The number of a table `numN`, if it comes next.
    pub(super) fn number_table(&mut self) -> Option<u64> {
        let Some(Kind::Word(word)) = self.peek() else {
            return None;
        };
        let number = word.strip_prefix("num")?.parse().ok()?;
        self.at += 1;
        Some(number)
    }

    /// ALTER, after its first word.
    pub(super) fn alter_number(&mut self) -> Result<Statement, ServerError> {
        self.expect("table")?;
        let table = self
            .number_table()
            .ok_or_else(|| ServerError::unmodelled("ALTER of other tables"))?;
        for word in ["alter", "n", "type"] {
            self.expect(word)?;
        }
        let of = match self.name()?.as_str() {
            "int4" => Type::Int4,
            "int8" => Type::Int8,
            other => return Err(ServerError::unmodelled(format!("ALTER to {other}"))),
        };
        Ok(Statement::AlterNumber { table, of })
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
