//! Code that runs when a function is made.
//!
//! CREATE FUNCTION and CREATE PROCEDURE hand the body to the language, which checks it (`pg_language.lanvalidator`). The
//! languages SQL and PL/pgSQL only read it. Others compile it, and run a part of it: PL/Perl runs its BEGIN blocks, PL/Tcl
//! the function that `pltcl.start_proc` names. What they leave in the interpreter outlives the transaction, also one that
//! is rolled back.

use crate::calls::UNREAD;
use crate::effects::Effects;
use crate::lexer::{Lexer, Token};

/// Languages whose check runs nothing of the body. What a library in C runs when it is loaded is
/// [`Effects::NATIVE`].
const ONLY_READ: [&[u8]; 4] = [b"sql", b"plpgsql", b"internal", b"c"];

/// The effects of making a routine; `lexer` is behind CREATE OR REPLACE. Code that is not read, if the routine's language
/// may be another one than [`ONLY_READ`].
pub(crate) fn effects(mut lexer: Lexer<'_>) -> Effects {
    if !lexer.accept("function") && !lexer.accept("procedure") {
        return Effects::NONE;
    }
    // A parameter may have the name of a key word. So only what is outside of parentheses counts.
    let mut depth = 0u32;
    let mut last = Token::Number;
    for token in lexer {
        match token {
            Token::Byte(b'(') => depth = depth.saturating_add(1),
            Token::Byte(b')') => depth = depth.saturating_sub(1),
            _ if depth > 0 => {}
            // The body of a function in SQL. Everything else comes before it.
            _ if last.is("begin") && token.is("atomic") => break,
            // Part of another name, such as that of the function.
            Token::Byte(_) => {}
            _ if last.is("language") && !is_only_read(token) => return UNREAD,
            _ => {}
        }
        last = token;
    }
    Effects::NONE
}

/// Whether a token names one of [`ONLY_READ`].
fn is_only_read(name: Token<'_>) -> bool {
    match name {
        Token::Word(name) => ONLY_READ.iter().any(|known| name.eq_ignore_ascii_case(known)),
        Token::Quoted(name) | Token::Text(name) => ONLY_READ.contains(&name),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use crate::{Effects, Language, UNREAD, effects, judge_body};

    #[test]
    fn a_language_that_may_run_the_body_is_code_that_is_not_read() {
        for text in [
            "create function f() returns int language plperl as 'BEGIN { $_SHARED{x} = 1; } return 1;'",
            "CREATE OR REPLACE FUNCTION f() RETURNS int AS $$ BEGIN { } $$ LANGUAGE plperl",
            "create procedure f() language 'plpython3u' as 'pass'",
            "create function f() returns int language \"pltcl\" as 'return 1'",
            "create function f() returns int language U&\"s\\0071l\" as 'select 1'",
            "create function f() returns int language \"SQL\" as 'select 1'",
            "create function f() returns int language 'SQL' as 'select 1'",
            "create function language() returns int language plperl as ''",
            "create function begin(language sql) returns int language plperl as ''",
            "create function f() returns int set a = language, language language plperl as ''",
            "select 1; create function f() returns int language plperl as ''",
            "begin; create function abs(int) returns int language plperl as ''; commit",
            "create function f() returns int language /* sql */ plperl as ''",
            "create function f() returns int language e'pl\\x70erl' as ''",
            "do $$begin create function f() returns int language plperl as 'BEGIN { }'; end$$",
        ] {
            assert!(effects(text.as_bytes()).contains(UNREAD), "{text}");
        }
    }

    #[test]
    fn a_language_that_only_reads_the_body_runs_nothing() {
        for text in [
            "create function f() returns int language sql as 'select 1'",
            "create function f() returns int as 'select 1' LANGUAGE 'sql'",
            "create or replace procedure f(language text, out b int) language plpgsql as 'begin end'",
            "create function f() returns table (language text) language \"plpgsql\" as ''",
            "create function f() returns int begin atomic select language from t; end",
            "create function language.f() returns int language internal as 'int4pl'",
            "create trigger t after insert on x for each row execute function f()",
            "create trusted language plperl",
            "comment on language plperl is 'a'",
        ] {
            assert!(!effects(text.as_bytes()).contains(Effects::UNTOLD), "{text}");
        }
    }

    #[test]
    fn a_routine_that_makes_such_a_function_is_not_read_either() {
        let made = "create function g() returns int language plperl as $b$ BEGIN { } $b$;";
        let body = format!("begin {made} end");
        assert!(
            judge_body(Language::Plpgsql, body.as_bytes(), &[])
                .effects
                .contains(UNREAD)
        );
        assert!(judge_body(Language::Sql, made.as_bytes(), &[]).effects.contains(UNREAD));
        let plain = made.replace("plperl", "plpgsql");
        let judged = judge_body(Language::Sql, plain.as_bytes(), &[]).effects;
        assert!(!judged.contains(Effects::UNTOLD));
    }
}
