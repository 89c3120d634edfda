//! Texts that run prepared statements by EXECUTE.

use crate::lexer::Lexer;
use crate::search::contains;
use crate::split::statements;

/// Words of texts that do something else with prepared statements, or show them.
const OTHER_USES: [&[u8]; 3] = [b"prepare", b"deallocate", b"discard"];

/// Whether a text surely fails if a prepared statement that it names is missing: one of its statements is EXECUTE, EXPLAIN
/// EXECUTE or CREATE TABLE AS EXECUTE, and none has another use for the statement.
pub fn only_executes(text: &[u8]) -> bool {
    contains(text, b"execute")
        && !OTHER_USES.iter().any(|word| contains(text, word))
        && statements(text).is_some_and(|all| all.iter().any(|statement| executes(statement)))
}

/// Whether a text is nothing but one EXECUTE.
pub fn is_one_execute(text: &[u8]) -> bool {
    let begins_so = |statement: &&[u8]| Lexer::new(statement).next().is_some_and(|verb| verb.is("execute"));
    statements(text).is_some_and(|all| all.len() == 1 && all.iter().all(begins_so))
}

fn executes(statement: &[u8]) -> bool {
    let mut lexer = Lexer::new(statement);
    let Some(verb) = lexer.next() else { return false };
    let may_execute = ["explain", "create"].iter().any(|word| verb.is(word));
    verb.is("execute") || may_execute && lexer.any(|token| token.is("execute"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_fails_without_the_statement() {
        for text in [
            "execute p",
            "EXECUTE a(1); execute b",
            "select 1; execute p; commit",
            "explain execute p",
            "explain (analyze, costs off) execute p(2)",
            "create temp table t as execute p",
        ] {
            assert!(only_executes(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn one_execute_is_nothing_else() {
        let is_one = |text: &str| is_one_execute(text.as_bytes());
        assert!(is_one("execute p") && is_one(" /* a */ EXECUTE p(1);"));
        for text in [
            "execute p; select 1",
            "explain execute p",
            "select 'execute p'",
            "prepare a as select 1",
            "",
        ] {
            assert!(!is_one(text), "{text}");
        }
    }

    #[test]
    fn a_text_that_may_do_without_it() {
        for text in [
            "select 'execute p'",
            "do $$begin execute 'execute p'; end$$",
            "prepare p as select 1; execute p",
            "deallocate p; execute q",
            "discard all; execute p",
            "execute p; table pg_prepared_statements",
            r"select 'a\'; execute p; select '1",
            "",
        ] {
            assert!(!only_executes(text.as_bytes()), "{text}");
        }
    }
}
