//! Startup values that servers try, while what the pool knows is forgotten.

use crate::rig::{Rig, configuration};
use crate::trust::restorations::{confirms, made, refuses};
use pgweir_core::{ClientId, ServerId};
use pgweir_wire::TransactionStatus::Idle;

const OTHER_SERVERS: [&str; 3] = [
    "db = host=127.0.0.2 user=u",
    "db = host=127.0.0.1 dbname=other user=u",
    "db = host=127.0.0.1 user=u connect_query='select 1'",
];

fn logs_in_with(rig: &mut Rig, settings: &[(&str, &str)]) -> ClientId {
    let all = [&[("user", "u"), ("database", "db")], settings].concat();
    rig.client_begins(&all)
}

fn is_welcome(rig: &mut Rig, client: ClientId) -> bool {
    rig.told(client).ends_with(&["ReadyForQuery I".into()])
}

/// A server of the new configuration logs in; its `connect_query`, if there is one, succeeds.
fn new_server(rig: &mut Rig) -> ServerId {
    let server = *rig.connects.front().expect("a new server is wanted");
    rig.servers_log_in();
    if rig.is_asked(server, "Query select 1") {
        rig.told(server);
        rig.completes(server, "SELECT 1");
        rig.answers_questions_at_login(server);
    }
    server
}

/// Guards against the end of the process.
#[test]
fn a_reload_while_a_server_tries_values_makes_another_server_try_them() {
    for databases in OTHER_SERVERS {
        let mut rig = Rig::one_server("");
        rig.client();
        let client = logs_in_with(&mut rig, &[("app.request", "1")]);
        let old = rig.server_of(client).expect("it tries the value");
        rig.reloads(configuration(databases, "default_pool_size = 1"));
        confirms(&mut rig, old, &[]);
        assert!(rig.is_closed(old) && rig.told(client).is_empty(), "{databases}");
        let new = new_server(&mut rig);
        assert_eq!(rig.server_of(client), Some(new));
        confirms(&mut rig, new, &[]);
        assert!(is_welcome(&mut rig, client), "{databases}");
    }
}

/// As in PgBouncer, where no login uses a server: server_reset_query runs behind transactions only.
#[test]
fn a_login_is_no_use_that_server_reset_query_follows() {
    let mut rig = Rig::one_server("server_reset_query_always = 1");
    rig.client();
    let client = logs_in_with(&mut rig, &[("app.request", "1")]);
    let server = rig.server_of(client).expect("it is free, and tries the value");
    confirms(&mut rig, server, &[]);
    assert!(is_welcome(&mut rig, client));
    rig.query(client, "select 1");
    assert_eq!(rig.server_of(client), Some(server), "it is free");
}

/// Guards against a refusal by a server of the old database, which the new one would not have given.
#[test]
fn a_server_that_is_replaced_refuses_nothing() {
    let mut rig = Rig::one_server("");
    rig.client();
    let client = logs_in_with(&mut rig, &[("search_path", "new")]);
    let old = rig.server_of(client).expect("it tries the value");
    rig.reloads(configuration(OTHER_SERVERS[0], "default_pool_size = 1"));
    refuses(&mut rig, old, "22023");
    assert!(rig.told(client).is_empty());
    let new = new_server(&mut rig);
    confirms(&mut rig, new, &[]);
    assert!(is_welcome(&mut rig, client));
}

/// Guards against values that only a server of the old database has accepted.
#[test]
fn the_new_servers_try_values_that_the_old_ones_knew() {
    let both = [("TimeZone", "Old/Zone"), ("app.request", "1")];
    for before_link in [true, false] {
        let mut rig = Rig::one_server("");
        let plain = rig.client();
        let first = logs_in_with(&mut rig, &both[..1]);
        let old = rig.server_of(first).expect("it tries the value");
        confirms(&mut rig, old, &[("TimeZone", "Old/Zone")]);
        assert!(is_welcome(&mut rig, first));
        if before_link {
            rig.query(plain, "select 1");
            confirms(&mut rig, old, &[("TimeZone", "UTC")]);
            rig.told(old);
        }
        let client = logs_in_with(&mut rig, &both);
        rig.reloads(configuration(OTHER_SERVERS[0], "default_pool_size = 1"));
        match before_link {
            true => rig.completes(old, "SELECT 1"),
            false => {
                // The settings of a new server come first.
                confirms(&mut rig, old, &[("TimeZone", "UTC")]);
                confirms(&mut rig, old, &[]);
            }
        }
        let new = new_server(&mut rig);
        assert_eq!(rig.server_of(client), Some(new));
        let tried = made(&rig.hears(new)).join(", ");
        assert!(tried.contains("Old/Zone"), "{before_link}: {tried}");
    }
}

/// Guards against a pool that learns from a server of the old database after a server of the new one has logged in.
#[test]
fn a_server_that_is_replaced_teaches_nothing() {
    let mut rig = Rig::new("default_pool_size = 2");
    rig.client();
    let client = logs_in_with(&mut rig, &[("TimeZone", "Old/Zone")]);
    let old = rig.server_of(client).expect("it tries the value");
    rig.reloads(configuration(OTHER_SERVERS[0], "default_pool_size = 2"));
    let plain = logs_in_with(&mut rig, &[]);
    let new = new_server(&mut rig);
    assert!(is_welcome(&mut rig, plain));
    confirms(&mut rig, old, &[("TimeZone", "Old/Zone")]);
    assert!(rig.told(client).is_empty());
    assert_eq!(rig.server_of(client), Some(new), "the new one is asked");
    refuses(&mut rig, new, "22023");
    assert!(rig.told(client)[0].starts_with("Error 22023"));
}

/// Guards against the end of the process when a newer server turns out to be a pooler.
#[test]
fn servers_that_are_something_else_now_try_the_values_again() {
    let mut rig = Rig::new("default_pool_size = 2");
    rig.client();
    let client = logs_in_with(&mut rig, &[("TimeZone", "Old/Zone")]);
    let old = rig.server_of(client).expect("it tries the value");
    let other = logs_in_with(&mut rig, &[("TimeZone", "Other/Zone")]);
    let new = rig.connects.pop_front().expect("for the other client");
    rig.server_connects(new);
    rig.says(new, |w| {
        w.authentication(&0u32.to_be_bytes());
        w.parameter_status(b"server_version", b"15.1");
        w.backend_key_data(77, b"key!");
        w.ready_for_query(Idle);
    });
    // Its process id is another one than it has told: it is a pooler.
    rig.tells_process_id(new, 4_000);
    confirms(&mut rig, old, &[("TimeZone", "Old/Zone")]);
    assert!(rig.is_closed(old));
    assert!(rig.told(client).is_empty() && rig.told(other).is_empty());
}
