//! A client and its linked server, looked up once for each message.

use crate::base::ids::{ClientId, ServerId};
use crate::base::message::Step;
use crate::base::reasons::Waiting;
use crate::base::request::Request;
use crate::base::time::Time;
use crate::client::Client;
use crate::pools::pool::Pool;
use crate::server::Server;
use crate::server_side::ServerSide;
use crate::shared::Shared;
use pgweir_wire::Writer;

/// What a client's message does to its session and its server. If a message needs other
/// connections, the result is a [`Wish`].
pub(crate) struct Exchange<'a> {
    pub(crate) now: Time,
    pub(crate) id: ClientId,
    pub(crate) server_id: ServerId,
    pub(crate) client: &'a mut Client,
    pub(crate) server: &'a mut Server,
    pub(crate) pool: &'a mut Pool,
    pub(crate) shared: &'a mut Shared,
    /// Set if other connections must act before the message can be handled.
    pub(crate) wish: Option<Wish>,
    pub(crate) granted: Granted,
}

/// What other connections must do before a message is handled. Then the message is looked at again, unless the wish is
/// [`Wish::Fail`].
#[derive(Debug)]
pub(crate) enum Wish {
    /// The client has broken the protocol: it gets an error and is closed.
    Fail { message: String, detail: String },
    /// It may be a call of pg_terminate_backend() or pg_cancel_backend(), which acts on another client.
    Signal,
    /// It needs a database without connections, so idle servers must be closed.
    DatabaseAlone(Vec<u8>),
    /// The client has drawn from sequences on another server, which remembers the values.
    OwnServer,
    /// It may be a definition, which may have to wait: see [`crate::catalog::debt`].
    Definition,
    /// It may commit a definition, which may have to wait: see [`crate::catalog::publications`].
    Publication,
    /// The catalog of its database must be read again, or may be changed by the message. The message has been handled.
    CatalogNews,
}

/// Wishes of this message that have been granted.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Granted {
    pub(crate) signal: bool,
    pub(crate) database_alone: bool,
    pub(crate) own_server: bool,
    pub(crate) definition: bool,
    pub(crate) publication: bool,
}

impl Exchange<'_> {
    /// The server without its client.
    #[inline]
    pub(crate) fn to(&mut self) -> ServerSide<'_> {
        ServerSide {
            id: self.server_id,
            server: self.server,
            pool: self.pool,
            shared: self.shared,
        }
    }

    /// The message is looked at again after further replies of the server.
    pub(crate) fn waits_for_replies(&mut self) -> Step {
        self.client.waiting = Waiting::ForReplies;
        Step::Wait
    }

    /// The client may look again at a message that waited for replies.
    pub(crate) fn replies_came(&mut self) {
        if self.client.waiting == Waiting::ForReplies && !self.client.session.awaits_reset() {
            self.client.waiting = Waiting::No;
            self.shared.requests.push_back(Request::Resume(self.id.into()));
        }
    }

    /// Other connections must act first.
    #[cold]
    pub(crate) fn wishes(&mut self, wish: Wish) -> Step {
        self.wish = Some(wish);
        Step::Wait
    }

    /// The client has broken the protocol.
    #[cold]
    pub(crate) fn fails(&mut self, message: String, detail: String) -> Step {
        self.wishes(Wish::Fail { message, detail })
    }

    /// A text that may need a database without connections.
    #[cold]
    pub(crate) fn wants_database_alone(&mut self, text: &[u8]) -> Option<Step> {
        if self.granted.database_alone {
            return None;
        }
        let database = pgweir_sql::database_needed_alone(text)?;
        Some(self.wishes(Wish::DatabaseAlone(database)))
    }

    /// Writes internal messages to the client.
    pub(crate) fn tell(&mut self, write: impl FnOnce(&mut Writer<'_>)) {
        self.shared
            .outbox
            .insert(self.id.into(), |bytes| write(&mut Writer::new(bytes)));
    }
}
