//! SQL text into tokens.

use super::error::ServerError;

/// A token with where its text began, for "syntax error at or near".
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) text: String,
    /// Its first character in the text, counted from 1.
    pub(super) at: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    /// Lower-cased word.
    Word(String),
    /// `'...'` or `$$...$$`, without its quotes.
    String(String),
    /// Digits, with a fraction or not.
    Number(String),
    /// `$1`.
    Param(u16),
    /// Anything else: one character, or `::`.
    Symbol(&'static str),
}

const SYMBOLS: [&str; 13] = ["::", "(", ")", ",", ";", "=", "+", "-", "*", "/", ".", "[", "]"];

pub(super) fn tokens(text: &str) -> Result<Vec<Token>, ServerError> {
    let mut tokens = Vec::new();
    let mut rest = text;
    // How many bytes and characters stand in front of the last token.
    let (mut bytes, mut characters) = (0, 0);
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\n', '\r', '\x0c']);
        if let Some(comment) = rest.strip_prefix("--") {
            rest = comment.find(['\n', '\r']).map_or("", |end| &comment[end..]);
            continue;
        }
        if let Some(comment) = rest.strip_prefix("/*") {
            let Some(end) = comment.find("*/") else {
                return Err(syntax(
                    text,
                    rest,
                    &format!("unterminated /* comment at or near \"{rest}\""),
                ));
            };
            rest = &comment[end + 2..];
            continue;
        }
        let Some(first) = rest.chars().next() else {
            return Ok(tokens);
        };
        let (kind, length) = if first.is_ascii_alphabetic() || first == '_' {
            let end = rest
                .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
                .unwrap_or(rest.len());
            (Kind::Word(rest[..end].to_ascii_lowercase()), end)
        } else if first == '"' {
            let (value, length) = quoted(rest, '"').ok_or_else(|| {
                syntax(
                    text,
                    rest,
                    &format!("unterminated quoted identifier at or near \"{rest}\""),
                )
            })?;
            (Kind::Word(value), length)
        } else if first == '\'' {
            let (value, length) = quoted(rest, '\'')
                .ok_or_else(|| syntax(text, rest, &format!("unterminated quoted string at or near \"{rest}\"")))?;
            (Kind::String(value), length)
        } else if first.is_ascii_digit() {
            let end = rest
                .find(|c: char| !(c.is_ascii_digit() || c == '.'))
                .unwrap_or(rest.len());
            (Kind::Number(rest[..end].into()), end)
        } else if let Some(body) = rest.strip_prefix("$$") {
            let end = body.find("$$").ok_or_else(|| {
                syntax(
                    text,
                    rest,
                    &format!("unterminated dollar-quoted string at or near \"{rest}\""),
                )
            })?;
            (Kind::String(body[..end].into()), end + 4)
        } else if first == '$' && rest[1..].starts_with(|c: char| c.is_ascii_digit()) {
            let end = rest[1..]
                .find(|c: char| !c.is_ascii_digit())
                .map_or(rest.len(), |end| end + 1);
            let number = rest[1..end]
                .parse()
                .map_err(|_| ServerError::unmodelled(&rest[..end]))?;
            (Kind::Param(number), end)
        } else if let Some(symbol) = SYMBOLS.iter().find(|s| rest.starts_with(**s)) {
            (Kind::Symbol(symbol), symbol.len())
        } else {
            return Err(syntax(text, rest, &format!("syntax error at or near \"{first}\"")));
        };
        let at = text.len() - rest.len();
        characters += text[bytes..at].chars().count();
        bytes = at;
        tokens.push(Token {
            kind,
            text: rest[..length].into(),
            at: characters + 1,
        });
        rest = &rest[length..];
    }
}

/// The value of a quoted run at the front of `rest`, with doubled quotes made single, and its length in bytes.
fn quoted(rest: &str, quote: char) -> Option<(String, usize)> {
    let mut value = String::new();
    let mut chars = rest.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        if c != quote {
            value.push(c);
        } else if chars.next_if(|(_, next)| *next == quote).is_some() {
            value.push(quote);
        } else {
            return Some((value, at + 1));
        }
    }
    None
}

/// Where the rest of a text begins, in characters from 1.
fn place(text: &str, rest: &str) -> usize {
    text[..text.len() - rest.len()].chars().count() + 1
}

fn syntax(text: &str, rest: &str, message: &str) -> ServerError {
    ServerError::of_grammar(message, place(text, rest))
}
