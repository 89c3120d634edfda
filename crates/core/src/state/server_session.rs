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

/// Names of custom settings kept for one server; what goes beyond them may show.
const CUSTOM_NAMES_MAX: usize = 1024;

/// What may make a setting for the transaction at least.
const MAY_SET_LOCALLY: Effects = Effects::SETTINGS.union(Effects::LOCAL).union(Effects::CODE);

/// A server's session: what it looks like by its own word, and what clients may have left there.
#[derive(Debug, pgweir_freeze::Freeze)]
pub(crate) struct ServerSession {
    /// What it looks like, by its own word.
    pub(crate) shape: Arc<Shape>,
    /// What it looked like after its login: what RESET returns to.
    pub(crate) base: Arc<Shape>,
    /// Something that may change settings was sent, and the ReadyForQuery that reports them has not come.
    pub(crate) settings_in_doubt: bool,
    /// The present transaction may have made a setting that no ReadyForQuery reports before it ends: SET LOCAL, code, or a
    /// setting that is never reported. What is parsed under it is not shared.
    pub(crate) local_in_doubt: bool,
    /// What it looked like before the first SET LOCAL of the present transaction.
    pub(crate) before_local: Option<Arc<Shape>>,
    /// The segment of restored settings at the front of the queue; its ParameterStatus are not the client's.
    pub(crate) restoration: Option<Box<Restoration>>,
    /// A probe whose answer is due.
    pub(crate) probe: Option<Box<Probe>>,
    /// A step of moving channels has failed (see [`crate::flow::handover`]); its ReadyForQuery follows.
    pub(crate) move_failed: bool,
    /// What was sent to it may make something that runs code.
    pub(crate) defines: bool,
    /// What must be done before another client gets it.
    pub(crate) cleanup: Cleanup,
    /// Who had it last.
    pub(crate) last_client: Option<ClientId>,
    /// Which of that client's visits it was: where the client has been elsewhere since, what is left here of it is old.
    pub(crate) last_visit: u32,
    /// Its present client had another server before.
    pub(crate) visited_anew: bool,
    pub(crate) remembered: Remembered,
    /// It is left to its last client for what that has drawn from sequences: see [`crate::session::sequences`].
    pub(crate) claimed: bool,
    /// Custom settings that sessions have made or tried to make there: since then they are empty there instead of unknown.
    pub(crate) custom_names: HashSet<Box<str>, RandomState>,
    /// It has a schema for temporary objects since a client made some: see [`crate::preparing::replanning`].
    pub(crate) temporary_schema: bool,
    /// In session pooling: its client did what only the end of the connection undoes.
    pub(crate) leaves_traces: bool,
}

impl ServerSession {
    /// `shape` is what nothing is known of.
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

    /// Something with these effects is about to run.
    #[inline]
    pub(crate) fn may_set(&mut self, effects: Effects) {
        self.settings_in_doubt |= effects.intersects(Effects::SETTINGS);
        self.local_in_doubt |= effects.intersects(MAY_SET_LOCALLY);
        if effects.intersects(Effects::LOCAL) && self.before_local.is_none() {
            self.before_local = Some(self.shape.clone());
        }
    }

    /// The transaction is over, and with it what was set for its time.
    #[inline]
    pub(crate) fn transaction_ends(&mut self) {
        if std::mem::take(&mut self.local_in_doubt) {
            self.before_local = None;
        }
    }

    /// A client gets it, whose number of visits this is. Who had it before, if that is not known to be the client.
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

    /// Whether this client had it last and has had no other since.
    #[inline]
    pub(crate) fn was_last_visited_by(&self, id: ClientId, visits: u32) -> bool {
        self.last_client == Some(id) && self.last_visit == visits
    }

    /// Whether what it remembers of sequences is not its client's.
    #[inline]
    pub(crate) fn is_stranger(&self) -> bool {
        self.remembered != Remembered::OfClient
    }

    /// Whether it may show something of sessions that it has served before.
    #[inline]
    pub(crate) fn has_traces(&self) -> bool {
        self.temporary_schema || !self.custom_names.is_empty()
    }

    /// A session on it names a custom setting that it makes.
    pub(crate) fn note_custom_setting(&mut self, name: &str) {
        if !self.custom_names.contains(name) && self.custom_names.len() < CUSTOM_NAMES_MAX {
            self.custom_names.insert(name.into());
        }
    }
}
