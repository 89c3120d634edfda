//! The pool that a client belongs to, and whom the limits count.

use crate::base::errors::Trouble;
use crate::base::pool_id::{PoolId, PoolKey, PoolKind, StartupValue};
use crate::base::settings::PoolSettings;
use crate::base::time::Time;
use crate::client::Client;
use crate::pooler::Pooler;
use crate::pools::databases::{NoPool, may_start_otherwise};
use crate::pools::pool::Pool;
use pgweir_auth::Credential;
use std::sync::Arc;

impl Pooler {
    /// The pool for a database and a user; made when it is first needed. `None`: no such database.
    pub(crate) fn pool_for(&mut self, now: Time, database: &str, user: &str, kind: PoolKind) -> Option<PoolId> {
        self.pool_started_with(now, database, user, kind, Box::default()).ok()
    }

    /// The same where its servers must be started with these settings.
    pub(crate) fn pool_started_with(
        &mut self,
        now: Time,
        database: &str,
        user: &str,
        kind: PoolKind,
        start: Box<[StartupValue]>,
    ) -> Result<PoolId, NoPool> {
        let entry = self.shared.config.database(database).ok_or(NoPool::NoSuchDatabase)?;
        let pool_user = match kind {
            PoolKind::AuthQuery => user,
            _ => entry.user.as_deref().unwrap_or(user),
        };
        let key = PoolKey {
            database: database.into(),
            user: pool_user.into(),
            kind,
            start,
        };
        if let Some(&id) = self.pool_index.get(&key) {
            return Ok(id);
        }
        if !may_start_otherwise(&key, self.pool_index.keys()) {
            return Err(NoPool::TooManyStarts);
        }
        let mut settings = PoolSettings::new(&self.shared.config, &entry, pool_user);
        settings.suit(kind);
        let credential = self.stored_credential(database, pool_user);
        let mut pool = Pool::new(now, key.clone(), settings, credential);
        pool.auto = !self.shared.config.databases.contains_key(database);
        if pool.auto {
            let text = format!("registered new auto-database: {database}");
            self.log(crate::base::request::LogLevel::Log, text);
        }
        let id = match self.pools.iter().position(Option::is_none) {
            Some(free) => free as PoolId,
            None => {
                self.pools.push(None);
                (self.pools.len() - 1) as PoolId
            }
        };
        self.pools[id as usize] = Some(pool);
        self.pool_index.insert(key, id);
        Ok(id)
    }

    /// The credential in the configuration for a user's logins to a database's servers.
    pub(crate) fn stored_credential(&self, database: &str, user: &str) -> Credential {
        let entry = self.shared.config.database(database);
        let forced = entry.as_ref().and_then(|e| {
            let password = e.password.as_ref()?;
            (e.user.as_deref() == Some(user) || e.user.is_none()).then_some(password)
        });
        match forced.or_else(|| self.shared.config.auth_users.get(user)) {
            Some(secret) => match pgweir_auth::Secret::parse(secret.text().as_bytes()) {
                Ok(secret) => Credential::from_secret(&secret),
                Err(_) => Credential::Nothing,
            },
            None => Credential::Nothing,
        }
    }

    /// Makes the pools that must have servers before any client comes: `min_pool_size`, if the user is known.
    pub(crate) fn make_pools_to_keep_warm(&mut self, now: Time) {
        let warm: Vec<(String, String)> = self
            .shared
            .config
            .databases
            .values()
            .filter_map(|d| Some((d.name.clone(), d.user.clone()?)))
            .filter(|(name, user)| {
                self.shared
                    .config
                    .database(name)
                    .is_some_and(|d| self.shared.config.min_pool_size(&d, user) > 0)
            })
            .collect();
        for (database, user) in warm {
            self.pool_for(now, &database, &user, PoolKind::Clients);
        }
    }

    /// Counts a client in, unless a limit forbids it.
    /// Client connections count for the user who logged in, whoever the servers log in as.
    pub(crate) fn count_client_in(&mut self, pool_id: PoolId, login_user: &str) -> Result<(), (Trouble, &'static str)> {
        let pool = self.pools[pool_id as usize].as_mut().expect("the caller looked it up");
        let (of_database, of_user) = (
            self.databases.of_database(&pool.key.database),
            self.databases.of_user(login_user),
        );
        let of_user_max = self.shared.config.max_user_client_connections(login_user).unwrap_or(0);
        let reached = |limit: u32, count: u32| limit > 0 && count >= limit;
        if reached(pool.settings.max_db_client_connections, of_database.clients) {
            return Err((Trouble::TooManyClients, "max_db_client_connections"));
        }
        if reached(of_user_max, of_user.clients) {
            return Err((Trouble::TooManyClients, "max_user_client_connections"));
        }
        pool.clients += 1;
        let database = pool.key.database.clone();
        self.databases.change(&database, &login_user.into(), |c| c.clients += 1);
        Ok(())
    }

    pub(crate) fn count_client_out(&mut self, client: &Client) {
        let Some(pool) = client.pool.and_then(|id| self.pools[id as usize].as_mut()) else {
            return;
        };
        pool.clients -= 1;
        let user = client
            .login_user
            .as_deref()
            .map_or_else(|| pool.key.user.clone(), Arc::from);
        self.databases.change(&pool.key.database, &user, |c| c.clients -= 1);
    }

    pub(crate) fn count_server_in(&mut self, pool_id: PoolId) {
        let pool = self.pools[pool_id as usize].as_mut().expect("the caller looked it up");
        pool.servers += 1;
        pool.connecting += 1;
        self.databases
            .change(&pool.key.database, &pool.key.user, |c| c.servers += 1);
        self.databases.replication_servers += u32::from(pool.key.kind.is_replication());
    }

    pub(crate) fn count_server_out(&mut self, pool_id: PoolId, connecting: bool) {
        let pool = self.pools[pool_id as usize].as_mut().expect("a server's pool lives");
        pool.servers -= 1;
        pool.connecting -= u32::from(connecting);
        self.databases
            .change(&pool.key.database, &pool.key.user, |c| c.servers -= 1);
        self.databases.replication_servers -= u32::from(pool.key.kind.is_replication());
    }

    /// Whether an operator's command makes the clients of this pool wait.
    #[inline]
    pub(crate) fn pool_takes_no_clients_now(&self, pool_id: PoolId) -> bool {
        let is_paused = || self.databases.paused.contains(&self.pool(pool_id).key.database);
        self.admin.paused_all() || !self.databases.paused.is_empty() && is_paused()
    }
}
