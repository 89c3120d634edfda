//! Random bytes, and statements with others before and after them.

use super::*;
use proptest::prelude::*;

/// Statements whose effects follow from their verb; any whole statement may stand before them.
const TELLING: [(&str, Effects); 6] = [
    ("set a = 1", Effects::SETTINGS),
    ("listen x", Effects::LISTEN),
    ("create temp table t ()", Effects::TEMPORARY),
    ("select 1 into temp t", Effects::TEMPORARY),
    ("select pg_advisory_lock(1)", Effects::LOCKS),
    ("declare c cursor with hold for select 1", Effects::CURSORS),
];

fn whole_statement() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "select 1",
        "select ';'",
        "select '\\'';'",
        "select e'\\';'",
        "select $a$ ; $b$ ; $a$",
        "select \"a;\"\"\"",
        "select (1) /* ; /* ' */ */ -- ;'\n",
        "create function f() returns int begin atomic select case when true then 1 end; end",
        "create rule r as on insert to t do (select 1; select 2)",
        "insert into t values (1, '--')",
        "",
    ])
    .prop_map(String::from)
}

proptest! {
    #[test]
    fn any_bytes_are_survived(text in prop::collection::vec(any::<u8>(), 0..60)) {
        effects(&text);
        crate::classify(&text);
        crate::hidden_settings(&text);
        crate::setting_parameters(&text);
    }

    #[test]
    fn any_sql_like_text_is_survived(text in "(set|reset|set_config|local|e'|'|\"|\\$a\\$|\\$\\$|u&\"|/\\*|\\*/|--|\n|;|\\\\|\\(|\\)|,|=|to|a\\.b| |\\$1){0,24}") {
        effects(text.as_bytes());
        crate::classify(text.as_bytes());
        crate::hidden_settings(text.as_bytes());
        crate::setting_parameters(text.as_bytes());
    }

    #[test]
    fn nothing_in_front_hides_a_statement(
        front in prop::collection::vec(whole_statement(), 0..4),
        which in 0..TELLING.len(),
        back in whole_statement(),
        upper: bool,
    ) {
        let (telling, expected) = TELLING[which];
        let telling = if upper { telling.to_ascii_uppercase() } else { telling.to_string() };
        let text = format!("{};{telling};{back}", front.join(";"));
        prop_assert!(effects(text.as_bytes()).contains(expected), "{}", text);
    }

    /// The quick look and the full reading agree.
    #[test]
    fn the_quick_look_misses_nothing(text in "(select |insert |update |with )[a-zA-Z_&\"'(); =]{0,30}(into temp t|set_config|u&\"a\"|; set a = 1)?") {
        let quick = effects(text.as_bytes());
        // After a comment in parentheses the quick look is not used.
        let long = effects(format!("(/**/{text}").as_bytes());
        if quick.is_empty() {
            prop_assert!(!long.intersects(Effects::LOCKS | Effects::SEED | Effects::TEMPORARY), "{}", text);
        }
    }
}
