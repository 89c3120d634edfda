//! SELECT.

use super::Parser;
use crate::model::error::ServerError;
use crate::model::expression::Expression;
use crate::model::function::Function;
use crate::model::lexer::Kind;
use crate::model::statement::{Select, Source, Statement};
use crate::model::value::Value;

impl Parser {
    pub(super) fn select(&mut self) -> Result<Statement, ServerError> {
        // The source decides what names mean, so it is read first.
        let start = self.at;
        if self.call("generate_series") {
            let (first, last) = self.series()?;
            return Ok(Statement::Select(Select {
                items: vec![Expression::Column(0)],
                names: vec!["generate_series".into()],
                source: Source::Series(first, last),
                count: false,
            }));
        }
        if self.call("pg_sleep") {
            let seconds = match self.peek() {
                Some(Kind::Number(number)) => number.parse().map_err(|_| self.syntax_error())?,
                _ => return Err(ServerError::unmodelled("pg_sleep of anything but a number")),
            };
            self.at += 1;
            self.expect_symbol(")")?;
            return Ok(Statement::Sleep { seconds });
        }
        let source_at = self.source_at();
        let mut source = Source::Nothing;
        let mut columns: Vec<String> = Vec::new();
        let mut end = None;
        if let Some(at) = source_at {
            self.at = at + 1;
            (source, columns) = self.source()?;
            end = Some(self.at);
            self.at = start;
        }
        let select = self.items(source, &columns)?;
        match (end, source_at) {
            (Some(end), Some(at)) if self.at == at => self.at = end,
            (None, _) => {}
            _ => return Err(self.syntax_error()),
        }
        Ok(Statement::Select(select))
    }

    /// The place of the FROM that belongs to this SELECT.
    fn source_at(&self) -> Option<usize> {
        let mut depth = 0;
        for (index, token) in self.tokens[self.at..].iter().enumerate() {
            match &token.kind {
                Kind::Symbol("(") => depth += 1,
                Kind::Symbol(")") if depth == 0 => return None,
                Kind::Symbol(")") => depth -= 1,
                Kind::Symbol(";") => return None,
                Kind::Word(w) if w == "from" && depth == 0 => {
                    return Some(self.at + index);
                }
                _ => {}
            }
        }
        None
    }

    /// What stands behind FROM, and the names of its columns.
    fn source(&mut self) -> Result<(Source, Vec<String>), ServerError> {
        if self.call("generate_series") {
            let (first, last) = self.series()?;
            self.keyword("as");
            return Ok((Source::Series(first, last), vec![self.name()?]));
        }
        if self.keyword("pg_prepared_statements") {
            for word in ["order", "by", "name", "collate", "C"] {
                self.expect(word)?;
            }
            return Ok((Source::PreparedStatements, vec!["name".into()]));
        }
        if let Some(name) = self.table_name()? {
            return Ok((Source::Temporary(name), Vec::new()));
        }
        let key = self.where_key()?;
        if self.keyword("order") {
            self.expect("by")?;
            self.expect("k")?;
        }
        Ok((Source::Table { key }, vec!["k".into(), "v".into()]))
    }

    /// The list of what is selected from this source.
    fn items(&mut self, source: Source, columns: &[String]) -> Result<Select, ServerError> {
        let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
        let mut select = Select {
            items: Vec::new(),
            names: Vec::new(),
            source,
            count: false,
        };
        if self.call("count") {
            self.expect_symbol("*")?;
            self.expect_symbol(")")?;
            select.count = true;
            select.items.push(Expression::Value(Value::Null));
            select.names.push("count".into());
        } else {
            loop {
                let item = self.expression(&columns)?;
                let name = match self.keyword("as") {
                    true => self.name()?,
                    false => name_of(&item, &columns),
                };
                select.names.push(name);
                select.items.push(item);
                if !self.symbol(",") {
                    break;
                }
            }
        }
        Ok(select)
    }

    /// `name(`, with or without pg_catalog in front.
    fn call(&mut self, name: &str) -> bool {
        let start = self.at;
        if self.keyword("pg_catalog") && !self.symbol(".") {
            self.at = start;
            return false;
        }
        if self.keyword(name) && self.symbol("(") {
            return true;
        }
        self.at = start;
        false
    }

    fn series(&mut self) -> Result<(Expression, Expression), ServerError> {
        let first = self.expression(&[])?;
        self.expect_symbol(",")?;
        let last = self.expression(&[])?;
        self.expect_symbol(")")?;
        Ok((first, last))
    }
}

/// The name of a result column (`FigureColname`).
fn name_of(item: &Expression, columns: &[&str]) -> String {
    match item {
        Expression::Column(index) => columns[*index].into(),
        Expression::Call(function, _) => match function {
            Function::Repeat => "repeat",
            Function::CurrentSetting => "current_setting",
            Function::SetConfig => "set_config",
            Function::OtherIsMade | Function::Lift => "case",
            Function::BackendPid => "pg_backend_pid",
            Function::CancelBackend => "pg_cancel_backend",
            Function::TerminateBackend => "pg_terminate_backend",
            Function::NullIf => "nullif",
            Function::Lock => "pg_advisory_lock",
            Function::TryLock => "pg_try_advisory_lock",
            Function::XactLock => "pg_advisory_xact_lock",
            Function::Unlock => "pg_advisory_unlock",
            Function::UnlockAll => "pg_advisory_unlock_all",
            Function::SetVal => "setval",
            Function::CurrVal => "currval",
            Function::Folded => "folded",
        }
        .into(),
        Expression::Cast(inner, to) => match inner.as_ref() {
            Expression::Call(..) | Expression::Column(_) => name_of(inner, columns),
            _ => to.name().into(),
        },
        _ => "?column?".into(),
    }
}
