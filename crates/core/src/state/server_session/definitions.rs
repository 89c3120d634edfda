//! Requests on their way to a server that may change what code its database runs: see
//! [`crate::session::definitions`].

use super::ServerSession;
use pgweir_sql::{Outdated, Outdates};

/// Requests on their way that may outdate open sessions.
#[derive(Debug, pgweir_freeze::Freeze)]
pub(super) struct Outdating {
    /// Whose sessions.
    of: Outdated,
    /// Every role can send such a request with success.
    by_anyone: bool,
    /// A command tag has shown that roles have changed.
    is_proven: bool,
    /// There is only one such request, and this segment is a transaction of its statement alone.
    alone_in: Option<u64>,
}

impl ServerSession {
    /// A request that was sent may change what code the database runs, and the transaction has not ended.
    #[inline]
    pub(crate) fn has_definitions(&self) -> bool {
        self.defines
    }

    /// An unanswered request may commit such a change of code.
    #[inline]
    pub(crate) fn may_publish(&self) -> bool {
        self.publishes
    }

    /// A request that may change code is about to be sent in this segment; perhaps it outdates open sessions.
    pub(crate) fn defines(&mut self, outdates: Option<Outdates>, segment: u64) {
        self.defines = true;
        if let Some(Outdates {
            of,
            is_alone,
            by_anyone,
        }) = outdates
        {
            self.outdating = Some(match self.outdating.take() {
                Some(old) => Outdating {
                    of: old.of.and(of),
                    by_anyone: old.by_anyone | by_anyone,
                    is_proven: old.is_proven,
                    alone_in: None,
                },
                None => Outdating {
                    of,
                    by_anyone,
                    is_proven: false,
                    alone_in: is_alone.then_some(segment),
                },
            });
        }
    }

    /// The request that outdates sessions is not a transaction of its own: if it fails, that proves nothing.
    pub(crate) fn outdates_among_others(&mut self) {
        if let Some(outdating) = &mut self.outdating {
            outdating.alone_in = None;
        }
    }

    /// A command tag shows that a role was made, changed or dropped.
    pub(crate) fn roles_have_changed(&mut self) {
        if let Some(outdating) = &mut self.outdating {
            outdating.is_proven = true;
        }
    }

    /// While the transaction has definitions, a portal is being bound. `harmless`: its statement defines nothing and
    /// ends no block.
    pub(crate) fn binds_among_definitions(&mut self, portal: &[u8], harmless: bool) {
        self.harmless_portal = harmless.then(|| portal.into());
    }

    /// Whether this portal was bound last, and is harmless.
    pub(crate) fn is_harmless(&self, portal: &[u8]) -> bool {
        self.harmless_portal.as_deref() == Some(portal)
    }

    /// The next request may commit definitions. Returns whether none did so far.
    pub(crate) fn publishes(&mut self) -> bool {
        !std::mem::replace(&mut self.publishes, true)
    }

    /// A request that may have committed definitions is answered. `more`: the transaction, or a request behind it, may
    /// define more. `goes_on`: they may also commit definitions.
    pub(crate) fn definitions_answered(&mut self, more: bool, goes_on: bool) {
        self.publishes &= goes_on;
        self.defines = more;
        self.harmless_portal = self.harmless_portal.take().filter(|_| more);
    }

    /// A request that may create, rename or move objects that statements name is about to be sent.
    pub(crate) fn moves_names(&mut self) {
        self.moves_names = true;
    }

    /// A request that was sent may create, rename or move objects that statements name, and its transaction has not
    /// ended.
    #[inline]
    pub(crate) fn may_move_names(&self) -> bool {
        self.moves_names
    }

    /// The transaction has ended. Returns whether it may have moved names. `more`: requests behind it may move more.
    pub(crate) fn take_moved_names(&mut self, more: bool) -> bool {
        let moved = self.moves_names;
        self.moves_names &= more;
        moved
    }

    /// Whether each ReadyForQuery must be looked at, for what became of definitions and of names that may have moved.
    #[inline]
    pub(crate) fn changes_objects(&self) -> bool {
        self.defines | self.moves_names
    }

    /// A transaction has ended with this segment. Returns whose sessions may be outdated because of it, and whether they
    /// surely are, by something that not every role can do. `failed`: the segment was a Query, which has failed. `more`:
    /// requests behind it may outdate more.
    pub(crate) fn take_outdated(&mut self, segment: u64, failed: bool, more: bool) -> Option<(Outdated, bool)> {
        let outdating = self.outdating.take()?;
        let is_sure = outdating.is_proven && !outdating.by_anyone;
        match outdating.alone_in {
            // The segments before it are the pooler's own.
            Some(alone) if segment < alone => {
                self.outdating = Some(outdating);
                None
            }
            Some(alone) => (segment > alone || !failed).then_some((outdating.of, is_sure)),
            None => {
                let of = outdating.of.clone();
                self.outdating = more.then_some(outdating);
                Some((of, is_sure))
            }
        }
    }
}
