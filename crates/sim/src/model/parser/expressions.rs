//! Expressions.

use super::Parser;
use crate::model::error::ServerError;
use crate::model::expression::Expression;
use crate::model::function::Function;
use crate::model::lexer::Kind;
use crate::model::value::{Type, Value};

impl Parser {
    pub(super) fn expression(&mut self, columns: &[&str]) -> Result<Expression, ServerError> {
        let mut left = self.product(columns)?;
        loop {
            let operator = if self.symbol("+") {
                '+'
            } else if self.symbol("-") {
                '-'
            } else {
                return Ok(left);
            };
            left = Expression::Operator(operator, Box::new(left), Box::new(self.product(columns)?));
        }
    }

    fn product(&mut self, columns: &[&str]) -> Result<Expression, ServerError> {
        let mut left = self.cast(columns)?;
        loop {
            let operator = if self.symbol("*") {
                '*'
            } else if self.symbol("/") {
                '/'
            } else {
                return Ok(left);
            };
            left = Expression::Operator(operator, Box::new(left), Box::new(self.cast(columns)?));
        }
    }

    fn cast(&mut self, columns: &[&str]) -> Result<Expression, ServerError> {
        let mut inner = self.primary(columns)?;
        while self.symbol("::") {
            let to = match self.name()?.as_str() {
                "int" | "int4" | "integer" => Type::Int4,
                "text" => Type::Text,
                "bool" | "boolean" => Type::Bool,
                other => return Err(ServerError::unmodelled(format!("type {other}"))),
            };
            inner = Expression::Cast(Box::new(inner), to);
        }
        Ok(inner)
    }

    fn primary(&mut self, columns: &[&str]) -> Result<Expression, ServerError> {
        let kind = self.peek().cloned().ok_or_else(|| self.syntax_error())?;
        match kind {
            Kind::Number(number) => {
                let number: i64 = number.parse().map_err(|_| ServerError::unmodelled("fractions"))?;
                if i32::try_from(number).is_err() {
                    return Err(ServerError::unmodelled("numbers beyond int"));
                }
                self.at += 1;
                Ok(Expression::Value(Value::Int(number)))
            }
            Kind::String(text) => {
                self.at += 1;
                Ok(Expression::Value(Value::Text(text)))
            }
            Kind::Param(number) => {
                self.at += 1;
                Ok(Expression::Param(number))
            }
            Kind::Symbol("(") => {
                self.at += 1;
                let inner = self.expression(columns)?;
                self.expect_symbol(")")?;
                Ok(inner)
            }
            Kind::Word(word) => self.word(&word, columns),
            Kind::Symbol(_) => Err(self.syntax_error()),
        }
    }

    fn word(&mut self, word: &str, columns: &[&str]) -> Result<Expression, ServerError> {
        let start = self.at;
        self.at += 1;
        let mut word = word.to_string();
        if word == "pg_catalog" && self.symbol(".") {
            word = self.name()?;
        }
        if self.symbol("(") {
            let Some(function) = Function::named(&word) else {
                return Err(ServerError::unmodelled(format!("function {word}")));
            };
            let mut arguments = Vec::new();
            if !self.symbol(")") {
                loop {
                    arguments.push(self.expression(columns)?);
                    if !self.symbol(",") {
                        break;
                    }
                }
                self.expect_symbol(")")?;
            }
            return Ok(Expression::Call(function, arguments));
        }
        Ok(match word.as_str() {
            "null" => Expression::Value(Value::Null),
            "true" => Expression::Value(Value::Bool(true)),
            "false" => Expression::Value(Value::Bool(false)),
            "from" | "where" | "select" => {
                self.at = start;
                return Err(self.syntax_error());
            }
            name => match columns.iter().position(|c| *c == name) {
                Some(index) => Expression::Column(index),
                None => {
                    return Err(ServerError::error("42703", format!("column \"{name}\" does not exist")));
                }
            },
        })
    }
}
