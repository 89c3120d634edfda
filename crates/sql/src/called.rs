//! Which routines a text calls by name.

use crate::bodies::OPENING;
use crate::calls::{Foreign, each_foreign};
use crate::lexer::{Lexer, Token};
use crate::split::Statements;
use crate::verbs::code_of_block;
use std::collections::BTreeSet;

/// Names of routines as the catalog holds them, each once.
type Names = BTreeSet<Box<[u8]>>;

/// Words that begin a statement of PL/pgSQL, and none of SQL. A parenthesis may follow them.
const CODE_VERBS: [&[u8]; 6] = [b"if", b"perform", b"elsif", b"elseif", b"while", b"assert"];

/// Words of PL/pgSQL behind RETURN.
const RETURN_WORDS: [&[u8]; 1] = [b"query"];

/// The names of the routines that a text surely calls, also in the code of a DO that is read.
pub fn called(text: &[u8]) -> BTreeSet<Box<[u8]>> {
    let mut names = Names::new();
    add_called(text, &mut names, |_| false);
    for backslashes in [false, true] {
        for statement in Statements::new(text, backslashes) {
            let mut lexer = Lexer::with_backslashes(statement, backslashes);
            if lexer.accept("do") {
                let spellings = code_of_block(lexer).unwrap_or_default();
                spellings.iter().for_each(|code| add_called_by_code(code, &mut names));
            }
        }
    }
    names
}

/// Adds the names that a text calls, except words of its language (`is_word`).
fn add_called(text: &[u8], names: &mut Names, is_word: impl Fn(&Foreign<'_>) -> bool) {
    for backslashes in [false, true] {
        each_foreign(text, backslashes, |_, foreign| {
            if foreign.is_call && !is_word(&foreign) {
                names.extend(foreign.name);
            }
        });
    }
}

/// Adds the names that code calls, directly and in constants that it EXECUTEs. The code contains no backslashes.
fn add_called_by_code(code: &[u8], names: &mut Names) {
    add_called(code, names, is_word_of_code);
    let mut executes = false;
    for token in Lexer::new(code) {
        if let Token::Text(text) = token
            && executes
        {
            add_called(text, names, |_| false);
        }
        executes = token.is("execute");
    }
}

fn is_word_of_code(foreign: &Foreign<'_>) -> bool {
    let is = |words: &[&[u8]]| foreign.name.as_deref().is_some_and(|name| words.contains(&name));
    let begins =
        matches!(foreign.behind, Token::Byte(b';' | b'>')) || OPENING.iter().any(|word| foreign.behind.is(word));
    begins && is(&CODE_VERBS) || foreign.behind.is("return") && is(&RETURN_WORDS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::effects::Effects;

    /// Guards against a DO whose routines the catalog was not asked about.
    #[test]
    fn the_code_of_a_do_calls_routines_like_a_statement() {
        for text in [
            "select f(1)",
            "do $$begin perform f(1); end$$",
            "do language plpgsql 'declare x int := s.f(''a''); begin end'",
            "select 1; do $$begin execute 'select f(1)'; end$$; select 2",
            "do 'begin if true then execute ''select f(1)'' into x; end if; end'",
            "do $$begin x := f(1); while (f(2)) loop perform (f(3)); end loop; end$$",
            "do $$begin for r in select * from f(1) loop null; end loop; end$$",
        ] {
            assert!(crate::effects(text.as_bytes()).contains(Effects::ROUTINES), "{text}");
            let names: Vec<_> = called(text.as_bytes()).into_iter().collect();
            assert_eq!(names, [b"f".to_vec().into_boxed_slice()], "{text}");
        }
        for text in [
            "do $$declare n numeric(3, 1); begin perform abs(1); insert into t (a) values (lower('f(1)')); end$$",
            "do $$begin <<a>> while (x) loop perform (select 1); end loop; if a then assert (b); elsif (c) then end if; if (d) then end if; end$$",
            "do $$begin if exists (select from t) then create table u (a int); end if; raise notice 'f(1)'; end$$",
        ] {
            assert!(called(text.as_bytes()).is_empty(), "{text}");
        }
    }
}
