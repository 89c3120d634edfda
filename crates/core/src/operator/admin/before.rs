//! What a configuration said before it changed, as far as the change depends on it and the state does not show it.
//!
//! A take-over changes the configuration, too, so this is handed over with the state.

use crate::base::pool_id::{PoolId, PoolKey};
use crate::login::admission;
use crate::pooler::Pooler;
use crate::pools::pool;
use pgweir_auth::{Credential, Secret};
use pgweir_config::Config;

/// What the old configuration has said. Its settings are in [`crate::shared::Shared`], and those of pools in the pools.
#[derive(Debug, pgweir_freeze::Freeze)]
pub(crate) struct Before {
    pub(super) logins: Vec<(PoolId, StoredLogin)>,
    /// See [`user_weights`].
    pub(super) user_weights: Vec<(String, u32)>,
}

/// What a configuration says of the logins to the servers of one pool.
#[derive(Debug, PartialEq, Eq, pgweir_freeze::Freeze)]
pub(super) struct StoredLogin {
    pub(super) credential: Credential,
    /// The secret of the pool's user in `auth_file`. A verifier gives no credential, but a client's login with it does.
    secret: Option<Secret>,
}

impl StoredLogin {
    pub(super) fn of(config: &Config, pool: &PoolKey) -> StoredLogin {
        let secret = config.auth_users.get(&*pool.user);
        StoredLogin {
            credential: admission::stored_credential(config, &pool.database, &pool.user),
            secret: secret.and_then(|secret| Secret::parse(secret.text().as_bytes()).ok()),
        }
    }
}

/// The users with a weight in the queues.
pub(super) fn user_weights(config: &Config) -> Vec<(String, u32)> {
    let users = config.users.iter();
    let with_weight = users.filter_map(|(name, user)| Some((name.clone(), user.weight?)));
    with_weight.collect()
}

impl Pooler {
    /// What the configuration says now, for [`Pooler::use_config`].
    pub(crate) fn before_change(&self) -> Before {
        let config = &self.shared.config;
        Before {
            logins: pool::live(&self.pools)
                .map(|(id, pool)| (id, StoredLogin::of(config, pool.key())))
                .collect(),
            user_weights: user_weights(config),
        }
    }
}
