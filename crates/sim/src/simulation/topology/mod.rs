//! The decisions of a seed before anything happens.

mod decisions;
mod families;
mod files;

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

/// What hostile clients do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hostility {
    /// They flood, stop in the midst of a message and use internal names.
    Anything,
    /// They replace a function that others of them call meanwhile.
    Code,
    /// They replace the prepared statements of others.
    Names,
    /// They stop in the midst of a message.
    Stalls,
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
    /// Logins in a hundred that are abandoned. They have additional settings, some of which every server refuses.
    pub abandoned_percent: u64,
    /// Internal requests in a hundred that a server refuses.
    pub refusal_percent: u64,
    /// Faults of the server.
    pub server_faults: u64,
    /// Hosts that lead to the server.
    pub hosts: u64,
    /// One of them is the primary, and target_session_attrs = read-write.
    pub hosts_differ: bool,
    /// All but the first are replicas whose code lags behind for so many steps of all sessions; 0: they are not.
    pub replica_lag: u64,
    /// Faults of hosts.
    pub host_faults: u64,
    /// How often a RELOAD changes the configuration (see [`Topology::ini`]).
    pub reloads: u64,
    /// Processes that take over may have another configuration.
    pub successors_differ: bool,
    /// load_balance_hosts.
    pub load_balance_hosts: &'static str,
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
    /// Clients in a hundred that are hostile.
    pub hostile_percent: u64,
    /// What hostile clients do.
    pub hostility: Hostility,
    /// query_timeout, client_idle_timeout and idle_transaction_timeout, seconds; 0 is off.
    pub client_limits_s: u64,
    /// Clients now and then send a message longer than 64 KiB.
    pub long_messages: bool,
    /// Clients draw values from a sequence, and ask for them.
    pub sequences: bool,
    /// Clients only seed random(), and call a function that draws from it and keeps a plan, in time zones of their own.
    pub leave_behind: bool,
    /// Clients that look alike only call the function that keeps a plan, and make temporary tables.
    pub plans_beside_tables: bool,
    /// Many statements of clients are refused by servers before anything of them runs, and nothing else pins a client.
    pub refuses_texts: bool,
    /// Clients prepare statements whose parameters have the types of columns, and change these types.
    pub changes_types: bool,
    /// Some sessions set idle_session_timeout.
    pub idle_limits: bool,
    /// Clients call pg_cancel_backend() and pg_terminate_backend() with the process ids of others.
    pub signals: bool,
    /// Clients violate a constraint that is checked when their transactions commit.
    pub commits_fail: bool,
    /// Clients prepare statements that no other server may be able to prepare.
    pub odd_names: bool,
    /// Connections come that do not log in, and others look at the console.
    pub visitors: bool,
    /// All entries of \[databases\] lead to one database.
    pub one_database: bool,
    /// Values of clients are not ASCII, and clients change client_encoding.
    pub beyond_ascii: bool,
    /// Clients now and then send messages of a COPY when there is none.
    pub stray_copies: bool,
    /// Sessions in a hundred that only read; the others of such a run leave nothing behind.
    pub reader_percent: u64,
    /// Clients call the function that others replace by a view, so that their calls count as reads.
    pub calls_by_view: bool,
    /// The function that clients replace sets a setting at first.
    pub code_sets_at_first: bool,
    /// Some cancels arrive after the pooler has given up waiting for their end.
    pub late_cancels: bool,
    /// pipeline_depth.
    pub pipeline_depth: &'static str,
    /// fair_by.
    pub fair_by: &'static str,
    /// The weight of the first user; the others have 1.
    pub weight: u64,
    /// queue_target, milliseconds; 0 is off.
    pub queue_target_ms: u64,
}

impl Topology {
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

    /// Whether a time limit may end a restoration: one that no client has set, or one that the pooler has tried to lift
    /// with a setting that the simulation has replaced by a wrong one.
    pub fn limits_may_end_restorations(&self) -> bool {
        self.has_unseen_limits() || self.refusal_percent > 0
    }

    /// Whether a client may lose its server without having caused it.
    pub fn servers_may_die(&self) -> bool {
        self.server_faults > 0
    }

    /// Whether a client's listener may be closed without the client having caused it: a limit that it shares with
    /// servers may leave no other choice, and another configuration may give its database another address.
    pub fn listeners_may_die(&self) -> bool {
        let changes = self.reloads > 0 || self.successors_differ;
        self.servers_may_die() || changes || self.max_db_connections > 0 || self.max_user_connections > 0
    }

    /// Clients log in with values that no server knows while RELOADs replace all servers.
    fn choose_reloads(&mut self, mut r: Random) {
        if self.reader_percent > 0 || r.percent(90) {
            return;
        }
        self.reloads = r.between(2, 10);
        self.startup_settings = true;
        self.sessions += r.below(4);
    }

    /// As with RELOADs.
    fn choose_successors(&mut self, mut r: Random) {
        self.successors_differ = r.percent(50);
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
