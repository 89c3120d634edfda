//! Statements that change the settings that new sessions begin with: SET and RESET in ALTER ROLE and ALTER DATABASE.

use crate::known_names::words;
use crate::lexer::{IDENTIFIER_BYTES_MAX, Lexer, Token};

/// Words in the place of a role's name that stand for another role, or for all.
const NOT_A_ROLE: [&[u8]; 5] = [b"all", b"current_role", b"current_user", b"session_user", b"public"];

/// Whose new sessions begin with other settings.
#[derive(Debug, Clone, PartialEq, Eq, pgweir_freeze::Freeze)]
pub enum NewSessions {
    /// The new sessions of this role.
    OfRole(Box<[u8]>),
    /// The new sessions in this database.
    InDatabase(Box<[u8]>),
    /// The text does not tell.
    All,
}

/// What a text may change of the settings that new sessions begin with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedDefaults {
    /// Whose they are.
    pub of: NewSessions,
    /// The text is this one statement. If it fails, nothing has changed.
    pub is_alone: bool,
}

impl NewSessions {
    /// Whether the sessions of this user in this database are among them. PostgreSQL cuts names, so a long one may be
    /// any that begins like it.
    pub fn include(&self, user: &str, database: &str) -> bool {
        let may_be = |name: &str, cut: &[u8]| {
            name.as_bytes() == cut || name.len() > IDENTIFIER_BYTES_MAX && name.as_bytes().starts_with(cut)
        };
        match self {
            NewSessions::OfRole(name) => may_be(user, name),
            NewSessions::InDatabase(name) => may_be(database, name),
            NewSessions::All => true,
        }
    }

    /// The new sessions that either of two texts is about.
    pub fn and(self, other: NewSessions) -> Self {
        if self == other { self } else { NewSessions::All }
    }
}

/// Tells whether a text may contain such a statement. It is looked for in constants, too, and between comments.
pub fn changed_defaults(text: &[u8]) -> Option<ChangedDefaults> {
    let (mut as_words, mut as_tokens) = (Statement::default(), Statement::default());
    let found = words(text).any(|word| as_words.goes_on(|w| word.eq_ignore_ascii_case(w.as_bytes())))
        || Lexer::new(text).any(|token| as_tokens.goes_on(|w| token.is(w)));
    found.then(|| {
        alone(text).unwrap_or(ChangedDefaults {
            of: NewSessions::All,
            is_alone: false,
        })
    })
}

/// What the text changes if it is one statement of this kind.
fn alone(text: &[u8]) -> Option<ChangedDefaults> {
    let mut tokens = Lexer::new(text);
    if !tokens.accept("alter") {
        return None;
    }
    let is_database = match tokens.next()? {
        kind if kind.is("database") => true,
        kind if kind.is("role") || kind.is("user") => false,
        _ => return None,
    };
    let name = tokens.next()?.identifier();
    let goes_on = tokens.by_ref().skip_while(|t| *t != Token::Byte(b';')).nth(1).is_some();
    if goes_on || tokens.is_ambiguous() {
        return None;
    }
    let of = match name.filter(|name| name.is_ascii()) {
        Some(name) if is_database => NewSessions::InDatabase(name),
        Some(name) if !NOT_A_ROLE.contains(&&*name) => NewSessions::OfRole(name),
        _ => NewSessions::All,
    };
    Some(ChangedDefaults { of, is_alone: true })
}

/// How much of ALTER, ROLE and SET has been found.
#[derive(Default)]
struct Statement {
    alter: bool,
    kind: bool,
}

impl Statement {
    /// Takes the next word; whether all have been found.
    fn goes_on(&mut self, is: impl Fn(&str) -> bool) -> bool {
        self.kind |= self.alter && (is("role") || is("user") || is("database"));
        self.alter = is("alter");
        self.kind && (is("set") || is("reset"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Effects;

    fn role(name: &str) -> NewSessions {
        NewSessions::OfRole(name.as_bytes().into())
    }

    fn database(name: &str) -> NewSessions {
        NewSessions::InDatabase(name.as_bytes().into())
    }

    #[test]
    fn one_statement_tells_whose_new_sessions_change() {
        for (text, of) in [
            ("alter role alice set work_mem = '9MB'", role("alice")),
            ("ALTER USER Alice RESET ALL; -- done", role("alice")),
            ("alter user \"A b\" in database shop set work_mem = '9MB'", role("A b")),
            ("alter database shop set work_mem to '1MB'", database("shop")),
            (
                "/* x */ alter /* y */ role all in database shop set search_path = pg_temp",
                NewSessions::All,
            ),
            ("alter role current_user set a.b = 'x'", NewSessions::All),
            ("alter role U&\"x\" set a.b = 'x'", NewSessions::All),
            ("alter role ärger set a.b = 'x'", NewSessions::All),
        ] {
            let expected = ChangedDefaults { of, is_alone: true };
            assert_eq!(changed_defaults(text.as_bytes()), Some(expected), "{text}");
            assert!(crate::effects(text.as_bytes()).contains(Effects::DEFINES), "{text}");
        }
    }

    #[test]
    fn every_other_text_may_change_those_of_all() {
        for text in [
            "begin; alter database shop set work_mem to '1MB'; commit",
            "alter role alice set work_mem = '9MB'; commit",
            "alter role alice set a.b = 'x\\'; commit; --'",
            "do $$begin execute 'alter database shop set work_mem = 1'; end$$",
            "select 'alter role alice set work_mem'",
            "-- alter role a\nset work_mem = '9MB'",
        ] {
            let all = ChangedDefaults {
                of: NewSessions::All,
                is_alone: false,
            };
            assert_eq!(changed_defaults(text.as_bytes()), Some(all), "{text}");
        }
        let (one, other) = (b"alter role a set b.c = 1", b"alter role b set b.c = 1");
        let both = |a, b| changed_defaults(a).unwrap().of.and(changed_defaults(b).unwrap().of);
        assert_eq!((both(one, one), both(one, other)), (role("a"), NewSessions::All));
    }

    #[test]
    fn what_new_sessions_begin_with_stays_after_other_statements() {
        for text in [
            "alter role alice password 'x'",
            "alter table users alter column user_name set not null",
            "alter table database set (fillfactor = 10)",
            "update role set a = 1",
        ] {
            assert_eq!(changed_defaults(text.as_bytes()), None, "{text}");
        }
    }
}
