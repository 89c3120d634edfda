//! The settings that the core reads, resolved from the configuration once for each load.

use crate::base::pool_id::PoolKind;
use crate::base::request::Endpoint;
use crate::base::time::Time;
use pgweir_config::{
    CATALOGUE, Config, DatabaseSettings, FairBy, Host, LoadBalanceHosts, PipelineDepth, SslMode, SslNegotiation,
    TargetSessionAttrs, off,
};
use pgweir_wire::{Longest, SHORT_MESSAGE_BYTES_MAX};
use std::time::Duration;

/// When a server goes back to its pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, pgweir_freeze::Freeze)]
pub enum PoolMode {
    /// When the client disconnects.
    Session,
    /// When the transaction ends.
    Transaction,
    /// When the statement ends; transaction blocks are refused.
    Statement,
}

impl PoolMode {
    /// The word in pgbouncer.ini and on the console.
    pub fn word(self) -> &'static str {
        match self {
            PoolMode::Session => "session",
            PoolMode::Transaction => "transaction",
            PoolMode::Statement => "statement",
        }
    }
}

/// The settings of one pool. Zero counts and `None` durations mean "no limit", as in pgbouncer.ini.
#[derive(Debug, Clone, PartialEq, Eq, pgweir_freeze::Freeze)]
pub(crate) struct PoolSettings {
    pub(crate) mode: PoolMode,
    pub(crate) size: u32,
    /// The size is found by experiment; `size` is pool_size_max then.
    pub(crate) is_auto: bool,
    pub(crate) min_size: u32,
    pub(crate) reserve_size: u32,
    pub(crate) server_lifetime: Duration,
    pub(crate) query_wait_timeout: Option<Duration>,
    pub(crate) query_timeout: Option<Duration>,
    pub(crate) transaction_timeout: Option<Duration>,
    pub(crate) idle_transaction_timeout: Option<Duration>,
    pub(crate) client_idle_timeout: Option<Duration>,
    /// Where the servers are: taken in turn (`round_robin_hosts`), or always the first that answers.
    pub(crate) endpoints: Vec<Endpoint>,
    pub(crate) round_robin_hosts: bool,
    pub(crate) target: TargetSessionAttrs,
    pub(crate) server_tls: ServerTls,
    /// The database's name on the server.
    pub(crate) server_database: String,
    /// The user as whom the servers log in.
    pub(crate) server_user: String,
    pub(crate) connect_query: Option<String>,
    /// Startup parameters of the servers: client_encoding, datestyle, timezone, application_name of the database entry.
    pub(crate) startup: Vec<(String, String)>,
    /// Among whom the queue shares the servers: clients, users or applications.
    pub(crate) fair_by: FairBy,
    /// The weight of the pool among the pools under one limit on servers at work.
    pub(crate) weight: u32,
    pub(crate) max_db_connections: u32,
    pub(crate) max_db_client_connections: u32,
    pub(crate) max_user_connections: u32,
    pub(crate) max_user_client_connections: u32,
}

/// How TLS is used with servers that are not on this machine's Unix-domain sockets.
#[derive(Debug, Clone, PartialEq, Eq, pgweir_freeze::Freeze)]
pub(crate) struct ServerTls {
    pub(crate) mode: SslMode,
    /// TLS begins without an SSLRequest.
    pub(crate) is_direct: bool,
    /// The values of all settings `server_tls_*`. If they change, servers are replaced.
    values: Vec<Option<String>>,
}

impl ServerTls {
    fn new(config: &Config) -> ServerTls {
        let settings = CATALOGUE.iter().filter(|s| s.name.starts_with("server_tls"));
        ServerTls {
            mode: config.global.server_tls_sslmode,
            is_direct: config.global.server_tls_sslnegotiation == SslNegotiation::Direct,
            values: settings.map(|s| s.value(config)).collect(),
        }
    }
}

/// The settings of the process.
#[derive(Debug, Clone, pgweir_freeze::Freeze)]
pub(crate) struct Settings {
    pub(crate) max_client_conn: u32,
    pub(crate) max_prepared_statements: usize,
    pub(crate) deferred_begin: Option<Duration>,
    pub(crate) max_packet_bytes: u32,
    /// The longest message of a client, with its header, that is neither too long for its kind nor for `max_packet_size`,
    /// whatever its kind.
    pub(crate) any_packet_bytes: u32,
    /// `max_packet_size`, for the messages of servers.
    pub(crate) longest_reply: Longest,
    /// `max_notification_backlog`.
    pub(crate) notification_backlog_bytes: usize,
    pub(crate) server_round_robin: bool,
    pub(crate) server_check_delay: Duration,
    /// `None`: no check. An empty query is sent as such.
    pub(crate) server_check_query: Option<String>,
    pub(crate) server_reset_query: Option<String>,
    pub(crate) server_reset_query_always: bool,
    pub(crate) server_idle_timeout: Option<Duration>,
    pub(crate) server_connect_timeout: Option<Duration>,
    pub(crate) server_login_retry: Duration,
    pub(crate) server_down_wait: bool,
    pub(crate) server_fast_close: bool,
    pub(crate) cancel_wait_timeout: Option<Duration>,
    pub(crate) client_login_timeout: Option<Duration>,
    pub(crate) client_sslmode: SslMode,
    pub(crate) query_wait_notify: Option<Duration>,
    /// The global query_timeout: it counts for clients that wait for a server.
    pub(crate) query_timeout: Option<Duration>,
    pub(crate) queue_target: Option<Duration>,
    pub(crate) reserve_pool_timeout: Duration,
    pub(crate) autodb_idle_timeout: Option<Duration>,
    pub(crate) stats_period: Duration,
    pub(crate) log_connections: bool,
    pub(crate) log_disconnections: bool,
    pub(crate) log_pooler_errors: bool,
    pub(crate) log_stats: bool,
    pub(crate) application_name_add_host: bool,
    pub(crate) ignore_startup_parameters: Vec<String>,
    pub(crate) login_notify_message: String,
    pub(crate) disable_pqexec: bool,
    pub(crate) pool_idle_timeout: Option<Duration>,
    /// `session_state = full`.
    pub(crate) keeps_sessions: bool,
    /// `session_state_probe = always` or `always_locks`.
    pub(crate) probe_always: bool,
    /// `session_state_probe = always_locks`.
    pub(crate) probe_always_locks: bool,
    pub(crate) pin_idle_timeout: Option<Duration>,
    pub(crate) pipeline_depth: PipelineDepth,
    pub(crate) parse_without_server: bool,
    /// The most servers of a host whose pools have the size `auto`; 0: as many as the host allows.
    pub(crate) pool_size_max: u32,
    /// `sizing = hold`.
    pub(crate) holds_sizes: bool,
    /// `link = adversarial`: for tests.
    pub(crate) link_adversarial: bool,
    /// The kinds of secrets in `auth_file`.
    pub(crate) secrets: SecretKinds,
}

/// How many users of `auth_file` have secrets of which kind.
#[derive(Debug, Clone, Copy, Default, pgweir_freeze::Freeze)]
pub(crate) struct SecretKinds {
    pub(crate) all: u64,
    pub(crate) scram: u64,
    pub(crate) plain: u64,
}

impl SecretKinds {
    fn of(config: &Config) -> SecretKinds {
        let mut kinds = SecretKinds::default();
        for secret in config.auth_users.values() {
            kinds.all += 1;
            kinds.scram += u64::from(matches!(secret, pgweir_config::Secret::Scram(_)));
            kinds.plain += u64::from(matches!(secret, pgweir_config::Secret::Plain(_)));
        }
        kinds
    }
}

impl Settings {
    /// Whether these settings let the pooler follow more of what clients leave on servers than `other` did.
    pub(crate) fn follows_more_than(&self, other: &Settings) -> bool {
        self.keeps_sessions && !other.keeps_sessions
            || self.max_prepared_statements > 0 && other.max_prepared_statements == 0
    }

    /// Whether the prepared statements of a pool's clients are tracked.
    #[inline(always)]
    pub(crate) fn tracks_statements_of(&self, pool: &PoolSettings) -> bool {
        pool.mode != PoolMode::Session && self.max_prepared_statements > 0
    }

    /// Whether a server that has been idle since `since` must answer the check query before a client gets it.
    #[inline]
    pub(crate) fn must_be_tested(&self, now: Time, since: Time) -> bool {
        self.server_check_query.is_some() && now - since > self.server_check_delay
    }

    /// Reads the settings from a configuration.
    pub(crate) fn new(config: &Config) -> Settings {
        let g = &config.global;
        let max_packet_bytes = u32::try_from(g.max_packet_size).unwrap_or(u32::MAX);
        Settings {
            max_client_conn: g.max_client_conn,
            max_prepared_statements: g.max_prepared_statements as usize,
            deferred_begin: off(g.deferred_begin),
            max_packet_bytes,
            any_packet_bytes: max_packet_bytes.min(SHORT_MESSAGE_BYTES_MAX + 1),
            longest_reply: Longest::of_message(max_packet_bytes),
            notification_backlog_bytes: usize::try_from(g.max_notification_backlog).unwrap_or(usize::MAX),
            server_round_robin: g.server_round_robin.is_on(),
            server_check_delay: g.server_check_delay,
            server_check_query: g.server_check_query.query().map(str::to_string),
            server_reset_query: Some(g.server_reset_query.clone()).filter(|q| !q.is_empty()),
            server_reset_query_always: g.server_reset_query_always.is_on(),
            server_idle_timeout: off(g.server_idle_timeout),
            server_connect_timeout: off(g.server_connect_timeout),
            server_login_retry: g.server_login_retry,
            server_down_wait: g.server_down_wait.is_on(),
            server_fast_close: g.server_fast_close.is_on(),
            cancel_wait_timeout: off(g.cancel_wait_timeout),
            client_login_timeout: off(g.client_login_timeout),
            client_sslmode: g.client_tls_sslmode,
            query_wait_notify: off(Duration::from_secs(g.query_wait_notify.into())),
            query_timeout: off(g.query_timeout),
            queue_target: off(g.queue_target),
            reserve_pool_timeout: g.reserve_pool_timeout,
            autodb_idle_timeout: off(g.autodb_idle_timeout),
            stats_period: Duration::from_secs(g.stats_period.max(1).into()),
            log_connections: g.log_connections.is_on(),
            log_disconnections: g.log_disconnections.is_on(),
            log_pooler_errors: g.log_pooler_errors.is_on(),
            log_stats: g.log_stats.is_on(),
            application_name_add_host: g.application_name_add_host.is_on(),
            login_notify_message: g.login_notify_message.clone(),
            disable_pqexec: g.disable_pqexec.is_on(),
            pool_idle_timeout: off(g.pool_idle_timeout),
            keeps_sessions: g.session_state == pgweir_config::SessionState::Full,
            probe_always: g.session_state_probe != pgweir_config::SessionStateProbe::Suspected,
            probe_always_locks: g.session_state_probe == pgweir_config::SessionStateProbe::AlwaysLocks,
            pin_idle_timeout: off(g.pin_idle_timeout),
            pipeline_depth: g.pipeline_depth,
            parse_without_server: g.parse_without_server.is_on(),
            pool_size_max: g.pool_size_max,
            holds_sizes: g.sizing == pgweir_config::SizingChoice::Hold,
            link_adversarial: g.link == pgweir_config::LinkChoice::Adversarial,
            secrets: SecretKinds::of(config),
            ignore_startup_parameters: g
                .ignore_startup_parameters
                .items()
                .iter()
                .map(|s| s.to_string())
                .collect(),
        }
    }
}

/// Where a host listens on `port`.
pub(crate) fn endpoint(host: &Host, port: u16) -> Endpoint {
    match host {
        Host::UnixDirectory(directory) => Endpoint::Unix {
            path: format!("{directory}/.s.PGSQL.{port}"),
            port,
        },
        Host::Abstract(name) => Endpoint::Unix {
            path: format!("@{name}/.s.PGSQL.{port}"),
            port,
        },
        Host::Address(address) => Endpoint::Tcp {
            host: address.to_string(),
            port,
        },
        Host::Name(name) => Endpoint::Tcp {
            host: name.clone(),
            port,
        },
    }
}

impl PoolSettings {
    /// The settings for a database and the user as whom its servers log in.
    pub(crate) fn new(config: &Config, database: &DatabaseSettings, pool_user: &str) -> PoolSettings {
        let startup = database
            .startup_parameters()
            .map(|(n, v)| (n.to_string(), v.to_string()))
            .collect();
        let hosts = config.hosts(database).iter();
        PoolSettings {
            mode: match config.pool_mode(database, pool_user) {
                pgweir_config::PoolMode::Session => PoolMode::Session,
                pgweir_config::PoolMode::Transaction => PoolMode::Transaction,
                pgweir_config::PoolMode::Statement => PoolMode::Statement,
            },
            size: config.pool_size(database, pool_user).unwrap_or(0),
            is_auto: config.pool_size_is_auto(database, pool_user),
            min_size: config.min_pool_size(database, pool_user),
            reserve_size: config.reserve_pool_size(database, pool_user),
            server_lifetime: config.server_lifetime(database),
            query_wait_timeout: config.query_wait_timeout(database, pool_user),
            query_timeout: config.query_timeout(pool_user),
            transaction_timeout: config.transaction_timeout(pool_user),
            idle_transaction_timeout: config.idle_transaction_timeout(pool_user),
            client_idle_timeout: config.client_idle_timeout(pool_user),
            endpoints: hosts.map(|host| endpoint(host, database.port)).collect(),
            round_robin_hosts: database.load_balance_hosts == LoadBalanceHosts::RoundRobin,
            target: database.target_session_attrs,
            server_tls: ServerTls::new(config),
            server_database: database.server_dbname().to_string(),
            server_user: pool_user.to_string(),
            connect_query: database.connect_query.clone().filter(|q| !q.is_empty()),
            startup,
            fair_by: config.global.fair_by,
            weight: config.pool_weight(database, pool_user),
            max_db_connections: config.max_db_connections(database).unwrap_or(0),
            max_db_client_connections: config.max_db_client_connections(database).unwrap_or(0),
            max_user_connections: config.max_user_connections(pool_user).unwrap_or(0),
            max_user_client_connections: config.max_user_client_connections(pool_user).unwrap_or(0),
        }
    }

    /// Whether a server may get another client after each transaction.
    pub(crate) fn shares_servers(&self) -> bool {
        self.mode != PoolMode::Session
    }

    /// Changes the settings that differ for this kind of pool.
    pub(crate) fn suit(&mut self, kind: PoolKind) {
        self.is_auto &= kind == PoolKind::Clients;
        match kind {
            PoolKind::Replication { .. } => {
                self.mode = PoolMode::Session;
                self.min_size = 0;
                // A walsender for physical replication runs no SQL.
                self.connect_query = None;
                // A replication stream is neither a query nor a transaction.
                (self.query_timeout, self.transaction_timeout) = (None, None);
                self.idle_transaction_timeout = None;
            }
            // There is one listener for each client_encoding in use.
            PoolKind::Listener => (self.size, self.min_size, self.reserve_size) = (0, 0, 0),
            PoolKind::Clients | PoolKind::AuthQuery => {}
        }
    }

    /// Whether servers that were opened under the other settings must be replaced.
    pub(crate) fn needs_new_servers(&self, other: &PoolSettings) -> bool {
        let is_remote = |endpoint: &Endpoint| matches!(endpoint, Endpoint::Tcp { .. });
        self.endpoints != other.endpoints
            || self.target != other.target
            || self.server_tls != other.server_tls && self.endpoints.iter().any(is_remote)
            || self.server_database != other.server_database
            || self.server_user != other.server_user
            || self.connect_query != other.connect_query
            || self.startup != other.startup
    }
}
