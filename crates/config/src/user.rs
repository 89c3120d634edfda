//! A line of section [users].

use std::time::Duration;

use crate::choices::PoolMode;
use crate::line_key::{Key, LineKey, Notes, limit, size, time};
use crate::value::{Kind, Mismatch, SettingValue};

/// What holds for one user. `None` is not set: the database's or the global setting holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserSettings {
    /// Over the database's and the global `pool_mode`.
    pub pool_mode: Option<PoolMode>,
    /// Over the database's `pool_size` and `default_pool_size`; 0 is no limit.
    pub pool_size: Option<u32>,
    /// Over the database's and the global `reserve_pool_size`.
    pub reserve_pool_size: Option<u32>,
    /// Over `max_user_connections`; never zero.
    pub max_user_connections: Option<u32>,
    /// Over `max_user_client_connections`; never zero.
    pub max_user_client_connections: Option<u32>,
    /// Over `transaction_timeout`; never zero.
    pub transaction_timeout: Option<Duration>,
    /// Over `idle_transaction_timeout`; never zero.
    pub idle_transaction_timeout: Option<Duration>,
    /// Over `query_timeout`; never zero.
    pub query_timeout: Option<Duration>,
    /// Over the database's and the global `query_wait_timeout`; never zero.
    pub query_wait_timeout: Option<Duration>,
    /// Over `client_idle_timeout`; never zero.
    pub client_idle_timeout: Option<Duration>,
}

macro_rules! key {
    ($field:ident, $kind:expr, $unit:literal, $default:literal, $help:literal, $read:expr) => {
        Key {
            info: LineKey {
                name: stringify!($field),
                kind: $kind,
                unit: $unit,
                default: $default,
                help: $help,
            },
            set: |user, value, notes| {
                user.$field = $read(value, notes)?;
                Ok(())
            },
        }
    };
}

pub(crate) static KEYS: &[Key<UserSettings>] = &[
    key!(
        pool_mode,
        PoolMode::KIND,
        "",
        "the database's",
        "When servers go back to the pool, in all pools of the user.",
        |value: &str, _: &mut Notes| PoolMode::parse(value).map(Some)
    ),
    key!(
        pool_size,
        Kind::Integer,
        "connections",
        "the database's",
        "The size of each pool of the user. 0 is no limit.",
        |value: &str, notes: &mut Notes| Ok::<_, Mismatch>(size(value, notes))
    ),
    key!(
        reserve_pool_size,
        Kind::Integer,
        "connections",
        "the database's",
        "Connections beyond the size for clients that have waited long.",
        |value: &str, notes: &mut Notes| Ok::<_, Mismatch>(size(value, notes))
    ),
    key!(
        max_user_connections,
        Kind::Integer,
        "connections",
        "`max_user_connections`",
        "Server connections over all databases.",
        |value: &str, notes: &mut Notes| Ok::<_, Mismatch>(limit(value, notes))
    ),
    key!(
        max_user_client_connections,
        Kind::Integer,
        "connections",
        "`max_user_client_connections`",
        "Client connections over all databases.",
        |value: &str, notes: &mut Notes| Ok::<_, Mismatch>(limit(value, notes))
    ),
    key!(
        transaction_timeout,
        Kind::Integer,
        "seconds",
        "`transaction_timeout`",
        "How long a transaction may take.",
        |value: &str, notes: &mut Notes| Ok::<_, Mismatch>(time(value, notes))
    ),
    key!(
        idle_transaction_timeout,
        Kind::Integer,
        "seconds",
        "`idle_transaction_timeout`",
        "How long the client may be idle inside a transaction.",
        |value: &str, notes: &mut Notes| Ok::<_, Mismatch>(time(value, notes))
    ),
    key!(
        query_timeout,
        Kind::Integer,
        "seconds",
        "`query_timeout`",
        "How long a query may run.",
        |value: &str, notes: &mut Notes| Ok::<_, Mismatch>(time(value, notes))
    ),
    key!(
        query_wait_timeout,
        Kind::Integer,
        "seconds",
        "the database's",
        "How long a client may wait for a server.",
        |value: &str, notes: &mut Notes| Ok::<_, Mismatch>(time(value, notes))
    ),
    key!(
        client_idle_timeout,
        Kind::Integer,
        "seconds",
        "`client_idle_timeout`",
        "How long the client may be idle outside a transaction.",
        |value: &str, notes: &mut Notes| Ok::<_, Mismatch>(time(value, notes))
    ),
];
