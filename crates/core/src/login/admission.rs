//! Who may log in, and to which database: the rules before and after authentication.

use crate::base::access::Access;
use crate::base::address::Address;
use crate::base::request::Accepted;
use crate::login::rejection::Rejection;
use crate::login::startup::Wishes;
use crate::pools::databases::Databases;
use crate::statements::prepared::NAME_BYTES_MAX;
use pgweir_auth::{Credential, Learned, Secret};
use pgweir_config::{AuthType, CONSOLE_DATABASE, Config, DatabaseSettings};

/// Whether a client's user cannot exist, because the name that would go to the server is too long. PostgreSQL up to
/// version 16 cuts longer names in a startup packet, so the client would log in under another name than the one that
/// the pooler's rules have checked. The names of clients of the console, and of databases with a forced user, go to no
/// server.
pub(crate) fn is_too_long_user(config: &Config, database: &str, user: &str) -> bool {
    user.len() > NAME_BYTES_MAX
        && database != CONSOLE_DATABASE
        && config.database(database).is_none_or(|entry| entry.user.is_none())
}

/// Whether a database cannot exist, because the name that would go to the server is too long.
pub(crate) fn is_too_long_database(entry: &DatabaseSettings) -> bool {
    entry.server_dbname().len() > NAME_BYTES_MAX
}

/// Whether the client is user `pgbouncer`, over a Unix-domain socket, and its process runs as the same system user as
/// the pooler. Such a client is an administrator of the console without a password.
pub(crate) fn is_own_user(wishes: &Wishes, accepted: &Accepted, own_uid: u32) -> bool {
    wishes.database == CONSOLE_DATABASE
        && wishes.user == CONSOLE_DATABASE
        && matches!(accepted.peer, Address::Unix { .. })
        && accepted.peer_uid == Some(own_uid)
}

/// What a user may do on the console; `None` if the user may not use it. With `auth_type = any` names prove nothing, so
/// everyone is an administrator, as in PgBouncer.
pub(crate) fn console_access(config: &Config, user: &str) -> Option<Access> {
    let g = &config.global;
    if g.auth_type == AuthType::Any || g.admin_users.contains(user) {
        Some(Access::Admin)
    } else {
        g.stats_users.contains(user).then_some(Access::Stats)
    }
}

/// Whether clients may use an existing database.
pub(crate) fn may_use(config: &Config, databases: &Databases, database: &str) -> Result<(), Rejection> {
    if databases.is_disabled(database) {
        return Err(Rejection::database_disabled(database));
    }
    let has_no_forced_user = || config.database(database).is_some_and(|d| d.user.is_none());
    if config.global.auth_type == AuthType::Any && has_no_forced_user() {
        return Err(Rejection::needs_forced_user());
    }
    Ok(())
}

/// The credential for logging in to servers as the same user, if a login has revealed one. `found` is the secret from
/// auth_query.
pub(crate) fn credential_learned(learned: Learned, found: Option<&Secret>) -> Option<Credential> {
    let credential = match (learned, found) {
        (Learned::Password(password), _) => Credential::Password(password),
        (Learned::ScramKeys(keys), _) => Credential::ScramKeys(keys),
        (Learned::Nothing, Some(secret)) => Credential::from_secret(secret),
        (Learned::Nothing, None) => Credential::Nothing,
    };
    (credential != Credential::Nothing).then_some(credential)
}

/// The credential in the configuration for a user's logins to a database's servers.
pub(crate) fn stored_credential(config: &Config, database: &str, user: &str) -> Credential {
    let entry = config.database(database);
    let forced = entry.as_ref().and_then(|e| {
        let password = e.password.as_ref()?;
        (e.user.as_deref() == Some(user) || e.user.is_none()).then_some(password)
    });
    match forced.or_else(|| config.auth_users.get(user)) {
        Some(secret) => match Secret::parse(secret.text().as_bytes()) {
            Ok(secret) => Credential::from_secret(&secret),
            Err(_) => Credential::Nothing,
        },
        None => Credential::Nothing,
    }
}
