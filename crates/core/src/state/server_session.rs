//! What is known of the session on a server.

use crate::base::ids::ClientId;
use crate::base::pin_reason::Cleanup;
use crate::state::probe::Probe;
use crate::state::restoration::Restoration;
use crate::state::sequences::Remembered;
use crate::state::shape::Shape;
use foldhash::fast::RandomState;
use pgweir_sql::Effects;
use std::collections::HashSet;
use std::sync::Arc;

/// The most names of custom settings that are kept for one server. Further ones may be noticed by other clients.
const CUSTOM_NAMES_MAX: usize = 1024;

/// Effects that may set a setting, at least for the transaction.
const MAY_SET_LOCALLY: Effects = Effects::SETTINGS
    .union(Effects::LOCAL)
    .union(Effects::CODE)
    .union(Effects::READING);

/// Effects after which something of the session before must be known.
const NOTED: Effects = Effects::LOCAL.union(Effects::READING);

/// A server's session: its settings as the server reports them, and what clients may have left there.
#[derive(Debug, pgweir_freeze::Freeze)]
pub(crate) struct ServerSession {
    /// The server's settings, as the server reports them.
    pub(crate) shape: Arc<Shape>,
    /// The server's settings after its login, to which RESET returns.
    pub(crate) base: Arc<Shape>,
    /// Something that may change settings was sent, and the ReadyForQuery that reports them has not come.
    pub(crate) settings_in_doubt: bool,
    /// The present transaction may have set a setting that no ReadyForQuery reports before the transaction ends: by SET
    /// LOCAL, by code, or a setting that is never reported. Statements parsed meanwhile are not shared.
    pub(crate) local_in_doubt: bool,
    /// The server's settings before the first SET LOCAL of the present transaction.
    pub(crate) before_local: Option<Arc<Shape>>,
    /// The segment of restored settings at the front of the queue. ParameterStatus in its reply is not for the client.
    pub(crate) restoration: Option<Box<Restoration>>,
    /// A probe that has not been answered.
    pub(crate) probe: Option<Box<Probe>>,
    /// A step of moving channels has failed (see `listening/handover`); its ReadyForQuery follows.
    pub(crate) move_failed: bool,
    /// A request that was sent to the server may change what code the database runs. The transaction has not ended.
    pub(crate) defines: bool,
    /// A request that was sent to the server may create, rename or move objects that statements name. Its transaction
    /// has not ended.
    pub(crate) moves_names: bool,
    /// At each ReadyForQuery it must be looked at what became of `defines` and `moves_names`.
    pub(crate) changes_objects: bool,
    /// An unanswered request may have committed such a change.
    pub(crate) publishes: bool,
    /// While the transaction has definitions: the portal that was bound last, if its statement defines nothing and ends
    /// no block.
    pub(crate) harmless_portal: Option<Box<[u8]>>,
    /// A request that was sent to the server may change the settings that new sessions begin with.
    pub(crate) changes_defaults: bool,
    /// The cleanup that the server needs before another client gets it.
    pub(crate) cleanup: Cleanup,
    /// The client that had the server last.
    pub(crate) last_client: Option<ClientId>,
    /// That client's number of visits at that time. If the number has grown since, the client has been on other
    /// servers, and what it has left here is old.
    pub(crate) last_visit: u32,
    /// The present client had another server before this one.
    pub(crate) visited_anew: bool,
    pub(crate) remembered: Remembered,
    /// The server is reserved for its last client because of that client's values of sequences: see
    /// [`crate::session::sequences`].
    pub(crate) claimed: bool,
    /// Custom settings that sessions have set or tried to set on the server. Since then they are empty there, not
    /// unknown.
    pub(crate) custom_names: HashSet<Box<str>, RandomState>,
    /// The server has a schema for temporary objects, since a client made some: see [`crate::preparing::replanning`].
    pub(crate) temporary_schema: bool,
    /// In session pooling: the client has left state that only the end of the connection undoes.
    pub(crate) leaves_traces: bool,
}

impl ServerSession {
    /// `shape` is the shape of a server of which nothing is known.
    pub(crate) fn new(shape: Arc<Shape>) -> Self {
        ServerSession {
            base: shape.clone(),
            shape,
            settings_in_doubt: false,
            local_in_doubt: false,
            before_local: None,
            restoration: None,
            probe: None,
            move_failed: false,
            defines: false,
            moves_names: false,
            changes_objects: false,
            publishes: false,
            harmless_portal: None,
            changes_defaults: false,
            cleanup: Cleanup::Nothing,
            last_client: None,
            last_visit: 0,
            visited_anew: false,
            remembered: Remembered::OfClient,
            claimed: false,
            custom_names: HashSet::default(),
            temporary_schema: false,
            leaves_traces: false,
        }
    }

    /// A text with these effects is about to run.
    #[inline]
    pub(crate) fn may_set(&mut self, effects: Effects) {
        self.settings_in_doubt |= effects.intersects(Effects::SETTINGS);
        self.local_in_doubt |= effects.intersects(MAY_SET_LOCALLY);
        if effects.intersects(NOTED) {
            self.notes(effects);
        }
    }

    #[cold]
    fn notes(&mut self, effects: Effects) {
        if effects.intersects(Effects::LOCAL) && self.before_local.is_none() {
            self.before_local = Some(self.shape.clone());
        }
        if effects.intersects(Effects::READING) {
            self.keeps_foreign_plans();
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

    /// The transaction has ended, and with it the settings of SET LOCAL. Returns whether there may have been some.
    #[inline]
    pub(crate) fn transaction_ends(&mut self) -> bool {
        let had = std::mem::take(&mut self.local_in_doubt);
        if had {
            self.before_local = None;
        }
        had
    }

    /// A client gets the server; `visits` counts the client's visits. Returns the client that had the server before,
    /// unless the same client had it and has been on no other server since.
    #[inline(always)]
    pub(crate) fn visit(&mut self, id: ClientId, visits: &mut u32) -> Option<ClientId> {
        self.visited_anew = !self.was_last_visited_by(id, *visits);
        if !self.visited_anew {
            return None;
        }
        *visits = visits.wrapping_add(1);
        self.last_visit = *visits;
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

    /// Whether the server may remember values of sequences that are not its client's.
    #[inline]
    pub(crate) fn is_stranger(&self) -> bool {
        self.remembered != Remembered::OfClient
    }

    /// Whether a client may notice that the server has served other sessions.
    #[inline]
    pub(crate) fn has_traces(&self) -> bool {
        self.temporary_schema || !self.custom_names.is_empty()
    }

    /// The session sets a custom setting of this name.
    pub(crate) fn note_custom_setting(&mut self, name: &str) {
        if !self.custom_names.contains(name) && self.custom_names.len() < CUSTOM_NAMES_MAX {
            self.custom_names.insert(name.into());
        }
    }
}
