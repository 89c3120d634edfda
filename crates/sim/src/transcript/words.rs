//! Words and quoted bytes: the tokens of a line.

use std::fmt::Write as _;
use thiserror::Error;

/// A line that is not a message.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TextError {
    /// The first word is not a message of this direction.
    #[error("expected a message name, got {got:?}")]
    UnknownMessage {
        /// The word.
        got: String,
    },
    /// Something else was found where this was expected.
    #[error("expected {expected}, got {got:?}")]
    Expected {
        /// What the message needs here.
        expected: &'static str,
        /// What was found; empty at the end of the line.
        got: String,
    },
    /// A quoted string without an end, or with an unknown escape.
    #[error("bad quoted string in {line:?}")]
    Quoting {
        /// The line.
        line: String,
    },
}

/// Appends a blank and `bytes` in quotes. Bytes that are neither printable ASCII nor UTF-8 text become
/// escapes.
pub(super) fn put_quoted(to: &mut String, bytes: &[u8]) {
    to.push_str(" \"");
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '"' => to.push_str("\\\""),
                '\\' => to.push_str("\\\\"),
                '\n' => to.push_str("\\n"),
                '\t' => to.push_str("\\t"),
                '\r' => to.push_str("\\r"),
                c if c.is_control() => {
                    let mut utf8 = [0; 4];
                    put_hex(to, c.encode_utf8(&mut utf8).as_bytes());
                }
                c => to.push(c),
            }
        }
        put_hex(to, chunk.invalid());
    }
    to.push('"');
}

fn put_hex(to: &mut String, bytes: &[u8]) {
    for b in bytes {
        let _ = write!(to, "\\x{b:02x}");
    }
}

/// Appends a blank and `bytes` in quotes, or NULL.
pub(super) fn put_value(to: &mut String, value: Option<&[u8]>) {
    match value {
        Some(bytes) => put_quoted(to, bytes),
        None => to.push_str(" NULL"),
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Word(String),
    Quoted(Vec<u8>),
}

/// The tokens of one line, taken from the front.
#[derive(Debug)]
pub(super) struct Words {
    tokens: std::vec::IntoIter<Token>,
}

impl Words {
    pub(super) fn new(line: &str) -> Result<Self, TextError> {
        let quoting = || TextError::Quoting { line: line.into() };
        let mut tokens = Vec::new();
        let mut rest = line.trim_start();
        while let Some(first) = rest.chars().next() {
            if first != '"' {
                let end = rest.find([' ', '"']).unwrap_or(rest.len());
                tokens.push(Token::Word(rest[..end].into()));
                rest = rest[end..].trim_start();
                continue;
            }
            let mut bytes = Vec::new();
            let mut chars = rest[1..].chars();
            loop {
                match chars.next().ok_or_else(quoting)? {
                    '"' => break,
                    '\\' => bytes.push(match chars.next().ok_or_else(quoting)? {
                        'n' => b'\n',
                        't' => b'\t',
                        'r' => b'\r',
                        c @ ('"' | '\\') => c as u8,
                        'x' => {
                            let hex = chars.as_str().get(..2).ok_or_else(quoting)?;
                            chars.nth(1);
                            u8::from_str_radix(hex, 16).map_err(|_| quoting())?
                        }
                        _ => return Err(quoting()),
                    }),
                    c => bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
                }
            }
            tokens.push(Token::Quoted(bytes));
            rest = chars.as_str().trim_start();
        }
        Ok(Words {
            tokens: tokens.into_iter(),
        })
    }

    fn peek(&self) -> Option<&Token> {
        self.tokens.as_slice().first()
    }

    fn unexpected(&self, expected: &'static str) -> TextError {
        let got = match self.peek() {
            None => String::new(),
            Some(Token::Word(w)) => w.clone(),
            Some(Token::Quoted(b)) => String::from_utf8_lossy(b).into_owned(),
        };
        TextError::Expected { expected, got }
    }

    /// A bare word.
    pub(super) fn word(&mut self) -> Result<String, TextError> {
        match self.peek() {
            Some(Token::Word(_)) => match self.tokens.next() {
                Some(Token::Word(w)) => Ok(w),
                _ => unreachable!("peeked a word"),
            },
            _ => Err(self.unexpected("a word")),
        }
    }

    /// Takes the next token if it is this word; returns whether it was.
    pub(super) fn take(&mut self, word: &str) -> bool {
        let found = matches!(self.peek(), Some(Token::Word(w)) if w == word);
        if found {
            self.tokens.next();
        }
        found
    }

    /// A quoted string.
    pub(super) fn quoted(&mut self) -> Result<Vec<u8>, TextError> {
        match self.peek() {
            Some(Token::Quoted(_)) => match self.tokens.next() {
                Some(Token::Quoted(b)) => Ok(b),
                _ => unreachable!("peeked a quoted string"),
            },
            _ => Err(self.unexpected("a quoted string")),
        }
    }

    /// All quoted strings and NULLs from here.
    pub(super) fn values(&mut self) -> Vec<Option<Vec<u8>>> {
        let mut values = Vec::new();
        loop {
            if self.take("NULL") {
                values.push(None);
            } else if let Ok(bytes) = self.quoted() {
                values.push(Some(bytes));
            } else {
                return values;
            }
        }
    }

    /// A number.
    pub(super) fn number<T: std::str::FromStr>(&mut self) -> Result<T, TextError> {
        match self.peek() {
            Some(Token::Word(w)) => match w.parse() {
                Ok(n) => {
                    self.tokens.next();
                    Ok(n)
                }
                Err(_) => Err(self.unexpected("a number")),
            },
            _ => Err(self.unexpected("a number")),
        }
    }

    /// All numbers from here.
    pub(super) fn numbers<T: std::str::FromStr>(&mut self) -> Vec<T> {
        std::iter::from_fn(|| self.number().ok()).collect()
    }

    /// Fails unless all tokens were taken.
    pub(super) fn end(&self) -> Result<(), TextError> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.unexpected("the end of the line")),
        }
    }
}
