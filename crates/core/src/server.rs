//! A server connection.

use crate::base::close_reason::CloseReason;
use crate::base::ids::{ClientId, ServerId};
use crate::base::pool_id::{PoolId, PoolKey};
use crate::base::reasons::Passing;
use crate::base::request::{Connected, Endpoint};
use crate::base::settings::Settings;
use crate::base::slab::Slab;
use crate::base::time::Time;
use crate::base::tls::TlsFacts;
use crate::catalog::reading::Reading;
use crate::pools::hosts::OPENS_IN_TIME;
use crate::pools::pool::{self, Pool};
use crate::pools::sizing::Work;
use crate::state::server_session::ServerSession;
use crate::state::shape::Shape;
use crate::statements::held::Held;
use crate::statements::held::Moment;
use crate::upstream::cancels::Cancels;
use crate::upstream::conversation::Conversation;
use crate::upstream::flights::Flights;
use crate::upstream::nature::Nature;
use crate::upstream::phase::{Begin, Intake, Introduction, ServerPhase};
use pgweir_auth::Credential;
use pgweir_sql::Effects;
use pgweir_wire::HEADER_BYTES;
use std::sync::Arc;

/// Effects after which the server may read constants under settings that the pooler does not know.
const READS_OTHERWISE: Effects = Effects::READING.union(Effects::CODE);

/// One server connection.
#[derive(Debug, pgweir_freeze::Freeze)]
pub(crate) struct Server {
    pub(crate) pool: PoolId,
    pub(crate) phase: ServerPhase,
    /// When it entered its present phase.
    pub(crate) since: Time,
    pub(crate) link: Option<ClientId>,
    /// When its client began to wait for it, until the client's first request has been answered; or when the client's
    /// segment began, if the client has been seen not to have ended it. Otherwise `None`.
    pub(crate) asked: Option<Time>,
    pub(crate) endpoint: Endpoint,
    /// It is being opened, and is not counted as a server for a waiting client: see [`crate::pools::hosts`].
    pub(crate) in_doubt: bool,
    pub(crate) connected: Option<Connected>,
    pub(crate) connect_time: Time,
    pub(crate) conversation: Conversation,
    pub(crate) cancels: Cancels,
    /// The flights that it has got and not answered; `None` until the first flight begins here.
    pub(crate) flights: Option<Box<Flights>>,
    pub(crate) session: ServerSession,
    /// Set while it counts for the limit on servers at work: see [`crate::pools::sizing`].
    pub(crate) work: Option<Work>,
    /// Set once TLS secures the connection.
    pub(crate) tls: Option<Box<TlsFacts>>,
    pub(crate) held: Held,
    /// The reading of the catalog that it is carrying out.
    pub(crate) reading: Option<Box<Reading>>,
    /// Close it instead of giving it back: RECONNECT, a changed configuration, its lifetime, an eviction.
    pub(crate) close_reason: Option<CloseReason>,
    /// Its pool has other servers now, after a RELOAD or a change of nature: what it answers teaches the pool nothing.
    pub(crate) is_former: bool,
    /// The segment in which it has refused to write, because its transaction is read-only.
    pub(crate) refused_write: Option<u64>,
    /// Close it at this age.
    pub(crate) expires: Time,
    /// Whether a client has been linked to it.
    pub(crate) has_served: bool,
    pub(crate) introduction: Introduction,
    pub(crate) nature: Nature,
}

impl Server {
    /// A server whose socket is being opened. `shape` is the shape of a session of which nothing is known.
    pub(crate) fn new(now: Time, pool: PoolId, endpoint: Endpoint, shape: Arc<Shape>, expires: Time) -> Self {
        Server {
            pool,
            phase: ServerPhase::Connecting,
            since: now,
            link: None,
            asked: None,
            endpoint,
            in_doubt: false,
            connected: None,
            connect_time: now,
            conversation: Conversation::new(now),
            cancels: Cancels::default(),
            flights: None,
            work: None,
            session: ServerSession::new(shape),
            tls: None,
            held: Held::new(),
            reading: None,
            close_reason: None,
            is_former: false,
            refused_write: None,
            expires,
            has_served: false,
            introduction: Introduction::Begins,
            nature: Nature::PostgreSql,
        }
    }

    /// The credential of the login that is under way.
    pub(crate) fn credential_given(&self) -> Option<&Credential> {
        match &self.phase {
            ServerPhase::Login(login) => Some(login.credential()),
            _ => None,
        }
    }

    /// When the client asked for what the server does now.
    pub(crate) fn asked_time(&self) -> Time {
        self.asked.unwrap_or(self.conversation.request_time())
    }

    /// When the client asked for what the server is to do after what it does now.
    pub(crate) fn asked_before(&self, now: Time) -> Time {
        match self.conversation.queue().is_empty() && !self.awaits_sync() {
            true => self.asked.unwrap_or(now),
            false => self.asked_time(),
        }
    }

    /// Nothing is owed and no transaction is open.
    #[inline]
    pub(crate) fn is_clean(&self) -> bool {
        self.conversation.is_clean()
    }

    /// Whether requests of the client's were sent that are not answered.
    pub(crate) fn owes_client(&self) -> bool {
        let queue = self.conversation.queue();
        queue.client_segment_outstanding() || queue.segment_open()
    }

    /// Whether the client has begun a segment and has not ended it with a Sync.
    pub(crate) fn awaits_sync(&self) -> bool {
        self.conversation.queue().segment_open() || self.conversation.intake() == Intake::ToSync
    }

    /// Whether it works on a flight.
    #[inline]
    pub(crate) fn flies(&self) -> bool {
        self.flights.as_ref().is_some_and(|flights| !flights.is_empty())
    }

    /// Whether the client's next message must wait for replies. Otherwise a cancel that is meant for an earlier request
    /// could hit this message or an internal request in front of it; and behind a deferred BEGIN that fails, the
    /// message would run outside its transaction.
    #[inline]
    pub(crate) fn holds_back(&self) -> bool {
        self.cancels.may_hit()
            || match self.conversation.begin() {
                Begin::Settled => false,
                Begin::Owed => !self.conversation.queue().segment_open(),
                Begin::Refused => true,
            }
    }

    /// Whether a ReadyForQuery that ends a request of the client concerns only the client.
    #[inline]
    pub(crate) fn is_usual(&self) -> bool {
        matches!(self.phase, ServerPhase::Linked)
            && self.cancels.wanted().is_none()
            && self.conversation.begin() == Begin::Settled
    }

    /// If there is a linked client: whether a message is only a part of the reply to a request of the client, or the
    /// end of a request that has succeeded. Nearly all messages are: rows, and replies to requests that change nothing
    /// in the session. `false` means: not known.
    #[inline(always)]
    pub(crate) fn passes_plainly(&mut self, tag: u8, message: &[u8], whole: bool) -> bool {
        debug_assert!(self.link.is_some());
        match tag {
            b'C' => whole && self.completes_plainly(message.get(HEADER_BYTES).copied()),
            _ => self.conversation.queue_mut().passes_plainly(tag),
        }
    }

    /// A CommandComplete whose command tag begins with this letter. DELETE is looked at closely, because DEALLOCATE and
    /// DISCARD begin with the same letter; PREPARE may have ended a statement without the pooler's knowledge, and ALTER
    /// and GRANT may admit logins.
    #[inline(always)]
    fn completes_plainly(&mut self, letter: Option<u8>) -> bool {
        if matches!(letter, None | Some(b'A' | b'B' | b'C' | b'D' | b'G' | b'P' | b'R'))
            || !self.conversation.queue_mut().completes_command()
        {
            return false;
        }
        self.held.command_completes();
        self.conversation.command_succeeds();
        true
    }

    /// Whether a reply that is due reports settings. Until it comes, the settings under which a Parse would run are not
    /// known.
    pub(crate) fn awaits_settings(&self) -> bool {
        self.conversation.intake() != Intake::CopyIn && self.session.awaits_settings()
    }

    /// Whether it has been idle for so long that it must answer the check query before a client gets it. A console
    /// answers no query.
    #[inline]
    pub(crate) fn must_be_tested(&self, now: Time, settings: &Settings) -> bool {
        settings.must_be_tested(now, self.since) && self.nature != Nature::Console
    }

    /// Whether its lifetime is over. With a lifetime of zero, which means "use once", it must have been used.
    pub(crate) fn is_expired(&self, now: Time) -> bool {
        self.expires <= now && (self.has_served || self.expires > self.connect_time)
    }

    /// Whether it is closed as soon as its client gives it back.
    #[inline]
    pub(crate) fn is_to_end(&self, now: Time) -> bool {
        self.close_reason.is_some() || self.is_expired(now)
    }

    /// A text with these effects is about to run.
    #[inline]
    pub(crate) fn may_set(&mut self, effects: Effects, now: Moment) {
        if !effects.is_empty() {
            self.may_do(effects, now);
        }
    }

    #[cold]
    fn may_do(&mut self, effects: Effects, now: Moment) {
        self.session.may_set(effects);
        if effects.intersects(READS_OTHERWISE) {
            self.held.reads_otherwise(now);
        }
        if effects.intersects(Effects::READING) {
            self.held.text_may_set_reading();
        }
        if effects.intersects(Effects::NAMES) {
            self.moves_names(now);
        }
    }

    /// A text that may change what names in statements mean is about to run.
    #[cold]
    pub(crate) fn moves_names(&mut self, now: Moment) {
        self.session.moves_names();
        self.held.names_move(now);
    }

    /// The server may run code that is not known.
    #[cold]
    pub(crate) fn runs_unknown_code(&mut self, now: Moment) {
        self.session.runs_unknown_code();
        self.held.reads_otherwise(now);
    }

    /// Whether it will soon be free: it is being tested for a waiting client, is new and being examined, or reads the
    /// catalog before it serves its first client.
    pub(crate) fn is_soon_free(&self) -> bool {
        let reads_first = matches!(self.phase, ServerPhase::Reading) && !self.has_served;
        reads_first || matches!(self.phase, ServerPhase::Testing | ServerPhase::ConnectQuery)
    }

    /// Whether it has logged in, and is being examined before it serves its first client.
    pub(crate) fn is_examined(&self) -> bool {
        matches!(self.phase, ServerPhase::ConnectQuery)
    }

    /// Whether its host has not answered for long.
    pub(crate) fn is_silent(&self, now: Time) -> bool {
        matches!(self.phase, ServerPhase::Connecting) && now - self.connect_time > OPENS_IN_TIME
    }

    /// Whether its login is not finished.
    pub(crate) fn is_opening(&self) -> bool {
        matches!(
            self.phase,
            ServerPhase::Connecting | ServerPhase::Securing | ServerPhase::Login(_)
        )
    }

    /// Whether it has logged in, and the pooler has not told it to end: then its PostgreSQL was not restarted.
    pub(crate) fn is_up(&self) -> bool {
        !self.is_opening() && !matches!(self.phase, ServerPhase::Closing)
    }

    /// `S-0x…: db/user@address:port`, as PgBouncer writes it. `key` is that of its pool.
    pub(crate) fn label(&self, id: ServerId, key: &PoolKey) -> String {
        match &self.connected {
            Some(c) => format!("{id}: {}/{}@{}", key.database, key.user, c.remote),
            None => format!("{id}: {}/{}@{}", key.database, key.user, self.endpoint),
        }
    }

    /// Whether it serves no client, but listens for some.
    pub(crate) fn is_listening(&self) -> bool {
        matches!(self.phase, ServerPhase::Listening)
    }

    /// Whether its client has been sent only a part of a message.
    pub(crate) fn is_inside_message(&self) -> bool {
        matches!(self.conversation.passing(), Passing::Forward(_))
    }

    pub(crate) fn is_idle(&self) -> bool {
        matches!(self.phase, ServerPhase::Idle)
    }
}

/// The label of a server that may be gone: see [`Server::label`].
pub(crate) fn label(servers: &Slab<Server>, pools: &[Option<Pool>], id: ServerId) -> String {
    let Some(server) = servers.get(id.0) else {
        return id.to_string();
    };
    server.label(id, pool::of(pools, server.pool).key())
}
