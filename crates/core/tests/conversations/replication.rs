//! Replication connections: conversations in virtual time.

use crate::rig::Rig;
use pgweir_core::{ClientId, ServerId};
use pgweir_wire::TransactionStatus::InTransaction;
use std::time::Duration;

fn walker(rig: &mut Rig, name: &str) -> ClientId {
    rig.client_begins(&[
        ("user", "u"),
        ("database", "db"),
        ("replication", "database"),
        ("application_name", name),
        ("work_mem", "1MB"),
    ])
}

/// A replication client and its server, which are linked when the client is welcomed.
fn walker_with_server(rig: &mut Rig, name: &str) -> (ClientId, ServerId) {
    let client = walker(rig, name);
    let servers = rig.servers_log_in();
    let welcome = rig.told(client);
    assert!(welcome.ends_with(&["ReadyForQuery I".into()]), "{welcome:?}");
    let server = rig.server_of(client).expect("its own server");
    assert_eq!(servers, [server]);
    (client, server)
}

#[test]
fn each_client_has_a_server_of_its_own_from_its_login_on_and_nothing_else_is_said_to_it() {
    let mut rig = Rig::with(
        "db = host=127.0.0.1 user=u connect_query='select 1'",
        "server_check_query = select 2\nserver_check_delay = 0\nserver_reset_query_always = 1",
    );
    for name in ["one", "two"] {
        let (client, server) = walker_with_server(&mut rig, name);
        assert_eq!(rig.told(server), [] as [&str; 0]);
        rig.says(client, |w| w.query(b"IDENTIFY_SYSTEM"));
        assert_eq!(rig.told(server), ["Query IDENTIFY_SYSTEM"]);
        rig.completes(server, "IDENTIFY_SYSTEM");
        assert_eq!(rig.told(client).last().unwrap(), "ReadyForQuery I");
        rig.client_leaves(client);
        assert!(rig.closed.contains(&server.into()), "nobody else gets it");
    }
}

/// A client leaves while its server logs in: the server serves no other client.
#[test]
fn a_server_whose_client_has_left_is_closed() {
    let mut rig = Rig::new("");
    let client = walker(&mut rig, "hasty");
    let server = rig.connects.pop_front().expect("a server is wanted");
    rig.client_leaves(client);
    rig.server_logs_in(server);
    assert!(rig.closed.contains(&server.into()));
}

#[test]
fn time_limits_are_no_concern_of_a_stream() {
    let mut rig = Rig::new("query_timeout = 1\ntransaction_timeout = 1\nidle_transaction_timeout = 1");
    let (client, server) = walker_with_server(&mut rig, "stream");
    rig.says(client, |w| w.query(b"START_REPLICATION PHYSICAL 0/0"));
    rig.told(server);
    rig.wait(Duration::from_secs(60));
    assert_eq!(rig.server_of(client), Some(server));
    rig.says(server, |w| w.ready_for_query(InTransaction));
    rig.wait(Duration::from_secs(60));
    assert!(!rig.closed.contains(&client.into()));
}

#[test]
fn they_count_for_pool_size_and_idle_servers_give_way() {
    let mut rig = Rig::new("default_pool_size = 1");
    let plain = rig.client();
    rig.says(plain, |w| w.query(b"select 1"));
    let idle = rig.server_of(plain).unwrap();
    rig.completes(idle, "SELECT 1");
    let client = walker(&mut rig, "second");
    assert!(rig.connects.is_empty(), "the pool is full");
    rig.server_dies(idle);
    rig.wait(Duration::from_secs(1));
    let servers = rig.servers_log_in();
    assert_eq!(servers.len(), 1);
    assert_eq!(rig.server_of(client), Some(servers[0]));
    // The other way round, a replication stream takes the place in the pool.
    rig.says(plain, |w| w.query(b"select 2"));
    rig.wait(Duration::from_secs(1));
    assert!(rig.connects.is_empty(), "the stream has the only place");
    rig.client_leaves(client);
    rig.servers_log_in();
    assert!(rig.server_of(plain).is_some());
}

/// PostgreSQL lets the last of two parameters of a startup packet count.
#[test]
fn options_choose_neither_user_nor_database_of_the_server() {
    for options in [
        "-c user=postgres",
        "-c database=secret",
        "--replication=true",
        "-c _pq_.x=1",
    ] {
        let mut rig = Rig::new("");
        let mallory = rig.client_begins(&[
            ("user", "u"),
            ("database", "db"),
            ("replication", "database"),
            ("options", options),
        ]);
        assert!(rig.connects.is_empty(), "no server is opened");
        let told = rig.told(mallory);
        assert!(
            told[0].starts_with("Error 42704 unrecognized configuration parameter"),
            "{told:?}"
        );
    }
}
