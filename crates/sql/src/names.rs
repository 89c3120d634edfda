//! Names that show what a text may do, wherever they are in it: functions that a pooler must know, and `pg_temp`.
//!
//! Names are searched for in all bytes of the text, also in comments and constants: the text of a query is often a
//! constant of another one (DO, EXECUTE, `query_to_xml()`).

use crate::calls::ONE_ARGUMENT;
use crate::effects::Effects;
use aho_corasick::automaton::Automaton;
use aho_corasick::dfa::DFA;
use aho_corasick::{Anchored, MatchKind};
use std::sync::LazyLock;

/// Found: TEMP or TEMPORARY after white space or a comment. It is an effect only after INTO or CREATE.
pub(crate) const TEMP_WORD: Effects = Effects::private(0);

/// Found: `pg_settings`. It is an effect only in an UPDATE, because its rule calls `set_config()`.
pub(crate) const SETTINGS_VIEW: Effects = Effects::private(1);

/// Found: `pg_temp`. It shows whether the session has a schema for temporary objects, except in a statement that
/// creates something in it.
pub(crate) const PG_TEMP: Effects = Effects::private(2);

/// Found: one of the functions with one argument that may run code. It is an effect only in a call, and a call of a
/// function with one argument may look like a column: `('select 1').ts_stat`.
pub(crate) const NOTATION: Effects = Effects::private(3);

/// The effects that an unknown name may have.
const ANY_NAME: Effects = Effects::SETTINGS
    .union(Effects::TEMPORARY)
    .union(Effects::LOCKS)
    .union(Effects::SEED)
    .union(Effects::SERVER_BOUND)
    .union(Effects::SEQUENCE)
    .union(Effects::ENDS)
    .union(Effects::DRAWS)
    .union(Effects::STATEMENTS)
    .union(Effects::TEMPORARY_SCHEMA)
    .union(Effects::CURRENT_SETTING)
    .union(SETTINGS_VIEW);

/// Parts of names, in lower case. Each is short enough to occur in all variants of a name, and long enough to occur in
/// no other name.
///
/// `pg_advisory_xact_lock()` and the other `_xact_` functions contain none of them: their locks end with the
/// transaction.
pub(crate) const NAMES: [(&str, Effects); 34] = [
    ("set_config", Effects::SETTINGS),
    // Function of pg_trgm; it sets pg_trgm.similarity_threshold.
    ("set_limit", Effects::SETTINGS),
    ("pg_settings", SETTINGS_VIEW),
    ("current_setting", Effects::CURRENT_SETTING),
    ("pg_temp", Effects::TEMPORARY.union(PG_TEMP)),
    // pg_my_temp_schema() and pg_is_other_temp_schema().
    ("temp_schema", Effects::TEMPORARY_SCHEMA),
    ("temp_buffers", Effects::TEMPORARY_SCHEMA),
    // Unless its argument is `false`: see SCHEMAS_FALSE.
    (SCHEMAS, Effects::TEMPORARY_SCHEMA),
    ("advisory_lock", Effects::LOCKS),
    ("advisory_unlock", Effects::LOCKS.union(Effects::ENDS)),
    ("setseed", Effects::SEED),
    ("currval", Effects::SEQUENCE),
    ("lastval", Effects::SEQUENCE),
    ("nextval", Effects::DRAWS),
    ("setval", Effects::DRAWS),
    ("prepared_statement", Effects::STATEMENTS),
    // pg_create_logical_replication_slot and pg_copy_logical_replication_slot, which may make temporary slots; also the
    // physical ones.
    ("cal_replication_slot", Effects::SERVER_BOUND),
    ("drop_replication_slot", Effects::ENDS),
    ("replication_origin_session", Effects::SERVER_BOUND.union(Effects::ENDS)),
    // The names until PostgreSQL 14, and since 15.
    ("start_backup", Effects::SERVER_BOUND),
    ("backup_start", Effects::SERVER_BOUND),
    ("stop_backup", Effects::ENDS),
    ("backup_stop", Effects::ENDS),
    ("dblink_connect", Effects::SERVER_BOUND),
    ("dblink_disconnect", Effects::ENDS),
    (ONE_ARGUMENT[0], NOTATION),
    (ONE_ARGUMENT[1], NOTATION),
    (ONE_ARGUMENT[2], NOTATION),
    (ONE_ARGUMENT[3], NOTATION),
    (ONE_ARGUMENT[4], NOTATION),
    (ONE_ARGUMENT[5], NOTATION),
    (ONE_ARGUMENT[6], NOTATION),
    (ONE_ARGUMENT[7], NOTATION),
    (ONE_ARGUMENT[8], NOTATION),
];

/// A function whose argument says whether the schema for temporary objects is shown. The argument may be written in any way.
const SCHEMAS: &str = "current_schemas";

/// The frequent call that does not show it.
const SCHEMAS_FALSE: [(&str, Effects); 1] = [("current_schemas(false)", Effects::NONE)];

/// `u&"`: its letters may be escapes, so it may stand for any name.
const ANY: [(&str, Effects); 1] = [("u&\"", ANY_NAME)];

/// TEMP, after the bytes that may stand between it and INTO.
const TEMP: [(&str, Effects); 7] = [
    (" temp", TEMP_WORD),
    ("\ttemp", TEMP_WORD),
    ("\ntemp", TEMP_WORD),
    ("\rtemp", TEMP_WORD),
    ("\x0btemp", TEMP_WORD),
    ("\x0ctemp", TEMP_WORD),
    ("/temp", TEMP_WORD),
];

/// All of them, in one automaton that ignores case.
static AUTOMATON: LazyLock<DFA> = LazyLock::new(|| {
    let patterns = patterns().map(|(name, _)| *name);
    DFA::builder()
        .ascii_case_insensitive(true)
        .match_kind(MatchKind::Standard)
        .build(patterns)
        .expect("a few short patterns")
});

fn patterns() -> impl Iterator<Item = &'static (&'static str, Effects)> {
    NAMES.iter().chain(&TEMP).chain(&ANY).chain(&SCHEMAS_FALSE)
}

/// The search for names in a text that may come in pieces.
#[derive(Debug, Clone)]
pub(crate) struct Search {
    state: aho_corasick::automaton::StateID,
    found: Effects,
    /// The calls of [`SCHEMAS`] that may show the schema.
    schemas: u32,
}

impl Search {
    pub(crate) fn new() -> Self {
        Search {
            state: AUTOMATON
                .start_state(Anchored::No)
                .expect("unanchored searches are built"),
            found: Effects::NONE,
            schemas: 0,
        }
    }

    /// Reads the next piece.
    pub(crate) fn feed(&mut self, text: &[u8]) {
        let automaton = &*AUTOMATON;
        for &b in text {
            self.state = automaton.next_state(Anchored::No, self.state, b);
            if automaton.is_special(self.state) && automaton.is_match(self.state) {
                for index in 0..automaton.match_len(self.state) {
                    let number = automaton.match_pattern(self.state, index).as_usize();
                    let Some((name, effects)) = patterns().nth(number) else {
                        continue;
                    };
                    match *name {
                        SCHEMAS => self.schemas = self.schemas.saturating_add(1),
                        _ if *name == SCHEMAS_FALSE[0].0 => self.schemas = self.schemas.saturating_sub(1),
                        _ => self.found |= *effects,
                    }
                }
            }
        }
    }

    /// The effects of the names found so far; includes [`TEMP_WORD`], [`SETTINGS_VIEW`] and [`PG_TEMP`].
    pub(crate) fn found(&self) -> Effects {
        match self.schemas {
            0 => self.found,
            _ => self.found | Effects::TEMPORARY_SCHEMA,
        }
    }
}

/// The effects of the names in this text; includes [`TEMP_WORD`], [`SETTINGS_VIEW`] and [`PG_TEMP`].
pub(crate) fn search(text: &[u8]) -> Effects {
    let mut search = Search::new();
    search.feed(text);
    search.found()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn functions_are_known_by_their_names_alone() {
        for (text, effects) in [
            ("pg_catalog.set_config", Effects::SETTINGS),
            ("\"pg_advisory_lock\"", Effects::LOCKS),
            ("PG_TRY_ADVISORY_LOCK_SHARED(1)", Effects::LOCKS),
            ("pg_advisory_unlock_all", Effects::LOCKS | Effects::ENDS),
            ("pg_advisory_xact_lock_shared", Effects::NONE),
            ("pg_try_advisory_xact_lock", Effects::NONE),
            ("pg_create_logical_replication_slot", Effects::SERVER_BOUND),
            ("pg_copy_physical_replication_slot", Effects::SERVER_BOUND),
            ("pg_replication_slots", Effects::NONE),
            (
                "pg_replication_origin_session_setup",
                Effects::SERVER_BOUND | Effects::ENDS,
            ),
            ("pg_replication_origin_xact_setup", Effects::NONE),
            ("pg_start_backup, pg_backup_start", Effects::SERVER_BOUND),
            ("dblink_connect_u", Effects::SERVER_BOUND),
            ("pg_temp_3", Effects::TEMPORARY | PG_TEMP),
            ("pg_my_temp_schema()", Effects::TEMPORARY_SCHEMA),
            ("CURRENT_SCHEMAS(TRUE)", Effects::TEMPORARY_SCHEMA),
            ("current_schemas(false), current_schema()", Effects::NONE),
            ("current_schemas(not false)", Effects::TEMPORARY_SCHEMA),
            ("current_schemas/**/(true)", Effects::TEMPORARY_SCHEMA),
            ("\"current_schemas\"(false)", Effects::TEMPORARY_SCHEMA),
            ("current_schemas(b), current_schemas(false)", Effects::TEMPORARY_SCHEMA),
            ("current_schemas(false), current_schemas(false)", Effects::NONE),
            ("attempt, x.temp", Effects::NONE),
            ("into/**/temporary", TEMP_WORD),
            ("u&\"x", ANY_NAME),
            ("u&'x'", Effects::NONE),
        ] {
            assert_eq!(search(text.as_bytes()), effects, "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_name_is_found_wherever_it_is_cut(which in 0..NAMES.len(), before in ".{0,9}", cut in 0..30usize) {
            let (name, effects) = NAMES[which];
            let text = [&before, name].concat().to_uppercase();
            let mut search = Search::new();
            let (one, two) = text.as_bytes().split_at(cut.min(text.len()));
            search.feed(one);
            search.feed(two);
            prop_assert!(search.found().contains(effects));
        }
    }
}
