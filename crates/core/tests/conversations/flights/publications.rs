//! Definitions that could change what flights run, while other clients' flights stand behind those.

use super::code::{REPLACES, TWO_SERVERS, client, is_probe, maker_and_flights};
use super::crowd::cancelled;
use crate::rig::Rig;
use pgweir_core::{ClientId, ServerId};
use pgweir_wire::TransactionStatus::{Idle, InTransaction};
use pgweir_wire::Writer;
use std::time::Duration;

const DEFINES: &str = "create or replace function harmless() returns int language sql as 'select 2'";
const READS: &str = "select x from tame";

/// A client in a transaction block on a server of its own, and a server with two flights.
struct Scene {
    rig: Rig,
    maker: ClientId,
    makers: ServerId,
    server: ServerId,
    crowd: Vec<ClientId>,
}

fn scene(crowd: &[&str]) -> Scene {
    let mut rig = Rig::new(TWO_SERVERS);
    let (maker, server, crowd) = maker_and_flights(&mut rig, crowd);
    let makers = rig.server_of(maker).expect("it is in a transaction block");
    Scene {
        rig,
        maker,
        makers,
        server,
        crowd,
    }
}

/// Guards against a client whose query ran in a session that another client's new function had changed: the function
/// was replaced before the server began the query in front.
#[test]
fn a_definition_waits_until_no_flight_stands_behind_another() {
    let mut s = scene(&[READS, "select 'b'"]);
    s.rig.query(s.maker, REPLACES);
    assert_eq!(s.rig.told(s.makers), [""; 0], "it waits");
    let late = client(&mut s.rig);
    s.rig.query(late, "select 'late'");
    assert_eq!(s.rig.told(s.server), [""; 0], "nothing boards meanwhile");
    s.rig.completes(s.server, "SELECT 1");
    assert_eq!(s.rig.told(s.makers), [format!("Query {REPLACES}")]);
    s.rig.completes(s.server, "SELECT 1");
    for id in s.crowd {
        assert_eq!(s.rig.told(id), ["CommandComplete SELECT 1", "ReadyForQuery I"]);
    }
    let probe = s.rig.told(s.server);
    assert!(
        is_probe(&probe),
        "what was sent behind may have run new code: {probe:?}"
    );
}

/// The maker's transaction block ends.
fn leaves_block(s: &mut Scene) {
    s.rig.query(s.maker, "commit");
    s.rig.completes(s.makers, "COMMIT");
    s.rig.told(s.makers);
    s.rig.told(s.maker);
}

/// The maker's transaction has a definition.
fn defines_in_block(s: &mut Scene) {
    s.rig.query(s.maker, DEFINES);
    assert_eq!(
        s.rig.told(s.makers).len(),
        1,
        "a definition in a block is not seen by others"
    );
    s.rig.says(s.makers, |w| {
        w.command_complete("CREATE FUNCTION");
        w.ready_for_query(InTransaction);
    });
    s.rig.told(s.makers);
    s.rig.told(s.maker);
}

type Writes = fn(&mut Writer<'_>);

#[test]
fn each_request_that_may_commit_a_definition_waits() {
    let commits: [(&str, Writes); 3] = [
        ("Query", |w| w.query(b"commit")),
        ("Execute", |w| {
            w.parse(b"", b"commit", &[]);
            w.bind_portal(b"", b"", &[]);
            w.execute_portal(b"");
            w.sync();
        }),
        ("unread", |w| w.query(b"\xff;commit")),
    ];
    for (what, commit) in commits {
        let mut s = scene(&[READS, "select 'b'"]);
        defines_in_block(&mut s);
        s.rig.says(s.maker, commit);
        let early = s.rig.told(s.makers);
        let ends = |told: &[String]| told.iter().any(|m| m.starts_with("Execute") || m.starts_with("Query"));
        assert!(!ends(&early), "{what}: {early:?}");
        s.rig.completes(s.server, "SELECT 1");
        let sent = s.rig.told(s.makers);
        assert!(ends(&sent), "{what}: {sent:?}");
    }
}

#[test]
fn a_long_definition_waits_with_its_last_byte() {
    let mut s = scene(&[READS, "select 'b'"]);
    let text = format!("{REPLACES} /*{}*/", "-".repeat(2 << 20));
    s.rig.query(s.maker, &text);
    let early = s.rig.told(s.makers);
    assert!(!early.iter().any(|m| m.ends_with("*/")), "it is not complete");
    s.rig.completes(s.server, "SELECT 1");
    let sent = s.rig.told(s.makers);
    assert!(sent.iter().any(|m| m.ends_with("*/")), "{}", sent.len());
}

#[test]
fn a_definition_without_flights_behind_others_waits_for_nothing() {
    let mut s = scene(&[READS]);
    s.rig.query(s.maker, REPLACES);
    assert_eq!(s.rig.told(s.makers), [format!("Query {REPLACES}")]);
}

#[test]
fn what_harms_nobody_waits_for_nothing() {
    let mut s = scene(&[READS, "select 'b'"]);
    s.rig.query(s.maker, "insert into t values (1); commit");
    assert_eq!(s.rig.told(s.makers).len(), 1);
}

/// PostgreSQL does not know that the client waits for a flight. The flight may wait for a lock of this client.
#[test]
fn a_flight_that_holds_up_a_definition_for_long_runs_again_alone() {
    let mut s = scene(&[READS, "select 'b'"]);
    s.rig.query(s.maker, REPLACES);
    s.rig.wait(Duration::from_millis(300));
    assert_eq!(s.rig.cancels.len(), 1, "it makes way");
    s.rig.says(s.server, cancelled);
    s.rig.cancel_arrives(s.server);
    assert_eq!(s.rig.told(s.makers), ["Sync".into(), format!("Query {REPLACES}")]);
    s.rig.says(s.makers, |w| {
        w.ready_for_query(InTransaction);
        w.command_complete("CREATE FUNCTION");
        w.command_complete("COMMIT");
        w.ready_for_query(Idle);
    });
    s.rig.completes(s.server, "SELECT 1");
    assert_eq!(s.rig.told(s.crowd[1]), ["CommandComplete SELECT 1", "ReadyForQuery I"]);
    assert_eq!(s.rig.told(s.crowd[0]), [""; 0], "it is not told of the cancel");
    let again = s.rig.server_of(s.crowd[0]);
    assert!(again.is_some() || !s.rig.is_closed(s.crowd[0]));
}

/// It may wait for a lock of this client in the midst of its reply. So it is the victim of the deadlock, but later.
#[test]
fn a_flight_whose_reply_has_begun_is_cancelled_at_last() {
    for makes_way in [false, true] {
        let mut s = scene(&[READS, "select 'b'"]);
        s.rig.says(s.server, |w| w.row_description(&[]));
        s.rig.query(s.maker, REPLACES);
        s.rig.wait(Duration::from_millis(500));
        assert!(s.rig.cancels.is_empty());
        assert_eq!(s.rig.told(s.makers), ["Sync"], "it is not idle");
        if makes_way {
            s.rig.wait(Duration::from_millis(900));
            assert_eq!(s.rig.cancels.len(), 1);
            s.rig.says(s.server, cancelled);
            s.rig.cancel_arrives(s.server);
            let told = s.rig.told(s.crowd[0]);
            assert!(
                told.contains(&"Error 57014 canceling statement due to user request".into()),
                "{told:?}"
            );
        } else {
            s.rig.completes(s.server, "SELECT 1");
        }
        assert_eq!(s.rig.told(s.makers), [format!("Query {REPLACES}")]);
    }
}

/// As a part of a transaction that could define anything.
#[test]
fn a_function_call_counts_as_a_definition() {
    let mut s = scene(&[READS, "select 'b'"]);
    leaves_block(&mut s);
    s.rig.says(s.maker, |w| {
        w.message(b'F', |body| body.extend_from_slice(&[0, 0, 0x40, 1, 0, 0, 0, 0, 0, 0]));
    });
    let early = s.rig.told(s.makers);
    assert!(!early.iter().any(|m| m.starts_with('F')), "{early:?}");
    s.rig
        .replies(s.makers, &early, None, |w, _| w.command_complete("DISCARD PLANS"));
    s.rig.completes(s.server, "SELECT 1");
    let told = s.rig.told(s.makers);
    assert!(told.iter().any(|m| m.starts_with('F')), "{told:?}");
    s.rig.completes(s.server, "SELECT 1");
    let probe = s.rig.told(s.server);
    assert!(is_probe(&probe), "what runs meanwhile may run new code: {probe:?}");
}

/// A definition outside a transaction block has taken nothing from the server yet.
#[test]
fn a_definition_that_is_no_part_of_a_block_is_cancelled_at_once() {
    let mut s = scene(&[READS, "select 'b'"]);
    let key = s.rig.key_told(s.maker);
    leaves_block(&mut s);
    s.rig.query(s.maker, DEFINES);
    s.rig.cancel_request(&key);
    let told = s.rig.told(s.maker);
    assert_eq!(
        told[0], "Error 57014 canceling statement due to user request",
        "{told:?}"
    );
    s.rig.completes(s.server, "SELECT 1");
    assert!(!s.rig.told(s.makers).iter().any(|m| m.contains("create or replace")));
}

/// A definition that nobody waits for any longer is not sent, and holds up no flights.
#[test]
fn a_client_whose_definition_waits_can_leave() {
    let mut s = scene(&[READS, "select 'b'"]);
    s.rig.query(s.maker, REPLACES);
    s.rig.client_leaves(s.maker);
    let late = client(&mut s.rig);
    s.rig.query(late, "select 'late'");
    assert_eq!(s.rig.told(s.server), ["Query select 'late'"]);
    s.rig.completes(s.server, "SELECT 1");
    assert_eq!(s.rig.told(s.makers), ["Query ROLLBACK"]);
}

#[test]
fn a_definition_that_is_cancelled_while_it_waits_is_cancelled_when_it_runs() {
    let mut s = scene(&[READS, "select 'b'"]);
    let key = s.rig.key_told(s.maker);
    s.rig.query(s.maker, REPLACES);
    s.rig.cancel_request(&key);
    assert!(s.rig.cancels.is_empty(), "its server does nothing");
    s.rig.completes(s.server, "SELECT 1");
    assert_eq!(s.rig.told(s.makers), [format!("Query {REPLACES}")]);
    s.rig.wait(Duration::from_millis(30));
    assert_eq!(s.rig.cancels.len(), 1);
}
