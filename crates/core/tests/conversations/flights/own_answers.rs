//! Answers and errors go to their own clients.

use super::crowd::{SHARED, crowd, first_ends, login, parse_and_run};
use crate::rig::{Rig, error, fatal};
use pgweir_wire::TransactionStatus::Idle;

#[test]
fn an_error_is_its_own_clients() {
    let mut rig = Rig::new(SHARED);
    let (server, crowd) = crowd(&mut rig, &["select 1/0", "select 'b'"]);
    first_ends(&mut rig, server);
    rig.says(server, |w| {
        w.error(&error("22012", "division by zero"));
        w.ready_for_query(Idle);
        w.command_complete("SELECT 1");
        w.ready_for_query(Idle);
    });
    assert_eq!(rig.told(crowd[0]), ["Error 22012 division by zero", "ReadyForQuery I"]);
    assert_eq!(rig.told(crowd[1]), ["CommandComplete SELECT 1", "ReadyForQuery I"]);
}

#[test]
fn a_segment_that_fails_at_its_parse_leaves_the_next_one_alone() {
    let mut rig = Rig::new(SHARED);
    let (server, _) = crowd(&mut rig, &[]);
    let (a, b) = (rig.client(), rig.client());
    rig.told(a);
    rig.told(b);
    rig.says(a, |w| parse_and_run(w, "select wrong"));
    rig.says(b, |w| parse_and_run(w, "select 2"));
    first_ends(&mut rig, server);
    let sent = rig.told(server);
    assert_eq!(sent.len(), 8, "{sent:?}");
    rig.says(server, |w| {
        w.error(&error("42703", "column \"wrong\" does not exist"));
        w.ready_for_query(Idle);
    });
    assert_eq!(rig.told(a).len(), 2);
    rig.says(server, |w| {
        w.empty(b'1');
        w.empty(b'2');
        w.command_complete("SELECT 1");
        w.ready_for_query(Idle);
    });
    assert_eq!(
        rig.told(b),
        [
            "ParseComplete",
            "BindComplete",
            "CommandComplete SELECT 1",
            "ReadyForQuery I"
        ]
    );
}

#[test]
fn a_message_behind_a_flight_waits_for_its_end() {
    let mut rig = Rig::new(SHARED);
    let (server, crowd) = crowd(&mut rig, &["select 'a'", "select 'b'"]);
    first_ends(&mut rig, server);
    rig.told(server);
    rig.query(crowd[0], "insert into t values (1)");
    rig.query(crowd[1], "select 'more'");
    assert!(rig.told(server).is_empty());
    rig.completes(server, "SELECT 1");
    rig.completes(server, "SELECT 1");
    assert_eq!(rig.told(server), ["Query insert into t values (1)"]);
    rig.completes(server, "INSERT 0 1");
    assert_eq!(rig.told(server), ["Query select 'more'"]);
}

#[test]
fn the_unnamed_statement_of_a_flight_that_never_begins_is_not_its_clients() {
    let mut rig = Rig::new(SHARED);
    let (server, _) = crowd(&mut rig, &[]);
    let (a, b) = (login(&mut rig), login(&mut rig));
    let key = rig.key_told(b);
    rig.told(a);
    rig.told(b);
    rig.query(a, "select 'a'");
    rig.says(b, |w| parse_and_run(w, "select 'b'"));
    first_ends(&mut rig, server);
    assert_eq!(rig.told(server).len(), 5, "both have been sent");
    rig.cancel_request(&key);
    assert!(rig.told(b).is_empty(), "the server may run it");
    rig.says(server, |w| {
        w.error(&fatal("57P01", "terminating connection due to administrator command"))
    });
    rig.server_dies(server);
    assert_eq!(rig.told(b).len(), 2, "the server has not begun it");
    rig.says(b, |w| {
        w.bind_portal(b"", b"", &[]);
        w.execute_portal(b"");
        w.sync();
    });
    let up = rig.servers_log_in()[0];
    let sent = rig.told(up);
    assert!(sent.iter().all(|message| !message.starts_with("Parse")), "{sent:?}");
    assert!(sent.iter().any(|message| message.starts_with("Bind")), "{sent:?}");
}

#[test]
fn nothing_is_said_behind_a_servers_fatal() {
    let mut rig = Rig::new("default_pool_size = 1");
    let client = rig.client();
    rig.told(client);
    rig.query(client, "begin");
    rig.told(client);
    rig.query(client, "select 1");
    let server = rig.server_of(client).unwrap();
    rig.says(server, |w| {
        w.error(&fatal("57P01", "terminating connection due to administrator command"))
    });
    rig.told(client);
    rig.told(server);
    rig.query(client, "select lastval()");
    assert!(rig.told(client).is_empty());
    assert!(rig.told(server).is_empty());
    rig.server_dies(server);
    assert!(rig.told(client).is_empty());
    assert!(rig.closed.contains(&client.into()));
}
