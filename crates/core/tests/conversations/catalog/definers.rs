//! A client that sends one definition after the other has every transaction of the others followed by a probe. What that
//! may cost them is limited: then the next definitions wait.

use super::readings::{SIZE_2, asks, catalog_is_empty, rig, settles, start};
use crate::rig::{Rig, error};
use pgweir_core::{ClientId, ServerId};
use pgweir_wire::CancelKey;
use pgweir_wire::TransactionStatus::{Failed, InTransaction};
use std::time::Duration;

const DEFINITION: &str = "create extension x";

/// As many probes of others are a high debt.
const PROBES: usize = 2000;

/// After this time definitions go on.
const WAIT: Duration = Duration::from_millis(5_100);

/// The query of the user of whom nothing is to be noticed.
fn uses(rig: &mut Rig, user: ClientId) -> ServerId {
    let server = asks(rig, user, "select 1");
    assert!(settles(rig, server).is_empty(), "no reading");
    server
}

/// Definitions have cost a user as much as they may, and a reading has begun. Returns the one who defines, its key for
/// cancel requests, and the user; everybody has answers, and nobody has a server.
fn high_debt(rig: &mut Rig) -> (ClientId, CancelKey, ClientId) {
    let (user, server) = start(rig, &[], &[]);
    let (maker, key) = rig.client_with_key();
    asks(rig, maker, DEFINITION);
    assert!(settles(rig, server).is_empty(), "too early for a reading");
    for _ in 0..PROBES - 1 {
        uses(rig, user);
    }
    asks(rig, maker, DEFINITION);
    assert!(settles(rig, server).is_empty(), "one more is allowed");
    uses(rig, user);
    // The pause between two readings is the shortest one now.
    rig.wait(Duration::from_millis(251));
    let server = asks(rig, user, "select 1");
    let reading = settles(rig, server);
    catalog_is_empty(rig, server, &reading);
    rig.told(maker);
    (maker, key, user)
}

/// The definition is sent and waits.
fn waits(rig: &mut Rig, maker: ClientId) {
    rig.says(maker, |w| w.query(DEFINITION.as_bytes()));
    assert_eq!(rig.server_of(maker), None);
}

/// The server that has got the definition.
fn goes_on(rig: &mut Rig, maker: ClientId) {
    rig.wait(WAIT);
    let server = rig.server_of(maker).expect("its definition is sent");
    assert_eq!(rig.told(server), [format!("Query {DEFINITION}")]);
    rig.completes(server, "CREATE EXTENSION");
    assert_eq!(rig.told(maker), ["CommandComplete CREATE EXTENSION", "ReadyForQuery I"]);
}

#[test]
fn a_definition_waits_without_a_server_until_the_debt_is_paid_off() {
    let mut rig = rig(SIZE_2);
    let (maker, _, user) = high_debt(&mut rig);
    waits(&mut rig, maker);
    rig.wait(WAIT / 2);
    let server = asks(&mut rig, user, "select 1");
    assert_eq!(rig.told(server), [""; 0], "the catalog is known, so there is no probe");
    assert_eq!(rig.told(maker), [""; 0]);
    goes_on(&mut rig, maker);
}

/// Everything else of the same client goes on, and so do definitions in statements that are known to be harmless.
#[test]
fn other_statements_do_not_wait() {
    let mut rig = rig(SIZE_2);
    let (maker, ..) = high_debt(&mut rig);
    for text in ["select 1", "create table t (id int)", "set work_mem = '1MB'"] {
        rig.says(maker, |w| w.query(text.as_bytes()));
        if let Some(server) = rig.server_of(maker) {
            rig.told(server);
            rig.completes(server, "SELECT 1");
            settles(&mut rig, server);
        }
        assert!(rig.told(maker).ends_with(&["ReadyForQuery I".into()]), "{text}");
    }
}

#[test]
fn every_way_to_define_waits() {
    let body = format!("do $$ begin execute '{DEFINITION}'; end $$");
    let long = format!("{DEFINITION} /* {} */", "x".repeat(70_000));
    for text in [DEFINITION, "create function f( returns", &body, &long] {
        let mut rig = rig(SIZE_2);
        let (maker, ..) = high_debt(&mut rig);
        rig.says(maker, |w| w.query(text.as_bytes()));
        assert_eq!(rig.server_of(maker), None, "{text:.80}");
    }
    let mut rig = rig(SIZE_2);
    let (maker, ..) = high_debt(&mut rig);
    rig.says(maker, |w| {
        w.parse(b"", DEFINITION.as_bytes(), &[0, 0]);
        w.bind_text(b"", &[]);
        w.execute();
        w.sync();
    });
    let server = rig.server_of(maker).expect("linked by the Parse");
    let told = rig.told(server);
    assert!(told.iter().all(|told| !told.starts_with("Bind")), "{told:?}");
    rig.wait(WAIT);
    assert!(rig.told(server).iter().any(|told| told.starts_with("Execute")));
}

/// What a block holds, its client must be able to rely on.
#[test]
fn a_definition_in_a_block_waits_with_its_server() {
    let mut rig = rig(SIZE_2);
    let (maker, ..) = high_debt(&mut rig);
    rig.says(maker, |w| w.query(b"begin; select 1"));
    let server = rig.server_of(maker).expect("linked");
    rig.told(server);
    rig.says(server, |w| {
        w.command_complete("BEGIN");
        w.command_complete("SELECT 1");
        w.ready_for_query(InTransaction);
    });
    rig.says(maker, |w| w.query(DEFINITION.as_bytes()));
    assert_eq!((rig.server_of(maker), rig.told(server)), (Some(server), vec![]));
    rig.told(maker);
    // PostgreSQL must not take the client for idle.
    for _ in 0..3 {
        rig.wait(Duration::from_millis(110));
        assert_eq!(rig.told(server), ["Sync"]);
        rig.says(server, |w| w.ready_for_query(InTransaction));
        assert!(rig.told(maker).is_empty());
    }
    goes_on_in_block(&mut rig, maker, server);
}

fn goes_on_in_block(rig: &mut Rig, maker: ClientId, server: ServerId) {
    rig.wait(WAIT);
    assert_eq!(rig.told(server), ["Sync".into(), format!("Query {DEFINITION}")]);
    rig.says(server, |w| {
        w.ready_for_query(InTransaction);
        w.error(&error("42710", "extension \"x\" already exists"));
        w.ready_for_query(Failed);
    });
    assert!(rig.told(maker).ends_with(&["ReadyForQuery E".into()]));
}

#[test]
fn a_cancelled_definition_ends_at_once() {
    let mut rig = rig(SIZE_2);
    let (maker, key, user) = high_debt(&mut rig);
    waits(&mut rig, maker);
    rig.cancel_request(&key);
    let told = rig.told(maker);
    assert!(told[0].starts_with("Error 57014"), "{told:?}");
    assert_eq!(told[1], "ReadyForQuery I");
    uses(&mut rig, user);
    rig.wait(WAIT);
    assert_eq!(rig.server_of(maker), None, "it does not run later");
}

#[test]
fn the_definition_of_a_client_that_leaves_never_runs() {
    let mut rig = rig(SIZE_2);
    let (maker, _, user) = high_debt(&mut rig);
    waits(&mut rig, maker);
    rig.client_leaves(maker);
    let server = uses(&mut rig, user);
    rig.wait(WAIT);
    assert_eq!(rig.told(server), [""; 0]);
}

/// A migration while nobody else uses the database.
#[test]
fn definitions_that_cost_nobody_anything_never_wait() {
    let mut rig = rig(SIZE_2);
    let (maker, server) = start(&mut rig, &[], &[]);
    for _ in 0..2 * PROBES {
        asks(&mut rig, maker, DEFINITION);
        settles(&mut rig, server);
    }
    assert!(rig.told(maker).ends_with(&["ReadyForQuery I".into()]));
}

/// The wait for a definition is a part of the request, as the wait for a server is.
#[test]
fn limits_count_while_a_definition_waits() {
    let round = Duration::from_millis(600);
    for (limit, error) in [
        ("query_timeout = 3", "Error 57014 query_timeout"),
        ("query_wait_timeout = 3", "Error 57014 query_wait_timeout"),
        ("query_timeout = 3\nquery_wait_timeout = 3", "Error 57014 query_timeout"),
    ] {
        let mut rig = rig(&format!("{SIZE_2}\n{limit}"));
        let (maker, ..) = high_debt(&mut rig);
        waits(&mut rig, maker);
        rig.wait(Duration::from_secs(3));
        assert!(!rig.is_closed(maker));
        rig.wait(round);
        assert!(rig.is_closed(maker), "{limit}");
        assert_eq!(rig.told(maker), [error]);
    }
}

#[test]
fn what_a_definition_has_waited_counts_when_it_runs() {
    for (limit, error) in [
        ("query_timeout = 7", "Error 57014 query timeout"),
        ("transaction_timeout = 7", "Error 25P04 transaction timeout"),
    ] {
        let mut rig = rig(&format!("{SIZE_2}\n{limit}"));
        let (maker, ..) = high_debt(&mut rig);
        waits(&mut rig, maker);
        rig.wait(WAIT);
        let server = rig.server_of(maker).expect("its definition is sent");
        rig.wait(Duration::from_secs(7) - WAIT);
        assert!(!rig.is_closed(maker));
        rig.wait(Duration::from_millis(200));
        assert!(rig.is_closed(maker), "{limit}");
        assert_eq!(rig.told(maker), [error]);
        assert!(!rig.told(server).is_empty());
    }
}

/// Its server has nothing to do meanwhile, and yet its client has asked for something.
#[test]
fn query_timeout_counts_while_a_definition_waits_in_a_block() {
    let mut rig = rig(&format!("{SIZE_2}\nquery_timeout = 3\nidle_transaction_timeout = 2"));
    let (maker, ..) = high_debt(&mut rig);
    rig.says(maker, |w| w.query(b"begin; select 1"));
    let server = rig.server_of(maker).expect("linked");
    rig.says(server, |w| {
        w.command_complete("BEGIN");
        w.command_complete("SELECT 1");
        w.ready_for_query(InTransaction);
    });
    rig.wait(Duration::from_secs(1));
    rig.told(maker);
    rig.says(maker, |w| w.query(DEFINITION.as_bytes()));
    rig.wait(Duration::from_secs(3));
    assert!(!rig.is_closed(maker));
    rig.wait(Duration::from_millis(200));
    assert!(rig.is_closed(maker));
    assert_eq!(rig.told(maker), ["Error 57014 query timeout"]);
}

/// A client that has cancelled its definition has asked for nothing.
#[test]
fn a_cancelled_definition_does_not_count() {
    let mut rig = rig(&format!("{SIZE_2}\nquery_timeout = 3"));
    let (maker, key, _) = high_debt(&mut rig);
    waits(&mut rig, maker);
    rig.wait(Duration::from_secs(2));
    rig.cancel_request(&key);
    rig.told(maker);
    rig.wait(Duration::from_secs(2));
    let server = asks(&mut rig, maker, "select 1");
    settles(&mut rig, server);
    rig.says(maker, |w| w.query(b"select 2"));
    rig.wait(Duration::from_secs(2));
    assert!(!rig.is_closed(maker));
}
