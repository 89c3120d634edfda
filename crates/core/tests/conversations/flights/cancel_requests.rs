//! Cancel requests of clients whose statements stand in front of others, or behind them.

use super::crowd::{SHARED, cancelled, first_ends, login};
use crate::rig::{Rig, fatal};
use pgweir_core::{ClientId, ServerId};
use pgweir_wire::TransactionStatus::Idle;

/// The crowd's first two; the first one wants to be cancelled, and the server has been told.
fn first_of_two_cancelled(rig: &mut Rig) -> (ServerId, ClientId, ClientId) {
    let first = rig.client();
    rig.query(first, "select 'first'");
    let server = rig.server_of(first).unwrap();
    let (a, b) = (login(rig), login(rig));
    let key = rig.key_told(a);
    rig.told(a);
    rig.told(b);
    rig.query(a, "select 'a'");
    rig.query(b, "select 'b'");
    first_ends(rig, server);
    rig.told(server);
    rig.cancel_request(&key);
    assert_eq!(rig.cancels.len(), 1, "the server works on it");
    (server, a, b)
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

/// Guards against a 57014 for a client that cancels nothing: cancels of two others hit its flight.
#[test]
fn what_a_cancel_of_another_has_hit_is_not_sent_behind_others_again() {
    let mut rig = Rig::new(SHARED);
    let first = rig.client();
    rig.query(first, "select 'first'");
    let server = rig.server_of(first).unwrap();
    let clients: Vec<ClientId> = (0..4).map(|_| login(&mut rig)).collect();
    let keys: Vec<_> = clients.iter().map(|c| rig.key_told(*c)).collect();
    for (client, name) in clients.iter().zip(["a", "b", "c", "d"]) {
        rig.told(*client);
        rig.query(*client, &format!("select '{name}'"));
    }
    first_ends(&mut rig, server);
    rig.told(server);
    // The cancels of the first and the third come late, and hit the second and the fourth.
    for cancels in [0, 2] {
        rig.cancel_request(&keys[cancels]);
        rig.completes(server, "SELECT 1");
        rig.says(server, cancelled);
        assert!(rig.told(clients[cancels + 1]).is_empty(), "it had not asked for that");
        rig.cancel_arrives(server);
    }
    for (client, text) in [(3, "Query select 'd'"), (1, "Query select 'b'")] {
        assert_eq!(
            rig.told(server),
            [text],
            "at the front it is hit by its own cancels alone"
        );
        rig.completes(server, "SELECT 2");
        assert_eq!(
            rig.told(clients[client]),
            ["CommandComplete SELECT 2", "ReadyForQuery I"]
        );
    }
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
    rig.query(late, "select 'late'");
    assert!(rig.told(server).is_empty());
    rig.says(server, cancelled);
    rig.completes(server, "SELECT 2");
    assert!(rig.told(server).is_empty(), "the signal may still come");
    rig.cancel_arrives(server);
    assert_eq!(rig.told(server), ["Query select 'late'"]);
}

/// Three clients' flights in a row behind one that has ended; the second one wants to be cancelled.
fn second_of_three_cancelled(rig: &mut Rig) -> (ServerId, [ClientId; 3]) {
    let first = rig.client();
    rig.query(first, "select 'first'");
    let server = rig.server_of(first).unwrap();
    let clients = [login(rig), login(rig), login(rig)];
    let key = rig.key_told(clients[1]);
    for (client, name) in clients.iter().zip(["a", "b", "c"]) {
        rig.told(*client);
        rig.query(*client, &format!("select '{name}'"));
    }
    first_ends(rig, server);
    rig.told(server);
    rig.cancel_request(&key);
    assert!(rig.cancels.is_empty(), "the server works for another");
    assert!(
        rig.told(clients[1]).is_empty(),
        "the server will run it, and it may write"
    );
    (server, clients)
}

/// Guards against a 57014 for a statement that PostgreSQL ran and committed: it calls lo_unlink(), for example.
#[test]
fn a_cancel_of_who_stands_behind_others_is_sent_at_its_turn() {
    let mut rig = Rig::new(SHARED);
    let (server, [a, b, c]) = second_of_three_cancelled(&mut rig);
    rig.completes(server, "SELECT 1");
    assert_eq!(rig.told(a), ["CommandComplete SELECT 1", "ReadyForQuery I"]);
    assert_eq!(rig.cancels.len(), 1, "now the server works on it");
    rig.says(server, cancelled);
    assert_eq!(
        rig.told(b),
        ["Error 57014 canceling statement due to user request", "ReadyForQuery I"]
    );
    rig.cancel_arrives(server);
    rig.completes(server, "SELECT 3");
    assert_eq!(rig.told(c), ["CommandComplete SELECT 3", "ReadyForQuery I"]);
}

#[test]
fn a_cancel_at_its_turn_that_comes_late_hits_nobody_else() {
    let mut rig = Rig::new(SHARED);
    let (server, [_, b, c]) = second_of_three_cancelled(&mut rig);
    rig.completes(server, "SELECT 1");
    rig.completes(server, "SELECT 2");
    assert_eq!(rig.told(b), ["CommandComplete SELECT 2", "ReadyForQuery I"]);
    rig.query(b, "select 'more'");
    rig.says(server, cancelled);
    assert!(rig.told(c).is_empty(), "it had not asked for that");
    assert!(rig.told(server).is_empty(), "the signal may still come");
    rig.cancel_arrives(server);
    assert_eq!(rig.told(server), ["Query select 'c'"], "it runs again alone");
    rig.completes(server, "SELECT 3");
    assert_eq!(rig.told(c), ["CommandComplete SELECT 3", "ReadyForQuery I"]);
    assert_eq!(rig.told(server), ["Query select 'more'"]);
    rig.completes(server, "SELECT 4");
    assert_eq!(rig.told(b), ["CommandComplete SELECT 4", "ReadyForQuery I"]);
}

#[test]
fn what_a_server_that_ends_has_not_begun_is_cancelled_at_once() {
    let mut rig = Rig::new(SHARED);
    let (server, [_, b, c]) = second_of_three_cancelled(&mut rig);
    rig.says(server, |w| {
        w.error(&fatal("57P01", "terminating connection due to administrator command"))
    });
    rig.server_dies(server);
    assert_eq!(
        rig.told(b),
        ["Error 57014 canceling statement due to user request", "ReadyForQuery I"]
    );
    assert!(rig.told(c).is_empty(), "another server runs it");
}

#[test]
fn a_cancel_that_hits_its_own_client_late_is_told() {
    let mut rig = Rig::new(SHARED);
    let first = rig.client();
    rig.query(first, "select 'first'");
    let server = rig.server_of(first).unwrap();
    let (a, b) = (login(&mut rig), login(&mut rig));
    let (key_of_a, key_of_b) = (rig.key_told(a), rig.key_told(b));
    rig.told(a);
    rig.told(b);
    rig.query(a, "select 'a'");
    rig.query(b, "select 'b'");
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
