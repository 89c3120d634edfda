//! Reasons for waiting, and outcomes: plain values that all layers use.

use crate::base::deeds::Question;
use crate::base::ids::ServerId;
use crate::base::time::Time;

/// What a client waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, pgweir_freeze::Freeze)]
pub(crate) enum Waiting {
    /// It is not waiting.
    No,
    /// It waits for a server.
    ForServer {
        /// Its place in the queue.
        ticket: u64,
        /// When it began to wait.
        since: Time,
        /// Whether it has got the NOTICE of query_wait_notify.
        notified: bool,
    },
    /// Its request has been sent to a server behind those of other clients, or is being answered there.
    Flying {
        /// The server.
        server: ServerId,
    },
    /// Its server has not confirmed the restored settings.
    ForRestoration,
    /// Its server has not answered a probe, which decides what must be restored before the client's next
    /// message.
    ForProbe,
    /// Its server has not answered earlier segments, which decide what the client's next message means.
    ForReplies,
    /// Its channels are being moved, or a notification that it sent to itself has not arrived.
    ForListener {
        /// When it began to wait.
        since: Time,
    },
    /// Its message is a definition. Earlier ones have cost other clients too much (see [`crate::catalog::debt`]), or it
    /// waits for flights (see [`crate::catalog::publications`]).
    ToDefine,
}

/// How a client has waited for a server to begin its transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, pgweir_freeze::Freeze)]
pub(crate) struct Waited {
    /// When it began to wait.
    pub(crate) since: Time,
    /// Whether it has got the NOTICE of query_wait_notify.
    pub(crate) notified: bool,
}

/// What becomes of the remaining bytes of a message that had arrived only in part when it was handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, pgweir_freeze::Freeze)]
pub(crate) enum Passing {
    /// Between messages.
    None,
    /// This many bytes are still forwarded to the linked connection.
    Forward(u32),
    /// This many bytes are still dropped.
    Skip(u32),
}

/// Messages that are dropped, because the pooler has answered them with an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, pgweir_freeze::Freeze)]
pub(crate) enum Dropping {
    /// None.
    Nothing,
    /// The next request. If it belongs to the extended protocol, everything up to Sync.
    Request,
    /// Everything up to Sync.
    ToSync,
    /// Everything up to Sync, and a Parse or Close of the unnamed statement has been dropped. A Bind behind it does not
    /// mean the unnamed statement that the client still has.
    ToSyncPastUnnamed,
    /// Everything up to Sync, and a Parse or Bind of a text that begins a transaction block has been dropped.
    BeginToSync,
    /// All that comes: a FATAL message of the server has said that both connections end.
    Everything,
}

/// What becomes of one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Passed {
    /// It goes to the client.
    Forward,
    /// It goes to no client, or has been replaced.
    Skip,
    /// It goes to the client; then the server is released.
    ForwardAndRelease,
    /// It goes to the client, whose flight is over: the next flight begins.
    ForwardAndTurn,
    /// It goes to no client; then the server is released.
    SkipAndRelease,
    /// More of it must come first.
    NeedBytes,
    /// The server is gone.
    Closed,
    /// The pooler's answer to this question decides.
    Asks(Question),
}

/// The outcome of a client's attempt to get a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Acquired {
    /// It has this server and may use it.
    Server(ServerId),
    /// It waits for a server or for restored settings; `Resume` will follow.
    Wait,
    /// It was refused and closed.
    Closed,
}
