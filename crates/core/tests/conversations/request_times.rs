//! From when query_timeout counts, and until when: conversations in virtual time.

use crate::flights::crowd::{SHARED, cancelled, crowd, first_ends, login};
use crate::rig::Rig;
use pgweir_core::{ClientId, ServerId};
use pgweir_wire::TransactionStatus::{Idle, InTransaction};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// A little more than the time between two rounds of the timers.
const ROUND: Duration = Duration::from_millis(150);

/// What a client hears that waits for a server, and one that has a server.
const WAITED: &str = "Error 57014 query_timeout";
const WORKED: &str = "Error 57014 query timeout";
const TRANSACTION: &str = "Error 25P04 transaction timeout";

/// One server, these settings, and keys of the user of all clients.
fn one_server(settings: &str, user: &str) -> Rig {
    let settings = format!("default_pool_size = 1\n{settings}\n[users]\nu = {user}");
    Rig::with_databases_and_users("db = host=127.0.0.1 user=u", &settings, "\"u\" \"\"\n")
}

/// A client in a transaction, which has the only server.
fn holder(rig: &mut Rig) -> (ClientId, ServerId) {
    let client = rig.client();
    rig.query(client, "select 1");
    let server = rig.server_of(client).expect("the only one");
    rig.says(server, |w| w.ready_for_query(InTransaction));
    rig.told(client);
    (client, server)
}

/// A client has waited for the only server for two seconds, and has it now.
fn late_client(settings: &str, user: &str) -> (Rig, ClientId, ServerId) {
    let mut rig = one_server(settings, user);
    let (first, server) = holder(&mut rig);
    let client = rig.client();
    rig.query(client, "select 2");
    rig.wait(2 * SECOND);
    rig.query(first, "commit");
    rig.completes(server, "COMMIT");
    assert_eq!(rig.server_of(client), Some(server));
    (rig, client, server)
}

fn is_told(rig: &mut Rig, client: ClientId, error: &str) {
    assert!(rig.is_closed(client), "it is still connected");
    assert_eq!(rig.told(client), [error]);
}

#[test]
fn the_wait_for_a_server_counts_and_only_by_the_global_value() {
    for (settings, user, limit) in [
        ("query_timeout = 2", "", Some(WAITED)),
        ("query_timeout = 2", "query_timeout=30", Some(WAITED)),
        ("query_timeout = 2\nquery_wait_timeout = 2", "", Some(WAITED)),
        ("query_timeout = 30", "query_timeout=2", None),
        ("", "query_timeout=2", None),
    ] {
        let mut rig = one_server(settings, user);
        let (_, server) = holder(&mut rig);
        let client = rig.client();
        rig.query(client, "select 2");
        rig.wait(2 * SECOND);
        assert!(!rig.is_closed(client) && rig.told(client).is_empty());
        rig.wait(ROUND);
        match limit {
            Some(error) => is_told(&mut rig, client, error),
            None => assert!(!rig.is_closed(client), "{settings}, {user}"),
        }
        assert!(
            rig.cancels.is_empty() && !rig.is_closed(server),
            "it works for another one"
        );
    }
}

#[test]
fn a_client_that_has_waited_has_less_time_for_its_request() {
    for (settings, user) in [("query_timeout = 3", ""), ("", "query_timeout=3")] {
        let (mut rig, client, _) = late_client(settings, user);
        rig.wait(SECOND);
        assert!(!rig.is_closed(client));
        rig.wait(ROUND);
        is_told(&mut rig, client, WORKED);
    }
}

/// The wait belongs to the first request: those behind it in the transaction have all the time.
#[test]
fn a_wait_counts_for_one_request() {
    let (mut rig, client, server) = late_client("query_timeout = 3", "");
    rig.says(server, |w| w.ready_for_query(InTransaction));
    rig.told(client);
    rig.query(client, "select 3");
    rig.wait(3 * SECOND);
    assert!(!rig.is_closed(client));
    rig.wait(ROUND);
    is_told(&mut rig, client, WORKED);
}

#[test]
fn a_wait_does_not_count_for_the_next_client() {
    let (mut rig, _, server) = late_client("query_timeout = 3", "");
    let next = rig.client();
    rig.completes(server, "SELECT 2");
    rig.query(next, "select 3");
    assert_eq!(rig.server_of(next), Some(server));
    rig.told(next);
    rig.wait(2 * SECOND);
    assert!(!rig.is_closed(next));
    rig.wait(SECOND + ROUND);
    is_told(&mut rig, next, WORKED);
}

/// A server that is given out restores the client's settings first.
#[test]
fn a_wait_counts_although_settings_are_restored_behind_it() {
    let mut rig = one_server("query_timeout = 3", "");
    let (first, server) = holder(&mut rig);
    let client = rig.client_begins(&[("user", "u"), ("database", "db"), ("application_name", "late")]);
    rig.told(client);
    rig.told(server);
    rig.query(client, "select 2");
    rig.wait(2 * SECOND);
    rig.query(first, "commit");
    rig.completes(server, "COMMIT");
    let told = rig.told(server);
    assert!(told.iter().any(|m| m.starts_with("Parse")), "{told:?}");
    rig.says(server, |w| {
        w.empty(b'1');
        w.empty(b'2');
        w.command_complete("SELECT 1");
        w.ready_for_query(Idle);
    });
    rig.wait(SECOND);
    assert!(!rig.is_closed(client));
    rig.wait(ROUND);
    assert!(rig.is_closed(client));
}

#[test]
fn the_wait_behind_another_clients_flight_counts() {
    let mut rig = Rig::new(&format!("{SHARED}\nquery_timeout = 3"));
    let (server, waiting) = crowd(&mut rig, &["select 'a'", "select 'b'"]);
    rig.wait(SECOND);
    first_ends(&mut rig, server);
    rig.wait(SECOND);
    // The first flight ends, so the second one is at work.
    rig.completes(server, "SELECT 1");
    rig.told(waiting[0]);
    rig.wait(SECOND);
    assert!(!rig.is_closed(waiting[1]));
    rig.wait(ROUND);
    is_told(&mut rig, waiting[1], WORKED);
    let mut rig = Rig::new(&format!("{SHARED}\nquery_timeout = 3"));
    let (server, waiting) = crowd(&mut rig, &["select 'a'", "select 'b'"]);
    rig.wait(SECOND);
    first_ends(&mut rig, server);
    rig.wait(2 * SECOND + ROUND);
    is_told(&mut rig, waiting[0], WORKED);
    is_told(&mut rig, waiting[1], WAITED);
}

/// A flight that another client's cancel has hit after two seconds. It is to run again, alone.
fn flight_to_run_again(settings: &str) -> (Rig, ClientId, ServerId) {
    let mut rig = Rig::new(&format!("{SHARED}\n{settings}"));
    let first = rig.client();
    rig.query(first, "select 'first'");
    let server = rig.server_of(first).expect("the only one");
    let (canceller, hit) = (login(&mut rig), login(&mut rig));
    let key = rig.key_told(canceller);
    rig.told(hit);
    rig.query(canceller, "select 'a'");
    rig.query(hit, "select 'b'");
    first_ends(&mut rig, server);
    rig.cancel_request(&key);
    rig.completes(server, "SELECT 1");
    rig.wait(2 * SECOND);
    rig.told(server);
    rig.says(server, cancelled);
    (rig, hit, server)
}

#[test]
fn a_flight_that_runs_again_counts_from_its_request() {
    for (limit, error) in [("query_timeout = 3", WORKED), ("transaction_timeout = 3", TRANSACTION)] {
        let (mut rig, hit, server) = flight_to_run_again(limit);
        rig.cancel_arrives(server);
        assert_eq!(rig.told(server), ["Query select 'b'"], "it runs again");
        rig.wait(SECOND);
        assert!(!rig.is_closed(hit));
        rig.wait(ROUND);
        is_told(&mut rig, hit, error);
    }
}

#[test]
fn a_flight_that_waits_again_counts_from_its_request() {
    let (mut rig, hit, _) = flight_to_run_again("query_timeout = 3\nquery_wait_timeout = 3");
    rig.wait(SECOND);
    assert!(!rig.is_closed(hit));
    rig.wait(ROUND);
    is_told(&mut rig, hit, WAITED);
}

/// While a server worked on it, it has not waited.
#[test]
fn a_flight_that_waits_again_has_only_waited_without_a_server() {
    let (mut rig, hit, _) = flight_to_run_again("query_wait_timeout = 3");
    rig.wait(2 * SECOND);
    assert!(!rig.is_closed(hit));
    rig.wait(SECOND + ROUND);
    is_told(&mut rig, hit, "Error 57014 query_wait_timeout");
}

/// As in PgBouncer, a transaction begins with its client's request.
#[test]
fn the_wait_for_a_server_counts_for_the_transaction() {
    for status in [None, Some(InTransaction)] {
        let (mut rig, client, server) = late_client("transaction_timeout = 3", "");
        if let Some(status) = status {
            rig.says(server, |w| w.ready_for_query(status));
            rig.told(client);
        }
        rig.wait(SECOND);
        assert!(!rig.is_closed(client));
        rig.wait(ROUND);
        is_told(&mut rig, client, TRANSACTION);
    }
}

#[test]
fn a_wait_counts_for_one_transaction() {
    let (mut rig, client, server) = late_client("transaction_timeout = 3", "");
    rig.completes(server, "SELECT 2");
    rig.told(client);
    rig.query(client, "select 3");
    rig.wait(3 * SECOND);
    assert!(!rig.is_closed(client));
    rig.wait(ROUND);
    is_told(&mut rig, client, TRANSACTION);
}

#[test]
fn a_segment_counts_until_its_sync_although_all_is_answered() {
    let mut rig = Rig::new("query_timeout = 2");
    let client = rig.client();
    rig.says(client, |w| {
        w.parse(b"", b"select 1", &[0, 0]);
        w.empty(b'H');
    });
    let server = rig.server_of(client).expect("linked");
    rig.says(server, |w| w.empty(b'1'));
    rig.wait(SECOND);
    // More of the segment does not give it more time.
    rig.says(client, |w| {
        w.describe(b'S', b"");
        w.empty(b'H');
    });
    rig.says(server, |w| w.empty(b'n'));
    rig.told(client);
    rig.wait(SECOND);
    assert!(!rig.is_closed(client));
    rig.wait(ROUND);
    is_told(&mut rig, client, WORKED);
}

#[test]
fn a_failed_segment_counts_until_its_sync() {
    let mut rig = Rig::new("query_timeout = 2");
    let client = rig.client();
    rig.says(client, |w| {
        w.parse(b"", b"slect 1", &[0, 0]);
        w.empty(b'H');
    });
    let server = rig.server_of(client).expect("linked");
    rig.says(server, |w| w.error(&crate::rig::error("42601", "syntax error")));
    rig.told(client);
    rig.wait(2 * SECOND + ROUND);
    is_told(&mut rig, client, WORKED);
}

#[test]
fn an_ended_segment_does_not_count_for_the_next() {
    let mut rig = Rig::new("query_timeout = 2");
    let (client, server) = holder(&mut rig);
    for _ in 0..3 {
        rig.says(client, |w| {
            w.parse(b"", b"select 1", &[0, 0]);
            w.empty(b'H');
        });
        rig.says(server, |w| w.empty(b'1'));
        rig.wait(SECOND);
        rig.says(client, |w| w.sync());
        rig.says(server, |w| w.ready_for_query(InTransaction));
        // Between segments nothing counts.
        rig.wait(3 * SECOND);
        assert!(!rig.is_closed(client));
    }
}

#[test]
fn a_client_of_session_pooling_is_not_idle_while_it_has_a_server() {
    let mut rig = Rig::new("pool_mode = session\nclient_idle_timeout = 2");
    let (without, with) = (rig.client(), rig.client());
    rig.query(with, "select 1");
    let server = rig.server_of(with).expect("linked");
    rig.completes(server, "SELECT 1");
    rig.wait(4 * SECOND);
    assert!(!rig.is_closed(with));
    assert!(rig.is_closed(without), "it has no server yet");
}
