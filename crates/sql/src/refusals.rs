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
}

/// What errors about a text prove.
pub fn proof(text: &[u8]) -> Proof {
    let mut tokens = Lexer::new(text);
    let first = tokens.next();
    let behind = tokens.skip_while(|token| *token != Token::Byte(b';')).nth(1);
    let is_single = behind.is_none();
    let has = |names: &[&str]| words(text).any(|word| names.iter().any(|n| word.eq_ignore_ascii_case(n.as_bytes())));
    let begins_with = |word: &str| first.as_ref().is_some_and(|token| token.is(word));
    Proof {
        by_grammar: is_single && begins_with("do") || !has(&["do", "function", "procedure", "extension"]),
        by_names: is_single && ANALYSED_FIRST.into_iter().any(begins_with) && !has(&["execute"]),
        has_constants: text.iter().any(|byte| matches!(byte, b'\'' | b'$')),
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
            "(a label)",
            "",
        ] {
            assert!(!proof(text.as_bytes()).by_names, "{text}");
        }
        assert!(proof(b"select '{x}'::d[], a").has_constants && proof(b"select $$x$$").has_constants);
        assert!(!proof(b"select nosuch(1)").has_constants);
    }
}
