//! The settings that a statement was parsed under.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The setting for the current role.
const ROLE: &str = "role";

/// The setting for the encoding of a client's texts and names.
pub(crate) const CLIENT_ENCODING: &str = "client_encoding";

/// The values of the settings that change parsing. Statements parsed under equal values may be shared. The values of
/// shapes are interned, so usually equal ones are the same object.
#[derive(Debug, Clone, Eq, Default, pgweir_freeze::Freeze)]
pub(crate) struct ParseSettings(Arc<[(Arc<str>, Arc<str>)]>);

impl PartialEq for ParseSettings {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.is_surely(other) || self.0 == other.0
    }
}

impl Hash for ParseSettings {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl ParseSettings {
    /// The settings with these names and values.
    pub(crate) fn of(pairs: Arc<[(Arc<str>, Arc<str>)]>) -> Self {
        ParseSettings(pairs)
    }

    pub(crate) fn all(&self) -> &[(Arc<str>, Arc<str>)] {
        &self.0
    }

    /// Whether something else has these settings, too.
    pub(crate) fn is_used(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    /// Names and values without the role, because the pooler cannot parse under another role.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = &(Arc<str>, Arc<str>)> {
        self.0.iter().filter(|(name, _)| !name.eq_ignore_ascii_case(ROLE))
    }

    /// The client_encoding of texts and names.
    pub(crate) fn encoding(&self) -> Option<&str> {
        let mut settings = self.0.iter();
        let encoding = settings.find(|(name, _)| name.eq_ignore_ascii_case(CLIENT_ENCODING));
        encoding.map(|(_, value)| &**value)
    }

    /// Whether text may contain characters whose second byte looks like ASCII.
    pub(crate) fn hides_ascii(&self) -> bool {
        self.encoding().is_some_and(pgweir_sql::encoding_hides_ascii)
    }

    /// Whether both are the same object. If not, they may still be equal.
    #[inline]
    pub(crate) fn is_surely(&self, other: &ParseSettings) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Whether constants in a text are read the same way under both. search_path and role, which determine what names
    /// mean, do not matter: PostgreSQL checks them itself whenever it uses a plan.
    pub(crate) fn reads_alike(&self, other: &ParseSettings) -> bool {
        let is_constant = |(name, _): &&(Arc<str>, Arc<str>)| {
            let of_names = ["search_path", ROLE];
            !of_names.iter().any(|n| n.eq_ignore_ascii_case(name))
        };
        self == other || self.0.iter().filter(is_constant).eq(other.0.iter().filter(is_constant))
    }

    /// Whether functions whose plans were made under one of both have the same results under the other: see
    /// [`crate::session::function_plans`].
    pub(crate) fn plans_alike(&self, other: &ParseSettings) -> bool {
        let of_plans = |(name, _): &&(Arc<str>, Arc<str>)| pgweir_sql::is_read_under(name.as_bytes());
        self.is_surely(other) || self.0.iter().filter(of_plans).eq(other.0.iter().filter(of_plans))
    }

    #[cfg(test)]
    pub(crate) fn new<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        ParseSettings(pairs.into_iter().map(|(n, v)| (n.into(), v.into())).collect())
    }
}
