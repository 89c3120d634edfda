//! A line of section [databases].

use std::borrow::Cow;
use std::time::Duration;

use crate::choices::{LoadBalanceHosts, PoolMode};
use crate::host::{Host, parse_hosts};
use crate::line_key::{Key, LineKey, limit, port, size, time};
use crate::secret::Secret;
use crate::value::{Kind, Mismatch, SettingValue};

/// Where server connections go when a line names no port.
pub const SERVER_PORT_DEFAULT: u16 = 5432;

/// A database that clients can ask for. `None` is not set: the global setting holds; the lookups of
/// [`Config`](crate::Config) put the two together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseSettings {
    /// The name clients ask for; `*` for the template of all others.
    pub name: String,
    /// The database on the server, where it differs.
    pub dbname: Option<String>,
    /// The hosts in their order; empty is the Unix socket in `unix_socket_dir`.
    pub hosts: Vec<Host>,
    /// The port of every host.
    pub port: u16,
    /// The user all server connections log in as; `None` is the client's own.
    pub user: Option<String>,
    /// The password for `user`.
    pub password: Option<Secret>,
    /// Over `auth_user`.
    pub auth_user: Option<String>,
    /// Over `auth_dbname`.
    pub auth_dbname: Option<String>,
    /// Over `auth_query`.
    pub auth_query: Option<String>,
    /// Sent to the server at startup.
    pub client_encoding: Option<String>,
    /// Sent to the server at startup.
    pub datestyle: Option<String>,
    /// Sent to the server at startup.
    pub timezone: Option<String>,
    /// Sent to the server at startup.
    pub application_name: Option<String>,
    /// Over `default_pool_size`; 0 is no limit.
    pub pool_size: Option<u32>,
    /// Over `min_pool_size`.
    pub min_pool_size: Option<u32>,
    /// Over `reserve_pool_size`.
    pub reserve_pool_size: Option<u32>,
    /// Over `query_wait_timeout`; never zero.
    pub query_wait_timeout: Option<Duration>,
    /// Over `max_db_connections`; never zero.
    pub max_db_connections: Option<u32>,
    /// Over `max_db_client_connections`; never zero.
    pub max_db_client_connections: Option<u32>,
    /// Over `server_lifetime`; never zero.
    pub server_lifetime: Option<Duration>,
    /// What to do with several hosts.
    pub load_balance_hosts: LoadBalanceHosts,
    /// Over `pool_mode`.
    pub pool_mode: Option<PoolMode>,
    /// Run on each new server connection before a client gets it.
    pub connect_query: Option<String>,
}

impl DatabaseSettings {
    /// What a line `name =` with nothing after it means.
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
            pool_mode: None,
            connect_query: None,
        }
    }

    /// The database's name on the server.
    pub fn server_dbname(&self) -> &str {
        self.dbname.as_deref().unwrap_or(&self.name)
    }

    /// The database that the `*` template makes of a name.
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

macro_rules! key {
    ($name:literal, $kind:expr, $unit:literal, $default:literal, $help:literal, $set:expr) => {
        Key {
            info: LineKey {
                name: $name,
                kind: $kind,
                unit: $unit,
                default: $default,
                help: $help,
            },
            set: $set,
        }
    };
}

fn text(field: &mut Option<String>, value: &str) -> Result<(), Mismatch> {
    *field = Some(value.to_string());
    Ok(())
}

type Db = DatabaseSettings;

pub(crate) static KEYS: &[Key<DatabaseSettings>] = &[
    key!(
        "dbname",
        Kind::Text,
        "",
        "the entry's own name",
        "The database on the server.",
        |d: &mut Db, v, _| { text(&mut d.dbname, v) }
    ),
    key!(
        "host",
        Kind::List,
        "",
        "the socket in `unix_socket_dir`",
        "Where the server is: a host name, an IPv4 or IPv6 address (without brackets), a directory that starts with `/` for a Unix socket, or `@` and an abstract socket name. Several are separated by commas; see `load_balance_hosts`.",
        |d: &mut Db, v, _| {
            d.hosts = parse_hosts(v);
            if d.hosts.is_empty() {
                Err(Mismatch::expected("a host"))
            } else {
                Ok(())
            }
        }
    ),
    key!(
        "port",
        Kind::Integer,
        "",
        "5432",
        "The port of every host.",
        |d: &mut Db, v, notes| {
            d.port = port(v, notes)?;
            Ok(())
        }
    ),
    key!(
        "user",
        Kind::Text,
        "",
        "the client's user",
        "All server connections log in as this user, so there is one pool for all clients of the database.",
        |d: &mut Db, v, _| text(&mut d.user, v)
    ),
    key!(
        "password",
        Kind::Text,
        "",
        "from `auth_file` or `auth_query`",
        "The password of `user`: plain, or as stored in `pg_authid`.",
        |d: &mut Db, v, _| {
            d.password = Some(Secret::parse(v));
            Ok(())
        }
    ),
    key!(
        "auth_user",
        Kind::Text,
        "",
        "`auth_user`",
        "The role that looks up users.",
        |d: &mut Db, v, _| { text(&mut d.auth_user, v) }
    ),
    key!(
        "auth_dbname",
        Kind::Text,
        "",
        "`auth_dbname`",
        "The database to look up users in.",
        |d: &mut Db, v, _| { text(&mut d.auth_dbname, v) }
    ),
    key!(
        "auth_query",
        Kind::Text,
        "",
        "`auth_query`",
        "The query that looks up users.",
        |d: &mut Db, v, _| { text(&mut d.auth_query, v) }
    ),
    key!(
        "client_encoding",
        Kind::Text,
        "",
        "the server's",
        "Asked for at startup.",
        |d: &mut Db, v, _| { text(&mut d.client_encoding, v) }
    ),
    key!(
        "datestyle",
        Kind::Text,
        "",
        "the server's",
        "Asked for at startup.",
        |d: &mut Db, v, _| { text(&mut d.datestyle, v) }
    ),
    key!(
        "timezone",
        Kind::Text,
        "",
        "the server's",
        "Asked for at startup.",
        |d: &mut Db, v, _| { text(&mut d.timezone, v) }
    ),
    key!(
        "application_name",
        Kind::Text,
        "",
        "the server's",
        "Asked for at startup.",
        |d: &mut Db, v, _| { text(&mut d.application_name, v) }
    ),
    key!(
        "pool_size",
        Kind::Integer,
        "connections",
        "`default_pool_size`",
        "The size of each pool of the database. 0 is no limit.",
        |d: &mut Db, v, notes| {
            d.pool_size = size(v, notes);
            Ok(())
        }
    ),
    key!(
        "min_pool_size",
        Kind::Integer,
        "connections",
        "`min_pool_size`",
        "Connections each pool keeps open; with `user=`, even before a client comes.",
        |d: &mut Db, v, notes| {
            d.min_pool_size = size(v, notes);
            Ok(())
        }
    ),
    key!(
        "reserve_pool_size",
        Kind::Integer,
        "connections",
        "`reserve_pool_size`",
        "Connections beyond `pool_size` for clients that have waited long.",
        |d: &mut Db, v, notes| {
            d.reserve_pool_size = size(v, notes);
            Ok(())
        }
    ),
    key!(
        "reserve_pool",
        Kind::Integer,
        "connections",
        "`reserve_pool_size`",
        "The older word for `reserve_pool_size`.",
        |d: &mut Db, v, notes| {
            d.reserve_pool_size = size(v, notes);
            Ok(())
        }
    ),
    key!(
        "query_wait_timeout",
        Kind::Integer,
        "seconds",
        "`query_wait_timeout`",
        "How long a client may wait for a server.",
        |d: &mut Db, v, notes| {
            d.query_wait_timeout = time(v, notes);
            Ok(())
        }
    ),
    key!(
        "max_db_connections",
        Kind::Integer,
        "connections",
        "`max_db_connections`",
        "Server connections over all users.",
        |d: &mut Db, v, notes| {
            d.max_db_connections = limit(v, notes);
            Ok(())
        }
    ),
    key!(
        "max_db_client_connections",
        Kind::Integer,
        "connections",
        "`max_db_client_connections`",
        "Client connections over all users.",
        |d: &mut Db, v, notes| {
            d.max_db_client_connections = limit(v, notes);
            Ok(())
        }
    ),
    key!(
        "server_lifetime",
        Kind::Integer,
        "seconds",
        "`server_lifetime`",
        "How old a server connection may get.",
        |d: &mut Db, v, notes| {
            d.server_lifetime = time(v, notes);
            Ok(())
        }
    ),
    key!(
        "load_balance_hosts",
        LoadBalanceHosts::KIND,
        "",
        "round-robin",
        "With several hosts: `round-robin` spreads new connections over them, `disable` stays with one until it fails.",
        |d: &mut Db, v, _| {
            d.load_balance_hosts = LoadBalanceHosts::parse(v)?;
            Ok(())
        }
    ),
    key!(
        "pool_mode",
        PoolMode::KIND,
        "",
        "`pool_mode`",
        "When servers go back to the pool.",
        |d: &mut Db, v, _| {
            d.pool_mode = Some(PoolMode::parse(v)?);
            Ok(())
        }
    ),
    key!(
        "connect_query",
        Kind::Text,
        "",
        "none",
        "A query to run on each new server connection before a client gets it. Its errors are logged and otherwise ignored.",
        |d: &mut Db, v, _| text(&mut d.connect_query, v)
    ),
];
