//! The decisions of a seed before anything happens.

use crate::model::{RoleDefault, Version};
use crate::random::Random;
use std::fmt;

/// Pooling modes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// A server for a whole session.
    Session,
    /// A server for a transaction.
    Transaction,
    /// A server for a statement.
    Statement,
}

/// The world of one seed.
#[derive(Debug, Clone)]
pub struct Topology {
    /// The seed.
    pub seed: u64,
    /// PostgreSQL's version.
    pub version: Version,
    /// pool_mode.
    pub mode: Mode,
    /// session_state = full.
    pub keeps_sessions: bool,
    /// session_state_probe.
    pub probe: &'static str,
    /// link.
    pub link: &'static str,
    /// pin_idle_timeout, milliseconds; 0 is off.
    pub pin_idle_timeout_ms: u64,
    /// Databases; users are as many, and every client has one of each.
    pub databases: u64,
    /// Users.
    pub users: u64,
    /// default_pool_size.
    pub pool_size: u64,
    /// default_pool_size is auto, and this is pool_size_max.
    pub pool_size_max: Option<u64>,
    /// min_pool_size.
    pub min_pool_size: u64,
    /// reserve_pool_size.
    pub reserve_pool_size: u64,
    /// reserve_pool_timeout, milliseconds.
    pub reserve_pool_timeout_ms: u64,
    /// max_db_connections; 0 is none.
    pub max_db_connections: u64,
    /// max_user_connections; 0 is none.
    pub max_user_connections: u64,
    /// Clients.
    pub clients: u64,
    /// max_client_conn.
    pub max_client_conn: u64,
    /// Sessions of each client, one after the other.
    pub sessions: u64,
    /// Flights of each session.
    pub flights: u64,
    /// max_prepared_statements.
    pub max_prepared_statements: u64,
    /// deferred_begin, milliseconds.
    pub deferred_begin_ms: u64,
    /// query_wait_timeout, milliseconds; 0 is off.
    pub query_wait_timeout_ms: u64,
    /// server_lifetime, seconds.
    pub server_lifetime_s: u64,
    /// server_idle_timeout, seconds.
    pub server_idle_timeout_s: u64,
    /// server_check_delay, milliseconds.
    pub server_check_delay_ms: u64,
    /// server_round_robin.
    pub round_robin: bool,
    /// server_reset_query_always.
    pub reset_always: bool,
    /// Clients name settings in their startup packets.
    pub startup_settings: bool,
    /// The longest delay of a piece of bytes, microseconds.
    pub latency_us_max: u64,
    /// The most bytes moved together.
    pub chunk_bytes_max: u64,
    /// The driver reads no source while more than this many bytes wait for its destination.
    pub held_back_bytes: usize,
    /// Messages and statements in a hundred for which a server takes time.
    pub slow_percent: u64,
    /// The longest such time, microseconds.
    pub slow_us_max: u64,
    /// The most rows, of about 100 bytes, in a large result.
    pub large_rows_max: u64,
    /// Flights in a hundred during which the client vanishes.
    pub vanish_percent: u64,
    /// Flights in a hundred that a client tries to cancel.
    pub cancel_percent: u64,
    /// Clients in a hundred that send rubbish.
    pub rubbish_percent: u64,
    /// Logins in a hundred with settings of their own, some of which every server refuses, that are abandoned.
    pub abandoned_percent: u64,
    /// Internal requests in a hundred that a server refuses.
    pub refusal_percent: u64,
    /// Faults of the server.
    pub server_faults: u64,
    /// Faults stop at this time, microseconds.
    pub calm_at_us: u64,
    /// Clients set a name that PL/pgSQL does not know under its prefix. Servers refuse it once code has run on them.
    pub reserved_names: bool,
    /// Settings of connect_query; if there are none, there is no connect_query.
    pub connect_settings: Vec<(&'static str, &'static str)>,
    /// connect_query calls set_config().
    pub connects_by_function: bool,
    /// Internal statements in a hundred that wait for another session's lock on a catalog.
    pub lock_percent: u64,
    /// The longest such wait, microseconds.
    pub lock_us_max: u64,
    /// The settings of ALTER ROLE .. SET and ALTER DATABASE .. SET.
    pub role_defaults: Vec<RoleDefault>,
    /// Clients in a hundred that flood, stop in the midst of a message and guess internal names.
    pub hostile_percent: u64,
    /// query_timeout, client_idle_timeout and idle_transaction_timeout, seconds; 0 is off.
    pub client_limits_s: u64,
    /// Clients now and then send a message longer than 64 KiB.
    pub long_messages: bool,
    /// Clients now and then send messages of a COPY when there is none.
    pub stray_copies: bool,
    /// Sessions in a hundred that only read; the others of such a run leave nothing behind.
    pub reader_percent: u64,
    /// pipeline_depth.
    pub pipeline_depth: &'static str,
    /// fair_by.
    pub fair_by: &'static str,
    /// The weight of the first user; the others have 1.
    pub weight: u64,
    /// queue_target, milliseconds; 0 is off.
    pub queue_target_ms: u64,
}

/// Settings that connect_query may set. None has a value that clients give at startup.
const CONNECT_SETTINGS: [(&str, &str); 5] = [
    ("work_mem", "3MB"),
    ("app.pool", "pool"),
    ("app.tenant", "nobody"),
    ("TimeZone", "Europe/Paris"),
    ("search_path", "pool"),
];

/// How many internal statements in a hundred wait for locks, and the longest wait, microseconds.
const CATALOG_LOCKS: [(u64, u64); 6] = [
    (1, 8_000_000),
    (5, 3_000_000),
    (20, 1_000_000),
    (20, 8_000_000),
    (70, 500_000),
    (70, 500_000),
];

/// Possible default settings of roles and databases. PostgreSQL's defaults are among them, and values that clients give
/// at startup.
const ROLE_DEFAULTS: [(&str, &str); 19] = [
    ("role", "team"),
    ("role", "team"),
    ("role", "team"),
    ("role", "team"),
    ("role", "none"),
    ("app.tenant", "the role's"),
    ("app.user", "the role's"),
    ("application_name", "the role's"),
    ("DateStyle", "ISO, DMY"),
    ("DateStyle", "SQL, YMD"),
    ("IntervalStyle", "iso_8601"),
    ("TimeZone", "Asia/Tokyo"),
    ("TimeZone", "UTC"),
    ("work_mem", "2MB"),
    ("extra_float_digits", "0"),
    ("search_path", "a"),
    ("statement_timeout", "6s"),
    ("lock_timeout", "5s"),
    ("default_transaction_deferrable", "on"),
];

impl Topology {
    /// The topology of a seed.
    pub fn new(seed: u64) -> Self {
        let mut r = Random::new(seed);
        let mode = *r.pick(&[
            Mode::Transaction,
            Mode::Transaction,
            Mode::Transaction,
            Mode::Session,
            Mode::Statement,
        ]);
        let clients = r.between(1, 10);
        let pool_size = r.between(1, 4);
        let quiet = r.percent(30);
        // Later additions draw from another source, so that earlier decisions of a seed stay the same.
        let mut added = Random::new(seed ^ 0xadde_d000);
        let percent = |r: &mut Random, most: u64| if quiet { 0 } else { r.below(most + 1) };
        let mut topology = Topology {
            seed,
            version: *r.pick(&[Version::V15, Version::V18]),
            mode,
            keeps_sessions: r.percent(85),
            probe: r.pick::<&str>(&["suspected", "suspected", "suspected", "always", "always_locks"]),
            link: r.pick::<&str>(&["matching", "adversarial"]),
            pin_idle_timeout_ms: *r.pick(&[0, 0, 0, 0, 0, 0, 0, 200]),
            databases: r.between(1, 2),
            users: r.between(1, 2),
            pool_size,
            pool_size_max: None,
            min_pool_size: r.below(2),
            reserve_pool_size: *r.pick(&[0, 0, 1, 2]),
            reserve_pool_timeout_ms: *r.pick(&[0, 100, 5000]),
            max_db_connections: *r.pick(&[0, 0, 0, 1, 3]),
            max_user_connections: *r.pick(&[0, 0, 0, 2, 3]),
            clients,
            max_client_conn: if r.percent(20) { r.between(1, clients) } else { 100 },
            sessions: r.between(1, 3),
            flights: r.between(1, 10),
            max_prepared_statements: match mode {
                Mode::Session => *r.pick(&[0, 200]),
                _ => *r.pick(&[1, 2, 5, 200]),
            },
            deferred_begin_ms: *r.pick(&[0, 50, 1000, 1000]),
            query_wait_timeout_ms: if quiet { 0 } else { *r.pick(&[0, 0, 300, 5000]) },
            server_lifetime_s: *r.pick(&[1, 1, 3600]),
            server_idle_timeout_s: *r.pick(&[1, 600]),
            server_check_delay_ms: *r.pick(&[0, 100, 30_000]),
            round_robin: r.percent(30),
            reset_always: r.percent(10),
            startup_settings: r.percent(40),
            latency_us_max: *r.pick(&[10, 500, 20_000]),
            chunk_bytes_max: *r.pick(&[1, 7, 100, 4096, 65536]),
            held_back_bytes: *r.pick(&[1, 500, 20_000, 256 * 1024]),
            slow_percent: *r.pick(&[0, 0, 3, 30]),
            slow_us_max: *r.pick(&[500, 20_000, 100_000]),
            large_rows_max: *r.pick(&[20, 100]),
            vanish_percent: percent(&mut r, 15),
            cancel_percent: percent(&mut r, 30),
            rubbish_percent: percent(&mut r, 10),
            abandoned_percent: percent(&mut r, 60),
            server_faults: percent(&mut r, 4),
            calm_at_us: r.between(500_000, 5_000_000),
            refusal_percent: percent(&mut r, 10),
            reserved_names: added.percent(10),
            connect_settings: Vec::new(),
            connects_by_function: false,
            lock_percent: 0,
            lock_us_max: 0,
            role_defaults: Vec::new(),
            hostile_percent: 0,
            client_limits_s: 0,
            long_messages: false,
            stray_copies: false,
            reader_percent: 0,
            pipeline_depth: "1",
            fair_by: "client",
            weight: 1,
            queue_target_ms: 0,
        };
        if topology.reserved_names {
            // One client's code must run on a server with another client's setting.
            topology.mode = Mode::Transaction;
            topology.keeps_sessions = true;
            topology.clients = topology.clients.max(4);
            topology.max_client_conn = 100;
            topology.pool_size = topology.pool_size.max(2);
            topology.flights = topology.flights.max(6);
            topology.server_lifetime_s = 1;
            topology.max_prepared_statements = topology.max_prepared_statements.max(1);
            if added.percent(50) {
                topology.link = "adversarial";
            }
        }
        // With session_state = pgbouncer, a RESET removes these settings for all later clients.
        if topology.keeps_sessions && added.percent(15) {
            let (first, second) = (*added.pick(&CONNECT_SETTINGS), *added.pick(&CONNECT_SETTINGS));
            topology.connect_settings = vec![first];
            if first.0 != second.0 {
                topology.connect_settings.push(second);
            }
            topology.connects_by_function = added.percent(30);
        }
        if added.percent(10) {
            topology.hostile_percent = added.between(10, 50);
            // No well-behaved client takes that long.
            topology.client_limits_s = *added.pick(&[0, 20]);
        }
        if added.percent(3) {
            topology.long_messages = true;
            // Byte by byte they would take longer than everything else.
            topology.chunk_bytes_max = topology.chunk_bytes_max.max(4096);
            topology.held_back_bytes = topology.held_back_bytes.max(20_000);
            topology.latency_us_max = topology.latency_us_max.min(500);
        }
        if added.percent(20) {
            if added.percent(50) {
                // Clients that take turns on servers must not notice each other's changes to these defaults.
                topology.mode = Mode::Transaction;
                topology.keeps_sessions = true;
                topology.max_prepared_statements = topology.max_prepared_statements.max(1);
                topology.clients = topology.clients.max(4);
                topology.flights = topology.flights.max(6);
                topology.max_client_conn = 100;
            }
            topology.role_defaults = topology.some_role_defaults(&mut added);
        }
        if added.percent(20) {
            (topology.lock_percent, topology.lock_us_max) = *added.pick(&CATALOG_LOCKS);
        }
        topology.stray_copies = added.percent(10);
        if added.percent(40) {
            topology.pipeline_depth = added.pick::<&str>(&["auto", "2", "5", "64"]);
            if added.percent(60) {
                // Many clients that look alike, and few servers.
                topology.mode = Mode::Transaction;
                topology.keeps_sessions = true;
                topology.link = "adversarial";
                topology.probe = "suspected";
                topology.reset_always = false;
                topology.max_prepared_statements = topology.max_prepared_statements.max(5);
                topology.clients = topology.clients.max(6);
                topology.max_client_conn = 100;
                topology.flights = topology.flights.max(12);
                topology.pool_size = topology.pool_size.min(2);
                topology.reserve_pool_size = 0;
                (topology.databases, topology.users) = (1, 1);
                topology.reserved_names = false;
                topology.reader_percent = *added.pick(&[60, 90, 100]);
                if added.percent(60) {
                    topology.cancel_percent = topology.cancel_percent.max(40);
                    topology.latency_us_max = 20_000;
                    // A signal overtakes the end of what it is meant for.
                    (topology.slow_percent, topology.slow_us_max) = (30, 100_000);
                }
                if added.percent(30) {
                    topology.server_faults = topology.server_faults.max(4);
                }
            }
        }
        let mut sized = Random::new(seed ^ 0x512e_d000);
        if sized.percent(20) {
            // Each pool may have one, so that none waits for ever while others keep min_pool_size.
            let least = topology.databases * topology.users;
            topology.pool_size_max = Some(
                sized
                    .pick(&[None, Some(0), Some(1), Some(3)])
                    .map_or(0, |more| least + more),
            );
        }
        let mut queue = Random::new(seed ^ 0xfa19_0000);
        topology.fair_by = queue.pick::<&str>(&["client", "application", "user", "off"]);
        topology.weight = *queue.pick(&[1, 1, 5, 1000]);
        if queue.percent(10) && !topology.reserved_names {
            topology.queue_target_ms = queue.between(1, 200);
            topology.pool_size = 1;
        }
        topology
    }

    /// At most one for each setting and each user, database, or user in a database.
    fn some_role_defaults(&self, r: &mut Random) -> Vec<RoleDefault> {
        let mut all: Vec<RoleDefault> = Vec::new();
        for _ in 0..r.between(1, 4) {
            let (name, value) = *r.pick(&ROLE_DEFAULTS);
            let (user, database) = *r.pick(&[(true, false), (true, false), (false, true), (true, true)]);
            let (user_number, database_number) = (r.below(self.users), r.below(self.databases));
            let default = RoleDefault {
                user: user.then(|| format!("user{user_number}")),
                database: database.then(|| format!("db{database_number}")),
                name,
                value,
            };
            all.retain(|d| (d.name, &d.user, &d.database) != (name, &default.user, &default.database));
            all.push(default);
        }
        all
    }

    /// The configuration file.
    pub fn ini(&self) -> String {
        let mut text = String::from("[databases]\n");
        for n in 0..self.databases {
            text.push_str(&format!("db{n} = host=127.0.0.1 port=5432"));
            if !self.connect_settings.is_empty() {
                let query: Vec<String> = self
                    .connect_settings
                    .iter()
                    .map(|s| self.connect_statement(s))
                    .collect();
                text.push_str(&format!(" connect_query='{}'", query.join("; ").replace('\'', "''")));
            }
            text.push('\n');
        }
        let seconds = |ms: u64| format!("{}.{:03}", ms / 1000, ms % 1000);
        let mode = match self.mode {
            Mode::Session => "session",
            Mode::Transaction => "transaction",
            Mode::Statement => "statement",
        };
        let settings = [
            ("listen_addr", "127.0.0.1".to_string()),
            ("auth_type", "trust".into()),
            ("auth_file", "users".into()),
            ("pool_mode", mode.into()),
            (
                "session_state",
                if self.keeps_sessions { "full" } else { "pgbouncer" }.into(),
            ),
            ("session_state_probe", self.probe.into()),
            ("link", self.link.into()),
            ("pipeline_depth", self.pipeline_depth.into()),
            ("fair_by", self.fair_by.into()),
            ("queue_target", seconds(self.queue_target_ms)),
            ("pin_idle_timeout", seconds(self.pin_idle_timeout_ms)),
            (
                "default_pool_size",
                self.pool_size_max.map_or(self.pool_size.to_string(), |_| "auto".into()),
            ),
            ("pool_size_max", self.pool_size_max.unwrap_or(0).to_string()),
            ("min_pool_size", self.min_pool_size.min(self.pool_size).to_string()),
            ("reserve_pool_size", self.reserve_pool_size.to_string()),
            ("reserve_pool_timeout", seconds(self.reserve_pool_timeout_ms)),
            ("max_db_connections", self.max_db_connections.to_string()),
            ("max_user_connections", self.max_user_connections.to_string()),
            ("max_client_conn", self.max_client_conn.to_string()),
            ("max_prepared_statements", self.max_prepared_statements.to_string()),
            ("deferred_begin", seconds(self.deferred_begin_ms)),
            ("query_wait_timeout", seconds(self.query_wait_timeout_ms)),
            ("query_wait_notify", "1".into()),
            ("server_lifetime", self.server_lifetime_s.to_string()),
            ("server_idle_timeout", self.server_idle_timeout_s.to_string()),
            ("server_check_delay", seconds(self.server_check_delay_ms)),
            ("server_check_query", "select 1".into()),
            ("server_round_robin", u64::from(self.round_robin).to_string()),
            ("server_reset_query_always", u64::from(self.reset_always).to_string()),
            ("server_login_retry", "1".into()),
            ("server_connect_timeout", "5".into()),
            ("query_timeout", self.client_limits_s.to_string()),
            ("server_tls_sslmode", "disable".to_string()),
            ("client_idle_timeout", self.client_limits_s.to_string()),
            ("idle_transaction_timeout", self.client_limits_s.to_string()),
        ];
        text.push_str(&format!("[users]\nuser0 = weight={}\n", self.weight));
        text.push_str("[pgbouncer]\n");
        for (name, value) in settings {
            text.push_str(&format!("{name} = {value}\n"));
        }
        text
    }

    /// The statement of connect_query that sets a setting.
    pub fn connect_statement(&self, (name, value): &(&str, &str)) -> String {
        match self.connects_by_function {
            true => format!("select set_config('{name}', '{value}', false)"),
            false => format!("set {name} = '{value}'"),
        }
    }

    /// The file of users.
    pub fn users_file(&self) -> String {
        (0..self.users).map(|n| format!("\"user{n}\" \"\"\n")).collect()
    }

    /// Whether clients share servers by flights.
    pub fn crowds(&self) -> bool {
        self.reader_percent > 0
    }

    /// Whether clients may use session state that outlives their transactions.
    pub fn has_sessions(&self) -> bool {
        self.keeps_sessions || self.mode == Mode::Session
    }

    /// Whether a time limit that no client has set may end a wait for a lock: the pooler does not know the default
    /// limits of roles and databases.
    pub fn has_unseen_limits(&self) -> bool {
        self.lock_percent > 0 && self.role_defaults.iter().any(|d| d.name.ends_with("_timeout"))
    }

    /// Whether a client may lose its server without having caused it.
    pub fn servers_may_die(&self) -> bool {
        self.server_faults > 0
    }

    /// Whether a client's listener may be closed without the client having caused it: a limit that it shares with
    /// servers may leave no other choice.
    pub fn listeners_may_die(&self) -> bool {
        self.servers_may_die() || self.max_db_connections > 0 || self.max_user_connections > 0
    }

    /// The most servers of all pools together.
    pub fn servers_max(&self) -> u64 {
        self.databases * self.users * (self.pool_size + self.reserve_pool_size)
    }
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:#?}")
    }
}
