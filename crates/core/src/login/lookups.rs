//! auth_query on behalf of clients that are not authenticated: limits on the work that such clients can cause, and
//! answers that do not reveal why a login failed.

use crate::base::admits::NO_SUCH_DATABASE;
use crate::base::pool_id::LoginFailure;
use crate::base::settings::SecretKinds;
use crate::base::time::Time;
use crate::login::client_login::Login;
use crate::login::found_secrets::FoundSecrets;
use crate::login::kept_secrets::{KeptSecret, KeptSecrets};
use crate::pools::pool::Pool;
use foldhash::fast::RandomState;
use pgweir_auth::{IterationCounts, MockKey, MockSecret, Secret};
use pgweir_config::{CONSOLE_DATABASE, Config};
use std::collections::HashMap;
use std::time::Duration;

/// Clients that are not authenticated may name databases that are covered by `*`. Servers are opened for at most this
/// many names at a time which no server has confirmed. Clients that give other such names wait: each answer of
/// PostgreSQL makes room for another name, so invented names lock nobody out.
pub(crate) const UNPROVEN_DATABASES_MAX: usize = 32;

/// The most databases that the pooler remembers as absent. A further one takes the place of the oldest, about which
/// PostgreSQL may be asked again.
const ABSENT_DATABASES_MAX: usize = 1024;

/// What auth_query has shown about users and databases.
#[derive(Debug, Default, pgweir_freeze::Freeze)]
pub(crate) struct Lookups {
    /// Databases that the server does not have, and until when this is assumed.
    absent: HashMap<Box<str>, Time, RandomState>,
    found: FoundSecrets,
    /// A user was found with a plain-text secret.
    plain: bool,
    kept: KeptSecrets,
}

/// Why auth_query cannot be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoLookup {
    /// No auth_query for this user or database: the user is unknown.
    Nowhere,
    /// `auth_dbname` names a database that cannot be used: the user is unknown, and the log says so.
    Misconfigured(BadAuthDatabase),
}

/// Why auth_query cannot run in the database that `auth_dbname` names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BadAuthDatabase {
    Console,
    NotConfigured,
    Disabled,
}

impl BadAuthDatabase {
    /// PgBouncer's text for the log.
    pub(crate) fn text(self, name: &str) -> String {
        match self {
            BadAuthDatabase::Console => format!("cannot use the reserved \"{name}\" database as an auth_dbname"),
            BadAuthDatabase::NotConfigured => format!("authentication database \"{name}\" is not configured."),
            BadAuthDatabase::Disabled => format!("authentication database \"{name}\" is disabled"),
        }
    }
}

/// The database in which auth_query runs, and its user.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct AskedAt {
    pub(crate) database: String,
    pub(crate) auth_user: String,
    /// The database is made from `*`: clients that are not authenticated may name any.
    pub(crate) is_made: bool,
}

impl AskedAt {
    /// For a user who is not in auth_file and asks for `database`.
    pub(crate) fn new(config: &Config, database: &str, user: &str) -> Option<AskedAt> {
        let asked_at = AskedAt::about_roles(config, database)?;
        if asked_at.auth_user == user && config.auth_users.contains_key(user) {
            return None;
        }
        Some(asked_at)
    }

    /// For the roles of a user who asks for `database`.
    pub(crate) fn about_roles(config: &Config, database: &str) -> Option<AskedAt> {
        let entry = config.database(database);
        let global = &config.global;
        let (auth_user, auth_dbname) = match &entry {
            Some(entry) => (config.auth_user(entry), config.auth_dbname(entry)),
            None => (global.auth_user.as_deref(), global.auth_dbname.as_deref()),
        };
        let auth_user = auth_user?;
        let database = auth_dbname.unwrap_or(database).to_string();
        Some(AskedAt {
            is_made: !config.databases.contains_key(&database),
            database,
            auth_user: auth_user.into(),
        })
    }

    /// The reason why the database of auth_query cannot be used, if it is not the database that the client asks for.
    pub(crate) fn fault(&self, config: &Config, is_disabled: bool, asked_for: &str) -> Option<BadAuthDatabase> {
        if self.database == asked_for {
            return None;
        }
        if self.database == CONSOLE_DATABASE {
            return Some(BadAuthDatabase::Console);
        }
        if config.database(&self.database).is_none() {
            return Some(BadAuthDatabase::NotConfigured);
        }
        is_disabled.then_some(BadAuthDatabase::Disabled)
    }
}

/// How long secrets that auth_query has found are kept.
fn kept_for(config: &Config) -> Duration {
    config.global.auth_query_cache_time
}

/// The text of auth_query for a database.
pub(crate) fn query(config: &Config, database: &str) -> String {
    match config.database(database) {
        Some(entry) => config.auth_query(&entry).to_string(),
        None => config.global.auth_query.clone(),
    }
}

/// The key from which salts for users who do not exist are made. It comes from the SCRAM verifiers of the first users
/// of `auth_file` that have one, so that the salts are the same in each process with this file, and after a restart.
/// Without a verifier it is `random`.
pub(crate) fn mock_key(config: &Config, random: MockKey) -> MockKey {
    let mut users: Vec<_> = config.auth_users.iter().collect();
    users.sort_unstable_by_key(|(name, _)| *name);
    let secrets: Vec<_> = users.into_iter().map(|(_, secret)| secret.text()).collect();
    let key = MockKey::from_verifiers(secrets.iter().map(|secret| secret.as_bytes())).unwrap_or(random);
    renewed(key, config)
}

/// The same key, and so the same salts, with the iteration counts that users of `auth_file` have now.
pub(crate) fn renewed(key: MockKey, config: &Config) -> MockKey {
    let secrets: Vec<_> = config.auth_users.values().map(|secret| secret.text()).collect();
    key.with_counts(IterationCounts::of(secrets.iter().map(|secret| secret.as_bytes())))
}

/// SCRAM keys kept so that logging in to a server does not cost thousands of hashes each time.
const SCRAM_KEYS_KEPT_MAX: usize = 1024;

/// The keys kept for servers, and one for each user of `auth_file`. So a client that names all these users causes each
/// key to be derived only once.
pub(crate) fn scram_keys_kept_max(config: &Config) -> usize {
    SCRAM_KEYS_KEPT_MAX + config.auth_users.len()
}

impl Lookups {
    /// Whether a database is known to be absent.
    pub(crate) fn is_absent(&mut self, now: Time, database: &str) -> bool {
        self.absent.retain(|_, until| *until > now);
        self.absent.contains_key(database)
    }

    /// Databases may have been made since they were found to be absent.
    pub(crate) fn forget_absent(&mut self) {
        self.absent.clear();
    }

    /// A server for auth_query could not be opened. If the database does not exist, this is assumed until `until`.
    pub(crate) fn note_failure(&mut self, pool: &Pool, failure: &LoginFailure, until: Time) {
        if pool.is_unproven() && failure.sqlstate.as_deref() == Some(NO_SUCH_DATABASE) {
            if self.absent.len() >= ABSENT_DATABASES_MAX
                && let Some(oldest) = self.absent.iter().min_by_key(|(_, until)| **until)
            {
                let oldest = oldest.0.clone();
                self.absent.remove(&oldest);
            }
            self.absent.insert(Box::from(&*pool.key().database), until);
        }
    }

    /// The secret of a user that auth_query has found a short time ago.
    pub(crate) fn kept(&self, now: Time, config: &Config, database: &str, user: &str) -> Option<KeptSecret> {
        self.kept.find(now, kept_for(config), database, user)
    }

    /// A client is authenticated: if its secret has come from auth_query, it is kept for the next login of the user.
    pub(crate) fn keep(&mut self, config: &Config, key: &MockKey, login: &Login) {
        let Some(secret) = login.found() else { return };
        self.found.note(key, login.user(), secret);
        if !kept_for(config).is_zero() {
            self.kept
                .keep(login.database(), login.user(), secret, login.known_as_of());
        }
    }

    /// A login of this user has failed, here or at a server: the next one asks PostgreSQL.
    pub(crate) fn forget_user(&mut self, user: &str) {
        self.kept.forget_user(user);
    }

    /// Users, or the way to ask for them, may have changed.
    pub(crate) fn forget_secrets(&mut self, now: Time) {
        self.kept.forget_all(now);
    }

    pub(crate) fn forget_old_secrets(&mut self, now: Time, config: &Config) {
        self.kept.forget_old(now, kept_for(config));
    }

    /// A user was found with this secret. His own exchange shows at once that it is plain text.
    pub(crate) fn note_plain_secret(&mut self, secret: &Secret) {
        self.plain |= matches!(secret, Secret::Plain(_));
    }

    /// Whether some users may have a plain-text secret.
    pub(crate) fn are_some_plain(&self, of_file: SecretKinds) -> bool {
        self.plain || of_file.plain > 0
    }

    /// The source of what a user who does not exist is told.
    pub(crate) fn mock_key(&self, key: &MockKey, by_query: bool) -> MockKey {
        match by_query {
            true => key.and_counts(self.found.told().counts()),
            false => *key,
        }
    }

    /// The kind of secret that a user who does not exist seems to have. Each kind is as frequent as among real users.
    pub(crate) fn mock_secret(&self, of_file: SecretKinds, key: &MockKey, user: &str, by_query: bool) -> MockSecret {
        let SecretKinds { mut all, mut scram, .. } = of_file;
        if by_query {
            let found = self.found.told();
            // Before the first user has been found, a SCRAM verifier is assumed, as in current versions of PostgreSQL.
            let unseen = u64::from(found.all() == 0);
            scram += found.scram() + unseen;
            all += found.all() + unseen;
        }
        let share = (u128::from(scram) << 64) / u128::from(all.max(1));
        if u128::from(key.lot(user.as_bytes())) < share {
            MockSecret::Scram
        } else {
            MockSecret::Md5
        }
    }
}
