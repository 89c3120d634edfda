//! What a server's message asks of the pooler: plain values.

/// What a server's message means for other connections, or for the life of its own. The pooler carries it out when the
/// message has been dealt with.
#[derive(Debug)]
pub(crate) enum Deed {
    /// The server has sent what no PostgreSQL sends.
    Misbehaves(String),
    /// Nothing that the server says can be relied on any more.
    Close(String),
    /// A query of the pooler's has failed with this message.
    OwnQueryFailed(Box<[u8]>),
    /// The catalog of the server's database may have changed.
    DoubtCatalog,
    /// The UNLISTEN of the linked client has been committed.
    Unlisten,
    /// A cancel that had to wait is over: the connections that asked for it are closed.
    EndCancelling,
    /// What the linked client listens to may have changed.
    ChannelsMayHaveChanged,
    /// The linked client's channels may move to the listener.
    MoveOn,
}

/// What only the pooler can answer before it is known what becomes of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Question {
    /// The listener has heard a notification.
    ListenerHears,
    /// The listener has answered a request.
    ListenerAnswered,
    /// A notification from the client's own server: does the client get it as it is?
    OwnNotification,
    /// A request stands among the data of a copy: the client is told so, and both connections are closed.
    CopyInterrupted,
    /// The server has answered a segment of restored settings.
    Restored,
    /// The server has answered a probe: does it stay with its client?
    Probed,
    /// The server has answered a step of moving channels.
    MoveAnswered,
    /// The server has refused a deferred BEGIN. `of_client`: the ReadyForQuery is the client's.
    NeverBegan { of_client: bool },
    /// A transaction block has begun in statement pooling.
    BlockInStatementMode,
    /// A transaction of a client that listens has ended: is its ReadyForQuery held back?
    TransactionEnded,
}
