//! From tokens to statements.

mod expressions;
mod select;
mod statements;
mod tables;

use super::code;
use super::error::ServerError;
use super::lexer::{Kind, Token, tokens};
use super::rights;
use super::statement::Statement;
use super::views::{in_other_words, question};

/// All statements of a query text; empty ones between semicolons leave nothing.
pub(super) fn parse(text: &[u8]) -> Result<Vec<Statement>, ServerError> {
    let text = std::str::from_utf8(text).map_err(|_| ServerError::unmodelled("text that is not UTF-8"))?;
    if let Some(found) = question(text)
        .map(|q| vec![q])
        .or_else(|| code::statements(text))
        .or_else(|| rights::statement(text))
    {
        return Ok(found);
    }
    let mut parser = Parser {
        tokens: tokens(in_other_words(text))?,
        at: 0,
        end: text.chars().count() + 1,
    };
    let mut statements = Vec::new();
    loop {
        while parser.symbol(";") {}
        if parser.peek().is_none() {
            return Ok(statements);
        }
        match parser.statement() {
            Ok(statement) => statements.push(statement),
            // The parser refuses the whole text. Errors of the analyser come when the statement's turn comes.
            Err(e) if e.sqlstate == "42601" => return Err(e),
            Err(e) => {
                statements.push(Statement::Invalid(e));
                while parser.peek().is_some_and(|kind| *kind != Kind::Symbol(";")) {
                    parser.at += 1;
                }
            }
        }
        if parser.peek().is_some() && !parser.symbol(";") {
            return Err(parser.syntax_error());
        }
    }
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
    /// Behind the last character of the text, counted from 1.
    end: usize,
}

impl Parser {
    fn peek(&self) -> Option<&Kind> {
        self.tokens.get(self.at).map(|t| &t.kind)
    }

    fn syntax_error(&self) -> ServerError {
        match self.tokens.get(self.at) {
            Some(token) => ServerError::of_grammar(format!("syntax error at or near \"{}\"", token.text), token.at),
            None => ServerError::of_grammar("syntax error at end of input", self.end),
        }
    }

    fn symbol(&mut self, symbol: &str) -> bool {
        let found = matches!(self.peek(), Some(Kind::Symbol(s)) if *s == symbol);
        self.at += usize::from(found);
        found
    }

    fn keyword(&mut self, word: &str) -> bool {
        let found = matches!(self.peek(), Some(Kind::Word(w)) if w == word);
        self.at += usize::from(found);
        found
    }

    fn expect_symbol(&mut self, symbol: &str) -> Result<(), ServerError> {
        if self.symbol(symbol) {
            Ok(())
        } else {
            Err(self.syntax_error())
        }
    }

    fn expect(&mut self, word: &str) -> Result<(), ServerError> {
        if self.keyword(word) {
            Ok(())
        } else {
            Err(self.syntax_error())
        }
    }

    fn name(&mut self) -> Result<String, ServerError> {
        match self.peek() {
            Some(Kind::Word(word)) => {
                let word = word.clone();
                self.at += 1;
                Ok(word)
            }
            _ => Err(self.syntax_error()),
        }
    }

    fn dotted(&mut self) -> Result<String, ServerError> {
        let mut name = self.name()?;
        while self.symbol(".") {
            name.push('.');
            name.push_str(&self.name()?);
        }
        Ok(name)
    }

    fn number(&mut self) -> Option<u64> {
        let Some(Kind::Number(number)) = self.peek() else {
            return None;
        };
        let number = number.parse().ok()?;
        self.at += 1;
        Some(number)
    }

    fn string(&mut self) -> Result<String, ServerError> {
        let Some(Kind::String(text)) = self.peek() else {
            return Err(self.syntax_error());
        };
        let text = text.clone();
        self.at += 1;
        Ok(text)
    }
}
