//! Settings that are confirmed late, refused, or restored for a client that has left.

use super::restorations::{confirms, made, refuses, tokyo};
use crate::rig::{NOTHING, Rig, error};
use pgweir_wire::TransactionStatus::Idle;
use std::time::Duration;

#[test]
fn nothing_of_a_client_reaches_a_server_before_its_settings_are_confirmed() {
    let mut rig = Rig::one_server("");
    let (_, client, server) = tokyo(&mut rig);
    rig.says(client, |w| w.query(b"insert into t values (now())"));
    assert_eq!(rig.told(server).last().unwrap(), "Sync");
    rig.says(server, |w| {
        w.empty(b'2');
        w.command_complete("SELECT 1");
        w.parameter_status(b"TimeZone", b"Asia/Tokyo");
    });
    assert_eq!(rig.told(server), [""; 0], "the end is still to come");
    rig.says(server, |w| w.ready_for_query(Idle));
    assert_eq!(rig.told(server), ["Query insert into t values (now())"]);
}

/// Guards against a login that is abandoned while the server tries its startup values, which the next client then had.
#[test]
fn the_startup_values_of_a_client_that_has_left_are_undone_before_the_next() {
    let mut rig = Rig::one_server("");
    let plain = rig.client();
    let gone = rig.client_begins(&[("user", "u"), ("database", "db"), ("search_path", "evil")]);
    let server = rig.server_of(gone).expect("it tries the value");
    rig.client_leaves(gone);
    assert!(rig.cancels.is_empty(), "what the pooler asks is not cancelled");
    rig.says(plain, |w| w.query(b"select 1"));
    assert_eq!(rig.server_of(plain), None);
    confirms(&mut rig, server, &[]);
    assert_eq!(rig.server_of(plain), Some(server));
    assert_eq!(made(&rig.hears(server)), ["search_path = DEFAULT"]);
}

#[test]
fn a_server_whose_restoration_fails_behind_a_client_that_has_left_is_closed() {
    let mut rig = Rig::one_server("");
    let (plain, client, server) = tokyo(&mut rig);
    rig.says(client, |w| w.query(b"select 1"));
    rig.client_leaves(client);
    rig.says(plain, |w| w.query(b"select 2"));
    refuses(&mut rig, server, "57014");
    assert!(rig.closed.contains(&server.into()), "what it looks like is not known");
    let other = rig.servers_log_in()[0];
    assert_eq!(rig.told(other), ["Query select 2"]);
}

/// A restoration that waits for a lock does not keep a server from other clients for ever.
#[test]
fn a_restoration_that_hangs_behind_a_client_that_has_left_is_cancelled_in_time() {
    let mut rig = Rig::one_server("");
    let (_, client, server) = tokyo(&mut rig);
    rig.says(client, |w| w.query(b"select 1"));
    rig.client_leaves(client);
    assert!(rig.cancels.is_empty());
    rig.wait(Duration::from_secs(2));
    assert_eq!(rig.cancels.len(), 1);
    refuses(&mut rig, server, "57014");
    rig.cancel_arrives(server);
    assert!(rig.closed.contains(&server.into()));
}

#[test]
fn a_client_whose_settings_one_server_refuses_runs_on_another() {
    let mut rig = Rig::one_server("");
    let (_, client, server) = tokyo(&mut rig);
    rig.says(client, |w| w.query(b"select 1"));
    refuses(&mut rig, server, "42602");
    assert!(rig.closed.contains(&server.into()));
    let other = rig.servers_log_in()[0];
    confirms(&mut rig, other, &[("TimeZone", "Asia/Tokyo")]);
    assert_eq!(rig.told(other), ["Query select 1"]);
}

#[test]
fn a_client_whose_settings_no_server_takes_is_told_and_nothing_of_it_runs() {
    let mut rig = Rig::one_server("");
    let (_, client, mut server) = tokyo(&mut rig);
    rig.says(client, |w| w.query(b"select 1"));
    for last in [false, false, true] {
        refuses(&mut rig, server, "42602");
        if !last {
            server = rig.servers_log_in()[0];
        }
    }
    assert_eq!(rig.told(client), ["Error 55000 cannot restore the session's settings"]);
}

/// Guards against several servers that are closed because a role of one client was revoked: each of them would refuse.
#[test]
fn a_value_that_every_server_would_refuse_costs_only_its_client() {
    let mut rig = Rig::one_server("");
    let (plain, client, server) = tokyo(&mut rig);
    rig.says(client, |w| w.query(b"select 1"));
    rig.told(server);
    rig.says(server, |w| {
        w.error(&error("42501", "permission denied to set role \"dave\""));
        w.ready_for_query(Idle);
    });
    assert_eq!(rig.told(client), ["Error 55000 cannot restore the session's settings"]);
    assert!(rig.closed.contains(&client.into()) && !rig.closed.contains(&server.into()));
    rig.says(plain, |w| w.query(b"select 2"));
    assert_eq!(rig.told(server), ["Query select 2"], "it has the settings that it had");
}

/// A library that one server has loaded judges its settings; other servers take any value.
#[test]
fn a_custom_setting_that_one_server_refuses_is_restored_on_another() {
    let mut rig = Rig::one_server("");
    let (_, client, server) = tokyo(&mut rig);
    rig.says(client, |w| w.query(b"set plperl.use_strict = maybe"));
    confirms(&mut rig, server, &[("TimeZone", "Asia/Tokyo")]);
    rig.told(server);
    rig.completes(server, "SET");
    let settings = [("plperl.use_strict", "maybe")];
    rig.answers_about(server, NOTHING.with(&settings));
    rig.server_dies(server);
    rig.says(client, |w| w.query(b"select 1"));
    let other = rig.servers_log_in()[0];
    rig.told(other);
    rig.says(other, |w| {
        w.error(&error(
            "22023",
            "parameter \"plperl.use_strict\" requires a Boolean value",
        ));
        w.ready_for_query(Idle);
    });
    assert!(rig.closed.contains(&other.into()) && !rig.closed.contains(&client.into()));
}
