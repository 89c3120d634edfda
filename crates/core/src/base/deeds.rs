//! What the pooler must do because of a server's message: plain values.

use crate::base::admits::Admits;
use pgweir_sql::Outdated;

/// What a server's message means for other connections, or for the connection to this server. The pooler carries it out
/// after the message has been handled.
#[derive(Debug)]
pub(crate) enum Deed {
    /// The server has sent bytes that PostgreSQL never sends.
    Misbehaves(String),
    /// The server's next message is longer than its client may get; its length in bytes.
    TooLong(u32),
    /// The server must be closed, because the pooler can no longer rely on the server's messages.
    Close(String),
    /// An internal query has failed with this error.
    InternalQueryFailed { severity: Box<[u8]>, message: Box<[u8]> },
    /// The catalog of the server's database may have changed.
    DoubtCatalog,
    /// Names in statements may now mean other objects of the server's database.
    MoveNames,
    /// New sessions may begin with other settings than the open servers have, or as another role, or may be refused.
    /// `is_sure`: that has happened, and not every role can cause it.
    ReplaceServers { of: Outdated, is_sure: bool },
    /// The server may now admit logins that it has refused.
    TryLoginsAgain(Admits),
    /// The UNLISTEN of the linked client has been committed.
    Unlisten,
    /// A cancel that had to wait has ended: the connections that asked for it are closed.
    EndCancelling,
    /// The channels of the linked client may have changed.
    ChannelsMayHaveChanged,
    /// The linked client's channels may move to the listener.
    MoveOn,
}

/// What only the pooler can answer, before the message can be handled further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Question {
    /// The listener has received a notification.
    ListenerHears,
    /// The listener has answered a request.
    ListenerAnswered,
    /// The client's server has sent a notification: does the client get it unchanged?
    OwnNotification,
    /// The client has sent a request among the data of a COPY: it gets an error, and both connections are closed.
    CopyInterrupted,
    /// The server has answered a segment of restored settings.
    Restored,
    /// The server has answered a probe: does it stay linked to its client?
    Probed,
    /// The server has answered a step of moving channels.
    MoveAnswered,
    /// The server has refused a deferred BEGIN. `of_client`: the ReadyForQuery goes to the client.
    NeverBegan { of_client: bool },
    /// A transaction block has begun in statement pooling.
    BlockInStatementMode,
    /// A transaction of a client that listens has ended: does its ReadyForQuery wait?
    TransactionEnded,
}
