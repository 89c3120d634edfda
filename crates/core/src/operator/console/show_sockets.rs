//! SHOW CLIENTS, SHOW SERVERS, SHOW SERVERS EXTENDED, SHOW SOCKETS, SHOW ACTIVE_SOCKETS, and the ids that KILL_CLIENT
//! takes.

use crate::base::ids::{ClientId, ServerId, Slot};
use crate::base::pool_id::PoolKind;
use crate::base::reasons::Waiting;
use crate::base::request::Endpoint;
use crate::base::time::Time;
use crate::client::{Client, ClientPhase};
use crate::console::columns::SOCKET_BUFFERS;
use crate::console::rows::{Rows, Value};
use crate::operator::numbers::number;
use crate::operator::view::View;
use crate::server::Server;
use crate::upstream::phase::ServerPhase;
use pgweir_config::CONSOLE_DATABASE;

/// The contents of a row that differ for clients and servers.
struct Socket<'a> {
    kind: &'static str,
    user: &'a str,
    database: &'a str,
    replication: &'static str,
    state: &'static str,
    addr: String,
    port: u16,
    local_addr: String,
    local_port: u16,
    connect_time: Time,
    request_time: Time,
    wait_us: u64,
    close_needed: bool,
    ptr: String,
    link: String,
    remote_pid: u32,
    tls: String,
    application_name: &'a str,
    prepared_statements: usize,
    id: u32,
}

impl View<'_> {
    pub(super) fn show_clients(&self, rows: &mut Rows<'_>) {
        for (slot, client) in self.clients.iter() {
            if !matches!(client.phase, ClientPhase::Startup(_)) && !is_authenticating(client) {
                rows.push(&self.socket_values(&self.client_socket(slot, client, client_state(client))));
            }
        }
    }

    /// `extended`: with the number of flights that are outstanding, 0 for a server that works for one client alone.
    pub(super) fn show_servers(&self, rows: &mut Rows<'_>, extended: bool) {
        for (slot, server) in self.servers.iter() {
            let state = self.server_state(server).trim_start_matches("sv_");
            let state = if state == "login" { "new" } else { state };
            let socket = self.server_socket(slot, server, state);
            let mut values = self.socket_values(&socket);
            if extended {
                values.push(server.flights.as_ref().map_or(0, |flights| flights.len()).into());
            }
            rows.push(&values);
        }
    }

    /// Clients and servers with their buffers. The driver has the buffers, mostly empty, so the columns are 0. Active
    /// connections are those that are linked, waiting, or at work.
    pub(super) fn show_sockets(&self, rows: &mut Rows<'_>, active_only: bool) {
        for (slot, client) in self.clients.iter() {
            // As in PgBouncer, they are in SHOW CLIENTS alone.
            if matches!(client.phase, ClientPhase::Cancelling { .. }) {
                continue;
            }
            let active = client.link.is_some() || client.waiting != Waiting::No;
            if active || !active_only {
                self.push_socket(rows, &self.client_socket(slot, client, client_socket_state(client)));
            }
        }
        for (slot, server) in self.servers.iter() {
            if !server.is_idle() || !active_only {
                let state = self.server_state(server);
                self.push_socket(rows, &self.server_socket(slot, server, state));
            }
        }
    }

    fn push_socket(&self, rows: &mut Rows<'_>, socket: &Socket<'_>) {
        let mut values = self.socket_values(socket);
        values.extend(std::iter::repeat_n(Value::Number(0), SOCKET_BUFFERS));
        rows.push(&values);
    }

    fn socket_values<'a>(&self, s: &'a Socket<'_>) -> Vec<Value<'a>> {
        let time = |time: Time| self.wall.text(time).to_string();
        vec![
            s.kind.into(),
            s.user.into(),
            s.database.into(),
            s.replication.into(),
            s.state.into(),
            Value::from(&*s.addr),
            u32::from(s.port).into(),
            Value::from(&*s.local_addr),
            u32::from(s.local_port).into(),
            time(s.connect_time).into(),
            time(s.request_time).into(),
            (s.wait_us / 1_000_000).into(),
            (s.wait_us % 1_000_000).into(),
            s.close_needed.into(),
            Value::from(&*s.ptr),
            Value::from(&*s.link),
            s.remote_pid.into(),
            Value::from(&*s.tls),
            s.application_name.into(),
            s.prepared_statements.into(),
            s.id.into(),
        ]
    }

    fn client_socket<'a>(&'a self, slot: Slot, client: &'a Client, state: &'static str) -> Socket<'a> {
        let pool = client.pool.and_then(|id| self.pools.get(id as usize)?.as_ref());
        let (user, database) = match (&client.phase, pool) {
            (ClientPhase::Console(console), _) => (console.user(), CONSOLE_DATABASE),
            (ClientPhase::Login(login), _) => (login.user(), login.database()),
            (_, Some(pool)) => (
                client.login_user.as_deref().unwrap_or(&pool.key().user),
                &*pool.key().database,
            ),
            (_, None) => ("(nouser)", "(nodb)"),
        };
        let application_name = match &client.phase {
            ClientPhase::Console(console) => console.application_name(),
            _ => client.session.shape().get("application_name").map_or("", |s| s.value()),
        };
        let prepared_statements = match &client.phase {
            ClientPhase::Console(console) => console.portals().statements(),
            _ => client.statements.names().map_or(0, |n| n.len()),
        };
        let (server, wait_us) = match client.waiting {
            Waiting::ForServer { since, .. } => (None, self.now.us_since(since)),
            Waiting::Flying { server } => (Some(server), self.rides_for_us(ClientId(slot), server)),
            _ => (client.link, 0),
        };
        Socket {
            kind: "C",
            user,
            database,
            replication: replication(pool.map(|p| p.key().kind)),
            state,
            addr: client.accepted.peer.host(),
            port: client.accepted.peer.port(),
            local_addr: client.accepted.local.host(),
            local_port: client.accepted.local.port(),
            connect_time: client.connect_time,
            request_time: client.request_time,
            wait_us,
            close_needed: false,
            ptr: pointer(ClientId(slot)),
            link: server.map(pointer).unwrap_or_default(),
            remote_pid: client.accepted.peer.pid(),
            tls: client.tls.as_ref().map_or(String::new(), |tls| tls.to_string()),
            application_name,
            prepared_statements,
            id: number(slot, false),
        }
    }

    fn server_socket<'a>(&'a self, slot: Slot, server: &'a Server, state: &'static str) -> Socket<'a> {
        let key = self.pool(server.pool).key();
        let (addr, port) = match (&server.connected, &server.endpoint) {
            (Some(connected), _) => (connected.remote.host(), connected.remote.port()),
            (None, Endpoint::Tcp { host, port }) => (host.clone(), *port),
            (None, Endpoint::Unix { port, .. }) => ("unix".into(), *port),
        };
        let (local_addr, local_port) = match &server.connected {
            Some(connected) => (connected.local.host(), connected.local.port()),
            None => (String::new(), 0),
        };
        Socket {
            kind: "S",
            user: &key.user,
            database: &key.database,
            replication: replication(Some(key.kind)),
            state,
            addr,
            port,
            local_addr,
            local_port,
            connect_time: server.connect_time,
            request_time: server.conversation.request_time(),
            wait_us: 0,
            close_needed: server.close_reason.is_some(),
            ptr: pointer(ServerId(slot)),
            link: server.link.map(pointer).unwrap_or_default(),
            remote_pid: server.cancels.process_id().unwrap_or(0),
            application_name: server.session.shape().get("application_name").map_or("", |s| s.value()),
            tls: server.tls.as_ref().map_or(String::new(), |tls| tls.to_string()),
            prepared_statements: server.held.len(),
            id: number(slot, true),
        }
    }

    /// How long a client has waited whose flight is on this server; 0 if the server can have begun the flight.
    fn rides_for_us(&self, id: ClientId, server: ServerId) -> u64 {
        let flights = self.servers.get(server.0).and_then(|server| server.flights.as_ref());
        let since = flights.and_then(|flights| flights.rides_since(id));
        since.map_or(0, |since| self.now.us_since(since))
    }

    /// A server's state in SHOW SOCKETS; SHOW SERVERS drops the prefix.
    fn server_state(&self, server: &Server) -> &'static str {
        match server.phase {
            ServerPhase::Connecting | ServerPhase::Securing | ServerPhase::Login(_) | ServerPhase::ConnectQuery => {
                "sv_login"
            }
            ServerPhase::Idle if self.needs_check(server) => "sv_used",
            ServerPhase::Idle => "sv_idle",
            ServerPhase::Testing
            | ServerPhase::Resetting
            | ServerPhase::LiftingLimit
            | ServerPhase::Reading
            | ServerPhase::Closing => "sv_tested",
            ServerPhase::Linked | ServerPhase::Draining | ServerPhase::Listening => "sv_active",
            ServerPhase::CancelPending(_) => "sv_being_canceled",
        }
    }
}

/// Whether the client is not authenticated yet. Afterwards, a login that waits for a server is a waiting client.
fn is_authenticating(client: &Client) -> bool {
    matches!(client.phase, ClientPhase::Login(_)) && !matches!(client.waiting, Waiting::ForServer { .. })
}

fn client_state(client: &Client) -> &'static str {
    match client.link {
        _ if matches!(client.phase, ClientPhase::Cancelling { .. }) => "active_cancel_req",
        _ if client.waits_to_begin() => "waiting",
        Some(_) => "active",
        None => "idle",
    }
}

fn client_socket_state(client: &Client) -> &'static str {
    match (&client.phase, client.waiting) {
        (ClientPhase::Login(_), Waiting::ForServer { .. }) => "cl_waiting",
        (ClientPhase::Startup(_) | ClientPhase::Login(_), _) => "cl_login",
        _ if client.waits_to_begin() => "cl_waiting",
        _ => "cl_active",
    }
}

fn replication(kind: Option<PoolKind>) -> &'static str {
    match kind {
        Some(PoolKind::Replication { physical: true }) => "physical",
        Some(PoolKind::Replication { physical: false }) => "logical",
        _ => "none",
    }
}

/// A connection's name in the log, without the letter before it.
fn pointer(id: impl std::fmt::Display) -> String {
    id.to_string()[2..].to_string()
}
