//! Entries of [databases], [users] and [peers].

use std::time::Duration;

use pgweir_config::{Host, LoadBalanceHosts, PoolMode, PoolSize};

use crate::support::{assert_one, config, errors, sound, warnings};

#[test]
fn ports_and_hosts_of_databases() {
    let config = config(
        "[pgbouncer]\nauth_file=users.txt\nunix_socket_dir = /run\n[databases]\na =\nb = host=/var/run/pg,@abs,::1,10.0.0.1,db\n\
         c = host=h load_balance_hosts=DISABLE\n",
    );
    let a = config.database("a").unwrap();
    assert_eq!(config.hosts(&a), [Host::UnixDirectory("/run".into())]);
    assert_eq!(a.host_text(), None);
    let b = config.database("b").unwrap();
    assert_eq!(b.host_text().as_deref(), Some("/var/run/pg,@abs,::1,10.0.0.1,db"));
    assert_eq!(config.hosts(&b).iter().filter(|host| host.is_unix()).count(), 2);
    assert_eq!(config.databases["c"].load_balance_hosts, LoadBalanceHosts::Disable);
    for (line, want) in [
        (
            "port=0",
            "invalid value \"0\" for parameter port: expected a port from 1 to 65535",
        ),
        ("port=http", "invalid value \"http\" for parameter port: "),
        ("port=65536", "invalid value \"65536\" for parameter port: "),
        ("port=-5", "invalid value \"-5\" for parameter port: "),
        ("host=,", "expected a host"),
        ("pool_mode=fast", "expected session"),
        ("load_balance_hosts=random", "expected round-robin or disable"),
    ] {
        assert_one(
            &errors(&format!("[pgbouncer]\nauth_file=users.txt\n[databases]\na = {line}\n")),
            &[want],
        );
    }
    let text = "[pgbouncer]\nauth_file=users.txt\n[databases]\na = host=h,i port=5432,5433\n";
    assert_one(
        &warnings(text),
        &["\"5432,5433\" is not a whole number", "one number serves all hosts"],
    );
}

#[test]
fn every_key_of_a_database_is_kept() {
    let config = config(
        "[pgbouncer]\nauth_file=users.txt\n[databases]\nx =\na = dbname=d host=h port=1 user=u password=p auth_user=au auth_dbname=x \
         auth_query='select 1' client_encoding=UTF8 datestyle='ISO, DMY' timezone=UTC application_name=n pool_size=1 \
         min_pool_size=1 reserve_pool_size=3 query_wait_timeout=4 max_db_connections=5 max_db_client_connections=6 \
         server_lifetime=7 load_balance_hosts=disable pool_mode=statement connect_query='set x to ''y'''\n\
         b = reserve_pool=9\n",
    );
    let a = &config.databases["a"];
    assert_eq!(
        a.startup_parameters().collect::<Vec<_>>(),
        [
            ("client_encoding", "UTF8"),
            ("datestyle", "ISO, DMY"),
            ("timezone", "UTC"),
            ("application_name", "n")
        ]
    );
    assert_eq!(
        (a.auth_user.as_deref(), a.auth_dbname.as_deref()),
        (Some("au"), Some("x"))
    );
    assert_eq!(
        (a.auth_query.as_deref(), a.connect_query.as_deref()),
        (Some("select 1"), Some("set x to 'y'"))
    );
    assert_eq!(
        (a.pool_size, a.min_pool_size, a.reserve_pool_size),
        (Some(PoolSize::Fixed(1)), Some(1), Some(3))
    );
    assert_eq!((a.max_db_connections, a.max_db_client_connections), (Some(5), Some(6)));
    assert_eq!(a.query_wait_timeout, Some(Duration::from_secs(4)));
    assert_eq!(a.server_lifetime, Some(Duration::from_secs(7)));
    assert_eq!(a.pool_mode, Some(PoolMode::Statement));
    assert_eq!(config.databases["b"].reserve_pool_size, Some(9));
}

#[test]
fn every_key_of_a_user_is_kept() {
    let config = config(&sound(
        "[users]\nu = pool_mode=statement pool_size=1 reserve_pool_size=2 max_user_connections=3 \
         max_user_client_connections=4 transaction_timeout=5 idle_transaction_timeout=6 query_timeout=7 \
         query_wait_timeout=8 client_idle_timeout=9\n\"odd \"\"name\"\"\" = pool_size=1",
    ));
    let app = config.database("app").unwrap();
    assert_eq!(config.pool_mode(&app, "u"), PoolMode::Statement);
    assert_eq!(
        (config.pool_size(&app, "u"), config.reserve_pool_size(&app, "u")),
        (Some(1), 2)
    );
    assert_eq!(
        (
            config.max_user_connections("u"),
            config.max_user_client_connections("u")
        ),
        (Some(3), Some(4))
    );
    let seconds = |time: Option<Duration>| time.unwrap().as_secs();
    assert_eq!(seconds(config.transaction_timeout("u")), 5);
    assert_eq!(seconds(config.idle_transaction_timeout("u")), 6);
    assert_eq!(seconds(config.query_timeout("u")), 7);
    assert_eq!(seconds(config.query_wait_timeout(&app, "u")), 8);
    assert_eq!(seconds(config.client_idle_timeout("u")), 9);
    assert!(config.users.contains_key("odd \"name\""));
}

#[test]
fn a_star_stands_for_every_other_name() {
    let config = config("[pgbouncer]\nauth_file=users.txt\n[databases]\n* = host=h pool_size=3\nfixed = dbname=real\n");
    let made = config.database("any thing").unwrap();
    assert_eq!(
        (made.name.as_str(), made.server_dbname(), made.pool_size),
        ("any thing", "any thing", Some(PoolSize::Fixed(3)))
    );
    assert_eq!(config.database("fixed").unwrap().server_dbname(), "real");
    assert_eq!(config.database("pgbouncer"), None);
    assert!(!config.databases.contains_key("*"));
}

#[test]
fn without_a_star_unknown_names_are_unknown() {
    assert_eq!(config(&sound("")).database("other"), None);
}

#[test]
fn peers_have_numbers_and_one_host_each() {
    let config = config(&sound(
        "peer_id = 1\n[peers]\n1 = host=a\n2 = host=/tmp/x port=7000 pool_size=9",
    ));
    let peer = &config.peers[&2];
    assert_eq!(
        (peer.host.to_string().as_str(), peer.port, config.peer_pool_size(peer)),
        ("/tmp/x", 7000, Some(9))
    );
    assert_eq!(
        (config.peers[&1].port, config.peer_pool_size(&config.peers[&1])),
        (6432, Some(20))
    );
    for (line, want) in [
        (
            "x = host=a",
            "ids of peers must be a number larger than 0 and at most 16383, got ",
        ),
        ("+1 = host=a", "syntax error"),
        ("1 = host=a,b", "a single host"),
    ] {
        assert_one(&errors(&sound(&format!("[peers]\n{line}"))), &[want]);
    }
}
