//! How long clients wait behind the flights of others: query_wait_timeout and query_wait_notify.

use super::crowd::{SHARED, cancelled, crowd, first_ends, login};
use crate::rig::{Rig, fatal};
use pgweir_core::{ClientId, ServerId};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const HALF_SECOND: Duration = Duration::from_millis(500);

/// A little more than the time between two rounds of the timers.
const ROUND: Duration = Duration::from_millis(150);

const TOO_LONG: &str = "Error 57014 query_wait_timeout";

/// A client whose flight is at the front, and two behind it. All have waited for a second.
fn three_after_a_second(rig: &mut Rig) -> (ServerId, [ClientId; 3]) {
    let (server, crowd) = crowd(rig, &["select 'a'", "select 'b'", "select 'c'"]);
    rig.wait(SECOND);
    first_ends(rig, server);
    assert_eq!(rig.told(server).len(), 3);
    (server, crowd.try_into().unwrap())
}

/// Guards against a client that waits without end, because the flight in front of its own waits for a lock.
#[test]
fn query_wait_timeout_counts_until_a_server_can_begin_the_flight() {
    let limit = "query_wait_timeout = 3";
    let users = "\"u\" \"\"\n";
    let db = "db = host=127.0.0.1 user=u";
    for mut rig in [
        Rig::new(&format!("{SHARED}\n{limit}")),
        Rig::with(&format!("{db} query_wait_timeout=3"), SHARED),
        Rig::with_databases_and_users(db, &format!("{SHARED}\n[users]\nu = {limit}"), users),
    ] {
        let (server, [a, b, c]) = three_after_a_second(&mut rig);
        rig.client_leaves(c);
        rig.wait(SECOND + HALF_SECOND);
        assert!(rig.told(b).is_empty() && !rig.is_closed(b));
        rig.wait(HALF_SECOND + ROUND);
        assert_eq!(rig.told(b), [TOO_LONG]);
        assert!(rig.is_closed(b));
        rig.wait(SECOND);
        assert!(!rig.is_closed(a), "the server can have begun it");
        assert!(rig.cancels.is_empty() && !rig.is_closed(server));
        let late = rig.client();
        rig.query(late, "select 'late'");
        assert_eq!(rig.told(server), ["Query select 'late'"]);
        rig.completes(server, "SELECT 1");
        assert_eq!(rig.told(a), ["CommandComplete SELECT 1", "ReadyForQuery I"]);
        rig.completes(server, "SELECT 2");
        rig.completes(server, "SELECT 3");
        assert!(rig.told(late).is_empty(), "the server has run what nobody waits for");
        rig.completes(server, "SELECT 4");
        assert_eq!(rig.told(late), ["CommandComplete SELECT 4", "ReadyForQuery I"]);
        assert!(rig.told(server).is_empty(), "nothing runs twice");
    }
}

#[test]
fn query_wait_timeout_counts_behind_a_client_that_has_left() {
    let mut rig = Rig::new(&format!("{SHARED}\nquery_wait_timeout = 3"));
    let (server, [a, b, c]) = three_after_a_second(&mut rig);
    rig.client_leaves(a);
    rig.wait(2 * SECOND + ROUND);
    assert!(rig.is_closed(b) && rig.is_closed(c));
    assert!(!rig.is_closed(server));
}

/// The time for which a server has worked on a transaction is no time of waiting.
#[test]
fn query_wait_timeout_does_not_count_the_time_in_front() {
    let mut rig = Rig::new(&format!("{SHARED}\nquery_wait_timeout = 3"));
    let first = rig.client();
    rig.query(first, "select 'first'");
    let server = rig.server_of(first).unwrap();
    let (a, b) = (login(&mut rig), login(&mut rig));
    let key = rig.key_told(a);
    for client in [a, b] {
        rig.told(client);
        rig.query(client, "select 'short'");
    }
    rig.wait(SECOND);
    first_ends(&mut rig, server);
    rig.cancel_request(&key);
    rig.completes(server, "SELECT 1");
    // The other one is in front for four seconds. Then the cancel of the first one hits it.
    rig.wait(4 * SECOND);
    rig.says(server, cancelled);
    rig.wait(SECOND + HALF_SECOND);
    assert!(rig.told(b).is_empty() && !rig.is_closed(b));
    rig.wait(HALF_SECOND + ROUND);
    assert_eq!(rig.told(b), [TOO_LONG], "it has waited for three seconds in the queue");
}

/// The place behind another flight is a place in the queue: the wait goes on when that server is lost.
#[test]
fn query_wait_timeout_counts_the_time_behind_others_if_the_server_is_lost() {
    let mut rig = Rig::new(&format!("{SHARED}\nquery_wait_timeout = 3"));
    let (server, [_, b, _]) = three_after_a_second(&mut rig);
    rig.wait(SECOND);
    rig.says(server, |w| {
        w.error(&fatal("57P01", "terminating connection due to administrator command"))
    });
    rig.server_dies(server);
    rig.wait(HALF_SECOND);
    assert!(!rig.is_closed(b));
    rig.wait(HALF_SECOND + ROUND);
    assert_eq!(rig.told(b), [TOO_LONG]);
}

#[test]
fn a_client_behind_others_gets_one_notice() {
    let notices = |told: Vec<String>| told.iter().filter(|m| m.contains("client being queued")).count();
    for (in_queue, behind) in [(HALF_SECOND, 1), (SECOND + ROUND, 0)] {
        let mut rig = Rig::new(&format!("{SHARED}\nquery_wait_notify = 1"));
        let (server, crowd) = crowd(&mut rig, &["select 'a'", "select 'b'"]);
        rig.wait(in_queue);
        assert_eq!(notices(rig.told(crowd[1])), 1 - behind);
        first_ends(&mut rig, server);
        rig.told(crowd[0]);
        rig.wait(5 * SECOND);
        assert_eq!(notices(rig.told(crowd[1])), behind);
        assert!(rig.told(crowd[0]).is_empty(), "it does not wait");
        // Nor does it get one if it must wait again.
        rig.says(server, |w| {
            w.error(&fatal("57P01", "terminating connection due to administrator command"))
        });
        rig.server_dies(server);
        rig.wait(5 * SECOND);
        assert_eq!(notices(rig.told(crowd[1])), 0);
    }
}
