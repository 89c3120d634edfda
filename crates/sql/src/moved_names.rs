//! Statements after which a name in another statement may mean another object.
//!
//! PostgreSQL looks up what the names in a prepared statement mean when it analyses the statement. It does so again if
//! an object that the statement uses is changed or dropped, but not if a new object hides that one: a table that comes
//! earlier in the search_path, or a function whose arguments fit better. Nor does it if the number that a constant such
//! as `'i'::regclass` or `'r'::regrole` stands for belongs to another object, or to none.
//!
//! A column that gets another type, or makes room for another column of its name, counts, too: functions keep plans of
//! expressions whose variables were read from it, and PostgreSQL does not make these again.

use crate::effects::Effects;
use crate::lexer::{Lexer, Token};

/// Words between CREATE and the kind of object.
const BEHIND_CREATE: [&str; 6] = ["or", "replace", "local", "global", "unlogged", "unique"];

/// Objects whose CREATE introduces no name that other statements use. Statements that were prepared beside temporary
/// objects are prepared again in any case.
const CREATES_NONE: [&str; 12] = [
    "temp",
    "temporary",
    "database",
    "tablespace",
    "statistics",
    "trigger",
    "constraint",
    "policy",
    "rule",
    "publication",
    "subscription",
    "event",
];

/// Objects whose DROP changes no name's meaning, or makes PostgreSQL analyse the statements that use them again.
const DROPS_NONE: [&str; 16] = [
    "table",
    "view",
    "materialized",
    "sequence",
    "database",
    "tablespace",
    "statistics",
    "trigger",
    "constraint",
    "default",
    "not",
    "policy",
    "rule",
    "publication",
    "subscription",
    "event",
];

/// Words of an ALTER that gives an object another name or schema, changes many objects, changes the type of a column, or
/// changes who may use a schema.
const MOVES: [&str; 8] = [
    "type",
    "rename",
    "schema",
    "extension",
    "family",
    "role",
    "user",
    "group",
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Verb {
    Other,
    Create,
    Alter,
    Drop,
}

/// [`Effects::NAMES`] if a statement, or a body in PL/pgSQL, may create, rename or move objects that other statements
/// name. Constants are not looked at.
pub(crate) fn effects(code: &[u8], backslashes: bool) -> Effects {
    match moves(Lexer::with_backslashes(code, backslashes)) {
        true => Effects::NAMES,
        false => Effects::NONE,
    }
}

fn moves(lexer: Lexer<'_>) -> bool {
    let mut verb = Verb::Other;
    let mut last = Token::Number;
    for token in lexer {
        let is = |list: &[&str]| list.iter().any(|word| token.is(word));
        // PostgreSQL checks the right to use a schema when it analyses a statement, and not again.
        if token == Token::Unterminated || is(&["import", "revoke"]) || last.is("commit") && token.is("prepared") {
            return true;
        }
        let begins = match () {
            () if token.is("create") => Verb::Create,
            () if token.is("alter") => Verb::Alter,
            () if token.is("drop") => Verb::Drop,
            () => Verb::Other,
        };
        match verb {
            _ if begins != Verb::Other => verb = begins,
            Verb::Create if is(&BEHIND_CREATE) => {}
            Verb::Create if is(&CREATES_NONE) => verb = Verb::Other,
            Verb::Drop if is(&DROPS_NONE) => verb = Verb::Other,
            Verb::Create | Verb::Drop => return true,
            Verb::Alter if is(&MOVES) => return true,
            Verb::Alter | Verb::Other => {}
        }
        last = token;
    }
    false
}

#[cfg(test)]
mod tests {
    use crate::{Effects, Language, effects, judge_body};

    #[test]
    fn what_may_change_the_meaning_of_names() {
        for text in [
            "create table tenant.orders (a int)",
            "CREATE UNLOGGED TABLE t AS SELECT 1",
            "create /* temp */ table t (a int)",
            "create or replace function f(int) returns int language sql as 'select 1'",
            "create view v as select 1",
            "create cast (a as b) without function",
            "create schema s create table t (a int)",
            "create extension hstore",
            "alter table t rename to orders",
            "alter table a.t set schema b",
            "alter operator family f using btree add operator 1 < (int, int)",
            "alter extension e update",
            "alter table t alter a type text",
            "alter table t alter column a set data type text using a::text",
            "alter type t alter attribute a type text",
            "alter table t drop column b",
            "do $$begin alter table t alter a type text; end$$",
            "drop function f(int)",
            "drop cast (a as b)",
            "create unique index on t (a)",
            "create index concurrently i on t (a)",
            "drop index i",
            "create role r",
            "alter role r noinherit",
            "alter group g drop user u",
            "drop role r",
            "drop owned by r",
            "revoke g from r",
            "REVOKE usage ON SCHEMA s FROM r",
            "import foreign schema s from server x into y",
            "commit prepared 'x'",
            "/* a */ COMMIT -- b\n PREPARED 'it''s';",
            "select 'a\\'; commit prepared 'x'",
            "begin; create table t (a int); commit",
            "do $$begin create table t (a int); end$$",
            "do $$begin execute 'create table t (a int)'; end$$",
            "do $$begin execute x; end$$",
            "explain analyze create table t as select 1",
        ] {
            assert!(effects(text.as_bytes()).intersects(Effects::NAMES), "{text}");
        }
        for text in [
            "create temp table t (a int)",
            "create local temporary view v as select 1",
            "create trigger t after insert on x execute function f()",
            "alter table t add column b int",
            "alter table t alter a set default 1",
            "drop table if exists t",
            "truncate t",
            "analyze t",
            "grant select on t to r",
            "insert into created values ('create table t')",
            "set search_path = a",
            "begin; insert into t values (1); commit",
            "do $$begin update t set a = 1; create temp table x (a int); end$$",
        ] {
            assert!(!effects(text.as_bytes()).intersects(Effects::NAMES), "{text}");
        }
    }

    #[test]
    fn what_a_body_may_do_to_names() {
        let judge = |language, body: &str| judge_body(language, body.as_bytes(), &[]).effects;
        assert!(judge(Language::Plpgsql, "begin create table t (a int); end").intersects(Effects::NAMES));
        assert!(judge(Language::Sql, "create table t (a int)").intersects(Effects::NAMES));
        assert!(judge(Language::Plpgsql, "begin execute a; end").intersects(Effects::NAMES));
        assert!(!judge(Language::Plpgsql, "begin insert into t values (1); end").intersects(Effects::NAMES));
        assert!(!judge(Language::Plpgsql, "begin create temp table t (a int); end").intersects(Effects::NAMES));
    }
}
