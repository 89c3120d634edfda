//! What an error about a text proves.
//!
//! PostgreSQL reads a whole Query before it runs any of it, and it analyses a statement before it runs it. So most
//! errors about a text show that nothing has run. But some come later, and look the same:
//!
//! | statement | what runs before the error |
//! |---|---|
//! | DO, CREATE FUNCTION, CREATE PROCEDURE | a syntax error in the body is told as one of the Query: the statements in front of it |
//! | CREATE EXTENSION, ALTER EXTENSION | a script, which is read by itself: other scripts |
//! | EXECUTE, also in EXPLAIN and CREATE TABLE AS | the arguments, before the statement is analysed again |
//! | other commands that define something | event triggers, and the commands' other parts |
//! | a function that checks the body of another function, such as `fmgr_sql_validator()` | the statement: if one of its constants is the same text as the body, PostgreSQL tells the error as one in that constant |
//!
//! So an error inside a constant proves nothing. Only in DO, as the only statement, it does: its body is read first, and an
//! error of the code that it runs tells its context.
//!
//! Where backslashes escape, a text may have more statements than it seems, so nothing is taken for the only statement
//! of a text with a backslash.

use crate::known_names::words;
use crate::lexer::{Lexer, Token};

/// Statements that are analysed as a whole before any of them runs, unless they contain EXECUTE.
const ANALYSED_FIRST: [&str; 12] = [
    "select", "insert", "update", "delete", "values", "table", "with", "merge", "call", "explain", "copy", "declare",
];

/// Errors that prove that nothing of a text has run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Proof {
    /// A syntax error.
    pub by_grammar: bool,
    /// An error about a name or a type, unless a constant of the text was made a value of a type that runs code.
    pub by_names: bool,
    /// The text has constants.
    pub has_constants: bool,
    /// From the first constant to the last one. An error at one of these characters proves nothing.
    pub constants: Option<Span>,
}

/// Some characters of a text, counted from 1: the first one and the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, pgweir_freeze::Freeze)]
pub struct Span {
    first: u32,
    last: u32,
}

impl Span {
    /// The characters from one of these bytes to another. How many bytes a character has depends on the encoding: at
    /// most [`CHARACTER_BYTES_MAX`].
    fn of_bytes(text: &[u8], first: usize, last: usize) -> Span {
        let first = match text[..first].is_ascii() {
            true => first,
            false => first / CHARACTER_BYTES_MAX,
        };
        let count = |bytes: usize| u32::try_from(bytes + 1).unwrap_or(u32::MAX);
        Span {
            first: count(first),
            last: count(last),
        }
    }

    /// Whether it contains this character.
    pub fn contains(self, character: u32) -> bool {
        (self.first..=self.last).contains(&character)
    }

    /// Both of them, and what is between them.
    pub fn and(self, other: Span) -> Span {
        Span {
            first: self.first.min(other.first),
            last: self.last.max(other.last),
        }
    }
}

/// In all encodings of PostgreSQL.
const CHARACTER_BYTES_MAX: usize = 4;

/// Whether a text has one statement at most, under all settings. A backslash may escape a quote or be the second byte
/// of a character, so a text that contains one may have more.
fn is_single(text: &[u8]) -> bool {
    let mut is_terminated = true;
    let mut tokens = Lexer::new(text).inspect(|token| is_terminated &= *token != Token::Unterminated);
    let ends = tokens.any(|token| token == Token::Byte(b';'));
    let more = ends && tokens.next().is_some();
    !more && is_terminated && !text.contains(&b'\\')
}

/// What errors about a text prove.
pub fn proof(text: &[u8]) -> Proof {
    let first = Lexer::new(text).next();
    let is_single = is_single(text);
    let has = |names: &[&str]| words(text).any(|word| names.iter().any(|n| word.eq_ignore_ascii_case(n.as_bytes())));
    let begins_with = |word: &str| first.as_ref().is_some_and(|token| token.is(word));
    let is_of_constant = |byte: &u8| matches!(byte, b'\'' | b'$');
    let constants = text
        .iter()
        .position(is_of_constant)
        .zip(text.iter().rposition(is_of_constant));
    let is_do = is_single && begins_with("do");
    Proof {
        by_grammar: is_do || !has(&["do", "function", "procedure", "extension"]),
        by_names: is_single && ANALYSED_FIRST.into_iter().any(begins_with) && !has(&["execute"]),
        has_constants: constants.is_some(),
        constants: constants
            .filter(|_| !is_do)
            .map(|(first, last)| Span::of_bytes(text, first, last)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_syntax_error_proves_most_where_no_body_is_read_later() {
        for text in [
            "slect 1",
            "select f(1); slect 1",
            "do $$ begin selct 1; end $$",
            "/* do */ create tabel t (a int)",
        ] {
            assert_eq!(proof(text.as_bytes()).by_grammar, !text.contains("/* do */"), "{text}");
        }
        for text in [
            "select f(1); do $$ begin selct 1; end $$",
            "do $$ begin null; end $$; do $$ begin selct 1; end $$",
            "create function f() returns int language sql as 'selct 1'",
            "CREATE PROCEDURE f() language sql as 'selct 1'",
            "create extension a cascade",
            r"do 'a\''; do 'selct'",
        ] {
            assert!(!proof(text.as_bytes()).by_grammar, "{text}");
        }
    }

    #[test]
    fn an_error_about_names_proves_most_for_one_statement_that_is_analysed_first() {
        for text in [
            "select nosuch(1)",
            "-- who\nSELECT nosuch;",
            "with a as (select 1) select b ; -- end",
            "call nosuch()",
        ] {
            assert!(proof(text.as_bytes()).by_names, "{text}");
        }
        for text in [
            "select f(1); select nosuch",
            "execute p(f(1))",
            "explain analyze execute p(f(1))",
            "create table t as execute p(f(1))",
            "create table t (a nosuch)",
            r"select f(1), 'a\''; select nosuch",
            r"select f(1), e'a\''; select nosuch, '--'",
            "select nosuch, 'a",
            "(a label)",
            "",
        ] {
            assert!(!proof(text.as_bytes()).by_names, "{text}");
        }
        assert!(proof(b"select '{x}'::d[], a").has_constants && proof(b"select $$x$$").has_constants);
        assert!(!proof(b"select nosuch(1)").has_constants);
    }

    #[test]
    fn an_error_in_a_constant_proves_nothing() {
        let span = |text: &str| proof(text.as_bytes()).constants;
        let text = "select f('a', $x$b$x$) form t";
        let span_of = |text: &str, from: &str, to: &str| {
            let (first, last) = (text.find(from).unwrap() + 1, text.rfind(to).unwrap() + to.len());
            let span = span(text).unwrap();
            assert!(
                !span.contains(first as u32 - 1) && span.contains(first as u32),
                "{text}"
            );
            assert!(span.contains(last as u32) && !span.contains(last as u32 + 1), "{text}");
        };
        span_of(text, "'a", "$x$");
        span_of("select E'\\'', 1", "'", "'");
        assert_eq!(span("slect 1"), None);
        assert_eq!(span("do $$ begin selct 1; end $$"), None);
        assert!(span("do $$ begin null; end $$; select 'a'").is_some());
        // In another encoding there may be fewer or more characters in front of it.
        let wide = span("select \u{e4}\u{e4}\u{e4}\u{e4}, 'a'").unwrap();
        assert!(wide.contains(7) && wide.contains(20));
        assert!(wide.and(span("'a'").unwrap()).contains(1));
    }
}
