//! auth_query on behalf of clients that have not proven who they are: what they may cause is bounded, and what they are
//! told does not say what went wrong.

use crate::base::ids::ClientId;
use crate::base::pool_id::{LoginFailure, PoolId, PoolKey, PoolKind};
use crate::base::request::{LogLevel, Request};
use crate::base::time::Time;
use crate::client::ClientPhase;
use crate::pooler::Pooler;
use crate::pools::pool::Pool;
use foldhash::fast::RandomState;
use pgweir_auth::{MockSecret, Secret};
use std::collections::HashMap;

/// Databases made from `*` of which no server has been seen yet, together with those that servers do not have, that
/// clients may name before they are authenticated. Beyond it new names are refused.
const UNPROVEN_DATABASES_MAX: usize = 32;

/// PostgreSQL's answer to a database that does not exist.
const NO_SUCH_DATABASE: &str = "3D000";

/// What auth_query has taught about users and databases.
#[derive(Debug, Default)]
pub(crate) struct Lookups {
    /// Databases that a server does not have, and until when that is believed.
    absent: HashMap<Box<str>, Time, RandomState>,
    /// Users found with a SCRAM verifier, and with another secret.
    scram: u64,
    other: u64,
}

/// Why auth_query cannot be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoLookup {
    /// There is none for this user or database: the user is unknown.
    Nowhere,
    /// See [`UNPROVEN_DATABASES_MAX`].
    TooManyDatabases,
}

impl Pooler {
    /// The pool that auth_query runs in for a user who is not in auth_file.
    pub(crate) fn auth_query_pool(&mut self, now: Time, database: &str, user: &str) -> Result<PoolId, NoLookup> {
        let config = self.shared.config.clone();
        let entry = config.database(database);
        let global_user = config.global.auth_user.as_deref();
        let auth_user = entry.as_ref().map_or(global_user, |e| config.auth_user(e));
        let auth_user = auth_user.ok_or(NoLookup::Nowhere)?;
        if auth_user == user && config.auth_users.contains_key(user) {
            return Err(NoLookup::Nowhere);
        }
        let auth_dbname = entry
            .as_ref()
            .map_or(config.global.auth_dbname.as_deref(), |e| config.auth_dbname(e));
        let lookup_database = auth_dbname.unwrap_or(database);
        if !config.databases.contains_key(lookup_database) {
            self.may_try_database(now, lookup_database, auth_user)?;
        }
        let pool = self.pool_started_with(now, lookup_database, auth_user, PoolKind::AuthQuery, Box::default());
        pool.map_err(|_| NoLookup::Nowhere)
    }

    /// Whether a database made from `*` may be tried for somebody who is not authenticated.
    fn may_try_database(&mut self, now: Time, database: &str, auth_user: &str) -> Result<(), NoLookup> {
        self.lookups.absent.retain(|_, until| *until > now);
        if self.lookups.absent.contains_key(database) {
            return Err(NoLookup::Nowhere);
        }
        let key = PoolKey {
            database: database.into(),
            user: auth_user.into(),
            kind: PoolKind::AuthQuery,
            start: Box::default(),
        };
        if self.pool_index.contains_key(&key) {
            return Ok(());
        }
        let unproven = self.live_pools().filter(|(_, pool)| pool.is_unproven()).count();
        if unproven + self.lookups.absent.len() >= UNPROVEN_DATABASES_MAX {
            return Err(NoLookup::TooManyDatabases);
        }
        Ok(())
    }

    /// A server for auth_query could not be opened.
    pub(crate) fn note_absent_database(&mut self, now: Time, pool_id: PoolId, failure: &LoginFailure) {
        let pool = self.pool(pool_id);
        if pool.is_unproven() && failure.sqlstate == NO_SUCH_DATABASE {
            let until = now + self.shared.settings.server_login_retry;
            let database = Box::from(&*pool.key.database);
            self.lookups.absent.insert(database, until);
        }
    }

    /// The user cannot be looked up now. Whoever is not authenticated yet must not learn that: it would tell who is in
    /// auth_file. The exchange goes on as for a user who does not exist.
    pub(crate) fn lookup_failed(&mut self, now: Time, id: ClientId, why: &str) {
        let Some(client) = self.clients.get_mut(id.0) else {
            return;
        };
        client.pool = None;
        let ClientPhase::Login(login) = &mut client.phase else {
            return;
        };
        let Some(auth) = login.take_lookup() else { return };
        let label = self.clients.get(id.0).map(|c| self.client_label(id, c));
        let text = format!("{} cannot look up the user: {why}", label.unwrap_or_default());
        self.log(LogLevel::Warning, text);
        self.secret_known(now, id, auth, None);
        self.shared.requests.push_back(Request::Resume(id.into()));
    }

    /// A user was found with this secret.
    pub(crate) fn note_kind_of_secret(&mut self, secret: Option<&Secret>) {
        match secret {
            Some(Secret::Scram(_)) => self.lookups.scram += 1,
            Some(_) => self.lookups.other += 1,
            None => {}
        }
    }

    /// What a user who does not exist seems to have: each kind as often as real users have it, and always the same for the
    /// same name.
    pub(crate) fn mock_secret(&self, user: &str, by_query: bool) -> MockSecret {
        let users = &self.shared.config.auth_users;
        let is_scram = |s: &&pgweir_config::Secret| matches!(s, pgweir_config::Secret::Scram(_));
        let mut scram = users.values().filter(is_scram).count() as u64;
        let mut all = users.len() as u64;
        if by_query {
            // A PostgreSQL of these years, until something else has been seen.
            let unseen = u64::from(self.lookups.scram + self.lookups.other == 0);
            scram += self.lookups.scram + unseen;
            all += self.lookups.scram + self.lookups.other + unseen;
        }
        let share = (u128::from(scram) << 64) / u128::from(all.max(1));
        if u128::from(self.mock_key.lot(user.as_bytes())) < share {
            MockSecret::Scram
        } else {
            MockSecret::Md5
        }
    }
}

impl Pool {
    /// Whether somebody who is not authenticated has caused it, and no server has confirmed that its database exists.
    pub(crate) fn is_unproven(&self) -> bool {
        self.key.kind == PoolKind::AuthQuery && self.auto && self.welcome.is_none()
    }
}
