//! Tests of names whose effects are known.

use super::*;
use proptest::prelude::*;

fn known(names: &[&str]) -> KnownNames {
    let mut known = KnownNames::new();
    for name in names {
        known.add(name.as_bytes(), Effects::SETTINGS, Effects::NONE);
    }
    known
}

#[test]
fn names_are_found_quoted_or_not_in_any_schema_and_as_whole_words_only() {
    let known = known(&["set_tenant", "MyFunc", "odd name", "größe_neu"]);
    for text in [
        "select set_tenant(1)",
        "SELECT public.Set_Tenant ( 1 )",
        "select \"app\".\"set_tenant\"(1)",
        "select myfunc(1)",
        "select \"odd name\"()",
        "select größe_neu()",
        "select 'set_tenant'::regproc",
        "select u&\"\\0073et_tenant\"()",
    ] {
        assert_eq!(known.effects_in(text.as_bytes()), Effects::SETTINGS, "{text}");
    }
    for text in [
        "",
        "select set_tenants()",
        "select reset_tenant()",
        "select my_func()",
        "insert into \"x\" values ('ä')",
    ] {
        assert_eq!(known.effects_in(text.as_bytes()), Effects::NONE, "{text}");
    }
}

#[test]
fn a_name_without_ascii_letters_may_be_in_any_text_that_has_such_letters() {
    let known = known(&["функция"]);
    assert_eq!(known.effects_in("select функция()".as_bytes()), Effects::SETTINGS);
    assert_eq!(known.effects_in(b"select \"\xd0\"()"), Effects::SETTINGS);
    assert_eq!(known.effects_in(b"select f()"), Effects::NONE);
}

/// Guards against a Turkish database in LATIN5, where PostgreSQL finds the table "gizli" by the name `gİzlİ`.
#[test]
fn a_letter_that_is_folded_to_ascii_may_stand_in_any_name() {
    let mut known = known(&["gizli"]);
    let text = b"insert into g\xddzl\xdd values (1)";
    assert_eq!(known.effects_in(text), Effects::NONE);
    known.fold_to_ascii();
    for text in [&text[..], "update pg_settİngs set setting = '1'".as_bytes()] {
        assert!(known.effects_in(text).contains(Effects::SETTINGS | calls::UNREAD));
    }
    for text in ["insert into t values ('İ')", "select \"İ\" from t", "select 1"] {
        assert_eq!(known.effects_in(text.as_bytes()), Effects::NONE, "{text}");
    }
}

#[test]
fn triggers_matter_to_statements_that_write() {
    let mut known = KnownNames::new();
    known.add(b"orders", Effects::NONE, Effects::LOCKS);
    assert_eq!(known.effects_in(b"select * from orders"), Effects::NONE);
    for text in [
        "INSERT INTO orders VALUES (1)",
        "with x as (delete from orders returning 1) table x",
    ] {
        assert_eq!(known.effects_in(text.as_bytes()), Effects::LOCKS, "{text}");
    }
    assert_eq!(known.len(), 1);
}

#[test]
fn what_is_unknown_is_in_every_text() {
    assert_eq!(
        KnownNames::everything(Effects::CODE).effects_in(b"select 1"),
        Effects::CODE
    );
    assert!(KnownNames::new().is_empty());
}

#[test]
fn whoever_calls_a_routine_that_passes_a_name_on_names_the_setting() {
    let mut known = KnownNames::new();
    known.add_passing(b"set_ctx", 1);
    known.add_passing(b"other way", 2);
    let of = |text: &str| known.passed_in(text.as_bytes());
    let named = |names: &[&str], parameters: &[u16]| Passed {
        names: names.iter().map(|n| (*n).into()).collect(),
        parameters: parameters.to_vec(),
        untold: false,
    };
    assert_eq!(of("select set_ctx('App.X', lower(y))"), named(&["app.x"], &[]));
    assert_eq!(of("select public.set_ctx($2::text, $1), abs(1)"), named(&[], &[2]));
    assert_eq!(
        of("select set_ctx('a.b', '1'), \"other way\"(f(1, 2), 'c.d')"),
        named(&["a.b", "c.d"], &[])
    );
    for text in [
        "select set_ctx('a.' || 'b', '1')",
        "select set_ctx(k, v) from t",
        "do 'begin perform set_ctx(''a.b'', x); end'",
        "select set_ctx('a.b', '1'), v from set_ctx",
        "select \"other way\"('a.b')",
        "select set_ctx(value => 'x', name => 'a.b')",
        "select set_ctx('a\\x', '1')",
    ] {
        assert!(of(text).untold, "{text}");
    }
}

proptest! {
    /// If a name is missed, session state is lost.
    #[test]
    fn no_name_slips_through(name in "[ -~äß]{1,63}", before in "([ -~]{0,9}[ .\"(])?", after in "[ .\"(,]?", upper: bool) {
        prop_assume!(name.len() <= WORD_BYTES_MAX);
        let known = known(&[&name]);
        let quoted = name.replace('"', "\"\"");
        let text = format!("{before}\"{quoted}\"{after}");
        let text = if upper { text.to_ascii_uppercase() } else { text };
        prop_assert!(known.effects_in(text.as_bytes()).contains(Effects::SETTINGS), "{}", text);
    }
}

/// Guards against one function that keeps the servers of all clients, whatever they do.
#[test]
fn an_object_whose_name_is_a_key_word_is_not_every_text_s() {
    let mut known = KnownNames::new();
    known.add_object(b"select", true, Effects::LOCKS, Effects::NONE);
    known.add_object(b"update", false, Effects::CODE, Effects::NONE);
    known.add_passing(b"begin", 1);
    assert_eq!(known.effects_in(b"select 1"), Effects::NONE);
    assert_eq!(known.effects_in(b"begin"), Effects::NONE);
    assert_eq!(known.effects_in(b"begin; select s.select(1)"), Effects::LOCKS);
    assert_eq!(known.effects_in(b"table update"), Effects::CODE);
    assert_eq!(known.effects_in(b"select \"begin\"('a.b')"), Effects::UNTOLD);
    assert_eq!(
        known.effects_in(b"select u&\"s\\0065lect\"()"),
        Effects::LOCKS | Effects::CODE | Effects::UNTOLD
    );
}
