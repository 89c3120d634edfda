//! A statement that one server holds.

use crate::statements::held::Moment;
use crate::statements::parameter_types::Types;
use crate::statements::prepared::Statement;
use crate::statements::rows::Rows;
use std::sync::Arc;

/// A statement on a server.
#[derive(Debug, pgweir_freeze::Freeze)]
pub(crate) struct HeldStatement {
    pub(super) statement: Arc<Statement>,
    /// The latest moment at which the plan is known to give the statement's rows.
    pub(super) good: Moment,
    /// When the copy was last used. When the server has answered that use without an error, `good` may become this
    /// moment.
    pub(super) used: Moment,
    /// When the copy was prepared.
    pub(super) parsed: Moment,
    /// The types of its parameters, if its statement leaves one open and they are known.
    pub(super) types: Option<Types>,
    pub(super) rows: Option<Rows>,
    /// The copy must be closed and prepared again before its next use.
    pub(super) outdated: bool,
    /// An internal Describe of the copy has not been answered.
    pub(super) asked: bool,
    /// The copy was prepared while its client had temporary objects, and may refer to them.
    pub(super) beside_temporary: bool,
}

impl HeldStatement {
    /// Whether a client that relies on these types may use the copy; `None` if the copy's types are not known.
    #[inline]
    pub(crate) fn has_types(&self, types: &Types) -> Option<bool> {
        match &self.types {
            Some(known) => Some(known == types),
            None if *self.statement.types == *types.bytes() => Some(true),
            None => None,
        }
    }

    /// The copy is about to be used, at this moment.
    #[inline(always)]
    pub(crate) fn is_used(&mut self, now: Moment) {
        self.used = now;
    }

    /// Whether an internal Describe of the copy has not been answered.
    #[inline(always)]
    pub(crate) fn is_asked(&self) -> bool {
        self.asked
    }

    /// Whether the copy must be prepared again before a use by a client for whom names came to mean other objects at
    /// the moment `names`, on a server whose statements are `doubted`.
    #[inline(always)]
    pub(crate) fn is_outdated(&self, doubted: Moment, names: Moment) -> bool {
        self.outdated || (self.good < doubted || self.parsed < names) && !self.stays()
    }

    /// Whether the statement exists only as this copy: the pooler does not know under which settings the server has
    /// read its constants, so it cannot prepare the statement again. If code has replaced the copy, the client would
    /// find the replacement on a direct connection, too.
    #[cold]
    pub(crate) fn stays(&self) -> bool {
        self.statement.settings.are_uncertain()
    }

    /// Whether the plan is known to have given the statement's rows at this moment or later. A copy that stays is what
    /// its client has prepared: if its rows have changed since, the server itself refuses it.
    #[inline(always)]
    pub(crate) fn is_good_since(&self, moment: Moment) -> bool {
        self.good >= moment || self.stays()
    }

    #[inline(always)]
    pub(crate) fn rows(&self) -> Option<Rows> {
        self.rows
    }
}
