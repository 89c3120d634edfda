//! Clients that leave, servers that are lost or replaced, and queries that take long.

use super::crowd::{SHARED, cancelled, crowd, first_ends, login};
use crate::rig::{Rig, fatal};
use pgweir_core::channels::UNHEARD_BYTES_MAX;
use pgweir_wire::TransactionStatus::{Idle, InTransaction};
use std::time::Duration;

#[test]
fn who_leaves_behind_others_is_answered_to_nobody() {
    let mut rig = Rig::new(SHARED);
    let (server, crowd) = crowd(&mut rig, &["select 'a'", "select 'b'", "select 'c'"]);
    first_ends(&mut rig, server);
    rig.client_leaves(crowd[1]);
    for _ in 0..3 {
        rig.completes(server, "SELECT 1");
    }
    assert_eq!(rig.told(crowd[0]).len(), 2);
    assert_eq!(rig.told(crowd[2]).len(), 2);
    assert!(rig.cancels.is_empty(), "a short transaction is not cancelled");
    rig.query(crowd[0], "select 'd'");
    assert_eq!(rig.server_of(crowd[0]), Some(server));
}

#[test]
fn who_leaves_in_front_of_others_costs_them_nothing() {
    let mut rig = Rig::new(SHARED);
    let (server, crowd) = crowd(&mut rig, &["select 'a'", "select 'b'"]);
    first_ends(&mut rig, server);
    rig.client_leaves(crowd[0]);
    assert!(rig.cancels.is_empty());
    rig.completes(server, "SELECT 1");
    rig.completes(server, "SELECT 2");
    assert_eq!(rig.told(crowd[1]), ["CommandComplete SELECT 2", "ReadyForQuery I"]);
    assert!(!rig.closed.contains(&server.into()));
}

/// A message that is longer than max_packet_size ends the client that it is for, and neither the server nor the flights
/// behind.
#[test]
fn a_message_that_is_too_long_costs_only_whom_it_is_for() {
    let mut rig = Rig::new(&format!("{SHARED}\nmax_packet_size = 1000"));
    let (server, crowd) = crowd(&mut rig, &["select 'a'", "select 'b'"]);
    first_ends(&mut rig, server);
    rig.says(server, |w| w.message(b'D', |body| body.extend([b'x'; 996])));
    assert_eq!(rig.told(crowd[0]), ["Error 08P01 bad pkt header: message is too long"]);
    assert!(rig.is_closed(crowd[0]) && rig.cancels.is_empty());
    rig.completes(server, "SELECT 1");
    rig.completes(server, "SELECT 2");
    assert_eq!(rig.told(crowd[1]), ["CommandComplete SELECT 2", "ReadyForQuery I"]);
}

#[test]
fn a_lost_server_costs_only_whom_it_worked_for() {
    let mut rig = Rig::new(SHARED);
    let (server, crowd) = crowd(&mut rig, &["select 'a'", "select 'b'", "select 'c'"]);
    first_ends(&mut rig, server);
    rig.says(server, |w| {
        w.error(&fatal("57P01", "terminating connection due to administrator command"))
    });
    rig.server_dies(server);
    assert!(rig.closed.contains(&crowd[0].into()));
    assert!(rig.told(crowd[1]).is_empty());
    let up = rig.servers_log_in()[0];
    assert_eq!(rig.told(up), ["Query select 'b'"], "in order");
    rig.completes(up, "SELECT 1");
    // The catalog may be another one: a reset comes in between.
    while let told = rig.told(up)
        && !told.iter().any(|m| m == "Query select 'c'")
    {
        rig.replies(up, &told, Some("RESET"), |w, _| w.command_complete("DISCARD SEQUENCES"));
    }
    rig.completes(up, "SELECT 2");
    assert_eq!(rig.told(crowd[1]), ["CommandComplete SELECT 1", "ReadyForQuery I"]);
    assert_eq!(rig.told(crowd[2]), ["CommandComplete SELECT 2", "ReadyForQuery I"]);
}

/// Replies may have been lost with the connection: a view can call a function that writes.
#[test]
fn what_a_server_may_have_begun_runs_nowhere_else() {
    let mut rig = Rig::new(SHARED);
    let (server, crowd) = crowd(&mut rig, &["select 'a'", "select 'b'", "select 'c'"]);
    first_ends(&mut rig, server);
    rig.server_dies(server);
    for client in crowd {
        let told = rig.told(client);
        assert!(told[0].starts_with("Error 08006"), "{told:?}");
        assert!(rig.closed.contains(&client.into()));
    }
    for server in rig.servers_log_in() {
        assert!(rig.told(server).is_empty(), "nobody runs twice");
    }
}

#[test]
fn who_stands_behind_one_that_takes_long_runs_once() {
    let mut rig = Rig::new("default_pool_size = 2\npipeline_depth = 8\nlink = adversarial");
    let busy = rig.client();
    rig.query(busy, "begin; select 'busy'");
    let first = rig.client();
    rig.query(first, "select 'first'");
    rig.servers_log_in();
    let server = rig.server_of(first).expect("the second server");
    let crowd = [rig.client(), rig.client(), rig.client()];
    for client in crowd {
        rig.told(client);
        rig.query(client, "select 'short'");
    }
    first_ends(&mut rig, server);
    assert_eq!(rig.told(server).len(), 4, "the first, and the crowd");
    let other = rig.server_of(busy).unwrap();
    rig.told(other);
    rig.completes(other, "SELECT 1");
    rig.wait(Duration::from_secs(1));
    assert!(rig.told(other).is_empty(), "they may write, by a function of a view");
    for client in crowd {
        rig.completes(server, "SELECT 2");
        assert_eq!(rig.told(client), ["CommandComplete SELECT 2", "ReadyForQuery I"]);
    }
}

/// A flight that takes long is none: what its client sends meanwhile is read, its Terminate above all.
#[test]
fn a_client_whose_query_takes_long_can_leave() {
    let mut rig = Rig::new(SHARED);
    let (server, _) = crowd(&mut rig, &[]);
    let client = login(&mut rig);
    rig.told(client);
    rig.query(client, "select 'a'");
    first_ends(&mut rig, server);
    assert_eq!(rig.told(server), ["Query select 'a'"]);
    rig.query(client, "select 'b'");
    assert!(rig.told(server).is_empty(), "it may yet be answered soon");
    rig.wait(Duration::from_secs(1));
    assert_eq!(
        rig.told(server),
        ["Query select 'b'"],
        "as if it had the server for itself"
    );
    rig.completes(server, "SELECT 1");
    rig.completes(server, "SELECT 2");
    assert_eq!(rig.told(client).len(), 4);

    rig.query(client, "select 'c'");
    let other = login(&mut rig);
    rig.query(other, "select 'd'");
    rig.completes(server, "SELECT 3");
    rig.completes(server, "SELECT 4");
    rig.told(server);
    rig.query(client, "select 'e'");
    rig.says(client, |w| w.terminate());
    rig.wait(Duration::from_secs(1));
    assert!(rig.closed.contains(&client.into()));
    assert_eq!(rig.cancels.len(), 1, "what nobody waits for is cancelled");
}

#[test]
fn reconnect_lets_flights_end_and_sends_no_more() {
    let mut rig = Rig::new(&format!("{SHARED}\nadmin_users = u"));
    let (server, crowd) = crowd(&mut rig, &["select 'a'", "select 'b'"]);
    first_ends(&mut rig, server);
    rig.told(server);
    let console = rig.client_begins(&[("user", "u"), ("database", "pgbouncer")]);
    rig.query(console, "RECONNECT");
    let late = rig.client();
    rig.query(late, "select 'late'");
    assert!(rig.told(server).is_empty());
    rig.completes(server, "SELECT 1");
    rig.completes(server, "SELECT 2");
    assert_eq!((rig.told(crowd[0]).len(), rig.told(crowd[1]).len()), (2, 2));
    assert!(rig.closed.contains(&server.into()));
    let up = rig.servers_log_in()[0];
    assert_eq!(rig.told(up).last().unwrap(), "Query select 'late'");
}

/// Guards against clients that lost their connections because another client's time limit was over.
#[test]
fn a_client_that_leaves_in_front_and_takes_long_costs_the_others_nothing() {
    for (limit, goes) in [("transaction_timeout = 2", false), ("transaction_timeout = 0", true)] {
        let mut rig = Rig::new(&format!("{SHARED}\n{limit}"));
        let (server, crowd) = crowd(&mut rig, &["select 'a'", "select 'b'", "select 'c'"]);
        first_ends(&mut rig, server);
        if goes {
            rig.client_leaves(crowd[0]);
        } else {
            rig.wait(Duration::from_millis(2200));
        }
        assert!(rig.is_closed(crowd[0]));
        assert!(rig.cancels.is_empty(), "it may yet end soon");
        rig.wait(Duration::from_millis(1300));
        assert_eq!(rig.cancels.len(), 1, "{limit}");
        assert!(rig.aborted.is_empty() && !rig.is_closed(server));
        rig.says(server, cancelled);
        rig.cancel_arrives(server);
        for (client, tag) in [(crowd[1], "SELECT 2"), (crowd[2], "SELECT 3")] {
            rig.completes(server, tag);
            assert_eq!(rig.told(client), [&format!("CommandComplete {tag}"), "ReadyForQuery I"]);
        }
    }
}

#[test]
fn a_client_that_leaves_in_the_second_place_and_takes_long_is_cancelled_too() {
    let mut rig = Rig::new(SHARED);
    let (server, crowd) = crowd(&mut rig, &["select 'a'", "select 'b'", "select 'c'"]);
    first_ends(&mut rig, server);
    rig.client_leaves(crowd[1]);
    rig.completes(server, "SELECT 1");
    rig.wait(Duration::from_millis(1300));
    assert_eq!(rig.cancels.len(), 1);
    // The cancel comes late, and hits the next one.
    rig.completes(server, "SELECT 2");
    rig.says(server, cancelled);
    assert!(!rig.is_closed(crowd[2]));
    rig.cancel_arrives(server);
    assert_eq!(rig.told(server).last().unwrap(), "Query select 'c'", "it runs again");
    rig.completes(server, "SELECT 3");
    assert_eq!(rig.told(crowd[2]), ["CommandComplete SELECT 3", "ReadyForQuery I"]);
}

#[test]
fn killing_a_client_in_front_costs_the_others_nothing() {
    let mut rig = Rig::new(&format!("{SHARED}\nadmin_users = u"));
    let (server, crowd) = crowd(&mut rig, &["select 'a'", "select 'b'"]);
    first_ends(&mut rig, server);
    let console = rig.client_begins(&[("user", "u"), ("database", "pgbouncer")]);
    rig.told(console);
    let number = crowd[0].0.generation << 21 | (crowd[0].0.index + 1) << 1;
    rig.query(console, &format!("KILL_CLIENT {number}"));
    assert!(rig.is_closed(crowd[0]), "{:?}", rig.told(console));
    assert_eq!(rig.cancels.len(), 1);
    assert!(!rig.is_closed(server) && !rig.is_closed(crowd[1]));
    rig.says(server, cancelled);
    rig.cancel_arrives(server);
    rig.completes(server, "SELECT 2");
    assert_eq!(rig.told(crowd[1]), ["CommandComplete SELECT 2", "ReadyForQuery I"]);
    assert!(rig.is_closed(server), "as its client was killed");
}

/// Guards against a FATAL that nobody read, because it came behind a cancel of another client.
#[test]
fn last_words_behind_a_cancel_are_told_and_the_others_run_elsewhere() {
    let mut rig = Rig::new(SHARED);
    let first = rig.client();
    rig.query(first, "select 'first'");
    let server = rig.server_of(first).unwrap();
    let crowd: Vec<_> = (0..3).map(|_| login(&mut rig)).collect();
    let key = rig.key_told(crowd[0]);
    for client in &crowd {
        rig.told(*client);
        rig.query(*client, "select 'short'");
    }
    first_ends(&mut rig, server);
    rig.cancel_request(&key);
    rig.says(server, cancelled);
    rig.says(server, |w| {
        w.error(&fatal("57P01", "terminating connection due to administrator command"))
    });
    rig.server_dies(server);
    assert_eq!(
        rig.told(crowd[1]),
        ["Error 57P01 terminating connection due to administrator command"]
    );
    assert!(!rig.is_closed(crowd[2]) && rig.told(crowd[2]).is_empty());
    let up = rig.servers_log_in()[0];
    assert_eq!(rig.told(up), ["Query select 'short'"]);
}

#[test]
fn last_words_to_a_client_that_has_left_send_the_others_elsewhere() {
    let mut rig = Rig::new(SHARED);
    let (server, crowd) = crowd(&mut rig, &["select 'a'", "select 'b'"]);
    first_ends(&mut rig, server);
    rig.client_leaves(crowd[0]);
    rig.says(server, |w| {
        w.error(&fatal("57P01", "terminating connection due to administrator command"))
    });
    assert!(!rig.is_closed(crowd[1]) && rig.told(crowd[1]).is_empty());
    let up = rig.servers_log_in()[0];
    assert_eq!(rig.told(up), ["Query select 'b'"]);
}

/// Guards against a client that keeps those behind it from their replies for as long as it likes.
#[test]
fn who_does_not_read_its_reply_is_closed_if_others_stand_behind_it() {
    let mut rig = Rig::new(&format!("{SHARED}\nquery_wait_notify = 0"));
    let (server, crowd) = crowd(&mut rig, &["select 'a'", "select 'b'"]);
    first_ends(&mut rig, server);
    assert!(rig.pooler.others_stand_behind(server));
    rig.says(server, |w| w.data_row(1, [Some(&b"a part"[..])]));
    rig.pooler
        .handle_client_behind(rig.now, crowd[0], UNHEARD_BYTES_MAX + 1);
    rig.settle(&[]);
    rig.wait(Duration::from_millis(9_500));
    assert!(!rig.is_closed(crowd[0]));
    rig.wait(Duration::from_secs(1));
    assert!(rig.is_closed(crowd[0]));
    rig.completes(server, "SELECT 1");
    assert!(!rig.pooler.others_stand_behind(server));
    rig.pooler
        .handle_client_behind(rig.now, crowd[1], UNHEARD_BYTES_MAX + 1);
    rig.settle(&[]);
    rig.completes(server, "SELECT 2");
    assert_eq!(rig.told(crowd[1]), ["CommandComplete SELECT 2", "ReadyForQuery I"]);
    assert!(!rig.closed.contains(&server.into()));
}

#[test]
fn who_does_not_read_its_reply_and_keeps_nobody_waiting_is_left_alone() {
    let mut rig = Rig::new(SHARED);
    let (server, crowd) = crowd(&mut rig, &["select 'a'"]);
    first_ends(&mut rig, server);
    assert!(!rig.pooler.others_stand_behind(server));
    rig.pooler
        .handle_client_behind(rig.now, crowd[0], UNHEARD_BYTES_MAX + 1);
    rig.settle(&[]);
    rig.wait(Duration::from_secs(20));
    assert!(!rig.is_closed(crowd[0]));
}

/// Guards against a server that took no flights until it was closed, because it might have a temporary schema.
#[test]
fn a_server_takes_flights_again_when_a_client_with_a_definition_has_left() {
    for has_schema in [false, true] {
        let mut rig = Rig::new(SHARED);
        let maker = rig.client();
        rig.query(
            maker,
            "begin; create function f() returns int language sql as 'select 1'",
        );
        let server = rig.server_of(maker).expect("the pool's only server");
        rig.told(server);
        rig.says(server, |w| {
            w.command_complete("BEGIN");
            w.command_complete("CREATE FUNCTION");
            w.ready_for_query(InTransaction);
        });
        rig.client_leaves(maker);
        assert_eq!(rig.told(server), ["Query ROLLBACK"]);
        rig.completes(server, "ROLLBACK");
        rig.is_told_to_discard(server);
        rig.completes(server, "DISCARD ALL");
        rig.says(server, |w| {
            w.data_row(1, [Some(if has_schema { &b"t"[..] } else { b"f" })]);
            w.command_complete("SELECT 1");
            w.ready_for_query(Idle);
        });
        rig.wait(Duration::from_secs(1));
        let first = login(&mut rig);
        rig.query(first, "select 'first'");
        rig.tells_catalog(server, &[], &[]);
        assert_eq!(rig.told(server), ["Query select 'first'"]);
        for text in ["select 'a'", "select 'b'"] {
            let id = login(&mut rig);
            rig.query(id, text);
        }
        let aboard = if has_schema { 0 } else { 2 };
        assert_eq!(rig.told(server).len(), aboard, "{has_schema}");
    }
}
