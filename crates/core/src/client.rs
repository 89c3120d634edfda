//! A client connection.

use crate::base::ids::ServerId;
use crate::base::message::{Message, Step};
use crate::base::pin_reason::PinReason;
use crate::base::pool_id::PoolId;
use crate::base::reasons::{Dropping, Passing, Waiting};
use crate::base::request::Accepted;
use crate::base::state_stats::StateStats;
use crate::base::time::Time;
use crate::login::client_login::Login;
use crate::notify::channels::Channels;
use crate::state::deferred_begin::DeferredBegin;
use crate::state::followed::Followed;
use crate::state::pins::{Pinned, Pins};
use crate::state::probe::Suspicion;
use crate::state::probe::beginning;
use crate::state::shape::Shape;
use crate::statements::ends::{BoundEnds, Ends};
use crate::statements::prepared::{Bound, Names, Statement};
use crate::upstream::reply_queue::Effect;
use pgweir_sql::Returns;
use pgweir_wire::{FrontendTag, TransactionStatus};
use std::sync::Arc;

/// Where a client connection stands.
#[derive(Debug)]
pub(crate) enum ClientPhase {
    /// Its startup packet has not come yet; `encryption_refused` says an SSLRequest or GSSENCRequest was answered.
    Startup,
    /// Not a session: its CancelRequest is on its way. Its connection is closed when the signal has been sent, as
    /// PostgreSQL does, so that a driver that waits for that can be sure that nothing later is hit.
    Cancelling,
    /// It proves who it is, or waits for what the proof needs (auth_query), or for the first server of its pool.
    Login(Box<Login>),
    /// Logged in: its messages go to servers.
    Session,
    /// Logged in to the admin console.
    Console(Box<crate::console::state::ConsoleState>),
}

/// The most portals of a client that are followed which end prepared statements.
const BOUND_ENDS_MAX: usize = 64;

/// One client connection.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) phase: ClientPhase,
    pub(crate) accepted: Accepted,
    /// Set once the database is known.
    pub(crate) pool: Option<PoolId>,
    /// Who logged in, where the database forces another user on the servers.
    pub(crate) login_user: Option<Box<str>>,
    /// The linked server.
    pub(crate) link: Option<ServerId>,
    pub(crate) waiting: Waiting,
    pub(crate) passing: Passing,
    /// The text of a Query that is being passed on, without its constants.
    pub(crate) long_text: Option<Box<pgweir_sql::Condensed>>,
    /// How often it has gone to another server than the one it had last; see [`Server::last_visit`].
    ///
    /// [`Server::last_visit`]: crate::server::Server::last_visit
    pub(crate) visits: u32,
    /// Bytes of the message that it has begun, where that is of no use before it is whole.
    pub(crate) needs_bytes: u32,
    /// Why it keeps its server.
    pub(crate) pins: Pins,
    /// Since when, where something of the session pins it.
    pub(crate) pinned: Option<Box<Pinned>>,
    /// What its transactions may have done to the session since the last probe.
    pub(crate) suspicion: Option<Box<Suspicion>>,
    /// What it listens to, once it has listened.
    pub(crate) channels: Option<Box<Channels>>,
    /// Custom settings that its session has made or tried to make.
    pub(crate) custom_names: Vec<Box<str>>,
    /// Its session has had temporary objects, and so a schema for them.
    pub(crate) had_temporary: bool,
    /// It waits for a server that shows no traces of other sessions: see [`crate::session::traces`].
    pub(crate) minds_traces: bool,
    /// Servers in a row that have refused its settings.
    pub(crate) servers_refused: u8,
    /// It has used its server since the last probe.
    pub(crate) used_server: bool,
    /// A BEGIN that no server has seen yet.
    pub(crate) deferred_begin: Option<DeferredBegin>,
    pub(crate) dropping: Dropping,
    /// It has lost a server before anything of its own reached it, and has been given no other yet.
    pub(crate) went_elsewhere: bool,
    /// The virtual session's settings; what the client was last told.
    pub(crate) shape: Arc<Shape>,
    /// What it looked like after its login: what RESET returns to.
    pub(crate) base: Arc<Shape>,
    pub(crate) names: Option<Box<Names>>,
    pub(crate) unnamed: Option<Arc<Statement>>,
    /// The latest portal, where Describe of it would be the first to tell the rows of its statement.
    pub(crate) bound: Option<Box<Bound>>,
    /// Portals that are bound to what ends prepared statements.
    pub(crate) bound_ends: Option<Box<BoundEnds>>,
    /// The portal that is bound to a RESET, and what that returns to its startup value.
    pub(crate) bound_reset: Option<Box<(Box<[u8]>, Returns)>>,
    /// Statements that reset settings or end all statements, where statements are not tracked otherwise.
    pub(crate) followed: Vec<Followed>,
    /// What a Query that the server has not answered returns to its startup value, unless the server refuses it.
    pub(crate) reset_among: Option<Box<Returns>>,
    /// What it was told at login, where it has been let in; 0 before.
    pub(crate) process_id: u32,
    /// Bytes of its cancel key: 4, or 32 under protocol 3.2.
    pub(crate) cancel_key_bytes: u8,
    /// Whether the login was counted in its pool's limits.
    pub(crate) counted: bool,
    pub(crate) connect_time: Time,
    /// When its latest request began.
    pub(crate) request_time: Time,
    /// When its present transaction got its server.
    pub(crate) xact_start: Time,
}

impl Client {
    pub(crate) fn new(now: Time, accepted: Accepted, shape: Arc<Shape>) -> Self {
        Client {
            phase: ClientPhase::Startup,
            accepted,
            pool: None,
            login_user: None,
            link: None,
            waiting: Waiting::No,
            passing: Passing::None,
            visits: 0,
            needs_bytes: 0,
            long_text: None,
            pins: Pins::default(),
            pinned: None,
            suspicion: None,
            channels: None,
            custom_names: Vec::new(),
            had_temporary: false,
            minds_traces: false,
            servers_refused: 0,
            used_server: false,
            deferred_begin: None,
            dropping: Dropping::Nothing,
            went_elsewhere: false,
            base: shape.clone(),
            shape,
            names: None,
            unnamed: None,
            bound: None,
            bound_ends: None,
            bound_reset: None,
            followed: Vec::new(),
            reset_among: None,
            process_id: 0,
            cancel_key_bytes: 4,
            counted: false,
            connect_time: now,
            request_time: now,
            xact_start: now,
        }
    }

    /// Whether nothing of its own has reached its server, and nothing of its session is there: another will do.
    pub(crate) fn may_go_elsewhere(&self) -> bool {
        self.waiting == Waiting::ForRestoration && self.pins.is_empty() && !self.went_elsewhere && self.is_session()
    }

    /// Drops a message, the rest of it too, where that is still to come.
    pub(crate) fn drop_message(&mut self, message: &Message<'_>) -> Step {
        let have = message.bytes.len();
        if have < message.total {
            self.passing = Passing::Skip((message.total - have) as u32);
        }
        Step::Progress(have)
    }

    /// Drops a message that an error of our own has answered already. Whether it ends what is dropped, so that a
    /// ReadyForQuery is due.
    pub(crate) fn drop_answered(&mut self, message: &Message<'_>) -> (Step, bool) {
        let ends = match message.tag {
            FrontendTag::Sync => true,
            FrontendTag::Query | FrontendTag::FunctionCall => self.dropping == Dropping::Request,
            _ => false,
        };
        self.dropping = if ends { Dropping::Nothing } else { Dropping::ToSync };
        (self.drop_message(message), ends)
    }

    /// Ends a name; what is needed to bring it back, if it had a meaning.
    pub(crate) fn forget_name(&mut self, name: &[u8]) -> Option<Effect> {
        if name.is_empty() {
            return self.unnamed.take().map(|s| Effect {
                unnamed: Some(Some(s)),
                ..Effect::default()
            });
        }
        let before = self.names.as_mut()?.set(name, None)?;
        Some(Effect {
            name: Some((name.into(), Some(before))),
            ..Effect::default()
        })
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

    /// Whether it has not been authenticated.
    pub(crate) fn is_arriving(&self) -> bool {
        let phase = &self.phase;
        !self.counted
            && matches!(
                phase,
                ClientPhase::Startup | ClientPhase::Cancelling | ClientPhase::Login(_)
            )
    }

    /// Its login in progress.
    pub(crate) fn login_mut(&mut self) -> Option<&mut Login> {
        match &mut self.phase {
            ClientPhase::Login(login) => Some(login),
            _ => None,
        }
    }

    pub(crate) fn is_session(&self) -> bool {
        matches!(self.phase, ClientPhase::Session)
    }

    /// Whether something must be done or known before its next message goes to a server.
    #[inline]
    pub(crate) fn attends(&self) -> bool {
        self.channels.is_some() || self.deferred_begin.is_some()
    }

    /// A portal is being bound to what ends prepared statements, or to what ends none.
    pub(crate) fn binds(&mut self, portal: &[u8], ends: Option<Ends>) {
        if let Some(bound) = &mut self.bound_ends {
            bound.retain(|(of, _)| **of != *portal);
        }
        if let Some(ends) = ends {
            let bound = self.bound_ends.get_or_insert_default();
            if bound.len() == BOUND_ENDS_MAX {
                bound.remove(0);
            }
            bound.push((portal.into(), ends));
        } else if self.bound_ends.as_ref().is_some_and(|bound| bound.is_empty()) {
            self.bound_ends = None;
        }
    }

    pub(crate) fn names_mut(&mut self) -> &mut Names {
        self.names.get_or_insert_default()
    }

    /// What a name means in this client's session.
    pub(crate) fn statement(&self, name: &[u8]) -> Option<&Arc<Statement>> {
        if name.is_empty() {
            self.unnamed.as_ref()
        } else {
            self.names.as_ref()?.get(name).map(|m| &m.statement)
        }
    }
}
