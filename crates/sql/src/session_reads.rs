//! Routines whose result depends on the session.
//!
//! PostgreSQL computes calls of immutable routines when it plans a statement. A routine that reads a setting or the
//! role must not be declared so, but some are; on a direct connection their plans stay with one client.

use crate::known_names::words;
use crate::lexer::{Lexer, Token};

/// Words that read a setting or the role wherever they stand, in the text of dynamic SQL, too.
const ANYWHERE: [&str; 5] = [
    "current_setting",
    "current_user",
    "current_role",
    "session_user",
    "system_user",
];

/// Words that do so outside of constants and comments.
const OUTSIDE: [&str; 4] = ["user", "show", "current_schema", "current_schemas"];

/// Functions that look up a right of the role: their names begin so.
const RIGHTS: [&str; 2] = ["has_", "pg_has_role"];

/// Whether the body of a routine may read a setting or the role. What it calls does not count.
pub fn reads_session(source: &[u8]) -> bool {
    let is_one_of = |word: &[u8], names: &[&str]| names.iter().any(|n| word.eq_ignore_ascii_case(n.as_bytes()));
    if words(source).any(|word| is_one_of(word, &ANYWHERE)) {
        return true;
    }
    let mut before = Token::Byte(b';');
    for token in Lexer::new(source) {
        if let Token::Word(word) = token
            && before != Token::Byte(b'.')
        {
            let begins = |name: &&str| word.len() >= name.len() && is_one_of(&word[..name.len()], &[name]);
            if is_one_of(word, &OUTSIDE) || RIGHTS.iter().any(begins) {
                return true;
            }
        }
        before = token;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::reads_session;

    #[test]
    fn a_body_that_reads_a_setting_or_the_role_is_told_from_one_that_does_not() {
        for source in [
            "select current_setting('app.tenant')",
            "begin execute 'select Current_User'; end",
            "select user",
            "begin return has_table_privilege('t', 'select'); end",
            "select current_schema",
        ] {
            assert!(reads_session(source.as_bytes()), "{source}");
        }
        for source in [
            "select a + 1 -- of the user",
            "select t.user from t",
            "select \"user\", 'user' from t",
            "begin return lower(has); end",
        ] {
            assert!(!reads_session(source.as_bytes()), "{source}");
        }
    }
}
