//! What pins a client to its server, and what ends a pin.

use super::session::{does, is_discarded, probes};
use crate::rig::{LOCKED, NOTHING, Rig, TEMPORARY};
use std::time::Duration;

#[test]
fn a_try_lock_that_failed_does_not_pin() {
    let mut rig = Rig::one_server("");
    let client = rig.client();
    let server = does(&mut rig, client, "select pg_try_advisory_lock(1)");
    rig.answers_about(server, NOTHING);
    assert_eq!(rig.server_of(client), None);
    let server = does(&mut rig, client, "select pg_try_advisory_lock(1)");
    rig.answers_about(server, LOCKED);
    assert_eq!(rig.server_of(client), Some(server));
}

#[test]
fn the_end_of_the_last_temporary_object_unpins() {
    let mut rig = Rig::one_server("");
    let client = rig.client();
    let server = does(&mut rig, client, "create temp table t (a int)");
    rig.answers_about(server, TEMPORARY);
    does(&mut rig, client, "select 1");
    assert_eq!(rig.told(server), Vec::<String>::new(), "an ordinary query ends nothing");
    does(&mut rig, client, "drop table t");
    assert!(probes(&rig.answers_about(server, NOTHING)));
    assert_eq!(rig.server_of(client), None);
}

#[test]
fn a_pinned_client_that_leaves_has_its_server_discarded_before_anyone_gets_it() {
    let mut rig = Rig::one_server("");
    let (client, next) = (rig.client(), rig.client());
    let server = does(&mut rig, client, "select pg_advisory_lock(1)");
    rig.answers_about(server, LOCKED);
    rig.says(next, |w| w.query(b"select 1"));
    rig.client_leaves(client);
    assert_eq!(rig.server_of(next), None);
    is_discarded(&mut rig, server);
    assert_eq!(rig.server_of(next), Some(server));
}

#[test]
fn pin_idle_timeout_ends_who_holds_a_pin_and_does_nothing() {
    let mut rig = Rig::one_server("pin_idle_timeout = 10");
    let client = rig.client();
    let server = does(&mut rig, client, "select pg_advisory_lock(1)");
    rig.answers_about(server, LOCKED);
    rig.told(client);
    rig.wait(Duration::from_secs(9));
    assert!(!rig.closed.contains(&client.into()));
    rig.wait(Duration::from_secs(3));
    assert_eq!(rig.told(client), ["Error 57P05 pin_idle_timeout"]);
    rig.is_told_to_discard(server);
}
