//! A client's session, wherever it runs.

use crate::base::pin_reason::PinReason;
use crate::base::state_stats::StateStats;
use crate::base::time::Time;
use crate::state::deferred_begin::DeferredBegin;
use crate::state::followed::Followed;
use crate::state::pins::{Pinned, Pins};
use crate::state::probe::{Suspicion, beginning};
use crate::state::shape::Shape;
use pgweir_sql::Returns;
use pgweir_wire::TransactionStatus;
use std::sync::Arc;

/// What a client's session is, and what ties it to its server.
#[derive(Debug, pgweir_freeze::Freeze)]
pub(crate) struct ClientSession {
    /// The virtual session's settings; what the client was last told.
    pub(crate) shape: Arc<Shape>,
    /// What it looked like after its login: what RESET returns to.
    pub(crate) base: Arc<Shape>,
    /// Why it keeps its server.
    pub(crate) pins: Pins,
    /// Since when, where something of the session pins it.
    pub(crate) pinned: Option<Box<Pinned>>,
    /// What its transactions may have done to the session since the last probe.
    pub(crate) suspicion: Option<Box<Suspicion>>,
    /// It has used its server since the last probe.
    pub(crate) used_server: bool,
    /// A BEGIN that no server has seen yet.
    pub(crate) deferred_begin: Option<DeferredBegin>,
    /// Custom settings that its session has made or tried to make.
    pub(crate) custom_names: Vec<Box<str>>,
    /// Its session has had temporary objects, and so a schema for them.
    pub(crate) had_temporary: bool,
    /// It waits for a server that shows no traces of other sessions: see [`crate::session::traces`].
    pub(crate) minds_traces: bool,
    /// Servers in a row that have refused its settings.
    pub(crate) servers_refused: u8,
    /// It has lost a server before anything of its own reached it, and has been given no other yet.
    pub(crate) went_elsewhere: bool,
    /// How often it has gone to another server than the one it had last; see [`ServerSession::last_visit`].
    ///
    /// [`ServerSession::last_visit`]: crate::state::server_session::ServerSession::last_visit
    pub(crate) visits: u32,
    /// The portal that is bound to a RESET, and what that returns to its startup value.
    pub(crate) bound_reset: Option<Box<(Box<[u8]>, Returns)>>,
    /// What a Query that the server has not answered returns to its startup value, unless the server refuses it.
    pub(crate) reset_among: Option<Box<Returns>>,
    /// Statements that reset settings or end all statements, where statements are not tracked otherwise.
    pub(crate) followed: Vec<Followed>,
}

impl ClientSession {
    pub(crate) fn new(shape: Arc<Shape>) -> Self {
        ClientSession {
            base: shape.clone(),
            shape,
            pins: Pins::default(),
            pinned: None,
            suspicion: None,
            used_server: false,
            deferred_begin: None,
            custom_names: Vec::new(),
            had_temporary: false,
            minds_traces: false,
            servers_refused: 0,
            went_elsewhere: false,
            visits: 0,
            bound_reset: None,
            reset_among: None,
            followed: Vec::new(),
        }
    }

    /// Keeps it on its server: what it did cannot be done again elsewhere. `statement` is the beginning of what did it.
    pub(crate) fn pin_by(&mut self, now: Time, reason: PinReason, statement: &[u8], stats: &mut StateStats) {
        if self.pinned.is_none() && reason != PinReason::SessionPooling {
            self.pinned = Some(Box::new(Pinned {
                since: now,
                statement: beginning(statement),
            }));
        }
        if !self.pins.contains(reason) {
            self.pins.insert(reason);
            stats.pinned(reason);
        }
    }

    /// The transaction status of a client without a server.
    pub(crate) fn idle_status(&self) -> TransactionStatus {
        match self.deferred_begin {
            None => TransactionStatus::Idle,
            Some(begin) if begin.failed => TransactionStatus::Failed,
            Some(_) => TransactionStatus::InTransaction,
        }
    }
}
