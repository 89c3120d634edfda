//! A pooler without sockets: the test plays the driver, the clients and the servers, in virtual time.

#![allow(
    dead_code,
    unused_imports,
    reason = "tests/allocations.rs is a crate of its own and uses only a part of this"
)]

mod clients;
mod configuration;
mod driver;
mod secrets;
mod servers;
mod session;
mod transcript;

pub use clients::NO_TYPES;
pub use configuration::{configuration, configuration_with_files, configuration_with_users};
pub use secrets::without_secrets;
pub use servers::{NATURE_QUESTION, REPORTED, error, fatal, process_id};
pub use session::{EMPTIED, LOCKED, NOTHING, Session, TEMPORARY};

use pgweir_config::Config;
use pgweir_core::{
    ClientId, ConnectionId, Endpoint, LogLevel, OrderId, Pooler, ServerId, Time, TlsChange, Verification,
};
use pgweir_wire::CancelKey;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

/// A pooler and everything around it.
pub struct Rig {
    pub pooler: Pooler,
    pub now: Time,
    /// Bytes written to each connection that the test has not looked at.
    written: HashMap<ConnectionId, Vec<u8>>,
    /// Bytes that have arrived and that the driver has not read.
    unread: HashMap<ConnectionId, Vec<u8>>,
    /// Bytes the core did not consume.
    kept: HashMap<ConnectionId, Vec<u8>>,
    /// Servers that the pooler wants to be connected.
    pub connects: VecDeque<ServerId>,
    /// The address of each server.
    pub endpoints: HashMap<ServerId, Endpoint>,
    pub cancels: VecDeque<(ServerId, CancelKey)>,
    /// Cancel requests for peers: the peer, the connection that asked, the key.
    pub passed_on: VecDeque<(u32, ClientId, CancelKey)>,
    /// Connections on which the pooler wants a TLS handshake; `true` if the client begins with it at once.
    pub handshakes: VecDeque<(ConnectionId, bool)>,
    pub closed: HashSet<ConnectionId>,
    /// Servers whose connection was reset.
    pub aborted: Vec<ServerId>,
    pub log: Vec<(LogLevel, String)>,
    /// What the service manager was told last.
    pub status: Option<String>,
    pub exited: bool,
    pub stopped_listening: bool,
    /// The configuration after SET.
    pub configured: Option<Arc<Config>>,
    /// SETs that wait for files.
    pub tls_changes: VecDeque<Box<TlsChange>>,
    /// Requests to read the configuration again.
    pub reloads: VecDeque<Option<OrderId>>,
    /// Questions to the driver about clients.
    pub questions: VecDeque<(ClientId, Verification)>,
    /// Keys to derive for logins to servers.
    pub derivations: VecDeque<(ServerId, Verification)>,
    /// Internal names that were sent to any connection, by their form after [`without_secrets`].
    names: HashMap<String, String>,
    /// Servers that are asked for their catalog at login answer at once that it contains no name that matters.
    pub catalogs_are_empty: bool,
    /// How far standbys have replayed the write-ahead log. The position of the primary is 1.
    pub replayed: HashMap<ServerId, u64>,
}
