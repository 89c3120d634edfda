//! The settings that apply to a database and a user: PgBouncer's precedence.

use std::time::Duration;

use pgweir_config::PoolMode;

use crate::support::config;

const TEXT: &str = "\
[pgbouncer]
auth_file = users.txt
pool_mode = transaction
default_pool_size = 20
min_pool_size = 4
reserve_pool_size = 2
max_db_connections = 50
max_db_client_connections = 500
max_user_connections = 60
max_user_client_connections = 600
query_wait_timeout = 0
query_timeout = 1.5
auth_user = looker
auth_query = global
[databases]
plain =
own = pool_mode=session pool_size=10 min_pool_size=3 reserve_pool_size=1 max_db_connections=5 \
max_db_client_connections=6 server_lifetime=7 query_wait_timeout=8 auth_user=other auth_dbname=plain auth_query=mine
zero = pool_size=0 min_pool_size=0 reserve_pool=0 max_db_connections=0 server_lifetime=0
negative = pool_size=-1 min_pool_size=-1 max_db_connections=-1
[users]
boss = pool_mode=statement pool_size=2 reserve_pool_size=0 max_user_connections=9 query_timeout=3 query_wait_timeout=4
unlimited = pool_size=0
";

#[test]
fn user_goes_before_database_and_database_before_global() {
    let config = config(TEXT);
    let [plain, own] = ["plain", "own"].map(|name| config.database(name).unwrap());
    assert_eq!(config.pool_mode(&plain, "x"), PoolMode::Transaction);
    assert_eq!(config.pool_mode(&own, "x"), PoolMode::Session);
    assert_eq!(config.pool_mode(&own, "boss"), PoolMode::Statement);
    assert_eq!(config.pool_size(&plain, "x"), Some(20));
    assert_eq!(config.pool_size(&own, "x"), Some(10));
    assert_eq!(config.pool_size(&own, "boss"), Some(2));
    assert_eq!(config.reserve_pool_size(&plain, "x"), 2);
    assert_eq!(config.reserve_pool_size(&own, "x"), 1);
    assert_eq!(config.reserve_pool_size(&own, "boss"), 0);
    assert_eq!(config.query_wait_timeout(&own, "x"), Some(Duration::from_secs(8)));
    assert_eq!(config.query_wait_timeout(&own, "boss"), Some(Duration::from_secs(4)));
    assert_eq!(config.query_wait_timeout(&plain, "x"), None);
}

#[test]
fn settings_of_one_scope_go_before_the_global_ones() {
    let config = config(TEXT);
    let [plain, own] = ["plain", "own"].map(|name| config.database(name).unwrap());
    assert_eq!(
        (config.max_db_connections(&plain), config.max_db_connections(&own)),
        (Some(50), Some(5))
    );
    assert_eq!(
        (
            config.max_db_client_connections(&plain),
            config.max_db_client_connections(&own)
        ),
        (Some(500), Some(6))
    );
    assert_eq!(
        (config.max_user_connections("x"), config.max_user_connections("boss")),
        (Some(60), Some(9))
    );
    assert_eq!(config.max_user_client_connections("boss"), Some(600));
    assert_eq!(config.server_lifetime(&plain), Duration::from_secs(3600));
    assert_eq!(config.server_lifetime(&own), Duration::from_secs(7));
    assert_eq!(config.query_timeout("x"), Some(Duration::from_millis(1500)));
    assert_eq!(config.query_timeout("boss"), Some(Duration::from_secs(3)));
    assert_eq!(config.transaction_timeout("boss"), None);
    assert_eq!(
        (config.auth_user(&plain), config.auth_user(&own)),
        (Some("looker"), Some("other"))
    );
    assert_eq!(
        (config.auth_dbname(&plain), config.auth_dbname(&own)),
        (None, Some("plain"))
    );
    assert_eq!((config.auth_query(&plain), config.auth_query(&own)), ("global", "mine"));
}

#[test]
fn zero_is_a_size_of_its_own_but_no_limit_of_its_own() {
    let config = config(TEXT);
    let zero = config.database("zero").unwrap();
    assert_eq!(
        (config.pool_size(&zero, "x"), config.min_pool_size(&zero, "x")),
        (None, 0)
    );
    assert_eq!(config.pool_size(&zero, "unlimited"), None);
    assert_eq!(config.reserve_pool_size(&zero, "x"), 0);
    assert_eq!(config.max_db_connections(&zero), Some(50));
    assert_eq!(config.server_lifetime(&zero), Duration::from_secs(3600));
    let negative = config.database("negative").unwrap();
    assert_eq!(
        (config.pool_size(&negative, "x"), config.min_pool_size(&negative, "x")),
        (Some(20), 4)
    );
    assert_eq!(config.max_db_connections(&negative), Some(50));
}

#[test]
fn a_pool_never_keeps_more_than_its_size() {
    let config = config(TEXT);
    let own = config.database("own").unwrap();
    assert_eq!(config.min_pool_size(&own, "x"), 3);
    assert_eq!(config.min_pool_size(&own, "boss"), 2);
    assert_eq!(config.min_pool_size(&own, "unlimited"), 3);
}

#[test]
fn a_query_wait_timeout_of_zero_is_no_limit_in_every_scope() {
    let text = "\
[pgbouncer]
auth_file = users.txt
query_wait_timeout = 30
[databases]
plain =
own = query_wait_timeout=8
zero = query_wait_timeout=0
negative = query_wait_timeout=-1
[users]
patient = query_wait_timeout=0
endless = query_wait_timeout=-1
hasty = query_wait_timeout=2
";
    let config = config(text);
    let wait = |database: &str, user: &str| {
        let time = config.query_wait_timeout(&config.database(database).unwrap(), user);
        time.map(|time| time.as_secs())
    };
    assert_eq!(wait("zero", "x"), None);
    assert_eq!(wait("zero", "hasty"), Some(2));
    assert_eq!(wait("negative", "x"), None);
    assert_eq!((wait("plain", "patient"), wait("own", "patient")), (None, None));
    assert_eq!(wait("own", "endless"), None);
    assert_eq!((wait("plain", "x"), wait("own", "x")), (Some(30), Some(8)));
}
