//! Statements that make, change or drop objects that run code: functions, triggers, views, extensions.
//!
//! All words of a text are looked at, also those in constants, because the body of a function is a constant.

use crate::effects::Effects;
use crate::known_names::words;

/// The first words of such statements, at the top level or in a body.
const VERBS: [&str; 3] = ["create", "alter", "drop"];

/// Kinds of objects that bring code into the database.
const CODE_KINDS: [&str; 13] = [
    "function",
    "procedure",
    "routine",
    "aggregate",
    "trigger",
    "view",
    "rule",
    "policy",
    "extension",
    "operator",
    "cast",
    "domain",
    "language",
];

/// Kinds of objects that code can be attached to.
const TABLE_KINDS: [&str; 4] = ["table", "type", "index", "schema"];

/// Without one of these words, or of the names in [`crate::names`], code does nothing to the session.
const SUSPICIOUS: [&str; 15] = [
    "set",
    "reset",
    "discard",
    "temp",
    "temporary",
    "listen",
    "unlisten",
    "load",
    "prepare",
    "deallocate",
    "execute",
    "do",
    "call",
    "hold",
    "extension",
];

/// The effects that a name may have, except temporary objects: a name in `pg_temp` runs nothing.
const STATE: Effects = Effects::SETTINGS
    .union(Effects::LOCKS)
    .union(Effects::SEED)
    .union(Effects::SERVER_BOUND);

/// Languages whose source is read.
const READ: [&str; 3] = ["sql", "plpgsql", "internal"];

/// What the words of a text show.
#[derive(Debug, Default)]
struct Words {
    verb: bool,
    code: bool,
    table: bool,
    suspicious: bool,
    native: bool,
}

fn look(text: &[u8]) -> Words {
    let mut seen = Words::default();
    let mut language = false;
    for word in words(text) {
        let is = |list: &[&str]| list.iter().any(|w| word.eq_ignore_ascii_case(w.as_bytes()));
        if std::mem::take(&mut language) {
            seen.native |= is(&["c"]);
            seen.suspicious |= !is(&READ);
        }
        language = is(&["language"]);
        seen.verb |= is(&VERBS);
        seen.code |= is(&CODE_KINDS);
        seen.table |= is(&TABLE_KINDS);
        seen.suspicious |= is(&SUSPICIOUS);
    }
    seen
}

/// [`Effects::DEFINES`] if the object that the text makes may do something to the session; [`Effects::NATIVE`] if it is
/// a function in C. `found` are the names found in the text.
pub(crate) fn effects(text: &[u8], found: Effects) -> Effects {
    let seen = look(text);
    let mut effects = Effects::NONE;
    // A default or a check of a table may run the functions with these names.
    let named = found.intersects(STATE);
    if seen.verb && (seen.code && seen.suspicious || (seen.code || seen.table) && named) {
        effects |= Effects::DEFINES;
    }
    if seen.verb && seen.code && seen.native {
        effects |= Effects::NATIVE;
    }
    effects
}

/// [`Effects::DEFINES`] if a body makes objects that run code. Tables that it makes do not count.
pub(crate) fn effects_of_body(body: &[u8]) -> Effects {
    let seen = look(body);
    if seen.verb && seen.code {
        Effects::DEFINES
    } else {
        Effects::NONE
    }
}

/// Whether a text may make, change or drop an object that runs code or has code attached. Afterwards the objects that
/// it names may have another name, or may be run by another object.
pub fn is_definition(text: &[u8]) -> bool {
    let seen = look(text);
    seen.verb && (seen.code || seen.table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_run_code_is_told_from_what_may_not() {
        for (text, expected) in [
            (
                "create function f() returns int language sql as 'select 1'",
                Effects::NONE,
            ),
            ("create table t (a int)", Effects::NONE),
            ("alter table t set (fillfactor = 10)", Effects::NONE),
            ("create view v as select 1", Effects::NONE),
            (
                "create function f() returns void language plpgsql as $$begin set x = 1; end$$",
                Effects::DEFINES,
            ),
            (
                "create trigger t before insert on x execute function f()",
                Effects::DEFINES,
            ),
            ("create extension hstore", Effects::DEFINES),
            (
                "create function f() returns int language plperl as 'return 1'",
                Effects::DEFINES,
            ),
            (
                "create function f() returns int language c as 'x', 'y'",
                Effects::DEFINES | Effects::NATIVE,
            ),
            (
                "create function f() returns int as 'x', 'y' LANGUAGE \"c\"",
                Effects::DEFINES | Effects::NATIVE,
            ),
            ("select 1 as language, c from x", Effects::NONE),
        ] {
            assert_eq!(effects(text.as_bytes(), Effects::NONE), expected, "{text}");
        }
        assert!(is_definition(b"alter table t attach partition p default"));
        assert!(!is_definition(b"select * from t"));
    }
}
