//! What follows from an input for other connections than its own: plain values.
//!
//! A method changes its own connection at once. What that means for others it appends to the queue, and the pooler
//! carries it out when no connection is being handled any more: between two messages, and at the end of each input. So
//! no method runs inside itself, and none must look up again what a call may have changed.

use crate::base::errors::Trouble;
use crate::base::failure::Failure;
use crate::base::ids::{ClientId, ServerId};
use crate::base::pool_id::PoolId;
use crate::base::reasons::Passing;

#[derive(Debug)]
pub(crate) enum Consequence {
    /// The client of this server has left; `passing`: whether it left inside a message.
    ClientLeft { server: ServerId, passing: Passing },
    /// This server is clean and has no client: the next client gets it, or it becomes idle.
    ServerIsFree(ServerId),
    /// The client of this server may no longer need it.
    ServerMayBeFree(ServerId),
    /// This pool has one server fewer: its waiting clients may need another one, and another pool may open one.
    ServerOut(PoolId),
    /// This server is closed for this reason.
    CloseServer(ServerId, &'static str),
    /// The client of this server was closed by KILL_CLIENT: the server is closed, too.
    ClientKilled(ServerId),
    /// KILL closes this server for this reason, which is no failure of the server.
    KillServer(ServerId, &'static str),
    /// A client gets an error and is closed.
    FailClient(Box<ClientFailure>),
    /// The work of a client is over: the connection that asked to cancel it is closed.
    CancelIsOver(ClientId),
    /// A client that is logging in has been linked to this server.
    LoginHasServer { client: ClientId, server: ServerId },
    /// A client that is logging in needs a server, or another one.
    LoginNeedsServer(ClientId),
    /// auth_query cannot look up the user of a client that is logging in, for this reason.
    LookupFailed { client: ClientId, why: Box<str> },
    /// All servers are closed, and the process ends.
    EndProcess,
}

/// The error of a client that is closed.
#[derive(Debug)]
pub(crate) struct ClientFailure {
    pub(crate) client: ClientId,
    pub(crate) trouble: Trouble,
    pub(crate) message: &'static str,
    pub(crate) detail: String,
    pub(crate) hint: &'static str,
}

impl ClientFailure {
    /// What the client is told.
    pub(crate) fn failure(&self) -> Failure<'_> {
        Failure::new(self.trouble, self.message)
            .with_detail(&self.detail)
            .with_hint(self.hint)
    }
}
