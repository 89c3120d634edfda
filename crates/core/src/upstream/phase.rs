//! Where a server connection stands.

use crate::upstream::server_login::ServerLogin;

/// Where a server connection stands.
#[derive(Debug, pgweir_freeze::Freeze)]
pub(crate) enum ServerPhase {
    /// Its socket is being opened.
    Connecting,
    /// It has been asked for TLS: its answer, or the end of the handshake, is awaited.
    Securing,
    /// It lets us in, until its first ReadyForQuery.
    Login(Box<ServerLogin>),
    /// Logged in: tells what it is, runs connect_query, and tells what it looks like then (see [`Introduction`]).
    ConnectQuery,
    /// In the pool's idle list.
    Idle,
    /// Runs the check query before it is handed out.
    Testing,
    /// It serves no client: see [`crate::flow::listener`].
    Listening,
    /// Linked to a client.
    Linked,
    /// Its client left: its replies are drained and its transaction is rolled back.
    Draining,
    /// Runs server_reset_query.
    Resetting,
    /// Gives up the time limit on idle sessions that its client had: see [`crate::flow::idle_limit`].
    LiftingLimit,
    /// Reads the catalog: see [`crate::flow::catalog_reading`].
    Reading,
    /// It was told to end, to make a place under a limit that it shares; it counts until its backend has gone.
    Closing,
    /// Clean, but a cancel request is still on its way to it.
    CancelPending,
}

/// How far a new server has come between its login and its first client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, pgweir_freeze::Freeze)]
pub(crate) enum Introduction {
    /// Nothing was asked of it.
    Begins,
    /// It was asked what it is, where that is not plain.
    NatureAsked,
    /// It has run `connect_query`, if there is one.
    Queried,
    /// It has told what it looks like, or need not.
    Done,
}

/// A deferred BEGIN on a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, pgweir_freeze::Freeze)]
pub(crate) enum Begin {
    /// There is none, or the server has begun the transaction.
    Settled,
    /// It has been sent: a cancel must not hit it, or what follows would run outside its transaction.
    Owed,
    /// The server has refused it: the client is told that its transaction has failed.
    Refused,
}

/// What a server does with the messages that it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, pgweir_freeze::Freeze)]
pub(crate) enum Intake {
    /// It carries them out.
    Requests,
    /// It ignores them up to the next Sync.
    ToSync,
    /// It takes CopyData: Syncs get no reply until CopyDone or CopyFail.
    CopyIn,
    /// Streaming replication: both sides send CopyData.
    CopyBoth,
}
