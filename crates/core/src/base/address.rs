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
        /// The process at this end, known of clients.
        pid: Option<u32>,
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

    /// The `remote_pid` column; 0 if it is not known.
    pub fn pid(&self) -> u32 {
        match self {
            Address::Unix { pid, .. } => pid.unwrap_or_default(),
            Address::Tcp(_) => 0,
        }
    }

    /// What `application_name_add_host` appends; `host` is the name of this machine.
    pub(crate) fn with_host(&self, host: &str) -> String {
        match self {
            Address::Unix { port, pid: Some(pid) } => format!("unix({pid}@{host}):{port}"),
            _ => self.to_string(),
        }
    }

    /// The `port` column.
    pub fn port(&self) -> u16 {
        match self {
            Address::Tcp(a) => a.port(),
            Address::Unix { port, .. } => *port,
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(a) => a.fmt(f),
            Address::Unix { port, pid: Some(pid) } => write!(f, "unix({pid}):{port}"),
            Address::Unix { port, pid: None } => write!(f, "unix:{port}"),
        }
    }
}
