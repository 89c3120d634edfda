//! PL/pgSQL that goes on after a cancel.
//!
//! PostgreSQL's manual, "Trapping Errors": OTHERS matches every error except QUERY_CANCELED and ASSERT_FAILURE; these
//! two can be trapped by name. The name of an error's class, or its SQLSTATE, traps it as well.

use crate::bodies::Language;
use crate::effects::Effects;
use crate::known_names::words;

/// Names and SQLSTATEs that match a cancel: its own, and those of its class.
const NAMES: [&str; 4] = ["query_canceled", "operator_intervention", "57014", "57000"];

/// [`Effects::TRAPS_CANCEL`] if a body may trap a cancel. It counts even if the name is used otherwise, as in RAISE.
pub(crate) fn effects(language: Language, body: &[u8]) -> Effects {
    let has = |names: &[&str]| words(body).any(|word| names.iter().any(|n| word.eq_ignore_ascii_case(n.as_bytes())));
    // The SQLSTATE may be written with escapes.
    let is_escaped = || body.contains(&b'\\') && has(&["sqlstate"]);
    match language == Language::Plpgsql && (has(&NAMES) || is_escaped()) {
        true => Effects::TRAPS_CANCEL,
        false => Effects::NONE,
    }
}

#[cfg(test)]
mod tests {
    use crate::{Effects, Language, judge_body};

    fn traps(language: Language, handler: &str) -> bool {
        let body = format!("begin perform pg_sleep(1); return 'a'; exception when {handler} then return 'b'; end");
        let effects = judge_body(language, body.as_bytes(), &[]).effects;
        effects.contains(Effects::TRAPS_CANCEL)
    }

    #[test]
    fn a_cancel_is_trapped_by_its_name_its_class_and_their_numbers() {
        for handler in [
            "query_canceled",
            "others or Query_Canceled",
            "\"query_canceled\"",
            "operator_intervention",
            "sqlstate '57014'",
            "SQLSTATE'57000'",
            "sqlstate E'\\x357014'",
        ] {
            assert!(traps(Language::Plpgsql, handler), "{handler}");
        }
    }

    #[test]
    fn others_do_not_trap_it() {
        for handler in ["others", "division_by_zero", "sqlstate '22012'", "admin_shutdown"] {
            assert!(!traps(Language::Plpgsql, handler), "{handler}");
        }
        assert!(!traps(Language::Internal, "query_canceled"));
    }
}
