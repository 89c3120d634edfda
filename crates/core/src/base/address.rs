//! One end of a connection.

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
