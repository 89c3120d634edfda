//! A whole configuration, and what holds for a given database and user.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::catalogue::GlobalSettings;
use crate::choices::PoolMode;
use crate::database::DatabaseSettings;
use crate::host::{Host, UnixSocketDir};
use crate::peer::PeerSettings;
use crate::secret::Secret;
use crate::user::UserSettings;

/// The name of the admin console's database.
pub const CONSOLE_DATABASE: &str = "pgbouncer";

/// Everything a configuration file and its `auth_file` say.
///
/// The lookups below put database, user and global settings together by PgBouncer's precedence. *Pool user* is who
/// the servers log in as: the database's `user=`, else the client's user. *Client user* is who logged in.
/// In limits `None` is no limit, in times `None` is off.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    /// Section `[pgbouncer]`.
    pub global: GlobalSettings,
    /// Section `[databases]` by name, without `*`.
    pub databases: BTreeMap<String, DatabaseSettings>,
    /// The line `*` of `[databases]`: what every other name means.
    pub autodb: Option<DatabaseSettings>,
    /// Section `[users]` by name.
    pub users: BTreeMap<String, UserSettings>,
    /// Section `[peers]` by peer id.
    pub peers: BTreeMap<u32, PeerSettings>,
    /// What `auth_file` says, by user.
    pub auth_users: BTreeMap<String, Secret>,
    /// The settings of `[pgbouncer]` that the file names.
    pub(crate) named: BTreeSet<&'static str>,
}

impl Config {
    /// What a database name means to a client: its own entry, or one made from `*`. `None`: there is no such
    /// database. The console's name never is one.
    pub fn database(&self, name: &str) -> Option<DatabaseSettings> {
        if name == CONSOLE_DATABASE {
            return None;
        }
        self.databases
            .get(name)
            .cloned()
            .or_else(|| self.autodb.as_ref().map(|template| template.named(name)))
    }

    /// Whether section `[pgbouncer]` of the file names the setting, or SET has since.
    pub fn is_named(&self, setting: &str) -> bool {
        self.named.contains(setting)
    }

    /// Where the database's servers are; empty if it has no host and Unix sockets are off.
    pub fn hosts<'a>(&'a self, database: &'a DatabaseSettings) -> &'a [Host] {
        match &self.global.unix_socket_dir {
            UnixSocketDir::At(host) if database.hosts.is_empty() => std::slice::from_ref(host),
            _ => &database.hosts,
        }
    }

    /// User over database over global.
    pub fn pool_mode(&self, database: &DatabaseSettings, pool_user: &str) -> PoolMode {
        self.user(pool_user, |user| user.pool_mode)
            .or(database.pool_mode)
            .unwrap_or(self.global.pool_mode)
    }

    /// User over database over `default_pool_size`.
    pub fn pool_size(&self, database: &DatabaseSettings, pool_user: &str) -> Option<u32> {
        let size = self.user(pool_user, |user| user.pool_size).or(database.pool_size);
        no_limit(size.unwrap_or(self.global.default_pool_size))
    }

    /// Database over global, and never more than the pool's size.
    pub fn min_pool_size(&self, database: &DatabaseSettings, pool_user: &str) -> u32 {
        let size = database.min_pool_size.unwrap_or(self.global.min_pool_size);
        self.pool_size(database, pool_user).map_or(size, |max| size.min(max))
    }

    /// User over database over global; 0 is none.
    pub fn reserve_pool_size(&self, database: &DatabaseSettings, pool_user: &str) -> u32 {
        let size = self
            .user(pool_user, |user| user.reserve_pool_size)
            .or(database.reserve_pool_size);
        size.unwrap_or(self.global.reserve_pool_size)
    }

    /// Cancel requests that may be under way to a peer at once.
    pub fn peer_pool_size(&self, peer: &PeerSettings) -> Option<u32> {
        no_limit(peer.pool_size.unwrap_or(self.global.default_pool_size))
    }

    /// Server connections of a database: database over global.
    pub fn max_db_connections(&self, database: &DatabaseSettings) -> Option<u32> {
        no_limit(database.max_db_connections.unwrap_or(self.global.max_db_connections))
    }

    /// Client connections of a database: database over global.
    pub fn max_db_client_connections(&self, database: &DatabaseSettings) -> Option<u32> {
        no_limit(
            database
                .max_db_client_connections
                .unwrap_or(self.global.max_db_client_connections),
        )
    }

    /// Server connections of a user: user over global.
    pub fn max_user_connections(&self, pool_user: &str) -> Option<u32> {
        let max = self.user(pool_user, |user| user.max_user_connections);
        no_limit(max.unwrap_or(self.global.max_user_connections))
    }

    /// Client connections of a user: user over global.
    pub fn max_user_client_connections(&self, client_user: &str) -> Option<u32> {
        let max = self.user(client_user, |user| user.max_user_client_connections);
        no_limit(max.unwrap_or(self.global.max_user_client_connections))
    }

    /// Database over global. Zero: each server connection is used once.
    pub fn server_lifetime(&self, database: &DatabaseSettings) -> Duration {
        database.server_lifetime.unwrap_or(self.global.server_lifetime)
    }

    /// User over database over global.
    pub fn query_wait_timeout(&self, database: &DatabaseSettings, client_user: &str) -> Option<Duration> {
        let time = self
            .user(client_user, |user| user.query_wait_timeout)
            .or(database.query_wait_timeout);
        off(time.unwrap_or(self.global.query_wait_timeout))
    }

    /// User over global.
    pub fn query_timeout(&self, client_user: &str) -> Option<Duration> {
        off(self
            .user(client_user, |user| user.query_timeout)
            .unwrap_or(self.global.query_timeout))
    }

    /// User over global.
    pub fn transaction_timeout(&self, client_user: &str) -> Option<Duration> {
        off(self
            .user(client_user, |user| user.transaction_timeout)
            .unwrap_or(self.global.transaction_timeout))
    }

    /// User over global.
    pub fn idle_transaction_timeout(&self, client_user: &str) -> Option<Duration> {
        let time = self.user(client_user, |user| user.idle_transaction_timeout);
        off(time.unwrap_or(self.global.idle_transaction_timeout))
    }

    /// User over global.
    pub fn client_idle_timeout(&self, client_user: &str) -> Option<Duration> {
        off(self
            .user(client_user, |user| user.client_idle_timeout)
            .unwrap_or(self.global.client_idle_timeout))
    }

    /// Who runs `auth_query` for clients of this database: database over global. `None`: unknown users stay unknown.
    pub fn auth_user<'a>(&'a self, database: &'a DatabaseSettings) -> Option<&'a str> {
        database.auth_user.as_deref().or(self.global.auth_user.as_deref())
    }

    /// The database that `auth_query` runs in: database over global. `None`: the one the client asks for.
    pub fn auth_dbname<'a>(&'a self, database: &'a DatabaseSettings) -> Option<&'a str> {
        database.auth_dbname.as_deref().or(self.global.auth_dbname.as_deref())
    }

    /// Database over global.
    pub fn auth_query<'a>(&'a self, database: &'a DatabaseSettings) -> &'a str {
        database.auth_query.as_deref().unwrap_or(&self.global.auth_query)
    }

    fn user<T>(&self, name: &str, field: impl Fn(&UserSettings) -> Option<T>) -> Option<T> {
        self.users.get(name).and_then(field)
    }
}

/// 0 stands for no limit.
fn no_limit(value: u32) -> Option<u32> {
    Some(value).filter(|value| *value > 0)
}

/// 0 stands for off: `None`.
pub fn off(time: Duration) -> Option<Duration> {
    Some(time).filter(|time| !time.is_zero())
}
