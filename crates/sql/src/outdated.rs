//! Statements that outdate open sessions: what new sessions begin with, or who may begin one, becomes another.
//!
//! | statement | whose sessions |
//! |---|---|
//! | CREATE ROLE, DROP ROLE, ALTER ROLE, DROP OWNED | those of the roles: the name may stand for another role now, which has another password and other rights |
//! | ALTER DATABASE, REVOKE .. ON DATABASE | those in the databases |
//! | REVOKE and ALTER GROUP .. DROP of a membership, REASSIGN OWNED | all: members of members lose rights, too |

use crate::known_names::words;
use crate::lexer::{IDENTIFIER_BYTES_MAX, Lexer, Token};
use crate::split::Statements;

/// Words in the place of a role's name that stand for another role, or for all.
const NOT_A_ROLE: [&[u8]; 5] = [b"all", b"current_role", b"current_user", b"session_user", b"public"];

/// The most names that are kept apart.
const NAMES_MAX: usize = 64;

/// Which sessions are outdated.
#[derive(Debug, Clone, PartialEq, Eq, pgweir_freeze::Freeze)]
pub enum Outdated {
    /// Those of these roles.
    OfRoles(Vec<Box<[u8]>>),
    /// Those in these databases.
    InDatabases(Vec<Box<[u8]>>),
    /// The text does not tell.
    All,
}

/// What a text may outdate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outdates {
    /// Whose sessions.
    pub of: Outdated,
    /// The text is this one statement. If it fails, nothing has changed.
    pub is_alone: bool,
    /// Every role may do it, to itself at least, or get success without effect: SET, RESET, PASSWORD, REVOKE, OWNED.
    pub by_anyone: bool,
}

impl Outdated {
    /// Whether the sessions of this user in this database are among them. PostgreSQL cuts names, so a long one may be
    /// any that begins like it.
    pub fn include(&self, user: &str, database: &str) -> bool {
        let may_be = |name: &str, cut: &[u8]| {
            name.as_bytes() == cut || name.len() > IDENTIFIER_BYTES_MAX && name.as_bytes().starts_with(cut)
        };
        match self {
            Outdated::OfRoles(names) => names.iter().any(|name| may_be(user, name)),
            Outdated::InDatabases(names) => names.iter().any(|name| may_be(database, name)),
            Outdated::All => true,
        }
    }

    /// The sessions that either of two texts is about.
    #[must_use]
    pub fn and(self, other: Outdated) -> Self {
        let joined = |mut names: Vec<Box<[u8]>>, others: Vec<Box<[u8]>>| {
            names.extend(others);
            names.sort_unstable();
            names.dedup();
            (names.len() <= NAMES_MAX).then_some(names)
        };
        let both = match (self, other) {
            (Outdated::OfRoles(a), Outdated::OfRoles(b)) => joined(a, b).map(Outdated::OfRoles),
            (Outdated::InDatabases(a), Outdated::InDatabases(b)) => joined(a, b).map(Outdated::InDatabases),
            _ => None,
        };
        both.unwrap_or(Outdated::All)
    }
}

/// Tells whether a text may contain such a statement. It is looked for in constants, too, and between comments.
pub fn outdates(text: &[u8]) -> Option<Outdates> {
    if !mentions(text) {
        return None;
    }
    let unknown = Outdates {
        of: Outdated::All,
        is_alone: false,
        by_anyone: true,
    };
    let mut statements = Statements::new(text, false);
    let all: Vec<&[u8]> = statements.by_ref().collect();
    if statements.is_ambiguous() || statements.is_unterminated() {
        return Some(unknown);
    }
    if let [one] = all[..]
        && Tokens::of(one).leave_sessions()
    {
        return None;
    }
    let both = |all: (Outdated, bool), one: (Outdated, bool)| (all.0.and(one.0), all.1 | one.1);
    let mut found = all
        .iter()
        .filter(|statement| mentions(statement))
        .map(|s| Tokens::of(s).outdate());
    let first = found.next();
    let is_alone = all.len() == 1 && matches!(first, Some(Some(_)));
    let found = first.map(|first| found.fold(first, |all, one| Some(both(all?, one?))));
    let Some(Some((of, by_anyone))) = found else {
        return Some(unknown);
    };
    Some(Outdates {
        of,
        is_alone,
        by_anyone,
    })
}

/// Whether the words of such a statement are in a text, also within its constants and between its comments.
fn mentions(text: &[u8]) -> bool {
    let mut as_words = Looks::default();
    let has_tokens = |mut lexer: Lexer<'_>| {
        let mut as_tokens = Looks::default();
        lexer.any(|token| as_tokens.goes_on(|w| token.is(w))) || as_tokens.may_end()
    };
    words(text).any(|word| as_words.goes_on(|w| word.eq_ignore_ascii_case(w.as_bytes())))
        || as_words.may_end()
        || Lexer::readings(text).any(has_tokens)
}

/// The tokens of one statement.
struct Tokens<'a>(Vec<Token<'a>>);

impl<'a> Tokens<'a> {
    fn of(statement: &'a [u8]) -> Self {
        Tokens(Lexer::new(statement).collect())
    }

    fn at(&self, place: usize, word: &str) -> bool {
        self.0.get(place).is_some_and(|token| token.is(word))
    }

    fn has(&self, word: &str) -> bool {
        self.0.iter().any(|token| token.is(word))
    }

    /// Whether sessions go on, and new ones begin, as before. ALTER ROLE .. PASSWORD and nothing else: the next login is
    /// judged by the secret that the pooler knows. ALTER DATABASE with RENAME, OWNER, REFRESH or SET TABLESPACE: a
    /// session in the database begins as before.
    fn leave_sessions(&self) -> bool {
        let at = |place, word| self.at(place, word);
        if at(0, "alter") && at(1, "database") {
            return at(3, "rename") || at(3, "owner") || at(3, "refresh") || at(3, "set") && at(4, "tablespace");
        }
        let mut place = 3;
        for word in ["with", "encrypted"] {
            place += usize::from(at(place, word));
        }
        let is_of_role = at(0, "alter") && (at(1, "role") || at(1, "user"));
        let is_last = self.0.len() == place + 2;
        let is_value = at(place + 1, "null") || matches!(self.0.get(place + 1), Some(Token::Text(_)));
        is_of_role && at(place, "password") && is_last && is_value
    }

    /// What a statement of this kind outdates, and whether anyone may cause that.
    fn outdate(&self) -> Option<(Outdated, bool)> {
        let tokens = &self.0;
        let (at, has) = (|place, word| self.at(place, word), |word| self.has(word));
        let is_role = at(1, "role") || at(1, "user") || at(1, "group");
        let found = match () {
            () if at(0, "create") && is_role => (roles(names(tokens.get(2..3)?)), false),
            () if at(0, "drop") && is_role => {
                let behind = if at(2, "if") { 4 } else { 2 };
                (roles(names(tokens.get(behind..)?)), false)
            }
            () if at(0, "drop") && at(1, "owned") => (roles(names(tokens.get(3..)?)), true),
            () if at(0, "reassign") => (Outdated::All, true),
            () if at(0, "alter") && at(1, "group") && has("drop") => (Outdated::All, true),
            () if at(0, "alter") && is_role && at(3, "rename") => {
                let both = [*tokens.get(2)?, Token::Byte(b','), *tokens.get(5)?];
                (roles(names(&both)), false)
            }
            () if at(0, "alter") && is_role => {
                let by_anyone = has("set") || has("reset") || has("password");
                (roles(names(tokens.get(2..3)?)), by_anyone)
            }
            () if at(0, "alter") && at(1, "database") => (databases(names(tokens.get(2..3)?)), true),
            () if at(0, "revoke") => {
                let on = tokens.iter().position(|token| token.is("on") || token.is("from"))?;
                match at(on, "on") && at(on + 1, "database") {
                    true => (databases(names(tokens.get(on + 2..)?)), true),
                    false => (Outdated::All, true),
                }
            }
            () => return None,
        };
        Some(found)
    }
}

/// Names that are separated by commas. `None`: they cannot be read.
fn names(tokens: &[Token<'_>]) -> Option<Vec<Box<[u8]>>> {
    let mut names = Vec::new();
    for pair in tokens.chunks(2) {
        names.push(pair.first()?.identifier().filter(|name| name.is_ascii())?);
        if pair.get(1) != Some(&Token::Byte(b',')) {
            break;
        }
    }
    (!names.is_empty() && names.len() <= NAMES_MAX).then_some(names)
}

fn roles(names: Option<Vec<Box<[u8]>>>) -> Outdated {
    match names.filter(|names| !names.iter().any(|name| NOT_A_ROLE.contains(&&**name))) {
        Some(names) => Outdated::OfRoles(names),
        None => Outdated::All,
    }
}

fn databases(names: Option<Vec<Box<[u8]>>>) -> Outdated {
    names.map_or(Outdated::All, Outdated::InDatabases)
}

/// How much of such a statement has been found.
#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Looks {
    #[default]
    Nothing,
    /// CREATE, or behind DROP and ALTER.
    Verb {
        alters: bool,
    },
    /// CREATE, ALTER or DROP with ROLE, USER or GROUP: if no MAPPING follows, it is one.
    Role,
    Revoke,
    /// REVOKE .. ON
    RevokeOn,
    /// DROP or REASSIGN with OWNED.
    Reassign,
}

impl Looks {
    /// Takes the next word; whether a statement has been found.
    fn goes_on(&mut self, is: impl Fn(&str) -> bool) -> bool {
        let found = match *self {
            Looks::Role => !is("mapping"),
            Looks::Verb { alters } => is("owned") || alters && is("database"),
            Looks::Revoke => is("from"),
            Looks::RevokeOn => is("database"),
            Looks::Reassign => is("owned"),
            Looks::Nothing => false,
        };
        *self = match *self {
            _ if is("create") || is("drop") => Looks::Verb { alters: false },
            _ if is("alter") => Looks::Verb { alters: true },
            _ if is("revoke") => Looks::Revoke,
            _ if is("reassign") => Looks::Reassign,
            Looks::Verb { .. } if is("role") || is("user") || is("group") => Looks::Role,
            Looks::Revoke if is("on") => Looks::RevokeOn,
            Looks::Revoke => Looks::Revoke,
            _ => Looks::Nothing,
        };
        found
    }

    /// Whether the rest of the statement, which is not in this text, may make it one.
    fn may_end(self) -> bool {
        self == Looks::Role
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Effects;

    fn names(names: &[&str]) -> Vec<Box<[u8]>> {
        names.iter().map(|name| name.as_bytes().into()).collect()
    }

    fn role(name: &str) -> Outdated {
        Outdated::OfRoles(names(&[name]))
    }

    fn database(name: &str) -> Outdated {
        Outdated::InDatabases(names(&[name]))
    }

    #[test]
    fn one_statement_tells_whose_sessions_it_outdates() {
        use Outdated::{All, InDatabases, OfRoles};
        for (text, of, by_anyone) in [
            ("alter role alice set work_mem = '9MB'", role("alice"), true),
            ("ALTER USER Alice RESET ALL; -- done", role("alice"), true),
            (
                "alter user \"A b\" in database shop set work_mem = '9MB'",
                role("A b"),
                true,
            ),
            ("alter database shop set work_mem to '1MB'", database("shop"), true),
            (
                "/* x */ alter /* y */ role all in database shop set search_path = pg_temp",
                All,
                true,
            ),
            ("alter role current_user set a.b = 'x'", All, true),
            ("alter role U&\"x\" set a.b = 'x'", All, true),
            ("alter role ärger set a.b = 'x'", All, true),
            (
                "alter role alice password 'x' valid until '2001-01-01'",
                role("alice"),
                true,
            ),
            ("alter role alice nologin", role("alice"), false),
            ("alter role a rename to b", OfRoles(names(&["a", "b"])), false),
            ("alter group a rename to ärger", All, false),
            ("alter group a drop user b", All, true),
            ("create user a login password 'drop role b'", role("a"), false),
            ("create group \"A\"", role("A"), false),
            (
                "drop role if exists a, \"B\",c",
                OfRoles(names(&["a", "B", "c"])),
                false,
            ),
            ("drop user a", role("a"), false),
            ("drop owned by a, b cascade", OfRoles(names(&["a", "b"])), true),
            ("reassign owned by a to b", All, true),
            ("alter database shop allow_connections false", database("shop"), true),
            (
                "revoke connect on database d, e from public",
                InDatabases(names(&["d", "e"])),
                true,
            ),
            ("revoke a from b", All, true),
            ("revoke admin option for a from b", All, true),
        ] {
            let expected = Outdates {
                of,
                is_alone: true,
                by_anyone,
            };
            assert_eq!(outdates(text.as_bytes()), Some(expected), "{text}");
            assert!(crate::effects(text.as_bytes()).contains(Effects::DEFINES), "{text}");
        }
    }

    #[test]
    fn several_statements_tell_the_same() {
        let several = |of, by_anyone| Outdates {
            of,
            is_alone: false,
            by_anyone,
        };
        for (text, of, by_anyone) in [
            (
                "begin; alter database shop set work_mem to '1MB'; commit",
                database("shop"),
                true,
            ),
            ("alter role alice set work_mem = '9MB'; commit", role("alice"), true),
            (
                "alter role a rename to b; create role a; grant a to c",
                Outdated::OfRoles(names(&["a", "b"])),
                false,
            ),
            (
                "create role a; revoke connect on database d from a",
                Outdated::All,
                true,
            ),
        ] {
            assert_eq!(outdates(text.as_bytes()), Some(several(of, by_anyone)), "{text}");
            assert!(crate::effects(text.as_bytes()).contains(Effects::DEFINES), "{text}");
        }
        let (one, other) = (b"alter role a set b.c = 1", b"alter role b set b.c = 1");
        let both = |a, b| outdates(a).unwrap().of.and(outdates(b).unwrap().of);
        assert_eq!(both(one, one), role("a"));
        assert_eq!(both(one, other), Outdated::OfRoles(names(&["a", "b"])));
        let many: Vec<_> = (0..NAMES_MAX).map(|n| n.to_string().into_bytes().into()).collect();
        assert_eq!(Outdated::OfRoles(many).and(role("a")), Outdated::All);
    }

    #[test]
    fn every_other_text_may_outdate_all() {
        for text in [
            "alter role alice set a.b = 'x\\'; commit; --'",
            "do $$begin execute 'alter database shop set work_mem = 1'; end$$",
            "do $$begin execute 'create role ' || $1; end$$",
            "do $$begin execute format('drop user %I', a); end$$",
            "do 'begin revoke a from b; end'",
            "select 'alter role alice set work_mem'",
            "-- alter role a\nset work_mem = '9MB'",
        ] {
            let all = outdates(text.as_bytes()).map(|found| (found.of, found.by_anyone));
            assert_eq!(all, Some((Outdated::All, true)), "{text}");
        }
    }

    #[test]
    fn sessions_stay_after_other_statements() {
        for text in [
            "alter role alice password 'x'",
            "ALTER USER alice WITH ENCRYPTED PASSWORD 'x' -- new",
            "alter role current_user password null",
            "ALTER DATABASE shop RENAME TO store",
            "alter database \"shop\" owner to alice",
            "alter database shop set tablespace fast",
            "alter table users alter column user_name set not null",
            "alter table database set (fillfactor = 10)",
            "update role set a = 1",
            "create user mapping for a server b",
            "alter user mapping for a server b options (set c 'd')",
            "drop user mapping if exists for a server b",
            "revoke select (a), insert on t from b",
            "revoke all on schema database from b",
            "create table role (a int)",
            "alter default privileges in schema s revoke all on tables from b",
            "create database d",
            "drop database d",
            "grant a to b",
        ] {
            assert_eq!(outdates(text.as_bytes()), None, "{text}");
        }
    }
}
