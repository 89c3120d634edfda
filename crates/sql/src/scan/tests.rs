//! Corner cases of the grammar, one line each.

use super::*;
use crate::calls::UNREAD;

/// The tests of `read_under` look at [`Effects::READING`], those of `moved_names` at [`Effects::NAMES`].
pub(super) fn check(cases: &[(&str, Effects)]) {
    for (text, expected) in cases {
        let [found, expected] =
            [effects(text.as_bytes()), *expected].map(|effects| effects.without(Effects::READING | Effects::NAMES));
        assert_eq!(found, expected, "{text}");
    }
}

/// Guards against a statement that needs an action of the pooler being sent to a server like any other.
#[test]
fn nothing_that_is_more_than_rows_is_plain() {
    for text in [
        "select 1",
        "SELECT abalance FROM pgbench_accounts WHERE aid = 1;",
        "insert into t values ('a')",
    ] {
        assert!(is_plain(text.as_bytes()), "{text}");
    }
    for text in [
        "select pg_terminate_backend(1073741825)",
        "SELECT pg_cancel_backend(1073741825);",
        "select pg_catalog.pg_terminate_backend(1073741825)",
        "select currval('s')",
        "select set_config('a.b', 'c', false)",
        "select 1; select 2",
        "begin",
        "commit",
        "listen a",
        "discard all",
        "drop database a",
        "do $$begin end$$",
        "",
    ] {
        assert!(!is_plain(text.as_bytes()), "{text}");
    }
}

#[test]
fn what_fetches_from_a_cursor_belongs_to_its_session() {
    for text in [
        "FETCH 1 from c",
        " /* x */ fetch c",
        "move all c",
        "Execute e",
        "explain execute e",
    ] {
        assert!(crate::belongs_to_session(text.as_bytes()), "{text}");
    }
    for text in ["select fetch from c", "", "1", "prepare e as select 1"] {
        assert!(!crate::belongs_to_session(text.as_bytes()), "{text}");
    }
}

#[test]
fn ordinary_statements_have_none() {
    for text in [
        "",
        ";",
        "SELECT abalance FROM pgbench_accounts WHERE aid = 12345;",
        "  select 1",
        "-- set x = 1\nselect 1",
        "(select 1)",
        "select 'set a = 1; reset all'",
        "select \"temp\" from attempts, templates; select $$;listen x$$",
        "insert into temp values (1)",
        "with x as (insert into temp values (1) returning 1) select 1",
        "insert into t values (1) on conflict (a) do update set a = 1",
        "update t set a = default",
        "merge into temp using s on true when matched then update set a = 1",
        "select * from pg_settings",
        "delete from t",
        "begin isolation level serializable read only",
        "start transaction",
        "commit and chain",
        "end",
        "savepoint a",
        "release a",
        "prepare transaction 'x'",
        "commit prepared 'x'",
        "set transaction isolation level serializable",
        "set transaction snapshot 'x'",
        "set constraints all deferred",
        "alter table t set (fillfactor = 10)",
        "alter system set work_mem = '1MB'",
        "create table t (temp int, local text)",
        "declare c cursor for select 1",
        "declare c cursor without hold for select hold from t with x",
        "fetch all in c",
        "move c",
        "notify x, 'y'",
        "copy t from stdin",
        "explain analyze select 1",
        "truncate t",
        "lock table t",
        "vacuum",
        "grant select on t to x",
        "comment on table t is 'reset all'",
        "show all",
        "values (1)",
        "table t",
        "select pg_advisory_xact_lock(1), pg_try_advisory_xact_lock_shared(2)",
        "1 set",
        "'set'",
        "\"set\" a = 1",
    ] {
        assert_eq!(
            effects(text.as_bytes()).without(Effects::NAMES),
            Effects::NONE,
            "{text}"
        );
    }
}

#[test]
fn text_in_which_ascii_may_be_half_a_character_is_told() {
    for name in [
        "SJIS",
        "SHIFT_JIS_2004",
        "BIG5",
        "GBK",
        "GB18030",
        "UHC",
        "JOHAB",
        "win932",
        "Windows-949",
        "mskanji",
        "",
    ] {
        assert!(encoding_hides_ascii(name), "{name}");
    }
    for name in [
        "UTF8",
        "utf-8",
        "'unicode'",
        "SQL_ASCII",
        "LATIN1",
        "WIN1252",
        "KOI8R",
        "EUC_JP",
        "iso_8859_5",
    ] {
        assert!(!encoding_hides_ascii(name), "{name}");
    }
    assert!(may_hide_ascii(b"select e'\x95\x5c', 1") && may_hide_ascii(b"\x81\x30\x81\x30"));
    assert!(!may_hide_ascii(b"select 'abc\\'") && !may_hide_ascii("select 'ä', 'ö' -- ü".as_bytes()));
}

#[test]
fn what_makes_code_is_told() {
    check(&[
        (
            "create function f() returns int language sql set work_mem = '1MB' as 'select 1; set x = 1'",
            Effects::DEFINES,
        ),
        (
            "create function f() returns int begin atomic select 1; select 2; end",
            Effects::DEFINES,
        ),
        (
            "create table t (a text default query_to_xml('', true, true, '')::text)",
            Effects::DEFINES | UNREAD,
        ),
        ("insert into t values ('create view v'); select 1", Effects::NONE),
        ("do $$begin execute 'cre' || x; end$$", Effects::DEFINES | UNREAD),
        ("do e'begin \\x65xecute x; end'", Effects::DEFINES | UNREAD),
        (
            "create rule r as on insert to t do also (notify x; select 1)",
            Effects::DEFINES,
        ),
        (
            "create trigger t after insert on x for each row execute function f()",
            Effects::DEFINES,
        ),
        (
            "select 1; create view v as select set_config('a', 'b', false)",
            Effects::DEFINES | Effects::SETTINGS,
        ),
        (
            "do $$begin create function f() returns int return 1; listen x; end$$",
            Effects::DEFINES | Effects::CODE,
        ),
        (
            "create function f() returns int language c as 'a', 'b'",
            Effects::DEFINES | Effects::NATIVE,
        ),
    ]);
}

#[test]
fn objects_locks_and_the_rest() {
    check(&[
        ("create temp table t (a int)", Effects::TEMPORARY),
        ("CREATE TEMPORARY SEQUENCE s", Effects::TEMPORARY),
        ("create local temp table t (a int) on commit drop", Effects::TEMPORARY),
        ("create global temporary table t (a int)", Effects::TEMPORARY),
        ("create or replace temp view v as select 1", Effects::TEMPORARY),
        ("create temp recursive view v (a) as select 1", Effects::TEMPORARY),
        (
            "create function pg_temp.f() returns int return 1",
            Effects::TEMPORARY | Effects::DEFINES,
        ),
        ("create temperature", Effects::DEFINES),
        ("select 1 into temp t", Effects::TEMPORARY),
        ("select 1 into/**/temp\"t\"", Effects::TEMPORARY),
        ("select 1 as a into local temporary table t", Effects::TEMPORARY),
        (
            "with x as (select 1) select * into temporary t from x",
            Effects::TEMPORARY,
        ),
        ("(select 1 into temp t)", Effects::TEMPORARY),
        ("explain analyze create temp table t as select 1", Effects::TEMPORARY),
        ("select pg_advisory_lock(1)", Effects::LOCKS),
        ("select \"pg_try_advisory_lock_shared\"(1, 2)", Effects::LOCKS),
        ("select pg_advisory_unlock(1)", Effects::LOCKS | Effects::ENDS),
        ("declare c cursor with hold for select 1", Effects::CURSORS),
        (
            "declare \"with\" binary insensitive no scroll cursor with hold for select 1",
            Effects::CURSORS,
        ),
        ("listen x", Effects::LISTEN),
        ("unlisten *", Effects::LISTEN | Effects::ENDS),
        ("prepare a as select 1", Effects::PREPARE),
        ("prepare transaction as select 1", Effects::PREPARE),
        ("prepare transaction (int) as select $1", Effects::PREPARE),
        ("execute a(1)", Effects::PREPARE),
        ("explain (analyze) execute a", Effects::PREPARE),
        ("create table t as execute a", Effects::PREPARE | Effects::DEFINES),
        (
            "create temp table if not exists t (a) with (fillfactor=10) as execute a",
            Effects::PREPARE | Effects::TEMPORARY | Effects::DEFINES,
        ),
        ("deallocate a", Effects::PREPARE | Effects::ENDS),
        ("do $$begin end$$", Effects::CODE),
        (
            "do $$begin perform set_config('a', 'b', false); end$$",
            Effects::CODE | Effects::SETTINGS,
        ),
        (
            "do 'begin execute ''select pg_advisory_lock(1)''; end'",
            UNREAD | Effects::LOCKS | Effects::DEFINES,
        ),
        ("call p()", Effects::CODE | Effects::ROUTINES),
        ("select p()", Effects::ROUTINES),
        ("load 'plperl'", Effects::LOAD),
        ("alter role x set work_mem = '1MB'", Effects::DEFINES),
        ("alter database d reset all", Effects::DEFINES),
        ("select setseed(0.1)", Effects::SEED),
        ("select currval('s')", Effects::SEQUENCE),
        ("select lastval()", Effects::SEQUENCE),
        ("select nextval('s')", Effects::DRAWS),
        ("insert into t values (SetVal('s', 1))", Effects::DRAWS),
        ("select * from pg_prepared_statements", Effects::STATEMENTS),
        (
            "select pg_create_physical_replication_slot('a', false, true)",
            Effects::SERVER_BOUND,
        ),
        ("select pg_backup_start('x')", Effects::SERVER_BOUND),
        ("select dblink_connect('x')", Effects::SERVER_BOUND | Effects::ROUTINES),
        ("drop table t", Effects::ENDS),
        ("discard temp", Effects::ENDS),
        ("close c", Effects::ENDS),
        ("rollback to a", Effects::ENDS),
        ("abort", Effects::ENDS),
        ("begin; rollback", Effects::ENDS),
    ]);
}

/// A statement of a later PostgreSQL may do anything.
#[test]
fn unknown_verbs_may_do_anything() {
    assert_eq!(effects(b"unheard of"), Effects::ALL);
    assert_eq!(effects(b"averyveryverylongword"), Effects::ALL);
}

/// A setting of the session decides what is inside a string, so both readings count.
#[test]
fn both_readings_of_a_backslash_count() {
    check(&[
        (r"select '\'; set a = 1; --'", Effects::SETTINGS),
        (r"select '\''; set a = 1; --'", Effects::SETTINGS),
        (r"select e'\'; set a = 1; --'", Effects::NONE),
        (r"select 'a\b'; select 1", Effects::NONE),
        ("select e'a'\n'\\'; set a = 1; --'", Effects::NONE),
    ]);
}

/// In U&"" a name can be written in digits.
#[test]
fn names_in_unicode_escapes_may_be_any() {
    assert!(effects(br#"select U&"set\005fconfig"('a', 'b', false)"#).contains(Effects::SETTINGS | Effects::LOCKS));
    assert!(effects(br#"set U&"\0061" = 1"#).contains(Effects::SETTINGS));
}

#[test]
fn a_function_called_begin_hides_nothing() {
    check(&[(
        "create function begin() returns int return 1; set a = 1",
        Effects::SETTINGS | Effects::DEFINES,
    )]);
}

/// Guards against work that doubles with each level, and against a stack that overflows.
#[test]
fn code_within_code_is_read_one_level_deep() {
    for (opens, quotes) in [
        ("do ", "'".repeat(4096)),
        ("begin execute ", String::new()),
        ("create function f() returns int language sql as ", "'".repeat(4096)),
        (
            "begin create function f() returns int language plpgsql as ",
            String::new(),
        ),
    ] {
        let levels = 2000;
        let mut text = quotes;
        for level in 0..levels {
            text = format!("{opens}$a{level}${text}$a{level}$");
        }
        let text = format!("do $x${text}$x$");
        assert!(effects(text.as_bytes()).contains(Effects::CODE), "{}", &text[..60]);
    }
}

/// Guards against a word that is not seen because a dollar quote touches it.
#[test]
fn dollar_quotes_hide_no_word() {
    let text = "do $x$begin execute $q$create view v as select 1$q$; end$x$";
    assert!(effects(text.as_bytes()).contains(Effects::DEFINES));
    let text =
        "do $x$begin execute $q$create view v as select set_config($w$app.tenant$w$,$w$evil$w$,false)$q$; end$x$";
    assert!(effects(text.as_bytes()).contains(Effects::DEFINES));
}
