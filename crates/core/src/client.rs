//! A client connection.

use crate::base::ids::{ClientId, ServerId};
use crate::base::message::{Message, Step};
use crate::base::pin_reason::PinReason;
use crate::base::pool_id::PoolId;
use crate::base::reasons::{Dropping, Passing, Waiting};
use crate::base::request::Accepted;
use crate::base::time::Time;
use crate::base::tls::TlsFacts;
use crate::console::waiting::Waits;
use crate::login::cancel_keys::KeyForm;
use crate::login::client_login::Login;
use crate::login::method::Encryption;
use crate::login::startup::EncryptionRequests;
use crate::notify::channels::Channels;
use crate::notify::moving::Moving;
use crate::pools::fair::flow::Flow;
use crate::pools::pool::{self, Pool};
use crate::state::client_session::ClientSession;
use crate::state::shape::Shape;
use crate::statements::client_statements::ClientStatements;
use crate::upstream::entry::Effect;
use crate::upstream::flight::Flight;
use pgweir_wire::FrontendTag;
use pgweir_wire::frontend::{BindNames, Parse};
use std::sync::Arc;

/// A message that was dropped, because the pooler has answered it with an error.
#[derive(Debug)]
pub(crate) struct Dropped {
    pub(crate) step: Step,
    /// It is the last message to be dropped, so that a ReadyForQuery is due.
    pub(crate) ends: bool,
    /// It would have left a transaction block open. What the client has sent behind it belongs to that block, and must
    /// not run without it.
    pub(crate) begins_block: bool,
}

/// Where a client connection stands.
#[derive(Debug, pgweir_freeze::Freeze)]
pub(crate) enum ClientPhase {
    /// It has not sent its startup packet.
    Startup(EncryptionRequests),
    /// It is not a session: its CancelRequest is being carried out. The connection is closed after the signal was sent,
    /// as PostgreSQL does: a driver that waits for the close knows that the cancel cannot hit a later query.
    /// `has_place`: it has named a client correctly, and does not count among connections that are logging in.
    Cancelling { has_place: bool },
    /// It is being authenticated, or waits for what that needs (auth_query) or for the first server of its pool.
    Login(Box<Login>),
    /// Logged in: its messages go to servers.
    Session,
    /// Logged in to the admin console.
    Console(Box<crate::console::state::ConsoleState>),
}

/// One client connection.
#[derive(Debug, pgweir_freeze::Freeze)]
pub(crate) struct Client {
    pub(crate) phase: ClientPhase,
    pub(crate) accepted: Accepted,
    /// Set once TLS secures the connection.
    pub(crate) tls: Option<Box<TlsFacts>>,
    /// Set once the database is known.
    pub(crate) pool: Option<PoolId>,
    /// The user who logged in, if the database forces another user on the servers.
    pub(crate) login_user: Option<Box<str>>,
    /// The linked server.
    pub(crate) link: Option<ServerId>,
    pub(crate) waiting: Waiting,
    /// The flight with which it waits for a server.
    pub(crate) flight: Option<Box<Flight>>,
    pub(crate) passing: Passing,
    pub(crate) dropping: Dropping,
    /// The text of a Query that is being passed on, without its constants.
    pub(crate) long_text: Option<Box<pgweir_sql::Condensed>>,
    /// Bytes of the next message that must have come before it is looked at again.
    pub(crate) needs_bytes: u32,
    pub(crate) session: ClientSession,
    pub(crate) statements: ClientStatements,
    /// The channels that it listens to, once it has listened.
    pub(crate) channels: Option<Box<Channels>>,
    /// The process id that it was told at login; 0 before.
    pub(crate) process_id: u32,
    /// The form of its cancel key.
    pub(crate) key_form: KeyForm,
    /// Whether the login was counted in its pool's limits.
    pub(crate) counted: bool,
    pub(crate) connect_time: Time,
    /// When its latest request began.
    pub(crate) request_time: Time,
    /// When it sent the first request of its present transaction.
    pub(crate) xact_start: Time,
    /// When it asked to define something, while that waits: see [`Waiting::ToDefine`].
    pub(crate) defines_since: Option<Time>,
    /// The account of the server time that it has used while other clients waited.
    pub(crate) used: Flow,
}

impl Client {
    pub(crate) fn new(now: Time, accepted: Accepted, shape: Arc<Shape>) -> Self {
        Client {
            phase: ClientPhase::Startup(EncryptionRequests::default()),
            accepted,
            tls: None,
            pool: None,
            login_user: None,
            link: None,
            waiting: Waiting::No,
            flight: None,
            passing: Passing::None,
            dropping: Dropping::Nothing,
            long_text: None,
            needs_bytes: 0,
            session: ClientSession::new(shape),
            statements: ClientStatements::default(),
            channels: None,
            process_id: 0,
            key_form: KeyForm::Short,
            counted: false,
            connect_time: now,
            request_time: now,
            xact_start: now,
            defines_since: None,
            used: Flow::default(),
        }
    }

    /// Whether the client can change to another server: it has sent nothing to this one, it has no pins, and it has not
    /// changed before for this reason.
    pub(crate) fn may_go_elsewhere(&self) -> bool {
        self.waiting == Waiting::ForRestoration
            && self.session.pins().is_empty()
            && !self.session.went_elsewhere()
            && self.is_session()
    }

    /// Whether the login can go on with another server: this one was to answer something about its startup values, and the
    /// client has not changed before for this reason.
    pub(crate) fn may_log_in_elsewhere(&self) -> bool {
        self.login().is_some_and(|login| login.trial().is_some()) && !self.session.went_elsewhere()
    }

    /// The reasons why the client keeps its server, as the console shows them.
    pub(crate) fn pin_words(&self) -> Vec<&'static str> {
        let words = |reason| match (reason, self.channels.as_ref().map(|c| c.moving())) {
            (PinReason::Listening, Some(Moving::GivenUp(obstacle))) => obstacle.words(),
            _ => reason.words(),
        };
        self.session.pins().iter().map(words).collect()
    }

    /// Drops a message, including the part that has not come yet.
    pub(crate) fn drop_message(&mut self, message: &Message<'_>) -> Step {
        let have = message.bytes.len();
        if have < message.total {
            self.passing = Passing::Skip((message.total - have) as u32);
        }
        Step::Progress(have)
    }

    /// Drops a message that the pooler has already answered with an error.
    pub(crate) fn drop_answered(&mut self, message: &Message<'_>) -> Dropped {
        let mut dropped = Dropped {
            step: self.drop_message(message),
            ends: false,
            begins_block: false,
        };
        if self.dropping != Dropping::Everything {
            let may_begin = self.may_begin_block();
            dropped.ends = match message.tag {
                FrontendTag::Sync => true,
                FrontendTag::Query | FrontendTag::FunctionCall => self.dropping == Dropping::Request,
                _ => false,
            };
            dropped.begins_block = may_begin
                && match message.tag {
                    FrontendTag::Query => dropped.ends && pgweir_sql::leaves_block_open(message.body()),
                    FrontendTag::Execute => self.dropping == Dropping::BeginToSync,
                    _ => false,
                };
            if self.dropping == Dropping::Request && drops_unnamed(message) {
                self.statements.replace_unnamed(None);
            }
            self.dropping = match self.dropping {
                _ if dropped.ends => Dropping::Nothing,
                Dropping::BeginToSync => Dropping::BeginToSync,
                _ if may_begin && self.names_begin(message) => Dropping::BeginToSync,
                Dropping::Request if message.tag.asks_nothing() => Dropping::Request,
                _ if ends_unnamed(message) => Dropping::ToSyncPastUnnamed,
                Dropping::ToSyncPastUnnamed => Dropping::ToSyncPastUnnamed,
                _ => Dropping::ToSync,
            };
        }
        dropped
    }

    /// Whether a request of the client can begin a transaction block: it has neither a server nor a deferred BEGIN.
    pub(crate) fn may_begin_block(&self) -> bool {
        self.link.is_none() && self.session.deferred_begin().is_none()
    }

    /// Whether this Parse has, or this Bind names, a text that leaves a transaction block open. PostgreSQL refuses a
    /// Bind with values of such a text, which has no parameters.
    fn names_begin(&self, message: &Message<'_>) -> bool {
        match message.tag {
            FrontendTag::Parse => {
                Parse::read(message.body()).is_ok_and(|parse| pgweir_sql::leaves_block_open(parse.query))
            }
            FrontendTag::Bind => BindNames::read(message.body())
                .ok()
                .filter(|names| !names.statement.is_empty() || self.dropping != Dropping::ToSyncPastUnnamed)
                .filter(|names| names.bind_nothing(message.body()))
                .and_then(|names| self.statements.meaning_of(names.statement))
                .is_some_and(|statement| pgweir_sql::leaves_block_open(&statement.query)),
            _ => false,
        }
    }

    /// Ends a name. Returns the effect that restores it, if the name had a meaning.
    pub(crate) fn forget_name(&mut self, name: &[u8]) -> Option<Effect> {
        if name.is_empty() {
            return self.statements.replace_unnamed(None).map(|s| Effect {
                unnamed: Some(Some(s)),
                ..Effect::default()
            });
        }
        let before = self.statements.end(name)?;
        Some(Effect {
            name: Some((name.into(), Some(before))),
            ..Effect::default()
        })
    }

    /// `C-0x… db/user@address:port`, as PgBouncer writes it.
    pub(crate) fn label(&self, id: ClientId, pools: &[Option<Pool>]) -> String {
        let (database, user) = match (&self.phase, self.pool) {
            (ClientPhase::Login(login), _) => (login.database().to_owned(), login.user().to_owned()),
            (ClientPhase::Console(console), _) => ("pgbouncer".into(), console.user().to_string()),
            (_, Some(pool)) => {
                let key = pool::of(pools, pool).key();
                let user = self.login_user.as_deref().unwrap_or(&key.user);
                (key.database.to_string(), user.to_string())
            }
            _ => ("(nodb)".into(), "(nouser)".into()),
        };
        format!("{id}: {database}/{user}@{}", self.accepted.peer)
    }

    /// Whether it has not been authenticated yet.
    pub(crate) fn is_arriving(&self) -> bool {
        let phase = &self.phase;
        !self.counted
            && matches!(
                phase,
                ClientPhase::Startup(_) | ClientPhase::Cancelling { has_place: false } | ClientPhase::Login(_)
            )
    }

    /// The encryption of its connection.
    pub(crate) fn encryption(&self) -> Encryption<'_> {
        let peer = self.tls.as_ref().and_then(|tls| tls.peer.as_deref());
        Encryption {
            is_tls: self.tls.is_some(),
            has_certificate: peer.is_some(),
            common_name: peer.and_then(|peer| peer.common_name.as_deref()),
        }
    }

    /// Its login in progress.
    pub(crate) fn login(&self) -> Option<&Login> {
        match &self.phase {
            ClientPhase::Login(login) => Some(login),
            _ => None,
        }
    }

    /// Its login in progress.
    pub(crate) fn login_mut(&mut self) -> Option<&mut Login> {
        match &mut self.phase {
            ClientPhase::Login(login) => Some(login),
            _ => None,
        }
    }

    /// The console's command whose end it waits for.
    pub(crate) fn console_waits(&self) -> Option<&Waits> {
        match &self.phase {
            ClientPhase::Console(console) => console.waits(),
            _ => None,
        }
    }

    pub(crate) fn is_login(&self) -> bool {
        matches!(self.phase, ClientPhase::Login(_))
    }

    pub(crate) fn is_session(&self) -> bool {
        matches!(self.phase, ClientPhase::Session)
    }

    /// Whether what the client sends is read now: it does not wait for the pooler.
    #[inline]
    pub(crate) fn is_heard(&self) -> bool {
        match &self.phase {
            ClientPhase::Login(login) => login.reads() && self.waiting == Waiting::No,
            ClientPhase::Console(console) => !console.is_busy(),
            _ => self.waiting == Waiting::No || self.session.waits_only_to_begin(),
        }
    }

    /// Whether a server works on a request of the client, and what the client sends meanwhile is not read.
    pub(crate) fn is_served_unheard(&self) -> bool {
        matches!(self.waiting, Waiting::Flying { .. } | Waiting::ForReplies)
    }

    /// Whether it waits for a server that can begin its request: in the queue, or behind the flight of another client.
    pub(crate) fn waits_to_begin(&self) -> bool {
        match self.waiting {
            Waiting::ForServer { .. } => true,
            Waiting::Flying { .. } => self.link.is_none(),
            _ => false,
        }
    }

    /// Whether the pooler must do or know something before the next message goes to a server.
    #[inline]
    pub(crate) fn attends(&self) -> bool {
        self.channels.is_some() || self.session.deferred_begin().is_some()
    }

    /// Whether a listener hears channels for the client.
    #[inline]
    pub(crate) fn relies_on_listener(&self) -> bool {
        self.channels
            .as_ref()
            .is_some_and(|channels| channels.relies_on_listener())
    }
}

/// Whether PostgreSQL has dropped the unnamed statement before it can refuse this message.
fn drops_unnamed(message: &Message<'_>) -> bool {
    match message.tag {
        FrontendTag::Query => true,
        FrontendTag::Parse => message.body().first() == Some(&0),
        _ => false,
    }
}

/// Whether a message of the extended protocol gives the unnamed statement another meaning, or none.
fn ends_unnamed(message: &Message<'_>) -> bool {
    drops_unnamed(message) || message.tag == FrontendTag::Close && message.body() == b"S\0"
}
