//! A client and the server that it is linked to, looked up once for a message.

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

/// What a client's message does to its own session and server. What it means for other connections is a [`Wish`].
pub(crate) struct Exchange<'a> {
    pub(crate) now: Time,
    pub(crate) id: ClientId,
    pub(crate) server_id: ServerId,
    pub(crate) client: &'a mut Client,
    pub(crate) server: &'a mut Server,
    pub(crate) pool: &'a mut Pool,
    pub(crate) shared: &'a mut Shared,
    /// Set where the message cannot be dealt with before others have done something.
    pub(crate) wish: Option<Wish>,
    pub(crate) granted: Granted,
}

/// What others must do before a message is dealt with. It is looked at again then, unless the client is told that it fails.
#[derive(Debug)]
pub(crate) enum Wish {
    /// The client has broken the protocol: it is told so and closed.
    Fail { message: String, detail: String },
    /// It may be a call of pg_terminate_backend() or pg_cancel_backend(), which acts on another client.
    Signal,
    /// It needs a database without connections: idle servers are in its way.
    DatabaseAlone(Vec<u8>),
    /// Another server remembers what the client has drawn from sequences.
    OwnServer,
    /// The catalog of its database is to be read again. The message itself has been dealt with.
    CatalogRead,
}

/// Wishes of the same message that have been granted.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Granted {
    pub(crate) signal: bool,
    pub(crate) database_alone: bool,
    pub(crate) own_server: bool,
}

impl Exchange<'_> {
    /// The server alone.
    #[inline]
    pub(crate) fn to(&mut self) -> ServerSide<'_> {
        ServerSide {
            id: self.server_id,
            server: self.server,
            pool: self.pool,
            shared: self.shared,
        }
    }

    /// The message is looked at again when the server has answered more.
    pub(crate) fn waits_for_replies(&mut self) -> Step {
        self.client.waiting = Waiting::ForReplies;
        Step::Wait
    }

    /// The client may look again at a message that it held back until it knew what the message means.
    pub(crate) fn replies_came(&mut self) {
        if self.client.waiting == Waiting::ForReplies && self.client.session.reset_among.is_none() {
            self.client.waiting = Waiting::No;
            self.shared.requests.push_back(Request::Resume(self.id.into()));
        }
    }

    /// Something must be done by others first.
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

    /// Writes messages of our own to the server.
    pub(crate) fn ask(&mut self, write: impl FnOnce(&mut Writer<'_>)) {
        self.to().send(write);
    }

    /// Writes messages of our own to the client.
    pub(crate) fn tell(&mut self, write: impl FnOnce(&mut Writer<'_>)) {
        self.shared
            .outbox
            .insert(self.id.into(), |bytes| write(&mut Writer::new(bytes)));
    }
}
