//! A client's session, independent of the server that it runs on.

mod pinning;
mod resets;
mod suspecting;

use crate::state::asked_right::AskedRight;
use crate::state::deferred_begin::DeferredBegin;
use crate::state::pins::{Pinned, Pins};
use crate::state::shape::{SETTINGS_MAX, Shape};
use crate::state::suspicion::Suspicion;
use crate::statements::followed::Followed;
use pgweir_sql::Returns;
use pgweir_wire::TransactionStatus;
use std::sync::Arc;

/// A client's session, and the pins that keep it on its server.
#[derive(Debug, pgweir_freeze::Freeze)]
pub(crate) struct ClientSession {
    /// The virtual session's settings, as last told to the client.
    shape: Arc<Shape>,
    /// The settings after the client's login, to which RESET returns.
    base: Arc<Shape>,
    /// The reasons why the client keeps its server.
    pins: Pins,
    /// When and by what the client was pinned, if the reason is in the session.
    pinned: Option<Box<Pinned>>,
    /// What the client's transactions may have done to the session since the last probe.
    suspicion: Option<Box<Suspicion>>,
    /// The client has used its server since the last probe.
    used_server: bool,
    /// A BEGIN that has not been sent to a server.
    deferred_begin: Option<DeferredBegin>,
    /// Custom settings that the session has set or tried to set.
    custom_names: Vec<Box<str>>,
    /// The session has had temporary objects, and so a schema for them.
    had_temporary: bool,
    /// The client waits for a server without traces of other sessions: see [`crate::session::traces`].
    minds_traces: bool,
    /// How many servers in a row have refused the client's settings.
    servers_refused: u8,
    /// The client has lost a server before that server got any of its messages, and has not had its settings restored
    /// since.
    went_elsewhere: bool,
    /// How often a link was a new visit: another client had the server last, or this client has had another server
    /// since; see [`ServerSession::last_visit`].
    ///
    /// [`ServerSession::last_visit`]: crate::state::server_session::ServerSession::last_visit
    visits: u32,
    /// The settings that a Query resets, unless the server, which has not answered yet, refuses it.
    reset_among: Option<Box<Returns>>,
    /// Statements that reset settings or end all statements, in pools where statements are not tracked otherwise.
    followed: Vec<Followed>,
    /// What its server was asked about the call that the client's next message is.
    asked_right: Option<Box<AskedRight>>,
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
            reset_among: None,
            followed: Vec::new(),
            asked_right: None,
        }
    }

    /// Its server is asked about the call that the client's next message is.
    pub(crate) fn asks_right(&mut self, asked: AskedRight) {
        self.asked_right = Some(Box::new(asked));
    }

    /// What the server has been asked about the client's next message, and has said.
    pub(crate) fn asked_right(&mut self) -> Option<&mut AskedRight> {
        self.asked_right.as_deref_mut()
    }

    pub(crate) fn take_asked_right(&mut self) -> Option<Box<AskedRight>> {
        self.asked_right.take()
    }

    /// The virtual session's settings, as last told to the client.
    #[inline]
    pub(crate) fn shape(&self) -> &Arc<Shape> {
        &self.shape
    }

    /// The settings after the client's login, to which RESET returns.
    #[inline]
    pub(crate) fn base(&self) -> &Arc<Shape> {
        &self.base
    }

    /// The login has ended with these settings.
    pub(crate) fn starts_with(&mut self, shape: Arc<Shape>) {
        self.base = shape.clone();
        self.shape = shape;
    }

    /// The session has these settings now, and the client is told.
    pub(crate) fn has_settings(&mut self, shape: Arc<Shape>) {
        self.shape = shape;
    }

    /// Whether the session has left nothing on a server, as far as is known: there is no pin, and nothing that a probe
    /// must find out.
    pub(crate) fn leaves_nothing(&self) -> bool {
        self.suspicion.is_none() && self.pins.is_empty() && self.reset_among.is_none() && !self.minds_traces
    }

    /// How often a link was a new visit.
    #[inline]
    pub(crate) fn visits(&self) -> u32 {
        self.visits
    }

    /// A link is a new visit. Returns the number of visits.
    #[inline(always)]
    pub(super) fn begins_visit(&mut self) -> u32 {
        self.visits = self.visits.wrapping_add(1);
        self.visits
    }

    /// The client goes back to the server that it had before its last visit.
    pub(crate) fn visit_is_undone(&mut self) {
        self.visits = self.visits.wrapping_sub(1);
    }

    /// Whether the session has set, or tried to set, this custom setting.
    pub(crate) fn knows_custom_setting(&self, name: &str) -> bool {
        self.custom_names.iter().any(|n| **n == *name)
    }

    /// The session sets a custom setting of this name, or tries to.
    pub(crate) fn note_custom_setting(&mut self, name: &str) {
        if self.custom_names.len() < SETTINGS_MAX && !self.knows_custom_setting(name) {
            self.custom_names.push(name.into());
        }
    }

    /// Whether the session has had temporary objects, and so a schema for them.
    pub(crate) fn had_temporary(&self) -> bool {
        self.had_temporary
    }

    /// The session has had temporary objects.
    pub(crate) fn has_had_temporary(&mut self) {
        self.had_temporary = true;
    }

    /// Whether the client waits for a server without traces of other sessions.
    #[inline]
    pub(crate) fn minds_traces(&self) -> bool {
        self.minds_traces
    }

    /// The client needs a server. `minds`: it must be one without traces of other sessions, if possible.
    pub(crate) fn minds_traces_if(&mut self, minds: bool) {
        self.minds_traces = minds;
    }

    /// The client was linked to a server: whether it minded traces has been considered.
    #[inline]
    pub(crate) fn traces_are_considered(&mut self) {
        self.minds_traces = false;
    }

    /// Whether the client has lost a server before that server got any of its messages, and has not had its settings
    /// restored since.
    pub(crate) fn went_elsewhere(&self) -> bool {
        self.went_elsewhere
    }

    /// The client has lost such a server, and tries another one.
    pub(crate) fn goes_elsewhere(&mut self) {
        self.went_elsewhere = true;
    }

    /// A server has confirmed the client's settings. `waited`: the client has waited for that.
    pub(crate) fn restoration_confirmed(&mut self, waited: bool) {
        self.servers_refused = 0;
        self.went_elsewhere &= !waited;
    }

    /// A server has refused the client's settings. Returns whether the client may try another one: it needs none of
    /// what is on this server, and fewer than `servers_max` servers in a row have refused.
    pub(crate) fn restoration_refused(&mut self, servers_max: u8) -> bool {
        self.servers_refused = self.servers_refused.saturating_add(1);
        self.servers_refused < servers_max && !self.pins.of_session()
    }

    /// The BEGIN that has not been sent to a server.
    #[inline]
    pub(crate) fn deferred_begin(&self) -> Option<DeferredBegin> {
        self.deferred_begin
    }

    /// The client is told that it is in a transaction, of which its server will know later.
    pub(crate) fn defers(&mut self, begin: DeferredBegin) {
        self.deferred_begin = Some(begin);
    }

    /// The deferred BEGIN is sent to a server, or its transaction has ended without one.
    #[inline]
    pub(crate) fn take_deferred_begin(&mut self) -> Option<DeferredBegin> {
        self.deferred_begin.take()
    }

    /// The deferral is over: the BEGIN goes to a server although the client has sent no other message.
    pub(crate) fn deferral_expires(&mut self) {
        if let Some(begin) = &mut self.deferred_begin {
            begin.expires();
        }
    }

    /// Whether the client waits for a server only because a deferral is over. It has sent nothing behind its BEGIN yet.
    #[cold]
    pub(crate) fn waits_only_to_begin(&self) -> bool {
        self.deferred_begin.is_some_and(DeferredBegin::has_expired)
    }

    /// The client has sent these bytes. If it waits because a deferral was over, and they have a request, it now waits for
    /// its own request.
    pub(crate) fn may_ask_for_itself(&mut self, bytes: &[u8]) {
        if let Some(begin) = &mut self.deferred_begin {
            begin.may_have_company(bytes);
        }
    }

    /// A request was cancelled while it waited for a server: the transaction of a deferred BEGIN has failed.
    pub(crate) fn request_is_cancelled(&mut self) {
        if let Some(begin) = &mut self.deferred_begin {
            begin.fails();
        }
    }

    /// The transaction status of a client without a server.
    pub(crate) fn idle_status(&self) -> TransactionStatus {
        match self.deferred_begin {
            None => TransactionStatus::Idle,
            Some(begin) if begin.has_failed() => TransactionStatus::Failed,
            Some(_) => TransactionStatus::InTransaction,
        }
    }
}
