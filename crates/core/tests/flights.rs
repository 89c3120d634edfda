//! Several clients' short transactions on one server at a time: conversations in virtual time.

mod rig;

use pgweir_core::{ClientId, ServerId};
use pgweir_wire::TransactionStatus::Idle;
use pgweir_wire::Writer;
use rig::{Rig, error, fatal};
use std::time::Duration;

/// One server, and every class of statements counts as short.
const SHARED: &str = "default_pool_size = 1\npipeline_depth = 8\nlink = adversarial\nsession_state = full";

fn query(rig: &mut Rig, client: ClientId, text: &str) {
    rig.says(client, |w| w.query(text.as_bytes()));
}

/// A client that has logged in, and whose welcome has not been looked at.
fn login(rig: &mut Rig) -> ClientId {
    rig.client_begins(&[("user", "u"), ("database", "db")])
}

/// A client whose query runs, and others whose queries wait behind it, in order.
fn crowd(rig: &mut Rig, texts: &[&str]) -> (ServerId, Vec<ClientId>) {
    let first = rig.client();
    query(rig, first, "select 'first'");
    let server = rig.server_of(first).expect("the pool's only server");
    let others: Vec<ClientId> = texts.iter().map(|_| rig.client()).collect();
    for (client, text) in others.iter().zip(texts) {
        rig.told(*client);
        query(rig, *client, text);
    }
    rig.told(server);
    (server, others)
}

/// The server ends what runs in front of the crowd.
fn first_ends(rig: &mut Rig, server: ServerId) {
    rig.completes(server, "SELECT 1");
}

#[test]
fn who_waits_is_sent_to_the_server_together_and_answered_in_turn() {
    let mut rig = Rig::new(SHARED);
    let (server, crowd) = crowd(&mut rig, &["select 'a'", "select 'b'", "values (3)"]);
    first_ends(&mut rig, server);
    assert_eq!(
        rig.told(server),
        ["Query select 'a'", "Query select 'b'", "Query values (3)"]
    );
    for (n, client) in crowd.iter().enumerate() {
        assert_eq!(rig.server_of(*client), Some(server), "its turn");
        rig.completes(server, &format!("SELECT {n}"));
        assert_eq!(
            rig.told(*client),
            [format!("CommandComplete SELECT {n}"), "ReadyForQuery I".into()]
        );
        assert_eq!(rig.server_of(*client), None);
    }
    // One more finds the server idle, and the pooler has not kept what was sent.
    query(&mut rig, crowd[0], "select 'again'");
    assert_eq!(rig.told(server), ["Query select 'again'"]);
}

#[test]
fn whoever_comes_while_flights_are_under_way_joins_them() {
    let mut rig = Rig::new(SHARED);
    let (server, crowd) = crowd(&mut rig, &["select 'a'"]);
    first_ends(&mut rig, server);
    rig.told(server);
    let late = rig.client();
    rig.told(late);
    query(&mut rig, late, "select 'late'");
    assert_eq!(rig.told(server), ["Query select 'late'"]);
    rig.says(server, |w| {
        w.command_complete("SELECT 1");
        w.ready_for_query(Idle);
        w.command_complete("SELECT 2");
        w.ready_for_query(Idle);
    });
    assert_eq!(rig.told(crowd[0]), ["CommandComplete SELECT 1", "ReadyForQuery I"]);
    assert_eq!(rig.told(late), ["CommandComplete SELECT 2", "ReadyForQuery I"]);
}

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

fn parse_and_run(w: &mut Writer<'_>, text: &str) {
    w.parse(b"", text.as_bytes(), &[0, 0]);
    w.bind_portal(b"", b"", &[]);
    w.execute_portal(b"");
    w.sync();
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
fn what_may_write_lock_or_open_a_block_is_never_sent_behind_another() {
    for text in [
        "insert into t values (1)",
        "select * from t for update",
        "select nextval('s')",
        "select 1; select 2",
        "with x as (delete from t returning *) select * from x",
        "copy t to stdout",
        "set timezone = 'UTC'",
    ] {
        let mut rig = Rig::new(SHARED);
        let (server, crowd) = crowd(&mut rig, &["select 'a'", text, "select 'c'"]);
        first_ends(&mut rig, server);
        assert_eq!(rig.told(server), ["Query select 'a'"], "{text}");
        // Who stands behind it in the queue does not pass it.
        rig.completes(server, "SELECT 1");
        assert_eq!(rig.server_of(crowd[1]), Some(server), "{text}");
    }
}

#[test]
fn a_message_behind_a_flight_waits_for_its_end() {
    let mut rig = Rig::new(SHARED);
    let (server, crowd) = crowd(&mut rig, &["select 'a'", "select 'b'"]);
    first_ends(&mut rig, server);
    rig.told(server);
    query(&mut rig, crowd[0], "insert into t values (1)");
    query(&mut rig, crowd[1], "select 'more'");
    assert!(rig.told(server).is_empty());
    rig.completes(server, "SELECT 1");
    rig.completes(server, "SELECT 1");
    assert_eq!(rig.told(server), ["Query insert into t values (1)"]);
    rig.completes(server, "INSERT 0 1");
    assert_eq!(rig.told(server), ["Query select 'more'"]);
}

#[test]
fn who_looks_otherwise_gets_a_server_of_their_own() {
    let mut rig = Rig::new(SHARED);
    let (server, crowd) = crowd(&mut rig, &["select 'a'"]);
    let other = rig.client_begins(&[("user", "u"), ("database", "db"), ("application_name", "other")]);
    rig.told(other);
    query(&mut rig, other, "select 'b'");
    first_ends(&mut rig, server);
    assert_eq!(rig.told(server), ["Query select 'a'"]);
    rig.completes(server, "SELECT 1");
    assert_eq!(rig.told(crowd[0]).len(), 2);
    let restored = rig.told(server);
    assert!(restored.iter().all(|line| !line.contains("select 'b'")), "{restored:?}");
}

#[test]
fn without_pipeline_depth_everyone_waits_for_the_server_to_be_free() {
    let mut rig = Rig::new("default_pool_size = 1\nlink = adversarial");
    let (server, _) = crowd(&mut rig, &["select 'a'", "select 'b'"]);
    first_ends(&mut rig, server);
    assert_eq!(rig.told(server), ["Query select 'a'"]);
}

#[test]
fn no_more_than_pipeline_depth_are_under_way() {
    let mut rig = Rig::new("default_pool_size = 1\npipeline_depth = 2\nlink = adversarial\nsession_state = full");
    let (server, _) = crowd(&mut rig, &["select 'a'", "select 'b'", "select 'c'"]);
    first_ends(&mut rig, server);
    assert_eq!(rig.told(server), ["Query select 'a'", "Query select 'b'"]);
    rig.completes(server, "SELECT 1");
    assert_eq!(rig.told(server), ["Query select 'c'"]);
}

#[test]
fn a_class_flies_alone_until_it_is_known_to_be_short() {
    let mut rig = Rig::new("default_pool_size = 1\npipeline_depth = 2\nsession_state = full");
    let first = rig.client();
    query(&mut rig, first, "select 'first'");
    let server = rig.server_of(first).unwrap();
    let (a, b) = (rig.client(), rig.client());
    query(&mut rig, a, "select 1");
    query(&mut rig, b, "select 2");
    let mut alone = 0;
    loop {
        rig.told(server);
        rig.now = rig.now + Duration::from_micros(40);
        rig.completes(server, "SELECT 1");
        let sent = rig.told(server);
        match sent.len() {
            1 => alone += 1,
            _ => break assert_eq!(sent.len(), 2),
        }
        let next = if alone % 2 == 1 { b } else { a };
        let idle = if next == a { b } else { a };
        query(&mut rig, idle, "select 3");
        assert!(alone < 100, "it is never known");
    }
    assert!(alone >= 32, "{alone} are not enough to know");
    // One that takes long makes it unknown again.
    rig.now = rig.now + Duration::from_millis(50);
    rig.completes(server, "SELECT 1");
    rig.completes(server, "SELECT 1");
    query(&mut rig, first, "select 5");
    query(&mut rig, a, "select 4");
    query(&mut rig, b, "select 4");
    rig.told(server);
    rig.completes(server, "SELECT 1");
    assert_eq!(rig.told(server).len(), 1);
}

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
    query(&mut rig, crowd[0], "select 'd'");
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

/// The crowd's first two; the first one wants to be cancelled, and the server has been told.
fn first_of_two_cancelled(rig: &mut Rig) -> (ServerId, ClientId, ClientId) {
    let first = rig.client();
    query(rig, first, "select 'first'");
    let server = rig.server_of(first).unwrap();
    let (a, b) = (login(rig), login(rig));
    let key = rig.key_told(a);
    rig.told(a);
    rig.told(b);
    query(rig, a, "select 'a'");
    query(rig, b, "select 'b'");
    first_ends(rig, server);
    rig.told(server);
    rig.cancel_request(&key);
    assert_eq!(rig.cancels.len(), 1, "the server works on it");
    (server, a, b)
}

fn cancelled(w: &mut Writer<'_>) {
    w.error(&error("57014", "canceling statement due to user request"));
    w.ready_for_query(Idle);
}

#[test]
fn a_cancel_that_comes_late_is_not_told_to_whom_it_hits() {
    let mut rig = Rig::new(SHARED);
    let (server, a, b) = first_of_two_cancelled(&mut rig);
    rig.completes(server, "SELECT 1");
    assert_eq!(
        rig.told(a),
        ["CommandComplete SELECT 1", "ReadyForQuery I"],
        "it came too late"
    );
    rig.says(server, cancelled);
    assert!(rig.told(b).is_empty(), "it had not asked for that");
    rig.cancel_arrives(server);
    assert_eq!(rig.told(server), ["Query select 'b'"], "it runs once more");
    rig.completes(server, "SELECT 2");
    assert_eq!(rig.told(b), ["CommandComplete SELECT 2", "ReadyForQuery I"]);
}

#[test]
fn what_a_cancel_may_hit_is_told_when_it_is_known() {
    let mut rig = Rig::new(SHARED);
    let (server, a, b) = first_of_two_cancelled(&mut rig);
    rig.says(server, cancelled);
    assert_eq!(rig.told(a).len(), 2, "as it was meant");
    rig.says(server, |w| w.command_complete("SELECT 2"));
    assert!(rig.told(b).is_empty(), "an error may follow");
    rig.says(server, |w| w.ready_for_query(Idle));
    assert_eq!(rig.told(b), ["CommandComplete SELECT 2", "ReadyForQuery I"]);
}

#[test]
fn nobody_is_sent_behind_a_cancel() {
    let mut rig = Rig::new(SHARED);
    let (server, ..) = first_of_two_cancelled(&mut rig);
    let late = rig.client();
    query(&mut rig, late, "select 'late'");
    assert!(rig.told(server).is_empty());
    rig.says(server, cancelled);
    rig.completes(server, "SELECT 2");
    assert!(rig.told(server).is_empty(), "the signal may still come");
    rig.cancel_arrives(server);
    assert_eq!(rig.told(server), ["Query select 'late'"]);
}

#[test]
fn a_cancel_of_who_stands_behind_others_is_answered_at_once() {
    let mut rig = Rig::new(SHARED);
    let first = rig.client();
    query(&mut rig, first, "select 'first'");
    let server = rig.server_of(first).unwrap();
    let (a, b) = (login(&mut rig), login(&mut rig));
    let key = rig.key_told(b);
    rig.told(a);
    rig.told(b);
    query(&mut rig, a, "select 'a'");
    query(&mut rig, b, "select 'b'");
    first_ends(&mut rig, server);
    rig.cancel_request(&key);
    assert!(rig.cancels.is_empty(), "the server works for another");
    assert_eq!(
        rig.told(b),
        ["Error 57014 canceling statement due to user request", "ReadyForQuery I"]
    );
    rig.told(server);
    query(&mut rig, b, "select 'more'");
    rig.completes(server, "SELECT 1");
    assert_eq!(rig.told(a), ["CommandComplete SELECT 1", "ReadyForQuery I"]);
    // What it has been told of is answered to nobody.
    rig.completes(server, "SELECT 2");
    assert!(rig.told(b).is_empty());
    assert_eq!(rig.told(server), ["Query select 'more'"]);
    rig.completes(server, "SELECT 3");
    assert_eq!(rig.told(b), ["CommandComplete SELECT 3", "ReadyForQuery I"]);
}

#[test]
fn the_unnamed_statement_of_a_flight_that_never_begins_is_not_its_clients() {
    let mut rig = Rig::new(SHARED);
    let (server, _) = crowd(&mut rig, &[]);
    let (a, b) = (login(&mut rig), login(&mut rig));
    let key = rig.key_told(b);
    rig.told(a);
    rig.told(b);
    query(&mut rig, a, "select 'a'");
    rig.says(b, |w| parse_and_run(w, "select 'b'"));
    first_ends(&mut rig, server);
    assert_eq!(rig.told(server).len(), 5, "both have been sent");
    rig.cancel_request(&key);
    assert_eq!(rig.told(b).len(), 2, "it is told at once");
    rig.completes(server, "SELECT 1");
    rig.says(server, |w| {
        w.empty(b'1');
        w.empty(b'2');
        w.command_complete("SELECT 1");
        w.ready_for_query(Idle);
    });
    rig.says(b, |w| {
        w.bind_portal(b"", b"", &[]);
        w.execute_portal(b"");
        w.sync();
    });
    let sent = rig.told(server);
    assert!(sent.iter().all(|message| !message.starts_with("Parse")), "{sent:?}");
    assert!(sent.iter().any(|message| message.starts_with("Close")), "{sent:?}");
}

#[test]
fn a_cancel_that_hits_its_own_client_late_is_told() {
    let mut rig = Rig::new(SHARED);
    let first = rig.client();
    query(&mut rig, first, "select 'first'");
    let server = rig.server_of(first).unwrap();
    let (a, b) = (login(&mut rig), login(&mut rig));
    let (key_of_a, key_of_b) = (rig.key_told(a), rig.key_told(b));
    rig.told(a);
    rig.told(b);
    query(&mut rig, a, "select 'a'");
    query(&mut rig, b, "select 'b'");
    first_ends(&mut rig, server);
    rig.cancel_request(&key_of_a);
    rig.completes(server, "SELECT 1");
    // The signal for the other is still on its way, and this one cancels, too.
    rig.cancel_request(&key_of_b);
    rig.says(server, cancelled);
    assert_eq!(
        rig.told(b),
        ["Error 57014 canceling statement due to user request", "ReadyForQuery I"]
    );
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
    assert_eq!(rig.told(up).last().unwrap(), "Query select 'c'");
    rig.completes(up, "SELECT 2");
    assert_eq!(rig.told(crowd[1]), ["CommandComplete SELECT 1", "ReadyForQuery I"]);
    assert_eq!(rig.told(crowd[2]), ["CommandComplete SELECT 2", "ReadyForQuery I"]);
}

#[test]
fn nobody_waits_long_behind_one_that_takes_long() {
    let mut rig = Rig::new("default_pool_size = 2\npipeline_depth = 8\nlink = adversarial\nsession_state = full");
    let busy = rig.client();
    query(&mut rig, busy, "begin; select 'busy'");
    let first = rig.client();
    query(&mut rig, first, "select 'first'");
    rig.servers_log_in();
    let server = rig.server_of(first).expect("the second server");
    let crowd = [rig.client(), rig.client(), rig.client()];
    for client in crowd {
        rig.told(client);
        query(&mut rig, client, "select 'short'");
    }
    first_ends(&mut rig, server);
    assert_eq!(rig.told(server).len(), 4, "the first, and the crowd");
    let other = rig.server_of(busy).unwrap();
    rig.told(other);
    rig.completes(other, "SELECT 1");
    assert!(rig.told(other).is_empty(), "nobody is left to be served");
    rig.wait(Duration::from_secs(1));
    for client in &crowd[1..] {
        assert_eq!(
            rig.told(other),
            ["Query select 'short'"],
            "they wait behind nobody once more"
        );
        rig.completes(other, "SELECT 1");
        assert_eq!(rig.told(*client), ["CommandComplete SELECT 1", "ReadyForQuery I"]);
    }
    // What the slow server says of them at last is nobody's.
    for _ in 0..3 {
        rig.completes(server, "SELECT 2");
    }
    assert_eq!(rig.told(crowd[0]), ["CommandComplete SELECT 2", "ReadyForQuery I"]);
    assert!(rig.told(crowd[1]).is_empty() && rig.told(crowd[2]).is_empty());
    query(&mut rig, crowd[0], "select 'after'");
    assert!(rig.server_of(crowd[0]).is_some());
}

/// A flight that takes long is none: what its client sends meanwhile is read, its Terminate above all.
#[test]
fn a_client_whose_query_takes_long_can_leave() {
    let mut rig = Rig::new(SHARED);
    let (server, _) = crowd(&mut rig, &[]);
    let client = login(&mut rig);
    rig.told(client);
    query(&mut rig, client, "select 'a'");
    first_ends(&mut rig, server);
    assert_eq!(rig.told(server), ["Query select 'a'"]);
    query(&mut rig, client, "select 'b'");
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

    query(&mut rig, client, "select 'c'");
    let other = login(&mut rig);
    query(&mut rig, other, "select 'd'");
    rig.completes(server, "SELECT 3");
    rig.completes(server, "SELECT 4");
    rig.told(server);
    query(&mut rig, client, "select 'e'");
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
    query(&mut rig, console, "RECONNECT");
    let late = rig.client();
    query(&mut rig, late, "select 'late'");
    assert!(rig.told(server).is_empty());
    rig.completes(server, "SELECT 1");
    rig.completes(server, "SELECT 2");
    assert_eq!((rig.told(crowd[0]).len(), rig.told(crowd[1]).len()), (2, 2));
    assert!(rig.closed.contains(&server.into()));
    let up = rig.servers_log_in()[0];
    assert_eq!(rig.told(up).last().unwrap(), "Query select 'late'");
}

#[test]
fn a_prepared_statement_is_sent_under_the_servers_name_for_it() {
    let mut rig = Rig::new(SHARED);
    let (a, b) = (rig.client(), rig.client());
    let mut server = None;
    for client in [a, b] {
        rig.told(client);
        rig.says(client, |w| {
            w.parse(b"s", b"select 7", &[0, 0]);
            w.describe(b'S', b"s");
            w.sync();
        });
        let at = *server.get_or_insert_with(|| rig.server_of(client).unwrap());
        while let lines @ [_, ..] = &rig.told(at)[..] {
            for line in lines {
                match line.split(' ').next().unwrap() {
                    "Parse" => rig.says(at, |w| w.empty(b'1')),
                    "Describe" => rig.says(at, |w| {
                        w.message(b't', |body| body.extend_from_slice(&[0, 0]));
                        w.row_description(&[]);
                    }),
                    "Sync" => rig.says(at, |w| w.ready_for_query(Idle)),
                    other => panic!("{other}"),
                }
            }
        }
        rig.told(client);
    }
    let server = server.unwrap();
    let first = rig.client();
    query(&mut rig, first, "select 'first'");
    for client in [a, b] {
        rig.says(client, |w| {
            w.bind_portal(b"", b"s", &[]);
            w.execute_portal(b"");
            w.sync();
        });
    }
    first_ends(&mut rig, server);
    let sent = rig.told(server).split_off(1);
    assert_eq!(sent.len(), 6, "{sent:?}");
    assert!(
        sent[0].starts_with("Bind") && sent[0] == sent[3] && sent[0].contains("pgweir_"),
        "{sent:?}"
    );
    for client in [a, b] {
        rig.says(server, |w| {
            w.empty(b'2');
            w.command_complete("SELECT 1");
            w.ready_for_query(Idle);
        });
        assert_eq!(
            rig.told(client),
            ["BindComplete", "CommandComplete SELECT 1", "ReadyForQuery I"]
        );
    }
}

#[test]
fn nothing_is_said_behind_a_servers_fatal() {
    let mut rig = Rig::new("default_pool_size = 1");
    let client = rig.client();
    rig.told(client);
    query(&mut rig, client, "begin");
    rig.told(client);
    query(&mut rig, client, "select 1");
    let server = rig.server_of(client).unwrap();
    rig.says(server, |w| {
        w.error(&fatal("57P01", "terminating connection due to administrator command"))
    });
    rig.told(client);
    rig.told(server);
    query(&mut rig, client, "select lastval()");
    assert!(rig.told(client).is_empty());
    assert!(rig.told(server).is_empty());
    rig.server_dies(server);
    assert!(rig.told(client).is_empty());
    assert!(rig.closed.contains(&client.into()));
}
