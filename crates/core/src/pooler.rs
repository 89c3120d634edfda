//! The pooler itself: the one struct that a driver holds.

use crate::ids::{ClientId, ConnectionId, ServerId};
use crate::outbox::Outbox;
use crate::request::{Accepted, Command, Connected, ReloadOutcome, Request};
use crate::time::{Time, WallClock};
use pgweir_config::Config;
use std::collections::VecDeque;
use std::sync::Arc;

/// What a pooler must be told about its process.
#[derive(Debug, Clone)]
pub struct Surroundings {
    /// Seed of every random number the pooler draws: cancel keys, salts, jitter. Must come from the operating system.
    pub seed: [u8; 32],
    /// What the clock on the wall showed at [`Time`] zero.
    pub wall: WallClock,
    /// Our own user id: the peer of the same id on a Unix-domain socket is an administrator as user `pgbouncer`.
    pub own_uid: u32,
    /// File descriptors the process may open; only SHOW and warnings use it.
    pub open_files_max: u64,
}

/// One worker's clients, servers and pools.
pub struct Pooler {
    outbox: Outbox,
    requests: VecDeque<Request>,
}

impl Pooler {
    /// A pooler without connections. Servers for `min_pool_size` are requested by the first [`Pooler::handle_timeout`].
    pub fn new(config: Arc<Config>, surroundings: Surroundings, now: Time) -> Self {
        let _ = (config, surroundings, now);
        Pooler { outbox: Outbox::default(), requests: VecDeque::new() }
    }

    /// What the last `handle_*` call wants written. Write it out or copy it, then [`Outbox::clear`] it, before the next
    /// `handle_*` call.
    pub fn outbox(&mut self) -> &mut Outbox {
        &mut self.outbox
    }

    /// The next thing to do, in order.
    pub fn poll_request(&mut self) -> Option<Request> {
        self.requests.pop_front()
    }

    /// When [`Pooler::handle_timeout`] must be called at the latest.
    pub fn poll_timeout(&self) -> Option<Time> {
        None
    }

    /// Whether bytes of this connection should be read now. Where this is false the driver reads nothing from it until
    /// a [`Request::Resume`]; what it has already read and the core did not consume stays with the driver.
    pub fn may_read(&self, id: ConnectionId) -> bool {
        let _ = id;
        true
    }

    /// The connection at the other end of the link: where bytes of `id` are forwarded to. Back-pressure is the driver's:
    /// it does not read `id` while more than its limit is pending for the linked connection.
    pub fn linked(&self, id: ConnectionId) -> Option<ConnectionId> {
        let _ = id;
        None
    }

    /// A client connected.
    pub fn handle_accept(&mut self, now: Time, accepted: Accepted) -> ClientId {
        let _ = (now, accepted);
        todo!()
    }

    /// Bytes from a client: what was kept from last time followed by what just came. Returns how many were consumed; the
    /// driver keeps the rest (a message cut short, or a client that waits for a server) and passes it again, in front of
    /// whatever comes next or at a [`Request::Resume`].
    pub fn handle_client_bytes(&mut self, now: Time, client: ClientId, input: &[u8]) -> usize {
        let _ = (now, client);
        input.len()
    }

    /// The client closed its connection or it broke. Its id is dead.
    pub fn handle_client_closed(&mut self, now: Time, client: ClientId) {
        let _ = (now, client);
    }

    /// The socket asked for by [`Request::Connect`] is open.
    pub fn handle_server_connected(&mut self, now: Time, server: ServerId, connected: Connected) {
        let _ = (now, server, connected);
    }

    /// The socket asked for by [`Request::Connect`] could not be opened. The id is dead.
    pub fn handle_server_connect_failed(&mut self, now: Time, server: ServerId, why: &str) {
        let _ = (now, server, why);
    }

    /// Bytes from a server; as [`Pooler::handle_client_bytes`].
    pub fn handle_server_bytes(&mut self, now: Time, server: ServerId, input: &[u8]) -> usize {
        let _ = (now, server);
        input.len()
    }

    /// The server closed its connection or it broke. Its id is dead.
    pub fn handle_server_closed(&mut self, now: Time, server: ServerId) {
        let _ = (now, server);
    }

    /// A [`Request::Cancel`] for this server is over, one way or the other.
    pub fn handle_cancel_finished(&mut self, now: Time, server: ServerId) {
        let _ = (now, server);
    }

    /// The time asked for by [`Pooler::poll_timeout`] has come (calling it early does no harm).
    pub fn handle_timeout(&mut self, now: Time) {
        let _ = now;
    }

    /// A signal.
    pub fn handle_command(&mut self, now: Time, command: Command) {
        let _ = (now, command);
    }

    /// The answer to a [`Request::Reload`].
    pub fn handle_reload(&mut self, now: Time, by: Option<ClientId>, outcome: ReloadOutcome) {
        let _ = (now, by, outcome);
    }
}
