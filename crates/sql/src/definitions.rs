//! Statements that make, change or drop objects that run code: functions, triggers, views, extensions.
//!
//! All words of a text are looked at, also those in constants, because the body of a function is a constant.

use crate::bodies::Language;
use crate::calls::UNREAD;
use crate::effects::Effects;
use crate::known_names::words;
use crate::lexer::{Lexer, Token};
use crate::names;
use crate::outdated::outdates;
use crate::type_names::type_of_name_text;

/// The first words of such statements, at the top level or in a body.
const VERBS: [&str; 4] = ["create", "alter", "drop", "import"];

/// The first words of statements that may outdate open sessions: see [`outdates`].
const OUTDATING: [&str; 6] = ["alter", "create", "do", "drop", "reassign", "revoke"];

/// Kinds of objects that bring code into the database.
const CODE_KINDS: [&str; 18] = [
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
    "foreign",
    "transform",
    "conversion",
    "wrapper",
    "publication",
];

/// Kinds of objects that code can be attached to.
const TABLE_KINDS: [&str; 5] = ["table", "type", "index", "schema", "statistics"];

/// Kinds of objects whose code, if they have any, is in the text: expressions that call functions.
const PLAIN_KINDS: [&str; 13] = [
    "table",
    "index",
    "statistics",
    "sequence",
    "schema",
    "database",
    "role",
    "user",
    "group",
    "tablespace",
    "system",
    "default",
    "collation",
];

/// Words between the verb and the kind of object.
const ADJECTIVES: [&str; 6] = ["unique", "local", "global", "temp", "temporary", "unlogged"];

/// Further words between CREATE and VIEW.
const ADJECTIVES_OF_VIEWS: [&str; 4] = ["or", "replace", "recursive", "materialized"];

/// Names that say where a view is made, and not what its query does.
const PLACES: Effects = names::TEMP_WORD.union(names::PG_TEMP).union(Effects::TEMPORARY);

/// If a DROP has none of these words, it does not change what other code does.
const SUSPICIOUS: [&str; 2] = ["do", "extension"];

/// The effects that a name may have, except temporary objects: a name in `pg_temp` runs nothing.
const STATE: Effects = Effects::SETTINGS
    .union(Effects::LOCKS)
    .union(Effects::SEED)
    .union(Effects::SEQUENCE)
    .union(Effects::SERVER_BOUND);

/// What the words of a text show.
#[derive(Debug, Default)]
struct Words {
    verb: bool,
    /// A verb that makes or changes something.
    makes: bool,
    /// Not only CREATE TEMP.
    permanent: bool,
    code: bool,
    table: bool,
    suspicious: bool,
    native: bool,
}

fn look(text: &[u8]) -> Words {
    let mut seen = Words::default();
    let mut language = false;
    let mut creates = false;
    for word in words(text) {
        let is = |list: &[&str]| list.iter().any(|w| word.eq_ignore_ascii_case(w.as_bytes()));
        if std::mem::take(&mut language) {
            seen.native |= is(&["c"]);
        }
        language = is(&["language"]);
        let is_temporary = is(&["temp", "temporary"]);
        seen.permanent |= is(&["alter", "import"]) || creates && !is_temporary && !is(&["local", "global"]);
        creates = is(&["create"]) || creates && !is_temporary && !seen.permanent;
        seen.verb |= is(&VERBS);
        seen.makes |= is(&VERBS) && !is(&["drop"]);
        seen.code |= is(&CODE_KINDS);
        seen.table |= is(&TABLE_KINDS);
        seen.suspicious |= is(&SUSPICIOUS);
    }
    seen.permanent |= creates;
    seen
}

/// [`Effects::NATIVE`] if the text makes a function in C.
pub(crate) fn native(text: &[u8]) -> Effects {
    let seen = look(text);
    match seen.verb && seen.code && seen.native {
        true => Effects::NATIVE,
        false => Effects::NONE,
    }
}

/// [`Effects::DEFINES`] if a statement may make or change code that other statements run, unless the text shows all of
/// that code and it does nothing to the session. `found` are the names found in the text; `unread`: the statement, or
/// the text, runs or contains code that is not read.
pub(crate) fn effects(statement: &[u8], backslashes: bool, found: Effects, unread: bool) -> Effects {
    let mut lexer = Lexer::with_backslashes(statement, backslashes);
    let Some(verb) = verb(&mut lexer) else {
        return Effects::NONE;
    };
    let behind = lexer.clone();
    // A default or a check of a table may run the functions with these names.
    let hides = unread || found.intersects(STATE);
    let is_definition = match () {
        () if OUTDATING.iter().any(|word| verb.is(word)) && outdates(statement).is_some() => true,
        () if verb.is("create") || verb.is("alter") => {
            while ADJECTIVES.iter().any(|word| lexer.accept(word)) {}
            let kind = lexer.next();
            let is = |word: &str| kind.is_some_and(|kind| kind.is(word));
            let seen = look(statement);
            match () {
                () if !type_of_name_text(behind).is_empty() => true,
                () if is("type") => hides || !(verb.is("alter") || is_enum_or_row(lexer)),
                () if verb.is("alter") && is("table") => hides || attaches_code(lexer),
                // CREATE SCHEMA .. CREATE VIEW
                () if verb.is("alter") || is("schema") => {
                    !PLAIN_KINDS.iter().any(|word| is(word)) || seen.code || hides
                }
                // A text that names the view will run what this text shows.
                () if is_view(kind, &lexer) => unread || !found.without(PLACES).is_empty(),
                () => !PLAIN_KINDS.iter().any(|word| is(word)) || hides || is("table") && is_execute_s(lexer),
            }
        }
        () if verb.is("import") => true,
        () if verb.is("do") => {
            let seen = look(statement);
            unread || seen.makes && (seen.code || seen.table && hides)
        }
        () if verb.is("drop") => {
            let seen = look(statement);
            seen.code && (seen.suspicious || found.intersects(STATE)) || seen.table && found.intersects(STATE)
        }
        () => false,
    };
    match is_definition {
        true => Effects::DEFINES,
        false => Effects::NONE,
    }
}

/// The first word of a statement; for EXPLAIN, that of the statement that it explains and may run.
fn verb<'a>(lexer: &mut Lexer<'a>) -> Option<Token<'a>> {
    let mut depth = 0;
    let first = lexer.next()?;
    if !first.is("explain") {
        return Some(first);
    }
    lexer.find(|token| {
        let is_option = ["analyze", "analyse", "verbose"].iter().any(|word| token.is(word));
        match token {
            Token::Byte(b'(') => depth += 1,
            Token::Byte(b')') => depth -= 1,
            _ => return depth == 0 && !is_option,
        }
        false
    })
}

/// Whether CREATE makes a view. `kind`: the first word behind CREATE and its [`ADJECTIVES`].
fn is_view(kind: Option<Token<'_>>, behind: &Lexer<'_>) -> bool {
    let mut words = kind.into_iter().chain(behind.clone());
    let kind = words.find(|token| !ADJECTIVES_OF_VIEWS.iter().chain(&ADJECTIVES).any(|word| token.is(word)));
    kind.is_some_and(|kind| kind.is("view"))
}

/// Whether the text after ALTER TABLE may change which code is run by statements that name the table: ENABLE or DISABLE
/// TRIGGER or RULE, or a foreign key with an action, which fires triggers of the table that has the key, or computes
/// defaults there. Anything that follows these words counts, because a column may have the name of any of them.
fn attaches_code(lexer: Lexer<'_>) -> bool {
    let (mut switches, mut foreign, mut refers) = (false, false, false);
    for token in lexer {
        let is = |words: &[&str]| words.iter().any(|word| token.is(word));
        if switches && is(&["trigger", "rule"]) || refers && is(&["cascade", "set"]) {
            return true;
        }
        switches |= is(&["enable", "disable"]);
        refers |= is(&["references"]) || foreign && is(&["key"]);
        foreign = is(&["foreign"]);
    }
    false
}

/// Whether the text after CREATE TABLE goes on with AS EXECUTE. The columns of the prepared statement may have domains
/// as types, whose checks run code.
fn is_execute_s(lexer: Lexer<'_>) -> bool {
    let mut last = Token::Number;
    for token in lexer {
        if last.is("as") && token.is("execute") {
            return true;
        }
        last = token;
    }
    false
}

/// Whether the text after CREATE TYPE goes on like that of an enum or of a composite type. Other types have functions.
fn is_enum_or_row(lexer: Lexer<'_>) -> bool {
    let mut last = Token::Number;
    for token in lexer {
        if last.is("as") {
            return token.is("enum") || token == Token::Byte(b'(');
        }
        last = token;
    }
    false
}

/// [`Effects::DEFINES`] if a body makes objects that run code. Tables that it makes or changes count if the body calls
/// functions that may run anything, or contains SQL that is not read (`unread`). A temporary table does not count for
/// the latter: its client keeps the server.
pub(crate) fn effects_of_body(body: &[u8], calls: Effects, unread: bool) -> Effects {
    let seen = look(body);
    let hides = seen.makes && calls.contains(UNREAD) || seen.permanent && unread;
    if seen.verb && seen.code || seen.table && hides {
        Effects::DEFINES
    } else {
        Effects::NONE
    }
}

/// Whether a body may make or change tables, apart from what it calls. What it mentions may become code of these
/// tables: by LIKE, by a column's type, by a new name. In PL/pgSQL, INTO is an assignment.
pub fn may_change_tables(language: Language, body: &[u8]) -> bool {
    let seen = look(body);
    seen.makes && seen.table || language == Language::Sql && Lexer::readings(body).any(selects_into)
}

/// Whether a text may contain SELECT .. INTO.
fn selects_into(lexer: Lexer<'_>) -> bool {
    let mut last = Token::Number;
    for token in lexer {
        if token.is("into") && !last.is("insert") && !last.is("merge") {
            return true;
        }
        last = token;
    }
    false
}

/// Whether a text may make, change or drop an object that runs code or has code attached. Afterwards the objects that
/// it names may have another name, or may be run by another object.
///
/// SELECT INTO is one: the new table has columns of the types that the query gives it.
pub fn is_definition(text: &[u8]) -> bool {
    let seen = look(text);
    seen.verb && (seen.code || seen.table) || Lexer::readings(text).any(selects_into)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_run_code_is_told_from_what_may_not() {
        for text in [
            "create table t (a int)",
            "create unlogged table t (a text default 'create view')",
            "create temp table t (a int, view text, rule text)",
            "alter table t set (fillfactor = 10)",
            "alter table t add column \"language\" text, add column domain int",
            "alter table t add constraint c foreign key (a) references p (b) deferrable initially deferred",
            "alter table t add constraint rule check (a > 0), disable row level security",
            "create unique index on t (a)",
            "create type e as enum ('a')",
            "create type r as (a int)",
            "alter type e add value 'b'",
            "create schema s",
            "create sequence s",
            "grant a to b",
            "drop function f()",
            "select 1 as language, c from x",
            "do $$begin create table t (a int); end$$",
            "explain select 1",
            "explain (analyze, verbose) create table t as select 1",
            "create view v as select 1",
            "create or replace temp view v (a) with (security_barrier) as values (1) with check option",
            "create recursive view v (a) as select 1",
            "create materialized view v as select 1",
            "explain analyze create materialized view v as select 1",
            "explain /* x */ (costs off, analyze) create materialized view if not exists v as select 1",
            "EXPLAIN ANALYSE VERBOSE CREATE MATERIALIZED VIEW v AS SELECT 1",
        ] {
            assert_eq!(
                effects(text.as_bytes(), false, Effects::NONE, false),
                Effects::NONE,
                "{text}"
            );
        }
        for text in [
            "create function f() returns int language sql as 'select 1'",
            "create or replace function f() returns int language plpgsql as e'begin \\x65xecute 1; end'",
            "create event trigger e on ddl_command_end execute function f()",
            "create extension hstore",
            "create policy p on t using (a > 1)",
            "create type r as range (subtype = float8)",
            "create type b (input = f, output = g)",
            "create schema s create view v as select 1",
            "alter table t enable trigger x",
            "alter table t add column a int, disable rule r",
            "alter table t enable replica trigger x",
            "alter table t add foreign key (a) references p (b) on delete cascade",
            "alter table t add foreign key (a) references p on update set default",
            "alter table t add column a int references p on delete set null",
            "alter foreign table t add column a int",
            "alter function f() rename to g",
            "alter domain d add check (value > 1)",
            "import foreign schema s from server x into y",
            "do $$begin create view v as select 1; end$$",
            "alter view v rename to w",
            "create transform for x language y (from sql with function f(internal))",
        ] {
            assert_eq!(
                effects(text.as_bytes(), false, Effects::NONE, false),
                Effects::DEFINES,
                "{text}"
            );
        }
        for text in [
            "create table t (a text default f())",
            "explain analyze create table t as select f()",
            "alter table t alter a set default f()",
            "create index on t (f(a))",
            "create statistics s on (f(a)), b from t",
            "do $$begin execute x; end$$",
        ] {
            assert_eq!(
                effects(text.as_bytes(), false, Effects::NONE, true),
                Effects::DEFINES,
                "{text}"
            );
        }
        for text in [
            "create view v as select current_setting('app.x')",
            "create or replace view v as select name from pg_prepared_statements",
            "create temp view v as table pg_settings",
            "create materialized view v as select lastval()",
            "create view v as select 1; create trigger t before insert on v execute function f()",
        ] {
            let effects = crate::effects(text.as_bytes());
            assert!(effects.contains(Effects::DEFINES), "{text}");
        }
        for text in [
            "create view v as select f(a) from t",
            "create view pg_temp.v as select lower(a) from t",
        ] {
            let effects = crate::effects(text.as_bytes());
            assert!(!effects.intersects(Effects::DEFINES), "{text}");
        }
        for text in [
            "create function f() returns int language c as 'x', 'y'",
            "create function f() returns int as 'x', 'y' LANGUAGE \"c\"",
        ] {
            assert_eq!(native(text.as_bytes()), Effects::NATIVE, "{text}");
        }
    }

    /// Guards against tables that get code without a word that counts as a definition.
    #[test]
    fn a_table_may_get_code_from_what_its_text_mentions() {
        for text in [
            "alter table t attach partition p default",
            "select a into u from d",
            "select a into temp u from d",
            "with q as (select a from d) select * into u from q",
            "explain analyze select a into u from d",
            "create table u as select a from d",
            r"select '\', ' into; select a into u from d --'",
        ] {
            assert!(is_definition(text.as_bytes()), "{text}");
        }
        for text in [
            "select * from t",
            "insert into t select a from d",
            "merge into t using d on true when matched then delete",
            "do $$begin select a into b from d; end$$",
            "select 'into'",
        ] {
            assert!(!is_definition(text.as_bytes()), "{text}");
        }
        for text in [
            "create table u as execute p",
            "create unlogged table if not exists u (a) with (fillfactor = 10) as execute p (1)",
            "explain analyze create table u as execute p",
        ] {
            assert!(crate::effects(text.as_bytes()).contains(Effects::DEFINES), "{text}");
        }
        for (language, body) in [
            (Language::Plpgsql, "begin alter table t rename to u; end"),
            (Language::Plpgsql, "begin create temp table u (like d); end"),
            (Language::Sql, "select a into u from d"),
        ] {
            assert!(may_change_tables(language, body.as_bytes()), "{body}");
        }
        for (language, body) in [
            (Language::Plpgsql, "begin select a into b from d; drop table x; end"),
            (Language::Sql, "insert into u select a from d"),
        ] {
            assert!(!may_change_tables(language, body.as_bytes()), "{body}");
        }
        let judge = |body: &str| crate::judge_body(Language::Plpgsql, body.as_bytes(), &[]).effects;
        for body in [
            "begin execute format('create table u (like %I)', x); end",
            "begin alter table t rename to u; execute x; end",
            "begin create temp table v (a int); execute format('create local table u (like %I)', x); end",
        ] {
            assert!(judge(body).contains(Effects::DEFINES), "{body}");
        }
        for body in [
            "begin create temp table u (a int); execute x; end",
            "begin create local temporary table u (a int); execute x; end",
            "begin create table u (a int); end",
        ] {
            assert!(!judge(body).intersects(Effects::DEFINES), "{body}");
        }
    }
}
