//! Texts that change settings.

use super::tests::check;
use super::*;

#[test]
fn settings() {
    let both = Effects::SETTINGS | Effects::RESETS;
    check(&[
        ("set a = 1", Effects::SETTINGS),
        ("SET SESSION a TO 1, 'x'", Effects::SETTINGS),
        ("/* */ set\n\"a\"=1", Effects::SETTINGS),
        ("set local.a = 1", Effects::SETTINGS),
        ("set transaction.a = 1", Effects::SETTINGS),
        ("set constraints.a to 1", Effects::SETTINGS),
        ("set transaction_isolation = 'serializable'", Effects::SETTINGS),
        ("set names 'utf8'", Effects::SETTINGS),
        ("set time zone 'Europe/Rome'", Effects::SETTINGS),
        ("set role none", Effects::SETTINGS),
        ("set session authorization x", Effects::SETTINGS),
        ("set session session authorization x", Effects::SETTINGS),
        (
            "set session characteristics as transaction read only",
            Effects::SETTINGS,
        ),
        ("set a from current", Effects::SETTINGS),
        ("select 1; set a = 1", Effects::SETTINGS),
        ("begin;set a = 1;commit", Effects::SETTINGS),
        ("select pg_catalog . SET_CONFIG ('a', '1', true)", Effects::SETTINGS),
        (
            "update pg_catalog.pg_settings set setting = '1' where name = 'work_mem'",
            Effects::SETTINGS | Effects::UNTOLD,
        ),
        (
            "with x as (select 1) update only \"pg_settings\" set setting = 1",
            Effects::SETTINGS | Effects::UNTOLD,
        ),
        (
            "explain analyze update pg_settings set setting = 1",
            Effects::SETTINGS | Effects::UNTOLD,
        ),
        ("update s.t set a = setting from pg_settings", Effects::SETTINGS),
        ("select set_limit(0.5)", Effects::SETTINGS | Effects::ROUTINES),
        ("reset a", both),
        ("reset all", both),
        ("reset role", both),
        ("reset session authorization", both),
        ("set a to default", both),
        ("set a=DEFAULT", both),
        ("set names", both),
        ("set names default", both),
        ("set time zone local", both),
        ("set time zone default", both),
        ("set session authorization default", both),
        ("select 1; reset a; select 2", both),
        ("set seed to 0.5", Effects::SETTINGS | Effects::SEED),
        ("set \"seed\" = 0.5", Effects::SETTINGS | Effects::SEED),
        ("set local seed = 0.5", Effects::LOCAL | Effects::SEED),
        ("begin; set local \"Seed\" to 0.5", Effects::LOCAL | Effects::SEED),
        (
            "select set_config('seed', '0.5', false)",
            Effects::SETTINGS | Effects::SEED,
        ),
        (
            "select set_config('SEED', '0.5', true)",
            Effects::SETTINGS | Effects::SEED,
        ),
        (
            "select set_config('se' || 'ed', '0.5', true)",
            Effects::SETTINGS | Effects::MAY_SEED,
        ),
        (
            "select set_config('{\"a.b\":1}' || x ->> 'a.b', '0.5', true)",
            Effects::SETTINGS | Effects::UNTOLD,
        ),
        (
            "select set_config('a.' || x, '0.5', true)",
            Effects::SETTINGS | Effects::MAY_SEED,
        ),
        (
            "select set_config('1.5' || '[\"seed\"]'::jsonb ->> 1, '0.5', true)",
            Effects::SETTINGS | Effects::UNTOLD,
        ),
        (
            "select set_config('' || $$seed$$ || '', '0.5', true)",
            Effects::SETTINGS | Effects::MAY_SEED,
        ),
        (
            "select set_config('' || $$app$$ || chr(46) || $$x$$ || '', '0.5', false)",
            Effects::SETTINGS | Effects::UNTOLD,
        ),
    ]);
    let all = effects(b"discard all");
    assert!(all.contains(both | Effects::ENDS | Effects::PREPARE | Effects::LISTEN));
}

#[test]
fn settings_whose_names_cannot_be_told() {
    for text in [
        "select set_config('app.' || 'x', '1', false)",
        "select set_config(lower('APP.X'), '1', false)",
        "select set_config(k, v, false) from (values ('app.x', '1')) t(k, v)",
        "select set_config(('app.x'), '1', false)",
        "select set_config('app.x'::varchar(5), '1', false)",
        "select set_config(e'app\\x2ex', '1', false)",
        "select set_config(u&'app!002ex' uescape '!', '1', false)",
        "select set_config('app.'\n'x', '1', false)",
        "select set_config(new_value => '1', setting_name => 'app.x', is_local => false)",
        "copy (select set_config(j->>'k', '1', false) from t) to stdout",
        "declare c cursor for select pg_catalog.\"set_config\" /* */ (k, v, false) from t",
        "explain analyze select set_config(k, v, b) from t",
        "create table x as select set_config(k, v, false) from t",
        "select query_to_xml('select 1', true, true, '')",
        "do $$begin perform set_config(n, '1', false); end$$",
        "do $$begin execute 'set ' || n || ' = 1'; end$$",
        "do language plperl 'x'",
        "execute_later p",
    ] {
        assert!(effects(text.as_bytes()).contains(Effects::UNTOLD), "{text}");
    }
    for text in [
        "select set_config('app.x', $1, false), set_config($2, $3, false), set_config($4::text, '', false)",
        "select set_config(k, v, true) from t",
        "select set_config('app.x'::text, (select a from t), false)",
        "select set_config(setting_name => 'a.b', new_value => '', is_local => false)",
        "do $$begin perform set_config('a.b', 'x', false); perform f(1); end$$",
        "do 'begin perform set_config(''a.b'', ''x'', false); end'",
        "set app.x = '1'",
    ] {
        assert!(!effects(text.as_bytes()).intersects(Effects::UNTOLD), "{text}");
    }
    // No probe shows what a block has loaded or seeded.
    assert!(effects(b"do $$begin load 'x'; perform setseed(0.5); end$$").contains(Effects::LOAD | Effects::SEED));
}
