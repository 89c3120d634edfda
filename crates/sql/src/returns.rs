//! Settings that a text resets to their startup values.

use crate::lexer::{Lexer, Token};
use crate::{Effects, Statement};

/// The settings that a statement resets to their startup values.
#[derive(Debug, Clone, PartialEq, Eq, pgweir_freeze::Freeze)]
pub enum Returns {
    /// Every setting (DISCARD ALL).
    All,
    /// Every setting except role and session_authorization (RESET ALL).
    AllButWho,
    /// The setting of this name. It may be one that a client cannot give at startup.
    One(Box<[u8]>),
    /// The settings that are reset after these changes. The statements of one Query make the changes in this order.
    Among(#[freeze(cycle)] Vec<Change>),
}

/// A change that one of several statements makes to settings.
#[derive(Debug, Clone, PartialEq, Eq, pgweir_freeze::Freeze)]
pub enum Change {
    /// A setting returns to its startup value.
    Returns(Returns),
    /// SET to a value.
    Sets(Box<[u8]>),
}

/// Whether a SET or RESET of `changed` changes the setting `name`. That of session_authorization changes the role, too.
fn names(changed: &[u8], name: &str) -> bool {
    let is = |name: &str| changed.eq_ignore_ascii_case(name.as_bytes());
    is(name) || name.eq_ignore_ascii_case(WHO[0]) && is(WHO[1])
}

impl Returns {
    /// The settings that a statement may reset to their startup values. A SET may do so too (TO DEFAULT).
    pub fn of(verdict: &Statement, text: &[u8]) -> Option<Returns> {
        match verdict {
            Statement::DiscardAll => Some(Returns::All),
            Statement::ResetAll => Some(Returns::AllButWho),
            Statement::Reset(name) => Some(Returns::One(name.clone())),
            Statement::Set(name) if ends_with_default(text) => Some(Returns::One(name.clone())),
            _ => None,
        }
    }

    /// The settings that a text of several statements may reset; `None` if the text may change settings in another way,
    /// too.
    pub fn among(text: &[u8]) -> Option<Returns> {
        let mut changes = Vec::new();
        for text in crate::statements(text)? {
            let verdict = crate::classify(text);
            match (Returns::of(&verdict, text), verdict) {
                (Some(_), _) | (None, Statement::Set(_)) if changes.len() == CHANGES_MAX => return None,
                (Some(returns), _) => changes.push(Change::Returns(returns)),
                (None, Statement::Set(name)) => changes.push(Change::Sets(name)),
                (None, Statement::Other)
                    if !crate::effects(text).intersects(Effects::SETTINGS.union(Effects::CODE)) => {}
                _ => return None,
            }
        }
        Some(Returns::Among(changes))
    }

    /// Whether this setting returns to its startup value.
    pub fn includes(&self, name: &str) -> bool {
        match self {
            Returns::All => true,
            Returns::AllButWho => !WHO.iter().any(|n| n.eq_ignore_ascii_case(name)),
            Returns::One(one) => names(one, name),
            Returns::Among(changes) => changes
                .iter()
                .rev()
                .find_map(|change| match change {
                    Change::Returns(returns) => returns.includes(name).then_some(true),
                    Change::Sets(set) => names(set, name).then_some(false),
                })
                .unwrap_or(false),
        }
    }
}

/// Settings that RESET ALL leaves (`GUC_NO_RESET_ALL`).
const WHO: [&str; 2] = ["role", "session_authorization"];

/// The most SET and RESET of one Query that are followed one by one. If there are more, the server is asked.
const CHANGES_MAX: usize = 64;

/// Whether the last word of a SET is DEFAULT or LOCAL.
fn ends_with_default(text: &[u8]) -> bool {
    let ends = |lexer: Lexer<'_>| {
        let last = lexer.filter(|token| *token != Token::Byte(b';')).last();
        last.is_some_and(|token| token.is("default") || token.is("local"))
    };
    Lexer::readings(text).all(ends)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_text_returns_to_its_startup_value() {
        let of = |text: &str| Returns::of(&crate::classify(text.as_bytes()), text.as_bytes());
        assert_eq!(of("reset all"), Some(Returns::AllButWho));
        assert_eq!(of("discard all;"), Some(Returns::All));
        assert_eq!(of("RESET DateStyle"), Some(Returns::One(b"datestyle"[..].into())));
        assert_eq!(
            of("set timezone to DEFAULT ;"),
            Some(Returns::One(b"timezone"[..].into()))
        );
        assert_eq!(of("set time zone local"), Some(Returns::One(b"timezone"[..].into())));
        assert_eq!(of("set timezone to 'default'"), None);
        assert_eq!(of("set search_path = tenant_default"), None);
        assert_eq!(of("set search_path = \"default\""), None);
        assert_eq!(of("set search_path = b -- default"), None);
        assert_eq!(
            of("set timezone to default -- x"),
            Some(Returns::One(b"timezone"[..].into()))
        );
        assert_eq!(of("select 1"), None);
        // Where backslashes escape, the last word is in the constant.
        assert!(!ends_with_default(br"set application_name to 'x\' default --'"));
    }

    #[test]
    fn the_role_returns_with_the_session_authorization() {
        let includes = |text: &str, name: &str| Returns::among(text.as_bytes()).map(|r| r.includes(name));
        assert_eq!(includes("reset session authorization", "role"), Some(true));
        assert_eq!(includes("reset role; set session authorization x", "role"), Some(false));
        assert_eq!(includes("reset role", "session_authorization"), Some(false));
    }

    #[test]
    fn the_last_of_several_statements_decides_about_a_setting() {
        let includes = |text: &str, name: &str| Returns::among(text.as_bytes()).map(|r| r.includes(name));
        let text = "reset datestyle; set work_mem = 1; select 1; reset timezone; set TimeZone to 'UTC'";
        assert_eq!(includes(text, "DateStyle"), Some(true));
        assert_eq!(includes(text, "work_mem"), Some(false));
        assert_eq!(includes(text, "TimeZone"), Some(false));
        assert_eq!(includes(text, "IntervalStyle"), Some(false));
        assert_eq!(includes("set a to 1; reset all", "a"), Some(true));
        assert_eq!(includes("set role a; reset all", "role"), Some(false));
        assert_eq!(includes("reset role; reset all", "role"), Some(true));
        assert_eq!(includes("reset a; begin", "a"), None);
        assert_eq!(includes("reset a; select set_config('a', 'b', false)", "a"), None);
        assert_eq!(includes("reset a; do $$begin end$$", "a"), None);
    }
}
