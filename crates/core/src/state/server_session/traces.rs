//! What clients leave on a server: cleanup that it needs, values of sequences, custom settings.

use super::ServerSession;
use crate::base::ids::ClientId;
use crate::base::pin_reason::Cleanup;
use crate::state::client_session::ClientSession;
use crate::state::sequences::Remembered;
use pgweir_sql::Effects;

/// The most names of custom settings that are kept for one server. Further ones may be noticed by other clients.
const CUSTOM_NAMES_MAX: usize = 1024;

/// Cleanup.
impl ServerSession {
    /// The cleanup that the server needs before another client gets it.
    #[inline]
    pub(crate) fn cleanup(&self) -> Cleanup {
        self.cleanup
    }

    /// The server needs at least this cleanup before another client gets it.
    pub(crate) fn needs(&mut self, cleanup: Cleanup) {
        self.cleanup = self.cleanup.max(cleanup);
    }

    /// The cleanup is being done, or it has been done. Returns what it is.
    pub(crate) fn take_cleanup(&mut self) -> Cleanup {
        std::mem::replace(&mut self.cleanup, Cleanup::Nothing)
    }

    /// The plans of functions are discarded. Any other cleanup is still to be done.
    pub(crate) fn plans_are_discarded(&mut self) {
        if self.cleanup == Cleanup::Plans {
            self.cleanup = Cleanup::Nothing;
        }
    }

    /// Functions may keep plans whose constants were read under other settings than the session has at the end of its
    /// transaction: see [`crate::session::function_plans`].
    #[cold]
    pub(crate) fn keeps_foreign_plans(&mut self) {
        self.cleanup = self.cleanup.max(Cleanup::Plans);
    }

    /// The server may run code that is not known. Its settings are reset before another client gets it.
    #[cold]
    pub(crate) fn runs_unknown_code(&mut self) {
        self.may_set(Effects::CODE);
        self.cleanup = self.cleanup.max(Cleanup::Settings);
    }

    /// Whether the server has run code that was not known, since it was last cleaned.
    pub(crate) fn has_run_unknown_code(&self) -> bool {
        self.cleanup >= Cleanup::Settings
    }

    /// In session pooling: the client leaves state that only the end of the connection undoes.
    pub(crate) fn will_keep_traces(&mut self) {
        self.leaves_traces = true;
    }

    /// Whether, in session pooling, the client has left state that only the end of the connection undoes.
    #[inline]
    pub(crate) fn leaves_traces(&self) -> bool {
        self.leaves_traces
    }
}

/// Clients, one after the other, and their values of sequences.
impl ServerSession {
    /// A client gets the server. Returns the client that had the server before,
    /// unless the same client had it and has been on no other server since.
    #[inline(always)]
    pub(crate) fn visit(&mut self, id: ClientId, visitor: &mut ClientSession) -> Option<ClientId> {
        self.visited_anew = !self.was_last_visited_by(id, visitor.visits());
        if !self.visited_anew {
            return None;
        }
        self.last_visit = visitor.begins_visit();
        let before = self.last_client.replace(id);
        if before.is_some() {
            self.remembered = Remembered::OfStrangers;
        }
        before
    }

    /// Whether this client had the server last and has been on no other server since.
    #[inline]
    pub(crate) fn was_last_visited_by(&self, id: ClientId, visits: u32) -> bool {
        self.last_client == Some(id) && self.last_visit == visits
    }

    /// The present client had another server before this one.
    pub(crate) fn visited_anew(&self) -> bool {
        self.visited_anew
    }

    /// The present client goes back to the server that it had before. This server is treated as if the client had not
    /// had it.
    pub(crate) fn visit_is_undone(&mut self) {
        self.last_client = None;
    }

    /// Whether the server may remember values of sequences that are not its client's.
    #[inline]
    pub(crate) fn is_stranger(&self) -> bool {
        self.remembered != Remembered::OfClient
    }

    /// DISCARD SEQUENCES is being sent.
    pub(crate) fn forgets_sequences(&mut self) {
        self.remembered = Remembered::Forgetting;
    }

    /// DISCARD SEQUENCES has been sent and not been confirmed.
    pub(crate) fn is_forgetting(&self) -> bool {
        self.remembered == Remembered::Forgetting
    }

    /// DISCARD SEQUENCES was refused or ignored.
    pub(crate) fn has_not_forgotten(&mut self) {
        self.remembered = Remembered::OfStrangers;
    }

    /// The server has confirmed DISCARD SEQUENCES. Returns whether it was sent by the pooler.
    pub(crate) fn has_forgotten(&mut self) -> bool {
        std::mem::replace(&mut self.remembered, Remembered::OfClient) == Remembered::Forgetting
    }

    /// The server is reserved for its last client because of that client's values of sequences.
    #[inline]
    pub(crate) fn is_claimed(&self) -> bool {
        self.claimed
    }

    /// The client uses sequences: the server is reserved for it.
    pub(crate) fn claim(&mut self) {
        self.claimed = true;
    }

    /// A client was linked to the server. `by_all`: every client of the pool reserves its server. Otherwise the
    /// server stays reserved only for the client that has reserved it.
    #[inline]
    pub(crate) fn claim_on_link(&mut self, by_all: bool) {
        self.claimed = by_all || self.claimed && !self.is_stranger();
    }
}

/// Custom settings.
impl ServerSession {
    /// Whether a client may notice that the server has served other sessions.
    #[inline]
    pub(crate) fn has_traces(&self) -> bool {
        self.has_temporary_schema() || !self.custom_names.is_empty()
    }

    /// Whether sessions have set, or tried to set, any custom setting.
    pub(crate) fn knows_custom_settings(&self) -> bool {
        !self.custom_names.is_empty()
    }

    /// Whether sessions have set, or tried to set, this custom setting. Since then it has an empty value there, and
    /// asking for it is no error.
    pub(crate) fn knows_custom_setting(&self, name: &str) -> bool {
        self.custom_names.contains(name)
    }

    /// The session sets a custom setting of this name.
    pub(crate) fn note_custom_setting(&mut self, name: &str) {
        if !self.custom_names.contains(name) && self.custom_names.len() < CUSTOM_NAMES_MAX {
            self.custom_names.insert(name.into());
        }
    }
}
