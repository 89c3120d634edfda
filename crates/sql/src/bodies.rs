//! What the source of a function may do to the session: the same judgement as of a statement's text.

use crate::definitions;
use crate::effects::Effects;
use crate::lexer::{Lexer, Token};
use crate::names;
use crate::scan::effects;
use crate::verbs::effects_of_verb;

/// What a function is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// SQL: a text of statements.
    Sql,
    /// SQL: the whole CREATE FUNCTION of one with BEGIN ATOMIC or RETURN.
    SqlStandard,
    /// PL/pgSQL.
    Plpgsql,
    /// `internal`: the name of a function of the server's own.
    Internal,
}

/// Statements of PL/pgSQL's own that end with the word behind which another statement begins.
const OPENING: [&str; 8] = ["begin", "then", "else", "loop", "declare", "exception", "do", "atomic"];

/// A body is read so many times at most.
const PARTS_READ_MAX: usize = 16;

/// Commands that do what they do at the top.
const COMMANDS: [&str; 24] = [
    "set",
    "reset",
    "discard",
    "create",
    "listen",
    "unlisten",
    "load",
    "prepare",
    "deallocate",
    "drop",
    "do",
    "call",
    "select",
    "insert",
    "update",
    "delete",
    "with",
    "merge",
    "values",
    "table",
    "copy",
    "explain",
    "alter",
    "import",
];

/// What only asks: it matters where a transaction begins, and that is seen of statements alone.
const ASKS: Effects = Effects::TEMPORARY_SCHEMA.union(Effects::CURRENT_SETTING);

/// What running this body may do to the session beyond its transaction. Dynamic SQL is code of which nothing is known, but
/// for the names in its constants.
pub fn body_effects(language: Language, body: &[u8]) -> Effects {
    let of_language = match language {
        // The latter has queries only.
        Language::Internal | Language::SqlStandard => {
            return names::search(body).public().without(ASKS);
        }
        Language::Sql => effects(body),
        Language::Plpgsql => effects_of_plpgsql(body),
    };
    let readable = if of_language.contains(Effects::ALL) {
        // It may be a statement of a later PostgreSQL.
        Effects::CODE | names::search(body).public()
    } else {
        of_language
    };
    readable.without(Effects::DEFINES | Effects::NATIVE | ASKS) | definitions::effects_of_body(body)
}

fn effects_of_plpgsql(body: &[u8]) -> Effects {
    let found = names::search(body);
    let mut effects = found.public();
    let all_seen = each_command(body, |statement| effects |= effects_of_verb(statement, false, found));
    if !all_seen {
        effects |= Effects::CODE;
    }
    // EXECUTE; FOR .. IN EXECUTE, OPEN .. FOR EXECUTE, RETURN QUERY EXECUTE.
    if Lexer::new(body).any(|token| token.is("execute") || token == Token::Unterminated) {
        effects |= Effects::CODE;
    }
    effects.public()
}

/// Calls `look` with every part of a PL/pgSQL body that may be one of [`COMMANDS`], up to its semicolon. Parts begin within
/// parts (THEN stands in CASE, too); `false` where that would be more than [`PARTS_READ_MAX`] times the body.
fn each_command(body: &[u8], mut look: impl FnMut(&[u8])) -> bool {
    let mut lexer = Lexer::new(body);
    let mut begins = true;
    let mut bytes_left = PARTS_READ_MAX * body.len();
    loop {
        lexer.skip_space();
        let start = lexer.position();
        let Some(token) = lexer.next() else { return true };
        if begins && COMMANDS.iter().any(|word| token.is(word)) {
            let mut rest = lexer.clone();
            let mut end = rest.position();
            while let Some(token) = rest.next() {
                if token == Token::Byte(b';') {
                    break;
                }
                end = rest.position();
            }
            let Some(left) = bytes_left.checked_sub(end - start) else {
                return false;
            };
            bytes_left = left;
            look(&body[start..end]);
        }
        // `<<label>>` stands in front of a statement.
        begins = OPENING.iter().any(|word| token.is(word)) || matches!(token, Token::Byte(b';' | b'<' | b'>'));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(language: Language, cases: &[(&str, Effects)]) {
        for (body, expected) in cases {
            assert_eq!(body_effects(language, body.as_bytes()), *expected, "{body}");
        }
    }

    #[test]
    fn plpgsql_is_read_statement_by_statement() {
        check(
            Language::Plpgsql,
            &[
                ("begin return 1; end", Effects::NONE),
                (
                    "declare x int := 1; begin if x = 1 then x := 2; else return; end if; end",
                    Effects::NONE,
                ),
                (
                    "begin update t set a = 1; insert into t values (1) on conflict do nothing; end",
                    Effects::NONE,
                ),
                (
                    "begin for r in select 1 loop raise notice 'set x = 1'; end loop; end",
                    Effects::NONE,
                ),
                ("begin set work_mem = '1MB'; end", Effects::SETTINGS),
                ("begin set local work_mem = '1MB'; end", Effects::LOCAL),
                (
                    "begin if true then set work_mem = '1MB'; end if; end",
                    Effects::SETTINGS,
                ),
                ("begin /* */ reset all; end", Effects::SETTINGS | Effects::RESETS),
                (
                    "begin <<a>> begin create temp table t (a int); end; end",
                    Effects::TEMPORARY,
                ),
                (
                    "begin perform set_config('a.b', '1', false); return new; end",
                    Effects::SETTINGS,
                ),
                ("begin perform pg_advisory_lock(1); end", Effects::LOCKS),
                ("begin listen x; end", Effects::LISTEN),
                ("begin drop table if exists t; end", Effects::ENDS),
                ("begin execute 'sel' || 'ect 1'; end", Effects::CODE),
                ("begin return query execute x; end", Effects::CODE),
                ("begin call p(); end", Effects::CODE),
                ("begin select 1 into temp; end", Effects::TEMPORARY),
                ("begin commit; rollback; close c; fetch c into x; end", Effects::NONE),
                ("begin create table p partition of t default; end", Effects::NONE),
                (
                    "begin execute format('create view %I', x); end",
                    Effects::CODE | Effects::DEFINES,
                ),
                ("begin raise 'open", Effects::CODE),
            ],
        );
        // Time that grows with the square of a body's length.
        let body = format!("begin {} end", "then select 1 ".repeat(20_000));
        assert_eq!(body_effects(Language::Plpgsql, body.as_bytes()), Effects::CODE);
    }

    #[test]
    fn sql_is_read_as_a_text_of_statements() {
        check(
            Language::Sql,
            &[
                ("select 1; select 2", Effects::NONE),
                ("select $1 + set_limit(0.5)", Effects::SETTINGS),
                ("select 1; set work_mem = '1MB'", Effects::SETTINGS),
                ("create temp table t (a int); select 1", Effects::TEMPORARY),
                ("frobnicate x", Effects::CODE),
            ],
        );
        check(
            Language::SqlStandard,
            &[
                (
                    "CREATE OR REPLACE FUNCTION f() RETURNS void BEGIN ATOMIC SELECT set_config('a', 'b', false); END",
                    Effects::SETTINGS,
                ),
                ("CREATE OR REPLACE FUNCTION f() RETURNS int RETURN 1", Effects::NONE),
            ],
        );
        check(
            Language::Internal,
            &[
                ("set_config_by_name", Effects::SETTINGS),
                ("pg_advisory_lock_int8", Effects::LOCKS),
                ("dsqrt", Effects::NONE),
            ],
        );
    }
}
