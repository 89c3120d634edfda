//! Why something waits, what becomes of bytes, and what came of a wish: plain values that all layers speak of.

use crate::base::deeds::Question;
use crate::base::ids::ServerId;
use crate::base::time::Time;

/// Whether a client holds a place in its pool's queue.
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
        /// Whether it has been told by the NOTICE of query_wait_notify.
        notified: bool,
    },
    /// Its request has been sent to a server behind those of other clients, or is being answered there.
    Flying {
        /// The server.
        server: ServerId,
    },
    /// It has a server, whose answer to restored settings it awaits.
    ForRestoration,
    /// It has a server, whose answer to a probe decides what must be restored before the client goes on.
    ForProbe,
    /// It has a server, whose answers to earlier segments decide what its next message means.
    ForReplies,
    /// What it listens to is on its way, or what it sent to itself is.
    ForListener {
        /// When it began to wait.
        since: Time,
    },
}

/// A message that was only partly there when it was dealt with: what becomes of its remaining bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, pgweir_freeze::Freeze)]
pub(crate) enum Passing {
    /// Between messages.
    None,
    /// This many bytes still go to the linked connection.
    Forward(u32),
    /// This many bytes still are dropped.
    Skip(u32),
}

/// Messages that are not passed on, because an error of our own has answered them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, pgweir_freeze::Freeze)]
pub(crate) enum Dropping {
    /// None.
    Nothing,
    /// The request that comes next; where it is one of the extended protocol, everything up to Sync.
    Request,
    /// Everything up to Sync.
    ToSync,
    /// All that comes: its server has said by a FATAL message that both connections end.
    Everything,
}

/// What becomes of one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Passed {
    /// To the client.
    Forward,
    /// Swallowed, or already replaced.
    Skip,
    /// Forwarded, and then the server has nothing more to do for this client.
    ForwardAndRelease,
    /// To the client, whose flight is over: it is the turn of the next one.
    ForwardAndTurn,
    /// Swallowed, and then the server has nothing more to do.
    SkipAndRelease,
    /// More of it must come first.
    NeedBytes,
    /// The server is gone.
    Closed,
    /// What the pooler's answer to this says.
    Asks(Question),
}

/// What became of a client's wish for a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Acquired {
    /// It has one and may use it.
    Server(ServerId),
    /// It waits, for a server or for restored settings; `Resume` will follow.
    Wait,
    /// It was refused and closed.
    Closed,
}
