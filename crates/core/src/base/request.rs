//! What the core asks of its driver, and the facts the driver brings.

use crate::base::ids::{ClientId, ConnectionId, ServerId};
use crate::base::verification::Verification;
use pgweir_config::SslMode;
use pgweir_wire::CancelKey;
use std::fmt;
use std::net::SocketAddr;

/// One end of a connection, as the console and the log print it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, pgweir_freeze::Freeze)]
pub enum Address {
    /// A TCP address.
    Tcp(SocketAddr),
    /// A Unix-domain socket; the port is the one in its file name.
    Unix {
        /// The port number in `.s.PGSQL.PORT`.
        port: u16,
    },
}

impl Address {
    /// The `addr` column of SHOW CLIENTS and SHOW SERVERS.
    pub fn host(&self) -> String {
        match self {
            Address::Tcp(a) => a.ip().to_string(),
            Address::Unix { .. } => "unix".into(),
        }
    }

    /// The `port` column.
    pub fn port(&self) -> u16 {
        match self {
            Address::Tcp(a) => a.port(),
            Address::Unix { port } => *port,
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(a) => a.fmt(f),
            Address::Unix { port } => write!(f, "unix:{port}"),
        }
    }
}

/// A client connection that was just accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, pgweir_freeze::Freeze)]
pub struct Accepted {
    /// The client's end.
    pub peer: Address,
    /// Our end.
    pub local: Address,
    /// User id of the peer process, known on Unix-domain sockets only.
    pub peer_uid: Option<u32>,
}

/// A server connection whose socket is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, pgweir_freeze::Freeze)]
pub struct Connected {
    /// The server's end.
    pub remote: Address,
    /// Our end.
    pub local: Address,
}

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq, Hash, pgweir_freeze::Freeze)]
pub enum Endpoint {
    /// A host name or address; the driver resolves it, and takes the addresses in turn where there are several.
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
    /// On a connection of its own, to the very address `server` is connected to, send a CancelRequest with `key` and
    /// wait until the server closes it (or 10 seconds); answered by `handle_cancel_finished(server)`, also when it
    /// could not be sent, and also when `server` was closed meanwhile.
    Cancel {
        /// The server whose query is to be cancelled.
        server: ServerId,
        /// Its key.
        key: CancelKey,
    },
    /// On a connection of its own, send a CancelRequest with `key` to another process, and wait until that closes it (or 10
    /// seconds); answered by `handle_passed_on(peer, by)`, also when it could not be sent.
    PassOn {
        /// The `peer_id` of the other process.
        peer: u32,
        /// The connection that asked. It may be gone when the answer comes.
        by: ClientId,
        /// Where the other process listens.
        endpoint: Endpoint,
        /// How it is spoken to, where that is not a Unix-domain socket.
        sslmode: SslMode,
        /// The key as it is passed on.
        key: CancelKey,
    },
    /// Become the server of a TLS handshake on this client's connection, behind the output that is pending for it; answered
    /// by `handle_client_secured` or `handle_client_not_secured`. From here on the core gets plain bytes.
    SecureClient {
        /// The client.
        client: ClientId,
        /// It has begun with TLS instead of an SSLRequest: what is kept for it belongs to the handshake, and it must name
        /// the protocol `postgresql` by ALPN.
        direct: bool,
    },
    /// Become the client of a TLS handshake on this server's connection; answered by `handle_server_secured` or
    /// `handle_server_not_secured`.
    SecureServer {
        /// The server.
        server: ServerId,
        /// The host as the configuration names it, which the certificate must be for under `verify-full`.
        host: String,
    },
    /// Write what is still pending for it, then close the socket. The id is dead from this moment: the driver must not
    /// call `handle_*` for it again.
    Close(ConnectionId),
    /// `may_read` of this connection may have turned true: pass the bytes kept for it to its `handle_*_bytes` again (also
    /// when there are none), then read on.
    Resume(ConnectionId),
    /// Find this out about a client that is logging in, without blocking; answered by `handle_verified`. It is of no use any
    /// more when the client has gone.
    Verify {
        /// The client.
        client: ClientId,
        /// The question.
        question: Box<Verification>,
    },
    /// Write a line to the log.
    Log {
        /// How loud.
        level: LogLevel,
        /// The text behind the level, as PgBouncer words it.
        text: String,
    },
    /// Read the configuration again and answer with `handle_reload`.
    Reload {
        /// The console client that asked, or `None` for a signal.
        by: Option<ClientId>,
    },
    /// SET or a RELOAD has changed the configuration: what the driver reads from it counts from now on.
    Configure(std::sync::Arc<pgweir_config::Config>),
    /// Stop accepting connections: close the listening sockets.
    StopListening,
    /// End the process with exit status 0, after pending output had a moment to go out.
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

/// The answer to [`Request::Reload`].
#[derive(Debug, Clone)]
pub enum ReloadOutcome {
    /// A configuration that can be used, and warnings to log. The core may still refuse it: see
    /// [`pgweir_config::Config::reload`].
    New(std::sync::Arc<pgweir_config::Config>, Vec<pgweir_config::Problem>),
    /// The old one stays, because of these problems. They include the warnings.
    Bad(Vec<pgweir_config::Problem>),
}
