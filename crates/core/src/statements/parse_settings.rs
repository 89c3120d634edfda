//! The settings that a statement was parsed under.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The settings for the current and the session's role.
const WHO: [&str; 2] = ["role", "session_authorization"];

/// The setting for the schemas in which names are looked up.
pub(crate) const SEARCH_PATH: &str = "search_path";

/// The setting for the encoding of a client's texts and names.
pub(crate) const CLIENT_ENCODING: &str = "client_encoding";

/// Whether this is the name of client_encoding; case does not matter.
pub(crate) fn is_client_encoding(name: &str) -> bool {
    name.eq_ignore_ascii_case(CLIENT_ENCODING)
}

/// The values of the settings that change parsing. Statements parsed under equal values may be shared. The values of
/// shapes are interned, so usually equal ones are the same object.
#[derive(Debug, Clone, Eq, Default, pgweir_freeze::Freeze)]
pub(crate) struct ParseSettings {
    all: Arc<[(Arc<str>, Arc<str>)]>,
    /// A SET in front of the Parse may have changed them.
    uncertain: bool,
}

impl PartialEq for ParseSettings {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.is_surely(other) || self.uncertain == other.uncertain && self.all == other.all
    }
}

impl Hash for ParseSettings {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.all.hash(state);
    }
}

impl ParseSettings {
    /// The settings with these names and values.
    pub(crate) fn of(pairs: Arc<[(Arc<str>, Arc<str>)]>) -> Self {
        ParseSettings {
            all: pairs,
            uncertain: false,
        }
    }

    pub(crate) fn all(&self) -> &[(Arc<str>, Arc<str>)] {
        &self.all
    }

    /// These settings, as far as is known: a SET in front of the Parse, or code, may have changed them.
    pub(crate) fn behind_set(&self) -> Self {
        ParseSettings {
            all: self.all.clone(),
            uncertain: true,
        }
    }

    /// Whether a SET in front of the Parse may have changed them.
    pub(crate) fn are_uncertain(&self) -> bool {
        self.uncertain
    }

    /// Whether a shape or a statement has these settings.
    pub(crate) fn is_used(&self) -> bool {
        Arc::strong_count(&self.all) > 1
    }

    /// Names and values without the roles, because the pooler cannot parse under another role.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = &(Arc<str>, Arc<str>)> {
        let of_role = |name: &str| WHO.iter().any(|who| who.eq_ignore_ascii_case(name));
        self.all.iter().filter(move |(name, _)| !of_role(name))
    }

    /// The client_encoding of texts and names.
    pub(crate) fn encoding(&self) -> Option<&str> {
        let mut settings = self.all.iter();
        let encoding = settings.find(|(name, _)| is_client_encoding(name));
        encoding.map(|(_, value)| &**value)
    }

    /// Whether text may contain characters whose second byte looks like ASCII.
    pub(crate) fn hides_ascii(&self) -> bool {
        self.encoding().is_some_and(pgweir_sql::encoding_hides_ascii)
    }

    /// Whether both are the same object. If not, they may still be equal.
    #[inline]
    pub(crate) fn is_surely(&self, other: &ParseSettings) -> bool {
        Arc::ptr_eq(&self.all, &other.all) && self.uncertain == other.uncertain
    }

    /// Whether constants in a text are read the same way under both, with the same rights. search_path does not matter:
    /// PostgreSQL checks it itself whenever it uses a plan. The role it checks only if the plan depends on row security.
    pub(crate) fn reads_alike(&self, other: &ParseSettings) -> bool {
        let is_constant = |(name, _): &&(Arc<str>, Arc<str>)| !name.eq_ignore_ascii_case(SEARCH_PATH);
        let are_known = !self.uncertain && !other.uncertain;
        self == other
            || are_known
                && self
                    .all
                    .iter()
                    .filter(is_constant)
                    .eq(other.all.iter().filter(is_constant))
    }

    /// Whether functions whose plans were made under one of both have the same results under the other: see
    /// [`crate::session::function_plans`].
    pub(crate) fn plans_alike(&self, other: &ParseSettings) -> bool {
        let of_plans = |(name, _): &&(Arc<str>, Arc<str>)| pgweir_sql::is_read_under(name.as_bytes());
        self.is_surely(other) || self.all.iter().filter(of_plans).eq(other.all.iter().filter(of_plans))
    }

    #[cfg(test)]
    pub(crate) fn new<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        ParseSettings::of(pairs.into_iter().map(|(n, v)| (n.into(), v.into())).collect())
    }
}
