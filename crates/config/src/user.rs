//! A line of section `[users]`.

use std::time::Duration;

use crate::choices::PoolMode;
use crate::line_key::{limit, line_keys, pool_size, size, time, wait, weight, word};
use crate::value::{Kind, PoolSize, SettingValue};

/// Settings for one user. A field of `None` is not set, and the database's or the global setting applies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserSettings {
    /// Overrides the database's and the global `pool_mode`.
    pub pool_mode: Option<PoolMode>,
    /// Overrides the database's `pool_size` and `default_pool_size`; 0 is no limit.
    pub pool_size: Option<PoolSize>,
    /// Overrides the database's and the global `reserve_pool_size`.
    pub reserve_pool_size: Option<u32>,
    /// Overrides `max_user_connections`; never zero.
    pub max_user_connections: Option<u32>,
    /// Overrides `max_user_client_connections`; never zero.
    pub max_user_client_connections: Option<u32>,
    /// Overrides `transaction_timeout`; never zero.
    pub transaction_timeout: Option<Duration>,
    /// Overrides `idle_transaction_timeout`; never zero.
    pub idle_transaction_timeout: Option<Duration>,
    /// Overrides `query_timeout`; never zero.
    pub query_timeout: Option<Duration>,
    /// Overrides the database's and the global `query_wait_timeout`; zero is no limit.
    pub query_wait_timeout: Option<Duration>,
    /// Overrides `client_idle_timeout`; never zero.
    pub client_idle_timeout: Option<Duration>,
    /// The weight of the user's clients among those that wait for a server.
    pub weight: Option<u32>,
}

line_keys! { UserSettings;
    pool_mode -> pool_mode: word, {
        kind: PoolMode::KIND, unit: "", without: "the database's",
        help: "When servers go back to the pool, in all pools of the user.",
    }
    pool_size -> pool_size: pool_size, {
        kind: Kind::Integer, unit: "connections", without: "the database's",
        help: "The size of each pool of the user. 0 is no limit; `auto` is found by experiment.",
    }
    reserve_pool_size -> reserve_pool_size: size, {
        kind: Kind::Integer, unit: "connections", without: "the database's",
        help: "Extra connections, beyond the size, for clients that have waited longer than `reserve_pool_timeout`.",
    }
    max_user_connections -> max_user_connections: limit, {
        kind: Kind::Integer, unit: "connections", without: "`max_user_connections`",
        help: "Server connections over all databases.",
    }
    max_user_client_connections -> max_user_client_connections: limit, {
        kind: Kind::Integer, unit: "connections", without: "`max_user_client_connections`",
        help: "Client connections over all databases.",
    }
    transaction_timeout -> transaction_timeout: time, {
        kind: Kind::Integer, unit: "seconds", without: "`transaction_timeout`",
        help: "How long a transaction may take.",
    }
    idle_transaction_timeout -> idle_transaction_timeout: time, {
        kind: Kind::Integer, unit: "seconds", without: "`idle_transaction_timeout`",
        help: "How long the client may be idle inside a transaction.",
    }
    query_timeout -> query_timeout: time, {
        kind: Kind::Integer, unit: "seconds", without: "`query_timeout`",
        help: "How long a query may run.",
    }
    query_wait_timeout -> query_wait_timeout: wait, {
        kind: Kind::Integer, unit: "seconds", without: "the database's",
        help: "How long a client may wait for a server.",
    }
    client_idle_timeout -> client_idle_timeout: time, {
        kind: Kind::Integer, unit: "seconds", without: "`client_idle_timeout`",
        help: "How long the client may be idle outside a transaction.",
    }
    weight -> weight: weight, {
        kind: Kind::Integer, unit: "", without: "1",
        help: "From 1 to 1000: the user's share of the servers while other users wait as well. With 3 its clients get three times the server time that clients with 1 get. See docs/fair-queue.md. pgweir's own.",
    }
}
