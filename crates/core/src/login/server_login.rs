//! Opening server connections and logging in.

use crate::base::ids::ServerId;
use crate::base::pin_reason::Cleanup;
use crate::base::pool_id::{LoginFailure, PoolId, PoolKind};
use crate::base::reasons::{Passing, Waiting};
use crate::base::request::{Connected, LogLevel, Request};
use crate::base::time::Time;
use crate::client::ClientPhase;
use crate::flow::listener::LISTENER_NAME;
use crate::pooler::Pooler;
use crate::server::Server;
use crate::statements::held::Held;
use crate::statements::unnamed::Unnamed;
use crate::upstream::phase::ServerPhase;
use crate::upstream::reply_queue::ReplyQueue;
use pgweir_auth::{ServerAuth, ServerStep};
use pgweir_wire::{
    BackendTag, CancelKey, ErrorFields, HEADER_BYTES, Header, ProtocolVersion, StartupPacket, TransactionStatus,
};
use rand_core::RngCore;
use std::time::Duration;

/// The longest message a server may send before it has let us in, bytes.
const LOGIN_MESSAGE_BYTES_MAX: u32 = 64 * 1024;

/// The first pause after a failed connection; it doubles with each failure up to `server_login_retry`.
const RETRY_PAUSE_MIN: Duration = Duration::from_millis(250);

/// Why a server ends that makes a place for another pool.
pub(crate) const EVICTED: &str = "evicted";

/// Connections of one pool that are opened at the same time.
const OPENING_AT_ONCE_MAX: u32 = 16;

/// A server's lifetime varies by up to this part of it, so that servers opened together do not end together.
const LIFETIME_JITTER_DIVISOR: u64 = 5;

impl Pooler {
    /// Opens as many servers as waiting clients can use and limits allow.
    pub(crate) fn open_servers_for_waiters(&mut self, now: Time, pool_id: PoolId) {
        loop {
            let pool = self.pool(pool_id);
            let opening = pool.connecting as usize + self.servers_soon_free(pool_id);
            if pool.waiting.len() <= opening || pool.connecting >= OPENING_AT_ONCE_MAX {
                return;
            }
            if self.pool_takes_no_clients_now(pool_id) || !self.open_server(now, pool_id, false) {
                return;
            }
        }
    }

    /// Servers that are being tested for a waiter, or read the catalog before they serve.
    fn servers_soon_free(&self, pool_id: PoolId) -> usize {
        // Tests are rare: the count of servers is small, and clients that wait have time.
        let soon = |s: &Server| {
            let reads_first = matches!(s.phase, ServerPhase::Reading) && !s.has_served;
            s.pool == pool_id && (reads_first || matches!(s.phase, ServerPhase::Testing))
        };
        if self.shared.settings.server_check_query.is_none() && !self.shared.catalogs.any_is_read() {
            0
        } else {
            self.servers.iter().filter(|(_, s)| soon(s)).count()
        }
    }

    /// Opens one more server, if the limits allow it. `reserve`: the reserve pool may be used.
    pub(crate) fn open_server(&mut self, now: Time, pool_id: PoolId, reserve: bool) -> bool {
        let may = self.may_open(now, pool_id, reserve);
        if may {
            self.connect(now, pool_id);
        }
        may
    }

    /// Whether the limits allow one more server now.
    pub(crate) fn may_open(&mut self, now: Time, pool_id: PoolId, reserve: bool) -> bool {
        let pool = self.pool(pool_id);
        let settings = &pool.settings;
        if settings.endpoints.is_empty() {
            return false;
        }
        let size = settings.size + if reserve { settings.reserve_size } else { 0 };
        if settings.size > 0 && pool.servers >= size || pool.retry_at.is_some_and(|t| t > now) {
            return false;
        }
        // While nothing works, one attempt at a time is enough.
        if pool.failures_in_a_row > 0 && pool.connecting > 0 {
            return false;
        }
        let reached = |limit: u32, count: u32| limit > 0 && count >= limit;
        let (database, user) = (pool.key.database.clone(), pool.key.user.clone());
        let (max_db, max_user) = (settings.max_db_connections, settings.max_user_connections);
        // The place that an eviction makes goes to whoever waits longest under the limit: see server_lost.
        if reached(max_db, self.databases.of_database(&database).servers) {
            self.evict(now, pool_id, |key| key.database == database);
            return false;
        }
        if reached(max_user, self.databases.of_user(&user).servers) {
            self.evict(now, pool_id, |key| key.user == user);
            return false;
        }
        true
    }

    /// Closes the longest idle server of another pool that shares a limit.
    fn evict(&mut self, now: Time, for_pool: PoolId, shares: impl Fn(&crate::base::pool_id::PoolKey) -> bool) {
        let is_closing = |s: &Server| matches!(s.phase, ServerPhase::Closing) && shares(&self.pool(s.pool).key);
        if self.servers.iter().any(|(_, s)| is_closing(s)) {
            return;
        }
        let idle_longest = self
            .live_pools()
            .filter(|(id, pool)| *id != for_pool && shares(&pool.key) && pool.servers > pool.settings.min_size)
            .filter_map(|(_, pool)| pool.idle.front())
            .min_by_key(|id| self.servers.get(id.0).map(|s| s.since));
        if let Some(id) = idle_longest {
            self.close_and_wait(now, id);
        }
    }

    /// Ends an idle server and counts it until PostgreSQL has closed its end, so that a limit holds there, too.
    pub(crate) fn close_and_wait(&mut self, now: Time, id: ServerId) {
        let server = self.server_mut(id);
        let pool = server.pool;
        server.phase = ServerPhase::Closing;
        server.since = now;
        server.close_reason = Some(EVICTED);
        self.pool_mut(pool).forget_idle(id);
        self.send(id, |w| w.terminate());
    }

    pub(crate) fn connect(&mut self, now: Time, pool_id: PoolId) -> ServerId {
        let shape = self.shared.shapes.empty();
        let pool = self.pools[pool_id as usize].as_mut().expect("the caller looked it up");
        let endpoints = &pool.settings.endpoints;
        let endpoint = endpoints[pool.next_endpoint % endpoints.len()].clone();
        if pool.settings.round_robin_hosts {
            pool.next_endpoint = (pool.next_endpoint + 1) % endpoints.len();
        }
        pool.last_used = now;
        let lifetime = pool.settings.server_lifetime;
        let jitter = lifetime.as_micros() as u64 / LIFETIME_JITTER_DIVISOR;
        let lifetime = lifetime - Duration::from_micros(if jitter > 0 { self.random.next_u64() % jitter } else { 0 });
        let slot = self.servers.insert_with(|_| Server {
            pool: pool_id,
            phase: ServerPhase::Connecting,
            link: None,
            endpoint: endpoint.clone(),
            connected: None,
            queue: ReplyQueue::default(),
            passing: Passing::None,
            status: TransactionStatus::Idle,
            ignoring_to_sync: false,
            copy_in: false,
            sync_among_copy_data: false,
            settings_in_doubt: false,
            local_in_doubt: false,
            copy_both: false,
            fatal: None,
            probe: None,
            move_failed: false,
            reading: None,
            defines: false,
            cleanup: Cleanup::Nothing,
            last_client: None,
            last_visit: 0,
            visited_anew: false,
            stranger: false,
            forgets_sequences: false,
            claimed: false,
            custom_names: Default::default(),
            restoration: None,
            base: shape.clone(),
            shape,
            held: Held::new(),
            lends_to: None,
            temporary_schema: false,
            leaves_traces: false,
            unnamed: Unnamed::Nothing,
            cancel_key: None,
            cancels_in_flight: 0,
            begin_owed: false,
            begin_refused: false,
            guarded: 0..0,
            discarded_in: None,
            cancel_wanted: None,
            cancelled_by: Vec::new(),
            close_reason: None,
            queried_in_pipeline: false,
            expires: now + lifetime,
            has_served: false,
            introduced: false,
            authenticated: false,
            connect_time: now,
            since: now,
            request_time: now,
            ready_time: now,
            quiet_since: now,
        });
        self.count_server_in(pool_id);
        self.shared.requests.push_back(Request::Connect {
            server: ServerId(slot),
            endpoint,
        });
        ServerId(slot)
    }

    /// The socket is open: say who we are.
    pub(crate) fn begin_server_login(&mut self, now: Time, id: ServerId, connected: Connected) {
        let mut nonce = [0; 18];
        self.random.fill_bytes(&mut nonce);
        let Some(server) = self.servers.get_mut(id.0) else {
            return;
        };
        let pool = self.pools[server.pool as usize]
            .as_ref()
            .expect("a server's pool lives");
        let settings = &pool.settings;
        let auth = ServerAuth::new(settings.server_user.as_bytes(), pool.credential.clone(), nonce);
        server.phase = ServerPhase::Login(Box::new(auth));
        server.connected = Some(connected);
        server.since = now;
        let mut parameters: Vec<(&[u8], &[u8])> = vec![
            (b"user", settings.server_user.as_bytes()),
            (b"database", settings.server_database.as_bytes()),
        ];
        if let PoolKind::Replication { physical } = pool.key.kind {
            let mode: &[u8] = if physical { b"true" } else { b"database" };
            parameters.push((b"replication", mode));
        }
        parameters.extend(settings.startup.iter().map(|(n, v)| (n.as_bytes(), v.as_bytes())));
        parameters.extend(pool.key.start.iter().map(|(n, v)| (n.as_bytes(), v.as_bytes())));
        if pool.key.kind == PoolKind::Listener {
            parameters.retain(|(name, _)| *name != b"application_name");
            parameters.push((b"application_name", LISTENER_NAME.as_bytes()));
        }
        let mut packet = Vec::new();
        StartupPacket::write_startup(&mut packet, ProtocolVersion::V3_0, parameters);
        self.shared.outbox.insert(id.into(), |to| to.extend_from_slice(&packet));
        if self.shared.settings.log_connections {
            let text = format!(
                "{} new connection to server (from {})",
                self.server_label(id),
                connected.local
            );
            self.log(LogLevel::Log, text);
        }
    }

    /// `S-0x…: db/user@address:port`, as PgBouncer writes it.
    pub(crate) fn server_label(&self, id: ServerId) -> String {
        let Some(server) = self.servers.get(id.0) else {
            return id.to_string();
        };
        let key = &self.pool(server.pool).key;
        match &server.connected {
            Some(c) => format!("{id}: {}/{}@{}", key.database, key.user, c.remote),
            None => format!("{id}: {}/{}@{}", key.database, key.user, server.endpoint),
        }
    }

    pub(crate) fn server_connect_failed(&mut self, now: Time, id: ServerId, why: &str) {
        let message = format!("cannot connect to the server: {why}");
        let failure = LoginFailure {
            sqlstate: String::new(),
            message,
            temporary: true,
        };
        // "connect failed" or "server DNS lookup failed": what log parsers look for.
        self.server_lost(now, id, why, Some(failure));
    }

    pub(crate) fn server_login_bytes(&mut self, now: Time, id: ServerId, input: &[u8]) -> usize {
        let mut at = 0;
        loop {
            let Some(server) = self.servers.get(id.0) else {
                return input.len();
            };
            if !matches!(server.phase, ServerPhase::Login(_)) {
                // Logged in: what follows is no part of the login.
                if at < input.len() {
                    self.shared.requests.push_back(Request::Resume(id.into()));
                }
                return at;
            }
            let header = match Header::read(&input[at..]) {
                Ok(Some(h)) if h.message_bytes <= LOGIN_MESSAGE_BYTES_MAX => h,
                Ok(None) => return at,
                Ok(Some(h)) => {
                    self.server_misbehaves(now, id, &format!("a message of {} bytes during login", h.message_bytes));
                    return input.len();
                }
                Err(error) => {
                    self.server_misbehaves(now, id, &error.to_string());
                    return input.len();
                }
            };
            let end = at + header.message_bytes as usize;
            if end > input.len() {
                return at;
            }
            self.server_login_message(now, id, header.tag, &input[at + HEADER_BYTES..end]);
            at = end;
        }
    }

    fn server_login_message(&mut self, now: Time, id: ServerId, tag: u8, body: &[u8]) {
        let server = self.servers.get_mut(id.0).expect("looked up by the caller");
        let ServerPhase::Login(auth) = &mut server.phase else {
            return;
        };
        match BackendTag::from_byte(tag) {
            Some(BackendTag::Authentication) => match auth.handle_message(body, &mut self.scram_keys) {
                Ok(ServerStep::Send(payload)) => self.send(id, |w| w.password(&payload)),
                Ok(ServerStep::Wait) => {}
                Ok(ServerStep::Authenticated) => server.authenticated = true,
                Err(error) => {
                    let failure = LoginFailure {
                        sqlstate: "28000".into(),
                        message: format!("cannot log in to the server: {error}"),
                        temporary: false,
                    };
                    self.login_failed(now, id, failure);
                }
            },
            Some(BackendTag::ParameterStatus) => {
                if let Some(mut reply) = self.replying(now, id) {
                    reply.parameter_status(body);
                }
            }
            Some(BackendTag::BackendKeyData) => server.cancel_key = CancelKey::read(body).ok(),
            Some(BackendTag::NoticeResponse | BackendTag::NegotiateProtocolVersion) => {}
            Some(BackendTag::ErrorResponse) => {
                let fields = ErrorFields::read_prefix(body);
                let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
                let sqlstate = text(fields.sqlstate);
                // Starting up, shutting down, or full: only a matter of time.
                let temporary = matches!(&*sqlstate, "57P03" | "53300" | "57P01" | "57P02");
                let failure = LoginFailure {
                    sqlstate,
                    message: text(fields.message),
                    temporary,
                };
                self.log(
                    LogLevel::Warning,
                    format!("server login failed: {} {}", text(fields.severity), failure.message),
                );
                self.login_failed(now, id, failure);
            }
            Some(BackendTag::ReadyForQuery)
                if server.authenticated && TransactionStatus::read(body) == Some(TransactionStatus::Idle) =>
            {
                self.server_welcomes(now, id);
            }
            _ => self.server_misbehaves(now, id, &format!("message {:?} during login", char::from(tag))),
        }
    }

    fn login_failed(&mut self, now: Time, id: ServerId, failure: LoginFailure) {
        self.shared.requests.push_back(Request::Close(id.into()));
        self.server_lost(now, id, "login failed", Some(failure));
    }

    /// The first ReadyForQuery.
    fn server_welcomes(&mut self, now: Time, id: ServerId) {
        let server = self.server_mut(id);
        // From here on it counts as a server that is up, whatever closes it.
        server.phase = ServerPhase::ConnectQuery;
        server.base = server.shape.clone();
        server.ready_time = now;
        let pool_id = server.pool;
        let pool = self.pool_mut(pool_id);
        pool.connecting -= 1;
        pool.failures_in_a_row = 0;
        pool.failure = None;
        pool.retry_at = None;
        let connect_query = pool.settings.connect_query.clone();
        match connect_query {
            Some(query) => self.at(id).own_query(now, ServerPhase::ConnectQuery, &query),
            None => self.login_finished(now, id),
        }
    }

    pub(crate) fn login_finished(&mut self, now: Time, id: ServerId) {
        let server = self.server_mut(id);
        if server.status != TransactionStatus::Idle {
            return self.close_server(now, id, "connect query left a transaction open");
        }
        if let Some(reason) = server.close_reason {
            return self.close_server(now, id, reason);
        }
        let pool_id = server.pool;
        if !std::mem::replace(&mut server.introduced, true) && self.must_ask_new_server(pool_id) {
            return self.at(id).ask_new_server();
        }
        // What connect_query has set is how servers of this pool look.
        let server = self.server_mut(id);
        server.base = server.shape.clone();
        let base = server.base.clone();
        let text = format!("{} login finished", self.server_label(id));
        self.log(LogLevel::Debug, text);
        if self.pool_mut(pool_id).welcome.replace(base).is_none() {
            self.welcome_known(pool_id);
        }
        if self.pool(pool_id).key.kind == PoolKind::Listener {
            return self.listener_logged_in(now, id);
        }
        self.look_after_catalog(now, pool_id);
        self.server_is_free(now, id);
    }

    /// Whether what a new server has made by itself must be known. In session pooling, DISCARD ALL behind each client returns
    /// to the role's defaults, but not to what connect_query has set.
    fn must_ask_new_server(&self, pool_id: PoolId) -> bool {
        let pool = self.pool(pool_id);
        let has_query = pool.settings.connect_query.is_some() && pool.key.kind == PoolKind::Clients;
        self.shares_sessions(pool_id) || self.shared.settings.keeps_sessions && has_query
    }

    /// A server connection is gone, for whatever reason.
    pub(crate) fn server_lost(&mut self, now: Time, id: ServerId, reason: &str, failure: Option<LoginFailure>) {
        let Some(server) = self.servers.get(id.0) else { return };
        let (pool_id, age) = (server.pool, (now - server.connect_time).as_secs());
        let connecting = matches!(server.phase, ServerPhase::Connecting | ServerPhase::Login(_));
        let reason = if matches!(server.phase, ServerPhase::Closing) {
            EVICTED
        } else {
            reason
        };
        if self.shared.settings.log_disconnections {
            let text = format!("{} closing because: {reason} (age={age}s)", self.server_label(id));
            self.log(LogLevel::Log, text);
        }
        let mut server = self.servers.remove(id.0).expect("looked up above");
        self.count_server_out(pool_id, connecting);
        let pool = self.pool_mut(pool_id);
        if matches!(server.phase, ServerPhase::Idle) {
            pool.forget_idle(id);
        }
        if connecting {
            let lost = || LoginFailure {
                sqlstate: String::new(),
                message: "server closed the connection during login".into(),
                temporary: true,
            };
            self.opening_failed(now, pool_id, failure.unwrap_or_else(lost));
        }
        if self.pool(pool_id).key.kind == PoolKind::Listener {
            self.listener_lost(now, id, reason);
            if let Some(failure) = self
                .pool(pool_id)
                .failure
                .clone()
                .filter(|f| connecting && !f.temporary)
            {
                self.listener_refused(now, pool_id, &failure);
            }
        }
        if server.defines {
            self.doubt_catalog(now, pool_id);
        }
        if let Some(reading) = server.reading.take() {
            self.catalog_lost(now, pool_id, *reading);
        }
        if let Some(client) = server.link.take() {
            self.client_lost_its_server(now, client, &server, reason);
        }
        // Only now: with the last of them the process may end, and with it whoever still seems linked to this server.
        self.close_cancelling(now, std::mem::take(&mut server.cancelled_by));
        self.pause_progress(now);
        self.shutdown_progress(now);
        if !self.admin.is_ending() {
            self.open_where_waited_longest(now, pool_id);
        }
    }

    /// A server of this pool has made a place under the limits it shares with others: it goes to whoever waits longest.
    fn open_where_waited_longest(&mut self, now: Time, pool_id: PoolId) {
        let key = &self.pool(pool_id).key;
        let mut waited: Vec<(Time, PoolId)> = self
            .live_pools()
            .filter(|(_, pool)| pool.key.database == key.database || pool.key.user == key.user)
            .filter_map(|(id, pool)| Some((pool.first_waiter()?.1, id)))
            .collect();
        waited.sort_unstable();
        for (_, id) in waited {
            self.open_servers_for_waiters(now, id);
        }
    }

    fn opening_failed(&mut self, now: Time, pool_id: PoolId, failure: LoginFailure) {
        let retry_max = self.shared.settings.server_login_retry;
        let pool = self.pool_mut(pool_id);
        pool.failures_in_a_row += 1;
        let doubled = RETRY_PAUSE_MIN * 2u32.saturating_pow(pool.failures_in_a_row.min(16) - 1);
        let pause = if failure.temporary {
            doubled.min(retry_max)
        } else {
            retry_max
        };
        let hosts_left = failure.temporary && (pool.failures_in_a_row as usize) < pool.settings.endpoints.len();
        pool.retry_at = if hosts_left { None } else { Some(now + pause) };
        if !pool.settings.round_robin_hosts && !pool.settings.endpoints.is_empty() {
            pool.next_endpoint = (pool.next_endpoint + 1) % pool.settings.endpoints.len();
        }
        pool.failure = Some(failure.clone());
        let until = now + retry_max;
        let pool = self.pools[pool_id as usize].as_ref().expect("a server's pool lives");
        self.lookups.note_failure(pool, &failure, until);
        let pool = self.pool(pool_id);
        let nothing_left = pool.servers == pool.connecting;
        if !nothing_left || hosts_left {
            return;
        }
        // Clients that are not logged in yet are told at once. Others wait, where waiting may help.
        let waiting: Vec<_> = pool.waiting.iter().map(|(id, _)| id).collect();
        for id in waiting {
            let Some(client) = self.clients.get(id.0) else { continue };
            if matches!(client.phase, ClientPhase::Login(_)) || !failure.temporary {
                self.stop_waiting(id);
                self.refuse_for_login_failure(now, id, &failure);
            }
        }
    }

    /// The linked server is gone. A client that was told why by the server itself needs no words of ours.
    fn client_lost_its_server(&mut self, now: Time, id: crate::base::ids::ClientId, server: &Server, reason: &str) {
        use crate::base::errors::Trouble;
        let Some(client) = self.clients.get_mut(id.0) else {
            return;
        };
        client.link = None;
        // Who has been told the server's last words is at its end.
        if client.may_go_elsewhere() && server.fatal.is_none() {
            // Once: a server that ends by the settings themselves would be followed by the next.
            client.went_elsewhere = true;
            client.waiting = Waiting::No;
            return self.shared.requests.push_back(Request::Resume(id.into()));
        }
        if server.fatal.is_some() || matches!(server.passing, Passing::Forward(_)) {
            return self.close_client(now, id, "server connection closed");
        }
        let message = "server closed the connection unexpectedly";
        let hint = "The transaction that was open is lost; whether its COMMIT took effect is not known if it was sent.";
        self.fail_client(now, id, Trouble::ServerConnectionLost, message, reason, hint);
    }

    /// Whether a pool's servers serve clients.
    pub(crate) fn serves_clients(&self, pool_id: PoolId) -> bool {
        self.pool(pool_id).key.kind == PoolKind::Clients
    }
}
