//! A client's session, independent of the server that it runs on.

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

/// A client's session, and the pins that keep it on its server.
#[derive(Debug, pgweir_freeze::Freeze)]
pub(crate) struct ClientSession {
    /// The virtual session's settings, as last told to the client.
    pub(crate) shape: Arc<Shape>,
    /// The settings after the client's login, to which RESET returns.
    pub(crate) base: Arc<Shape>,
    /// The reasons why the client keeps its server.
    pub(crate) pins: Pins,
    /// When and by what the client was pinned, if the reason is in the session.
    pub(crate) pinned: Option<Box<Pinned>>,
    /// What the client's transactions may have done to the session since the last probe.
    pub(crate) suspicion: Option<Box<Suspicion>>,
    /// The client has used its server since the last probe.
    pub(crate) used_server: bool,
    /// A BEGIN that has not been sent to a server.
    pub(crate) deferred_begin: Option<DeferredBegin>,
    /// Custom settings that the session has set or tried to set.
    pub(crate) custom_names: Vec<Box<str>>,
    /// The session has had temporary objects, and so a schema for them.
    pub(crate) had_temporary: bool,
    /// The client waits for a server without traces of other sessions: see [`crate::session::traces`].
    pub(crate) minds_traces: bool,
    /// How many servers in a row have refused the client's settings.
    pub(crate) servers_refused: u8,
    /// The client has lost a server before that server got any of its messages, and has not been linked to another one
    /// since.
    pub(crate) went_elsewhere: bool,
    /// How often a link was a new visit: another client had the server last, or this client has had another server
    /// since; see [`ServerSession::last_visit`].
    ///
    /// [`ServerSession::last_visit`]: crate::state::server_session::ServerSession::last_visit
    pub(crate) visits: u32,
    /// The portal of a RESET, and the settings that it resets.
    pub(crate) bound_reset: Option<Box<(Box<[u8]>, Returns)>>,
    /// The settings that a Query resets, unless the server, which has not answered yet, refuses it.
    pub(crate) reset_among: Option<Box<Returns>>,
    /// Statements that reset settings or end all statements, in pools where statements are not tracked otherwise.
    pub(crate) followed: Vec<Followed>,
}

impl ClientSession {
    /// The number of texts that have caused the suspicion.
    #[inline]
    pub(crate) fn suspected_texts(&self) -> u32 {
        self.suspicion.as_ref().map_or(0, |suspicion| suspicion.texts)
    }

    /// Whether nothing of the session may be on a server, as far as is known: no pin, and nothing that a probe must find
    /// out.
    pub(crate) fn leaves_nothing(&self) -> bool {
        self.suspicion.is_none()
            && self.pins.is_empty()
            && self.bound_reset.is_none()
            && self.reset_among.is_none()
            && !self.minds_traces
    }

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

    /// Pins the client to its server. `statement` is the beginning of the text that is the cause.
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
