//! What pins a client to its server, and what ends a pin.

use super::session::{does, is_discarded, probes};
use crate::rig::{LOCKED, NOTHING, Rig, Session, TEMPORARY};
use std::time::Duration;

/// Sets a setting that only a superuser may set.
const SETS: &str = "set session_replication_role = replica";

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

/// Guards against clients that four servers refuse to serve: another role than that of the login has made a
/// setting.
#[test]
fn a_setting_that_the_login_user_may_not_set_pins_as_long_as_it_is_there() {
    let mut rig = Rig::one_server("");
    let client = rig.client();
    let replica = [("session_replication_role", "replica")];
    let guarded = Session {
        guarded: &["session_replication_role"],
        ..NOTHING.with(&replica)
    };
    let server = does(&mut rig, client, SETS);
    rig.answers_all_about(server, guarded);
    assert_eq!(rig.server_of(client), Some(server));
    does(&mut rig, client, SETS);
    rig.answers_all_about(server, NOTHING.with(&replica));
    assert_eq!(rig.server_of(client), None, "the user may set it now");
    let server = does(&mut rig, client, SETS);
    rig.answers_all_about(server, guarded);
    assert_eq!(rig.server_of(client), Some(server));
    rig.client_leaves(client);
    is_discarded(&mut rig, server);
}

/// A superuser can set it on every server again, whichever role the session has.
#[test]
fn a_superuser_is_not_pinned_by_a_setting() {
    let mut rig = Rig::one_server("");
    let client = rig.client_begins(&[("user", "u"), ("database", "db")]);
    let server = rig.connects.pop_front().expect("a server");
    rig.server_logs_in_with(server, &[("is_superuser", "on")]);
    let replica = [("session_replication_role", "replica")];
    let session = Session {
        guarded: &["session_replication_role"],
        ..NOTHING.with(&replica)
    };
    let server = does(&mut rig, client, SETS);
    rig.answers_all_about(server, session);
    assert_eq!(rig.server_of(client), None);
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
