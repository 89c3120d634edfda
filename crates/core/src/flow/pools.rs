//! Finds and makes pools, and says whether a pool takes clients now.

use crate::base::ids::{ClientId, ServerId};
use crate::base::pool_id::{PoolId, PoolKey, PoolKind, StartupValue};
use crate::base::request::LogLevel;
use crate::base::settings::PoolSettings;
use crate::base::time::Time;
use crate::login::admission;
use crate::pooler::Pooler;
use crate::pools::databases::{NoPool, may_start_otherwise};
use crate::pools::pool::Pool;

impl Pooler {
    /// The servers of these pools.
    pub(crate) fn members_of(&self, pools: &[PoolId]) -> impl Iterator<Item = ServerId> {
        pools.iter().flat_map(|&id| self.pool(id).members()).copied()
    }

    /// The pool for a database and a user; made when it is first needed. `None`: no such database.
    pub(crate) fn pool_for(&mut self, now: Time, database: &str, user: &str, kind: PoolKind) -> Option<PoolId> {
        self.pool_started_with(now, None, database, user, kind, Box::default())
            .ok()
    }

    /// Like [`Pooler::pool_for`], for a client, and for servers that are started with these settings.
    pub(crate) fn pool_started_with(
        &mut self,
        now: Time,
        client: Option<ClientId>,
        database: &str,
        user: &str,
        kind: PoolKind,
        start: Box<[StartupValue]>,
    ) -> Result<PoolId, NoPool> {
        let entry = self.shared.config.database(database).ok_or(NoPool::NoSuchDatabase)?;
        if admission::is_too_long_database(&entry) {
            return Err(NoPool::TooLongName);
        }
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
        if let Some(id) = self.pool_index.get(&key) {
            return Ok(id);
        }
        let of_login = self.pool_index.of_login(&key.database, &key.user).iter();
        if !may_start_otherwise(&key, of_login.map(|id| self.pool(*id).key())) {
            return Err(NoPool::TooManyStarts);
        }
        let mut settings = PoolSettings::new(&self.shared.config, &entry, pool_user);
        settings.suit(kind);
        let credential = admission::stored_credential(&self.shared.config, database, pool_user);
        let mut pool = Pool::new(now, key.clone(), settings, credential);
        #[cfg(feature = "weaknesses")]
        if self.shared.is_weak(crate::base::weakness::Weakness::SeparatesEntries) {
            pool.separates_catalog();
        }
        if !self.shared.config.databases.contains_key(database) {
            pool.is_of_auto_database();
            self.log_auto_database(client, database);
        }
        let id = self.pool_index.insert(key);
        self.shared.catalogs.is_used_by(pool.catalog_key(), id);
        match self.pools.get_mut(id as usize) {
            Some(place) => *place = Some(pool),
            None => self.pools.push(Some(pool)),
        }
        self.share_limit(now, id);
        Ok(id)
    }

    /// Logs the first pool of a database that is made from `*`.
    fn log_auto_database(&mut self, client: Option<ClientId>, database: &str) {
        if self.pool_index.has_database(database) {
            return;
        }
        let text = format!("registered new auto-database: {database}");
        let client = client.and_then(|id| Some(self.clients.get(id.0)?.label(id, &self.pools)));
        let text = client.map_or(text.clone(), |label| format!("{label} {text}"));
        self.log(LogLevel::Log, text);
    }

    /// Makes the pools that must have servers before any client comes: `min_pool_size`, if the user is known.
    pub(crate) fn make_pools_to_keep_warm(&mut self, now: Time) {
        let config = &self.shared.config;
        let has_servers = |database: &str, user: &str| {
            let database = config.database(database);
            database.is_some_and(|d| config.min_pool_size(&d, user) > 0)
        };
        let warm: Vec<(String, String)> = config
            .databases
            .values()
            .filter_map(|d| Some((d.name.clone(), d.user.clone()?)))
            .filter(|(database, user)| has_servers(database, user))
            .collect();
        for (database, user) in warm {
            self.pool_for(now, &database, &user, PoolKind::Clients);
        }
    }

    /// Whether an operator's command makes the clients of this pool wait.
    #[inline]
    pub(crate) fn pool_takes_no_clients_now(&self, pool_id: PoolId) -> bool {
        let is_paused = || self.databases.is_paused(&self.pool(pool_id).key().database);
        self.admin.paused_all() || self.databases.some_are_paused() && is_paused()
    }

    /// Whether clients of this pool that would have to wait for a server are disconnected: they wait for RESUME, which
    /// is refused because the process ends.
    pub(crate) fn refuses_waiters(&self, pool_id: PoolId) -> bool {
        self.admin.is_shutting_down() && self.pool_takes_no_clients_now(pool_id)
    }
}
