//! Servers that die, fail or break the protocol, and what their clients hear of it.

use crate::rig::{Rig, error, fatal};
use pgweir_wire::TransactionStatus::{Idle, InTransaction};
use std::time::Duration;

#[test]
fn a_server_that_begins_a_copy_when_its_settings_are_restored_is_closed() {
    let mut rig = Rig::new("default_pool_size = 1");
    let (a, b) = (rig.client(), rig.client());
    rig.says(a, |w| w.query(b"set timezone = 'Asia/Tokyo'"));
    let server = rig.server_of(a).unwrap();
    rig.says(server, |w| {
        w.command_complete("SET");
        w.parameter_status(b"TimeZone", b"Asia/Tokyo");
        w.ready_for_query(Idle);
    });
    rig.says(b, |w| w.query(b"select now()"));
    rig.says(server, |w| {
        w.empty(b'3');
        w.empty(b'1');
        w.empty(b'2');
        w.message(b'G', |b| b.extend([0, 0, 0]));
    });
    assert!(rig.closed.contains(&server.into()));
}

#[test]
fn a_client_without_a_server_does_not_notice_that_servers_die() {
    let mut rig = Rig::new("");
    let client = rig.client();
    rig.says(client, |w| w.query(b"select 1"));
    let server = rig.server_of(client).unwrap();
    rig.completes(server, "SELECT 1");
    rig.told(client);
    rig.says(server, |w| {
        w.error(&fatal("57P01", "terminating connection due to administrator command"))
    });
    rig.server_dies(server);
    assert!(rig.told(client).is_empty());
    rig.says(client, |w| w.query(b"select 1"));
    let up = rig.servers_log_in();
    assert_eq!(rig.server_of(client), Some(up[0]));
}

#[test]
fn a_client_in_a_transaction_hears_the_servers_own_last_words() {
    let mut rig = Rig::new("");
    let client = rig.client();
    rig.says(client, |w| w.query(b"select 1"));
    let server = rig.server_of(client).unwrap();
    rig.says(server, |w| {
        w.error(&fatal("57P01", "terminating connection due to administrator command"))
    });
    rig.server_dies(server);
    assert_eq!(
        rig.told(client),
        ["Error 57P01 terminating connection due to administrator command"]
    );
    assert!(rig.closed.contains(&client.into()));
}

#[test]
fn a_replaced_error_does_not_repeat_what_came_before_it() {
    let mut rig = Rig::new("");
    let client = rig.client();
    rig.says(client, |w| {
        w.parse(b"s", b"select 1", &[0, 0]);
        w.sync();
    });
    let server = rig.server_of(client).unwrap();
    rig.says(server, |w| {
        w.empty(b'1');
        w.ready_for_query(Idle);
    });
    rig.told(client);
    rig.says(client, |w| {
        w.bind_text(b"s", &[]);
        w.parse(b"s", b"select 2", &[0, 0]);
        w.sync();
    });
    rig.told(server);
    let refusal = rig.error_about("42P05", "prepared statement \"pgweir_b\" already exists");
    rig.says(server, |w| {
        w.empty(b'2');
        w.empty(b'3');
        w.empty(b'1');
        w.error(&refusal);
        w.ready_for_query(Idle);
    });
    let told = rig.told(client);
    assert_eq!(
        told,
        [
            "BindComplete",
            "Error 42P05 prepared statement \"s\" already exists",
            "ReadyForQuery I"
        ]
    );
}

#[test]
fn a_query_inside_a_pipeline_costs_its_server() {
    let mut rig = Rig::new("");
    let client = rig.client();
    rig.says(client, |w| {
        w.parse(b"", b"select 1", &[0, 0]);
        w.bind_text(b"", &[]);
        w.execute();
        w.query(b"select 2");
        w.sync();
    });
    let server = rig.server_of(client).unwrap();
    rig.says(server, |w| {
        w.empty(b'1');
        w.empty(b'2');
        w.command_complete("SELECT 1");
        w.command_complete("SELECT 1");
        w.ready_for_query(InTransaction);
        w.ready_for_query(Idle);
    });
    assert!(
        rig.closed.contains(&server.into()),
        "PostgreSQL 18 would fail the next client's command"
    );
}

#[test]
fn a_connect_query_that_fails_is_logged_and_the_server_is_used() {
    let mut rig = Rig::with("db = host=127.0.0.1 user=u connect_query='selec'", "");
    let client = rig.client_begins(&[("user", "u"), ("database", "db")]);
    let server = rig.connects.pop_front().unwrap();
    rig.server_logs_in(server);
    assert_eq!(rig.told(server), ["Query selec"]);
    rig.says(server, |w| {
        w.error(&error("42601", "syntax error"));
        w.ready_for_query(Idle);
    });
    rig.answers_questions_at_login(server);
    assert!(rig.told(client).contains(&"ReadyForQuery I".to_string()));
    rig.says(client, |w| w.query(b"select 1"));
    assert_eq!(rig.server_of(client), Some(server));
}

#[test]
fn a_server_that_skips_authentication_is_not_believed() {
    let mut rig = Rig::new("");
    rig.client_begins(&[("user", "u"), ("database", "db")]);
    let server = rig.connects.pop_front().unwrap();
    rig.server_connects(server);
    rig.says(server, |w| w.ready_for_query(Idle));
    assert!(rig.closed.contains(&server.into()));
}

#[test]
fn the_next_host_is_tried_before_anybody_is_told() {
    let mut rig = Rig::with("db = host=127.0.0.99,127.0.0.1 user=u", "");
    let client = rig.client_begins(&[("user", "u"), ("database", "db")]);
    let first = rig.connects.pop_front().unwrap();
    rig.connect_fails(first);
    assert!(!rig.closed.contains(&client.into()));
    rig.servers_log_in();
    assert!(rig.told(client).contains(&"ReadyForQuery I".to_string()));
}

#[test]
fn a_server_that_complains_unasked_is_not_handed_out_again() {
    let mut rig = Rig::new("");
    let client = rig.client();
    rig.says(client, |w| w.query(b"select 1"));
    let server = rig.server_of(client).unwrap();
    rig.completes(server, "SELECT 1");
    rig.says(server, |w| w.error(&error("08P01", "invalid message format")));
    assert!(rig.closed.contains(&server.into()));
}

/// A server lets the pooler in and is asked its first question.
fn lets_in(rig: &mut Rig, server: pgweir_core::ServerId) {
    rig.server_connects(server);
    rig.says(server, |w| {
        w.authentication(&0u32.to_be_bytes());
        w.backend_key_data(7, b"key!");
        w.ready_for_query(Idle);
    });
}

/// Guards against an endless loop of logins to a server that lets the pooler in and then ends.
#[test]
fn a_server_that_ends_before_it_was_ready_is_a_failed_attempt() {
    let mut rig = Rig::new("");
    let client = rig.client_begins(&[("user", "u"), ("database", "db")]);
    let server = rig.connects.pop_front().unwrap();
    lets_in(&mut rig, server);
    rig.says(server, |w| w.error(&fatal("08006", "no more connections allowed")));
    let told = rig.told(client);
    assert!(
        told.iter().any(|l| l.contains("no more connections allowed")),
        "{told:?}"
    );
    rig.client_begins(&[("user", "u"), ("database", "db")]);
    assert!(rig.connects.is_empty(), "there is a pause");
    for pause_ms in [400, 700, 1200] {
        rig.wait(Duration::from_millis(pause_ms));
        let server = rig.connects.pop_front().expect("another attempt");
        lets_in(&mut rig, server);
        rig.server_dies(server);
        rig.client_begins(&[("user", "u"), ("database", "db")]);
        assert!(rig.connects.is_empty(), "the pause doubles");
    }
}
