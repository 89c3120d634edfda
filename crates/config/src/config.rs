//! A whole configuration, and the settings that apply to a given database and user.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::catalogue::GlobalSettings;
use crate::choices::PoolMode;
use crate::database::DatabaseSettings;
use crate::host::{Host, UnixSocketDir};
use crate::idle_files::UnreadFile;
use crate::login_rules::LoginRules;
use crate::peer::PeerSettings;
use crate::problem::{Place, Problem};
use crate::secret::Secret;
use crate::user::UserSettings;
use crate::value::PoolSize;

/// Cancel requests that may be under way to a peer, if `default_pool_size` is `auto`.
const PEER_POOL_SIZE: u32 = 20;

/// The name of the admin console's database.
pub const CONSOLE_DATABASE: &str = "pgbouncer";

/// The contents of a configuration file and its `auth_file`.
///
/// The lookups below combine the settings of database, user and section `[pgbouncer]` in PgBouncer's order of
/// precedence. The *pool user* is the user that servers log in as: `user=` of the database, otherwise the client's
/// user. The *client user* is the user that the client logged in as. In limits, `None` is no limit; in times, `None` is
/// off.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    /// The name of the file that was read. The setting `conffile` is the one to read next.
    pub read_from: String,
    /// Section `[pgbouncer]`.
    pub global: GlobalSettings,
    /// Section `[databases]` by name, without `*`.
    pub databases: BTreeMap<String, DatabaseSettings>,
    /// The line `*` of `[databases]`: the template for every other name.
    pub autodb: Option<DatabaseSettings>,
    /// Section `[users]` by name.
    pub users: BTreeMap<String, UserSettings>,
    /// Section `[peers]` by peer id.
    pub peers: BTreeMap<u32, PeerSettings>,
    /// The secrets in `auth_file`, by user.
    pub auth_users: BTreeMap<String, Secret>,
    /// Files that settings name and that could not be read. The pooler starts without them, but a RELOAD is refused.
    pub unread_files: Vec<Problem>,
    /// Files that settings name, that are not in use, and that could not be read. A RELOAD is refused if this is new.
    pub(crate) unread_idle_files: Vec<UnreadFile>,
    /// The rules of `auth_hba_file`, `auth_ident_file` and `auth_ldap_options`.
    pub login_rules: LoginRules,
    /// The settings of `[pgbouncer]` that the file names, or SET has changed.
    pub(crate) named: BTreeSet<&'static str>,
    /// Those of them that the file does not name.
    pub(crate) named_by_set: BTreeSet<&'static str>,
}

impl Config {
    /// The database that a client asks for by this name: its own entry, or one made from `*`. `None` if there is no
    /// such database. The name of the console is never a database.
    pub fn database(&self, name: &str) -> Option<DatabaseSettings> {
        if name == CONSOLE_DATABASE {
            return None;
        }
        self.databases
            .get(name)
            .cloned()
            .or_else(|| self.autodb.as_ref().map(|template| template.named(name)))
    }

    /// The place of problems of the file as a whole.
    pub fn place(&self) -> Place {
        Place::file(&self.read_from)
    }

    /// Whether section `[pgbouncer]` of the file names the setting, or SET has changed it since.
    pub fn is_named(&self, setting: &str) -> bool {
        self.named.contains(setting)
    }

    /// Whether section `[pgbouncer]` of the file names the setting.
    pub(crate) fn is_in_file(&self, setting: &str) -> bool {
        self.named.contains(setting) && !self.named_by_set.contains(setting)
    }

    /// The hosts of the database; empty if it has no host and Unix sockets are off.
    pub fn hosts<'a>(&'a self, database: &'a DatabaseSettings) -> &'a [Host] {
        match &self.global.unix_socket_dir {
            UnixSocketDir::At(host) if database.hosts.is_empty() => std::slice::from_ref(host),
            _ => &database.hosts,
        }
    }

    /// A user's value overrides the database's, which overrides the global one.
    pub fn pool_mode(&self, database: &DatabaseSettings, pool_user: &str) -> PoolMode {
        self.user(pool_user, |user| user.pool_mode)
            .or(database.pool_mode)
            .unwrap_or(self.global.pool_mode)
    }

    /// A user's value overrides the database's, which overrides `default_pool_size`.
    /// `None` is no limit, also where the pooler finds the size out and `pool_size_max` sets no limit to it.
    pub fn pool_size(&self, database: &DatabaseSettings, pool_user: &str) -> Option<u32> {
        let size = self.chosen_pool_size(database, pool_user).fixed();
        no_limit(size.unwrap_or(self.global.pool_size_max))
    }

    /// Whether the pooler finds out the size of this pool.
    pub fn pool_size_is_auto(&self, database: &DatabaseSettings, pool_user: &str) -> bool {
        self.chosen_pool_size(database, pool_user) == PoolSize::Auto
    }

    fn chosen_pool_size(&self, database: &DatabaseSettings, pool_user: &str) -> PoolSize {
        let size = self.user(pool_user, |user| user.pool_size).or(database.pool_size);
        size.unwrap_or(self.global.default_pool_size)
    }

    /// The database's value overrides the global one. Never more than the pool's size.
    pub fn min_pool_size(&self, database: &DatabaseSettings, pool_user: &str) -> u32 {
        let size = database.min_pool_size.unwrap_or(self.global.min_pool_size);
        self.pool_size(database, pool_user).map_or(size, |max| size.min(max))
    }

    /// A user's value overrides the database's, which overrides the global one; 0 is none.
    pub fn reserve_pool_size(&self, database: &DatabaseSettings, pool_user: &str) -> u32 {
        let size = self
            .user(pool_user, |user| user.reserve_pool_size)
            .or(database.reserve_pool_size);
        size.unwrap_or(self.global.reserve_pool_size)
    }

    /// Cancel requests that may be under way to a peer at once.
    pub fn peer_pool_size(&self, peer: &PeerSettings) -> Option<u32> {
        let default = self.global.default_pool_size.fixed().unwrap_or(PEER_POOL_SIZE);
        no_limit(peer.pool_size.unwrap_or(default))
    }

    /// Server connections of a database. The database's value overrides the global one.
    pub fn max_db_connections(&self, database: &DatabaseSettings) -> Option<u32> {
        no_limit(database.max_db_connections.unwrap_or(self.global.max_db_connections))
    }

    /// Client connections of a database. The database's value overrides the global one.
    pub fn max_db_client_connections(&self, database: &DatabaseSettings) -> Option<u32> {
        no_limit(
            database
                .max_db_client_connections
                .unwrap_or(self.global.max_db_client_connections),
        )
    }

    /// Server connections of a user. The user's value overrides the global one.
    pub fn max_user_connections(&self, pool_user: &str) -> Option<u32> {
        let max = self.user(pool_user, |user| user.max_user_connections);
        no_limit(max.unwrap_or(self.global.max_user_connections))
    }

    /// Client connections of a user. The user's value overrides the global one.
    pub fn max_user_client_connections(&self, client_user: &str) -> Option<u32> {
        let max = self.user(client_user, |user| user.max_user_client_connections);
        no_limit(max.unwrap_or(self.global.max_user_client_connections))
    }

    /// The database's value overrides the global one. Zero: each server connection is used once.
    pub fn server_lifetime(&self, database: &DatabaseSettings) -> Duration {
        database.server_lifetime.unwrap_or(self.global.server_lifetime)
    }

    /// A user's value overrides the database's, which overrides the global one.
    pub fn query_wait_timeout(&self, database: &DatabaseSettings, client_user: &str) -> Option<Duration> {
        let time = self
            .user(client_user, |user| user.query_wait_timeout)
            .or(database.query_wait_timeout);
        off(time.unwrap_or(self.global.query_wait_timeout))
    }

    /// The user's value overrides the global one.
    pub fn query_timeout(&self, client_user: &str) -> Option<Duration> {
        off(self
            .user(client_user, |user| user.query_timeout)
            .unwrap_or(self.global.query_timeout))
    }

    /// The user's value overrides the global one.
    pub fn transaction_timeout(&self, client_user: &str) -> Option<Duration> {
        off(self
            .user(client_user, |user| user.transaction_timeout)
            .unwrap_or(self.global.transaction_timeout))
    }

    /// The user's value overrides the global one.
    pub fn idle_transaction_timeout(&self, client_user: &str) -> Option<Duration> {
        let time = self.user(client_user, |user| user.idle_transaction_timeout);
        off(time.unwrap_or(self.global.idle_transaction_timeout))
    }

    /// The user's value overrides the global one.
    pub fn client_idle_timeout(&self, client_user: &str) -> Option<Duration> {
        off(self
            .user(client_user, |user| user.client_idle_timeout)
            .unwrap_or(self.global.client_idle_timeout))
    }

    /// The weight of a client user's clients among those that wait for a server.
    pub fn user_weight(&self, client_user: &str) -> u32 {
        self.user(client_user, |user| user.weight).unwrap_or(1)
    }

    /// The weight of a pool among the pools that share a limit: the database's weight times the user's.
    pub fn pool_weight(&self, database: &DatabaseSettings, pool_user: &str) -> u32 {
        database.weight.unwrap_or(1) * self.user_weight(pool_user)
    }

    /// The user that runs `auth_query` for clients of this database. The database's value overrides the global one.
    /// `None`: users who are not in `auth_file` are refused.
    pub fn auth_user<'a>(&'a self, database: &'a DatabaseSettings) -> Option<&'a str> {
        database.auth_user.as_deref().or(self.global.auth_user.as_deref())
    }

    /// Whether there is an `auth_user` for any database.
    pub fn has_auth_user(&self) -> bool {
        let mut databases = self.databases.values();
        self.global.auth_user.is_some()
            || databases.any(|database| database.auth_user.is_some())
            || self
                .autodb
                .as_ref()
                .is_some_and(|template| template.auth_user.is_some())
    }

    /// The database that `auth_query` runs in. The database's value overrides the global one. `None`: the one that the
    /// client asks for.
    pub fn auth_dbname<'a>(&'a self, database: &'a DatabaseSettings) -> Option<&'a str> {
        database.auth_dbname.as_deref().or(self.global.auth_dbname.as_deref())
    }

    /// The database's value overrides the global one.
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
