//! SHOW CONFIG, SHOW DATABASES, SHOW USERS, SHOW PEERS.

use crate::base::access::Access;
use crate::console::rows::{Rows, Value};
use crate::operator::console::show_pools::load_balance_hosts;
use crate::operator::view::View;
use pgweir_config::{CONSOLE_DATABASE, PoolSize, SettingValue, UserSettings};
use std::collections::{BTreeMap, BTreeSet};

/// The pool size that PgBouncer shows for its console.
const CONSOLE_POOL_SIZE: u32 = 2;

impl View<'_> {
    /// Values that may contain a password are shown only to administrators.
    pub(super) fn show_config(&self, access: Access, rows: &mut Rows<'_>) {
        for row in self.config.rows() {
            let is_shown = access == Access::Admin || !row.is_secret;
            let changeable = if row.changeable { "yes" } else { "no" };
            rows.push(&[
                row.key.into(),
                row.value.as_deref().filter(|_| is_shown).into(),
                row.default.into(),
                changeable.into(),
            ]);
        }
    }

    /// Names of the databases: those of the file, those made from `*` that have a pool or that an operator has paused,
    /// killed or disabled, and the console's.
    pub(super) fn database_names(&self) -> BTreeSet<String> {
        let made = self.live_pools().map(|(_, pool)| pool.key().database.to_string());
        let configured = self.config.databases.keys().cloned();
        let ordered = self.databases.ordered().map(|name| name.to_string());
        configured
            .chain(made)
            .chain(ordered)
            .chain([CONSOLE_DATABASE.to_string()])
            .collect()
    }

    pub(super) fn show_databases(&self, rows: &mut Rows<'_>) {
        for name in self.database_names() {
            if name == CONSOLE_DATABASE {
                self.push_console_database(rows);
                continue;
            }
            let Some(d) = self.config.database(&name) else {
                continue;
            };
            let g = &self.config.global;
            let counts = self.databases.of_database(&name);
            let seconds = self.config.server_lifetime(&d).as_secs();
            rows.push(&[
                Value::from(&*name),
                d.host_text().map_or(Value::Null, Value::Text),
                u32::from(d.port).into(),
                d.server_dbname().into(),
                d.user.as_deref().into(),
                self.size_of(&name, d.pool_size.unwrap_or(g.default_pool_size)).into(),
                d.min_pool_size.unwrap_or(g.min_pool_size).into(),
                d.reserve_pool_size.unwrap_or(g.reserve_pool_size).into(),
                seconds.into(),
                d.pool_mode.map(|mode| mode.word()).into(),
                load_balance_hosts(self.config, &name).into(),
                self.config.max_db_connections(&d).unwrap_or(0).into(),
                counts.servers().into(),
                self.config.max_db_client_connections(&d).unwrap_or(0).into(),
                counts.clients().into(),
                self.databases.is_paused(&name).into(),
                self.databases.is_disabled(&name).into(),
            ]);
        }
    }

    fn push_console_database(&self, rows: &mut Rows<'_>) {
        let g = &self.config.global;
        rows.push(&[
            CONSOLE_DATABASE.into(),
            Value::Null,
            u32::from(g.listen_port).into(),
            CONSOLE_DATABASE.into(),
            CONSOLE_DATABASE.into(),
            CONSOLE_POOL_SIZE.into(),
            0u32.into(),
            0u32.into(),
            g.server_lifetime.as_secs().into(),
            "statement".into(),
            Value::Null,
            g.max_db_connections.into(),
            0u32.into(),
            g.max_db_client_connections.into(),
            self.console_clients().into(),
            false.into(),
            false.into(),
        ]);
    }

    /// Users of `auth_file`, of section `[users]`, and those with connections.
    pub(super) fn user_names(&self) -> BTreeSet<String> {
        let connected = self.databases.users().map(|name| name.to_string());
        let configured = self.config.auth_users.keys().chain(self.config.users.keys()).cloned();
        let forced = self.config.databases.values().chain(&self.config.autodb);
        let forced = forced.filter_map(|database| database.user.clone());
        let logged_in = self.clients_by_user().into_keys().map(str::to_string);
        configured
            .chain(forced)
            .chain(connected)
            .chain(logged_in)
            .chain([CONSOLE_DATABASE.to_string()])
            .collect()
    }

    /// The number for a size: for `auto` the present limit of the database's host, or `pool_size_max` if there is none
    /// yet.
    fn size_of(&self, database: &str, size: PoolSize) -> u32 {
        size.fixed().unwrap_or_else(|| {
            let mut pools = self.live_pools().filter(|(_, pool)| &*pool.key().database == database);
            let sizing = pools.find_map(|(_, pool)| self.sizings.get(pool.share()?.sizing()));
            sizing.map_or(self.config.global.pool_size_max, |sizing| sizing.controller().settled())
        })
    }

    pub(super) fn show_users(&self, rows: &mut Rows<'_>) {
        let none = UserSettings::default();
        let clients = self.clients_by_user();
        for name in self.user_names() {
            let user = self.config.users.get(&name).unwrap_or(&none);
            let number = |n: Option<u32>| n.map(|n| n.to_string()).unwrap_or_default();
            rows.push(&[
                Value::from(&*name),
                user.pool_size.and_then(|size| size.show()).unwrap_or_default().into(),
                number(user.reserve_pool_size).into(),
                user.pool_mode.map(|mode| mode.word()).into(),
                self.config.max_user_connections(&name).unwrap_or(0).into(),
                self.databases.of_user(&name).servers().into(),
                self.config.max_user_client_connections(&name).unwrap_or(0).into(),
                clients.get(&*name).copied().unwrap_or(0).into(),
            ]);
        }
    }

    /// The number of clients for each user that they logged in as.
    fn clients_by_user(&self) -> BTreeMap<&str, u32> {
        let mut counts = BTreeMap::new();
        for (_, client) in self.clients.iter() {
            let user = match (&client.phase, client.pool) {
                (crate::client::ClientPhase::Console(console), _) => console.user(),
                (_, Some(pool)) if client.counted => {
                    client.login_user.as_deref().unwrap_or(&self.pool(pool).key().user)
                }
                _ => continue,
            };
            *counts.entry(user).or_default() += 1;
        }
        counts
    }

    pub(super) fn show_peers(&self, rows: &mut Rows<'_>) {
        for peer in self.config.peers.values() {
            rows.push(&[
                peer.id.into(),
                peer.host.to_string().into(),
                u32::from(peer.port).into(),
                self.config.peer_pool_size(peer).unwrap_or(0).into(),
            ]);
        }
    }

    /// The cancel requests that are passed on to each peer. A connection to a peer has no login.
    pub(super) fn show_peer_pools(&self, rows: &mut Rows<'_>) {
        for (peer, pool) in self.peers.iter() {
            rows.push(&[
                peer.into(),
                pool.under_way().into(),
                pool.waiting().into(),
                pool.under_way().into(),
                0u32.into(),
            ]);
        }
    }
}
