//! The phase of a server connection.

use crate::upstream::server_login::ServerLogin;

/// The phase of a server connection.
#[derive(Debug, pgweir_freeze::Freeze)]
pub(crate) enum ServerPhase {
    /// Its socket is being opened.
    Connecting,
    /// It was asked for TLS; its answer or the end of the handshake has not come.
    Securing,
    /// Its login, until its first ReadyForQuery.
    Login(Box<ServerLogin>),
    /// Logged in: it is asked for its nature, emptied, runs connect_query, and is then asked for its settings (see
    /// [`Introduction`]).
    ConnectQuery,
    /// In the pool's idle list.
    Idle,
    /// Runs the check query before a client gets it.
    Testing,
    /// It serves no client: see [`crate::listening`].
    Listening,
    /// Linked to a client.
    Linked,
    /// Its client left: its replies are drained and its transaction is rolled back.
    Draining,
    /// Runs server_reset_query.
    Resetting,
    /// Resets idle_session_timeout, which its client had set: see [`crate::flow::idle_limit`].
    LiftingLimit,
    /// Reads the catalog: see [`crate::session::catalogs`].
    Reading,
    /// The pooler has closed it to make room under a shared limit. It counts under the limit until its backend has
    /// ended.
    Closing,
    /// Clean and without a client, but a cancel request is still on its way to it. It must not hit what comes next.
    CancelPending(AfterCancel),
}

/// What happens to a server without a client once the cancel requests on their way to it have arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, pgweir_freeze::Freeze)]
pub(crate) enum AfterCancel {
    /// Its session is cleaned, if that is necessary.
    CleanUp,
    /// It is clean: another client may get it.
    Free,
}

/// How far the examination of a new server has come between its login and its first client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, pgweir_freeze::Freeze)]
pub(crate) enum Introduction {
    /// It was asked nothing.
    Begins,
    /// It was asked for its nature, if that was not certain.
    NatureAsked,
    /// It was asked how many connections it allows, if that must be known.
    LimitAsked,
    /// What login event triggers have left in its session was removed, if there may be any.
    Emptied,
    /// It has run `connect_query`, if there is one.
    Queried,
    /// Its settings are known, or need not be.
    Done,
}

/// A deferred BEGIN on a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, pgweir_freeze::Freeze)]
pub(crate) enum Begin {
    /// There is none, or the server has begun the transaction.
    Settled,
    /// It has been sent: a cancel must not hit it, or what follows would run outside its transaction.
    Owed,
    /// The server has refused it: the client gets a failed transaction.
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
