//! Which transactions are followed by a probe, and what happens while one runs.

use super::session::{does, is_discarded, probe_fails, probes};
use crate::rig::{NOTHING, Rig, TEMPORARY};
use pgweir_core::{ClientId, ServerId};
use pgweir_wire::Writer;
use std::time::Duration;

#[test]
fn only_what_may_outlive_its_transaction_is_probed_and_behind_the_clients_ready_for_query() {
    let mut rig = Rig::one_server("");
    let client = rig.client();
    let server = does(&mut rig, client, "select 1");
    assert_eq!(rig.told(server), Vec::<String>::new());
    assert_eq!(rig.server_of(client), None, "released at once");
    let server = does(&mut rig, client, "create temp table t (a int)");
    assert_eq!(
        rig.told(client).last().map(String::as_str),
        Some("ReadyForQuery I"),
        "the client does not wait for the probe"
    );
    assert_eq!(rig.server_of(client), Some(server), "not before it is answered");
    assert!(probes(&rig.answers_about(server, TEMPORARY)));
    assert_eq!(rig.server_of(client), Some(server), "pinned");
    assert_eq!(
        rig.told(client),
        Vec::<String>::new(),
        "nothing of the answer is the client's"
    );
}

#[test]
fn a_query_behind_a_probe_goes_to_the_same_server_without_waiting() {
    let mut rig = Rig::one_server("");
    let client = rig.client();
    let server = does(&mut rig, client, "create temp table t (a int)");
    rig.says(client, |w| w.query(b"select 2"));
    let told = rig.answers_about(server, TEMPORARY);
    assert!(probes(&told));
    assert_eq!(told.last().map(String::as_str), Some("Query select 2"));
}

/// The statement of a client arrives before the answer to a probe on a server that is to be closed.
fn goes_to_a_new_server(rig: &mut Rig, client: ClientId, old: ServerId) {
    rig.query(client, "select 2");
    let told = rig.answers_about(old, NOTHING);
    assert!(probes(&told), "{told:?}");
    assert!(!told.iter().any(|line| line.starts_with("Query")), "{told:?}");
    assert!(rig.is_closed(old));
    let new = rig.servers_log_in();
    assert_eq!(rig.server_of(client), Some(new[0]));
    assert_eq!(rig.told(new[0]).last().map(String::as_str), Some("Query select 2"));
}

/// Guards against a client that keeps a server that is to be closed, for as long as it asks sooner than its probes are
/// answered.
#[test]
fn nothing_runs_behind_a_probe_on_a_server_that_is_to_be_closed() {
    let mut rig = Rig::one_server("");
    let (client, boss) = (rig.client(), rig.console());
    rig.query(client, "create temp table t (a int)");
    rig.query(boss, "reconnect db");
    let server = rig.server_of(client).expect("at work");
    rig.told(server);
    rig.completes(server, "DONE");
    goes_to_a_new_server(&mut rig, client, server);
}

/// The client's transaction has ended before RECONNECT comes, and its probe is under way.
#[test]
fn reconnect_under_a_probe_holds_for_the_next_transaction() {
    let mut rig = Rig::one_server("");
    let (client, boss) = (rig.client(), rig.console());
    let server = does(&mut rig, client, "create temp table t (a int)");
    rig.query(boss, "reconnect db");
    goes_to_a_new_server(&mut rig, client, server);
}

#[test]
fn nothing_runs_behind_a_probe_on_a_server_whose_lifetime_is_over() {
    let mut rig = Rig::one_server("server_lifetime = 10");
    let client = rig.client();
    rig.query(client, "create temp table t (a int)");
    let server = rig.server_of(client).expect("at work");
    rig.wait(Duration::from_secs(11));
    rig.told(server);
    rig.completes(server, "DONE");
    goes_to_a_new_server(&mut rig, client, server);
}

/// A pinned client keeps its server, and does not wait for ever.
#[test]
fn a_pinned_client_goes_on_at_a_server_that_is_to_be_closed() {
    let mut rig = Rig::one_server("");
    let (client, boss) = (rig.client(), rig.console());
    let server = does(&mut rig, client, "create temp table t (a int)");
    rig.query(boss, "reconnect db");
    rig.query(client, "select 2");
    let told = rig.answers_about(server, TEMPORARY);
    assert!(
        probes(&told) && !told.iter().any(|line| line.starts_with("Query")),
        "{told:?}"
    );
    assert_eq!(rig.told(server), ["Query select 2"]);
    rig.completes(server, "SELECT 1");
    assert_eq!(rig.server_of(client), Some(server));
    rig.client_leaves(client);
    rig.answers_all_about(server, NOTHING);
    assert!(rig.is_closed(server));
}

/// A message that is dropped begins before a probe is answered and ends afterwards: its end frees the server.
#[test]
fn a_client_in_the_midst_of_a_dropped_message_does_not_keep_its_server() {
    let mut rig = Rig::one_server("");
    let client = rig.client();
    let server = does(&mut rig, client, "create temp table t (a int)");
    let mut data = Vec::new();
    Writer::new(&mut data).message(b'd', |b| b.extend(*b"for a copy that has failed"));
    rig.comes(client, &data[..12]);
    assert!(probes(&rig.answers_about(server, NOTHING)));
    assert_eq!(rig.server_of(client), Some(server), "until the message has ended");
    rig.comes(client, &data[12..]);
    assert_eq!(rig.server_of(client), None);
}

#[test]
fn a_client_that_leaves_under_a_probe_leaves_nothing_behind() {
    let mut rig = Rig::one_server("");
    let (client, next) = (rig.client(), rig.client());
    let server = does(&mut rig, client, "create temp table t (a int)");
    rig.says(next, |w| w.query(b"select 1"));
    rig.client_leaves(client);
    let told = rig.answers_about(server, TEMPORARY);
    assert!(probes(&told));
    assert_eq!(rig.server_of(next), None, "not before it is cleaned");
    is_discarded(&mut rig, server);
    assert_eq!(rig.server_of(next), Some(server));
    assert_eq!(rig.told(server).last().map(String::as_str), Some("Query select 1"));
}

#[test]
fn a_probe_that_fails_is_asked_again_and_the_client_hears_nothing() {
    let mut rig = Rig::one_server("");
    let client = rig.client();
    let server = does(&mut rig, client, "create temp table t (a int)");
    rig.told(client);
    // Guards against an error of the internal Parse before the probe that is taken for the client's.
    probe_fails(&mut rig, server);
    assert_eq!(rig.told(client), Vec::<String>::new());
    rig.answers_about(server, NOTHING);
    assert_eq!(rig.server_of(client), None);
    assert!(!rig.closed.contains(&server.into()));
}

/// Guards against state that is lost, or that other clients notice, because the server could not report it.
#[test]
fn a_client_whose_session_cannot_be_told_keeps_its_server_which_nobody_gets_after_it() {
    let mut rig = Rig::one_server("");
    let client = rig.client();
    let server = does(&mut rig, client, "create temp table t (a int)");
    for _ in 0..3 {
        probe_fails(&mut rig, server);
    }
    assert_eq!(rig.server_of(client), Some(server));
    rig.told(client);
    rig.says(client, |w| w.query(b"select 1"));
    assert_eq!(rig.told(server), ["Query select 1"]);
    rig.completes(server, "SELECT 1");
    assert_eq!(rig.server_of(client), Some(server));
    rig.client_leaves(client);
    assert!(rig.closed.contains(&server.into()), "what it looks like is not known");
}

#[test]
fn a_server_that_dies_under_a_probe_takes_its_client_along() {
    let mut rig = Rig::one_server("");
    let client = rig.client();
    let server = does(&mut rig, client, "create temp table t (a int)");
    rig.told(client);
    rig.server_dies(server);
    assert!(rig.closed.contains(&client.into()), "its table is gone");
    assert!(rig.told(client).iter().any(|line| line.starts_with("Error")));
}

/// Each of them made each later one, and each comparison of two sessions, slower: ten thousand kept everybody waiting for
/// seconds.
#[test]
fn a_client_with_more_custom_settings_than_are_kept_keeps_its_server() {
    for (count, keeps) in [(256, false), (257, true), (10_000, true)] {
        let mut rig = Rig::one_server("");
        let client = rig.client();
        let server = does(&mut rig, client, "set made.up = 'x'");
        let names: Vec<String> = (0..count).map(|number| format!("made.up{number}")).collect();
        let settings: Vec<_> = names.iter().map(|name| (&**name, "x")).collect();
        rig.answers_all_about(server, NOTHING.with(&settings));
        assert_eq!(rig.server_of(client), keeps.then_some(server), "{count}");
        rig.client_leaves(client);
    }
}
