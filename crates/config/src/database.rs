//! A line of section `[databases]`.

use std::borrow::Cow;
use std::time::Duration;

use crate::choices::{LoadBalanceHosts, PoolMode, TargetSessionAttrs};
use crate::host::{Host, parse_hosts};
use crate::line_key::{Notes, limit, line_keys, pool_size, port, size, text, time, wait, weight, word};
use crate::mismatch::Mismatch;
use crate::secret::Secret;
use crate::value::{Kind, PoolSize, SettingValue};

/// The port of server connections if a line names no port.
pub const SERVER_PORT_DEFAULT: u16 = 5432;

/// A database that clients can ask for. A field of `None` is not set, and the global setting applies. The lookups of
/// [`Config`](crate::Config) combine the two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseSettings {
    /// The name clients ask for; `*` for the template of all others.
    pub name: String,
    /// The database's name on the server, if it is different.
    pub dbname: Option<String>,
    /// The hosts in order; empty for the Unix socket in `unix_socket_dir`.
    pub hosts: Vec<Host>,
    /// The port of every host.
    pub port: u16,
    /// The user that all server connections log in as; `None` for the client's user.
    pub user: Option<String>,
    /// The password for `user`.
    pub password: Option<Secret>,
    /// Overrides `auth_user`.
    pub auth_user: Option<String>,
    /// Overrides `auth_dbname`.
    pub auth_dbname: Option<String>,
    /// Overrides `auth_query`.
    pub auth_query: Option<String>,
    /// Sent to the server at startup.
    pub client_encoding: Option<String>,
    /// Sent to the server at startup.
    pub datestyle: Option<String>,
    /// Sent to the server at startup.
    pub timezone: Option<String>,
    /// Sent to the server at startup.
    pub application_name: Option<String>,
    /// Overrides `default_pool_size`; 0 is no limit.
    pub pool_size: Option<PoolSize>,
    /// Overrides `min_pool_size`.
    pub min_pool_size: Option<u32>,
    /// Overrides `reserve_pool_size`.
    pub reserve_pool_size: Option<u32>,
    /// Overrides `query_wait_timeout`; zero is no limit.
    pub query_wait_timeout: Option<Duration>,
    /// Overrides `max_db_connections`; never zero.
    pub max_db_connections: Option<u32>,
    /// Overrides `max_db_client_connections`; never zero.
    pub max_db_client_connections: Option<u32>,
    /// Overrides `server_lifetime`; never zero.
    pub server_lifetime: Option<Duration>,
    /// Which of several hosts new server connections go to.
    pub load_balance_hosts: LoadBalanceHosts,
    /// Which of the servers may be used.
    pub target_session_attrs: TargetSessionAttrs,
    /// Overrides `pool_mode`.
    pub pool_mode: Option<PoolMode>,
    /// Run on each new server connection before a client gets it.
    pub connect_query: Option<String>,
    /// The weight of the database's pools among the pools that share a limit.
    pub weight: Option<u32>,
}

impl DatabaseSettings {
    /// The settings of a line `name =` with nothing after it.
    pub fn new(name: &str) -> DatabaseSettings {
        DatabaseSettings {
            name: name.to_string(),
            dbname: None,
            hosts: Vec::new(),
            port: SERVER_PORT_DEFAULT,
            user: None,
            password: None,
            auth_user: None,
            auth_dbname: None,
            auth_query: None,
            client_encoding: None,
            datestyle: None,
            timezone: None,
            application_name: None,
            pool_size: None,
            min_pool_size: None,
            reserve_pool_size: None,
            query_wait_timeout: None,
            max_db_connections: None,
            max_db_client_connections: None,
            server_lifetime: None,
            load_balance_hosts: LoadBalanceHosts::RoundRobin,
            target_session_attrs: TargetSessionAttrs::Any,
            pool_mode: None,
            connect_query: None,
            weight: None,
        }
    }

    /// The database's name on the server.
    pub fn server_dbname(&self) -> &str {
        self.dbname.as_deref().unwrap_or(&self.name)
    }

    /// The database that the template `*` makes for a name.
    pub fn named(&self, name: &str) -> DatabaseSettings {
        DatabaseSettings {
            name: name.to_string(),
            ..self.clone()
        }
    }

    /// The hosts as written, for SHOW DATABASES; `None` for the default socket.
    pub fn host_text(&self) -> Option<Cow<'_, str>> {
        match self.hosts.as_slice() {
            [] => None,
            [Host::Name(name)] => Some(name.into()),
            hosts => Some(hosts.iter().map(Host::to_string).collect::<Vec<_>>().join(",").into()),
        }
    }

    /// Parameters for the startup message besides user and database, name and value.
    pub fn startup_parameters(&self) -> impl Iterator<Item = (&'static str, &str)> {
        [
            ("client_encoding", &self.client_encoding),
            ("datestyle", &self.datestyle),
            ("timezone", &self.timezone),
            ("application_name", &self.application_name),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value.as_deref()?)))
    }
}

line_keys! { DatabaseSettings;
    dbname -> dbname: text, {
        kind: Kind::Text, unit: "", without: "the entry's own name",
        help: "The database on the server.",
    }
    host -> hosts: hosts, {
        kind: Kind::List, unit: "", without: "the socket in `unix_socket_dir`",
        help: "Where the server is: a host name, an IPv4 or IPv6 address (without brackets), a directory that starts with `/` for a Unix socket, or `@` and an abstract socket name. Several are separated by commas; see `load_balance_hosts`. If the server runs on the pooler's machine, a Unix socket (`/var/run/postgresql`) costs the pooler 0.84 to 0.94 of the processor time that TCP costs for a transaction.",
    }
    port -> port: port, {
        kind: Kind::Integer, unit: "", without: "5432",
        help: "The port of every host.",
    }
    user -> user: text, {
        kind: Kind::Text, unit: "", without: "the client's user",
        help: "All server connections log in as this user, so there is one pool for all clients of the database.",
    }
    password -> password: secret, {
        kind: Kind::Text, unit: "", without: "from `auth_file` or `auth_query`",
        help: "The password of `user`: plain, or as stored in `pg_authid`.",
    }
    auth_user -> auth_user: text, {
        kind: Kind::Text, unit: "", without: "`auth_user`",
        help: "The role that looks up users.",
    }
    auth_dbname -> auth_dbname: text, {
        kind: Kind::Text, unit: "", without: "`auth_dbname`",
        help: "The database to look up users in.",
    }
    auth_query -> auth_query: text, {
        kind: Kind::Text, unit: "", without: "`auth_query`",
        help: "The query that looks up users.",
    }
    client_encoding -> client_encoding: text, {
        kind: Kind::Text, unit: "", without: "the server's",
        help: "Asked for at startup.",
    }
    datestyle -> datestyle: text, {
        kind: Kind::Text, unit: "", without: "the server's",
        help: "Asked for at startup.",
    }
    timezone -> timezone: text, {
        kind: Kind::Text, unit: "", without: "the server's",
        help: "Asked for at startup.",
    }
    application_name -> application_name: text, {
        kind: Kind::Text, unit: "", without: "the server's",
        help: "Asked for at startup.",
    }
    pool_size -> pool_size: pool_size, {
        kind: Kind::Integer, unit: "connections", without: "`default_pool_size`",
        help: "The size of each pool of the database. 0 is no limit; `auto` is found by experiment.",
    }
    min_pool_size -> min_pool_size: size, {
        kind: Kind::Integer, unit: "connections", without: "`min_pool_size`",
        help: "Connections each pool keeps open; with `user=`, even before a client comes.",
    }
    reserve_pool_size -> reserve_pool_size: size, {
        kind: Kind::Integer, unit: "connections", without: "`reserve_pool_size`",
        help: "Extra connections, beyond `pool_size`, for clients that have waited longer than `reserve_pool_timeout`.",
    }
    reserve_pool -> reserve_pool_size: size, {
        kind: Kind::Integer, unit: "connections", without: "`reserve_pool_size`",
        help: "The older name of `reserve_pool_size`.",
    }
    query_wait_timeout -> query_wait_timeout: wait, {
        kind: Kind::Integer, unit: "seconds", without: "`query_wait_timeout`",
        help: "How long a client may wait for a server.",
    }
    max_db_connections -> max_db_connections: limit, {
        kind: Kind::Integer, unit: "connections", without: "`max_db_connections`",
        help: "Server connections over all users.",
    }
    max_db_client_connections -> max_db_client_connections: limit, {
        kind: Kind::Integer, unit: "connections", without: "`max_db_client_connections`",
        help: "Client connections over all users.",
    }
    server_lifetime -> server_lifetime: time, {
        kind: Kind::Integer, unit: "seconds", without: "`server_lifetime`",
        help: "How old a server connection may get.",
    }
    load_balance_hosts -> load_balance_hosts: |value: &str, _: &mut Notes| LoadBalanceHosts::parse(value), {
        kind: LoadBalanceHosts::KIND, unit: "", without: "round-robin",
        help: "With several hosts: `round-robin` spreads new connections over them, `disable` stays with one until it fails.",
    }
    target_session_attrs -> target_session_attrs: |value: &str, _: &mut Notes| TargetSessionAttrs::parse(value), {
        kind: TargetSessionAttrs::KIND, unit: "", without: "any",
        help: "Which servers are used, as in libpq: `any`; `read-write` and `read-only` go by `default_transaction_read_only`, and a standby is always read-only; `primary`, `standby`; `prefer-standby` takes a primary only while no standby can be reached. Each new connection is checked. With `read-write` or `primary` and both servers in `host`, a fail-over needs only a new primary: clients without a transaction wait for it. pgweir's own.",
    }
    pool_mode -> pool_mode: word, {
        kind: PoolMode::KIND, unit: "", without: "`pool_mode`",
        help: "When servers go back to the pool.",
    }
    connect_query -> connect_query: text, {
        kind: Kind::Text, unit: "", without: "none",
        help: "A query to run on each new server connection before a client gets it. Its errors are logged and otherwise ignored.",
    }
    weight -> weight: weight, {
        kind: Kind::Integer, unit: "", without: "1",
        help: "From 1 to 1000: the share of the database's pools in the limit of their host, where their size is `auto`. It is multiplied by the user's weight. See docs/sizing.md. pgweir's own.",
    }
}

fn hosts(value: &str, _: &mut Notes) -> Result<Vec<Host>, Mismatch> {
    match parse_hosts(value) {
        hosts if hosts.is_empty() => Err(Mismatch::expected("a host")),
        hosts => Ok(hosts),
    }
}

fn secret(value: &str, _: &mut Notes) -> Result<Option<Secret>, Mismatch> {
    Ok(Some(Secret::parse(value)))
}
