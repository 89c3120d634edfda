//! What the core asks of its driver, and facts that the driver brings.

use crate::base::address::Address;
use crate::base::ids::{ClientId, ConnectionId, ServerId};
use crate::base::verification::Verification;
use pgweir_config::{Config, Problem, SslMode};
use pgweir_wire::CancelKey;
use std::fmt;
use std::sync::Arc;

/// A client connection that was just accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, pgweir_freeze::Freeze)]
pub struct Accepted {
    /// The client's end.
    pub peer: Address,
    /// The pooler's end.
    pub local: Address,
    /// User id of the peer process, known on Unix-domain sockets only.
    pub peer_uid: Option<u32>,
}

/// A server connection whose socket is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, pgweir_freeze::Freeze)]
pub struct Connected {
    /// The server's end.
    pub remote: Address,
    /// The pooler's end.
    pub local: Address,
}

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq, Hash, pgweir_freeze::Freeze)]
pub enum Endpoint {
    /// A host name or address. The driver resolves it, and takes several addresses in turn.
    Tcp {
        /// Name, IPv4 or IPv6 address without brackets.
        host: String,
        /// Port.
        port: u16,
    },
    /// A Unix-domain socket; a path that begins with `@` is in the abstract namespace.
    Unix {
        /// Path of the socket itself.
        path: String,
        /// The port in its name.
        port: u16,
    },
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Endpoint::Tcp { host, port } => write!(f, "{host}:{port}"),
            Endpoint::Unix { port, .. } => write!(f, "unix:{port}"),
        }
    }
}

/// Levels of log lines, as PgBouncer names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// FATAL: the process ends.
    Fatal,
    /// ERROR.
    Error,
    /// WARNING.
    Warning,
    /// LOG.
    Log,
    /// DEBUG: with `-v`.
    Debug,
}

/// How a [`Request::Cancel`] has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelEnd {
    /// The server has carried it out.
    Over,
    /// The server has never got it.
    NotSent,
    /// It was sent, and the server has not closed the connection in time: it may still be carried out.
    NotKnown,
}

/// What the driver must do.
#[derive(Debug, Clone, PartialEq)]
pub enum Request {
    /// Open a socket to `endpoint`; answered by `handle_server_connected` or `handle_server_connect_failed`.
    Connect {
        /// The connection that gets the socket.
        server: ServerId,
        /// Where to.
        endpoint: Endpoint,
    },
    /// Open another connection to the address that `server` is connected to, send a CancelRequest with `key`, and wait
    /// until the server closes the connection (10 seconds at most). Answered by `handle_cancel_finished(server, end)`,
    /// also if the request could not be sent, or if `server` was closed meanwhile.
    Cancel {
        /// The server whose query is to be cancelled.
        server: ServerId,
        /// Its key.
        key: CancelKey,
    },
    /// Pass on all that has arrived from `client`, as far as [`crate::Pooler::may_read`] allows, also if no event has
    /// reported it; then call `handle_read_before_cancel`. The cancel request on the connection `by` is for what the
    /// client has sent before that request.
    ReadBeforeCancel {
        /// The client to be read.
        client: ClientId,
        /// The connection of the CancelRequest.
        by: ClientId,
    },
    /// Open another connection to another process, send a CancelRequest with `key`, and wait until that process closes
    /// the connection (10 seconds at most). Answered by `handle_passed_on(peer, by, end)`, also if the request could
    /// not be sent.
    PassOn {
        /// The `peer_id` of the other process.
        peer: u32,
        /// The connection that asked. It may be gone when the answer comes.
        by: ClientId,
        /// Where the other process listens.
        endpoint: Endpoint,
        /// Whether to use TLS, if the connection is not a Unix-domain socket.
        sslmode: SslMode,
        /// The key to send.
        key: CancelKey,
    },
    /// Begin a TLS handshake on this client's connection, as its server, after the output that is pending for it.
    /// Answered by `handle_client_secured` or `handle_client_not_secured`. From then on the core gets plain bytes.
    SecureClient {
        /// The client.
        client: ClientId,
        /// The client has begun with TLS, without an SSLRequest: the bytes kept for it belong to the handshake, and it
        /// must name the protocol `postgresql` by ALPN.
        direct: bool,
    },
    /// Begin a TLS handshake on this server's connection, as its client. Answered by `handle_server_secured` or
    /// `handle_server_not_secured`.
    SecureServer {
        /// The server.
        server: ServerId,
        /// The host's name in the configuration. With `verify-full` the certificate must be for this name.
        host: String,
        /// No SSLRequest was sent: the server must choose the protocol `postgresql` by ALPN.
        direct: bool,
    },
    /// Write the output that is pending for this connection, then close it. From now on the driver must not call
    /// `handle_*` with this id.
    Close(ConnectionId),
    /// Reset the connection to a server, so that the server runs nothing more of what it was sent. Output that is
    /// pending is not written. From now on the driver must not call `handle_*` with this id.
    Abort(ServerId),
    /// `may_read` of this connection may have become true: pass the bytes kept for it to `handle_*_bytes` again (even
    /// if there are none), then read on.
    Resume(ConnectionId),
    /// Find this out about a client that is logging in, or for a login to a server, without blocking. Answered by
    /// `handle_verified`. If the connection is gone, no answer is needed.
    Verify {
        /// The connection whose login waits. A server waits only for [`Verification::Keys`].
        asker: ConnectionId,
        /// The question.
        question: Box<Verification>,
    },
    /// Write a line to the log.
    Log {
        /// The level.
        level: LogLevel,
        /// The text after the level, in PgBouncer's words.
        text: String,
    },
    /// Tell the service manager how the pooler is doing.
    Status(String),
    /// Read the configuration again. Answered by `handle_reload`.
    Reload {
        /// The command of the console that asked; `None` for a signal.
        by: Option<OrderId>,
    },
    /// SET or a RELOAD has changed the configuration: the driver uses this one from now on. The files of a RELOAD have
    /// been read; those of a SET have been tried.
    Configure(Arc<Config>),
    /// SET changes settings of TLS: read the files that they name. Answered by `handle_tls_tried`.
    TryTls(Box<TlsChange>),
    /// A shutdown has begun: close the listening sockets of TCP. Unix-domain sockets stay open until [`Request::Exit`],
    /// for cancel requests and the console.
    StopListening,
    /// End the process with exit status 0, after a moment in which pending output is written.
    Exit,
}

/// An order from outside the console: signals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// SIGHUP.
    Reload,
    /// SIGTERM: the first waits for clients, the second ends at once.
    ShutdownWaitForClients,
    /// SIGINT: the first waits for servers, the second ends at once.
    ShutdownWaitForServers,
    /// SIGQUIT.
    ShutdownImmediate,
    /// SIGUSR1.
    Pause,
    /// SIGUSR2.
    Resume,
}

/// A command of the console that is answered later. Its client may have left by then, or wait for another command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, pgweir_freeze::Freeze)]
pub struct OrderId {
    /// The client.
    pub(crate) client: ClientId,
    /// No other command has this number.
    pub(crate) number: u64,
}

/// The answer to [`Request::Reload`].
#[derive(Debug, Clone)]
pub enum ReloadOutcome {
    /// A configuration that can be used, and warnings to log. The core may still refuse it: see
    /// [`pgweir_config::Config::reload`].
    New(Arc<Config>, Vec<Problem>),
    /// The old configuration stays, because of these problems. They include the warnings.
    Bad(Vec<Problem>),
}

/// A SET that changes settings of TLS.
#[derive(Debug, Clone, PartialEq)]
pub struct TlsChange {
    /// The command of the console.
    pub(crate) by: OrderId,
    /// The setting.
    pub(crate) key: String,
    /// Its new value.
    pub(crate) value: String,
    /// The configuration that is changed.
    pub(crate) from: Arc<Config>,
    /// The configuration with the new value.
    pub(crate) to: Arc<Config>,
}

impl TlsChange {
    /// The configuration whose files are to be read.
    pub fn config(&self) -> &Config {
        &self.to
    }
}

/// What becomes of the files that the driver has read for a [`TlsChange`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum TriedTls {
    /// New handshakes use them.
    Used,
    /// They are dropped. If something else has changed meanwhile, the core asks again.
    Dropped,
}
