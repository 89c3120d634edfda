//! Restored settings and discarded sequences stand in a segment of their own, in front of BEGIN.

use super::session::does;
use crate::rig::{NOTHING, Rig, Session, error};
use pgweir_core::{ClientId, ServerId};
use pgweir_wire::TransactionStatus::Idle;

/// A server whose last client has made transactions deferrable by default, and a client with other settings.
fn deferrable_server(rig: &mut Rig) -> (ServerId, ClientId) {
    let (a, b) = (rig.client(), rig.client());
    rig.says(a, |w| w.query(b"set default_transaction_deferrable = on"));
    let server = rig.server_of(a).expect("linked");
    let deferrable = Session {
        settings: &[("default_transaction_deferrable", "on")],
        ..NOTHING
    };
    rig.answers_all_about(server, deferrable);
    (server, b)
}

/// Guards against settings that were lost without an error: an internal Parse took a snapshot, after which PostgreSQL
/// refuses `BEGIN .. NOT DEFERRABLE`.
#[test]
fn nothing_comes_before_the_begin_of_restored_settings() {
    let mut rig = Rig::one_server("");
    let (server, b) = deferrable_server(&mut rig);
    rig.says(b, |w| w.query(b"select 1"));
    let told = rig.answers_all_about(server, NOTHING);
    let begin = "Parse pgweir_4 BEGIN TRANSACTION ISOLATION LEVEL READ COMMITTED NOT DEFERRABLE";
    assert_eq!(told[..3], [begin, "Bind  pgweir_4", "Execute"]);
    assert!(told.iter().any(|line| line.starts_with("Parse pgweir_1 ")), "{told:?}");
    assert_eq!(told.last().unwrap(), "Query select 1");
}

/// The same for DISCARD SEQUENCES.
#[test]
fn nothing_comes_before_the_begin_of_discarded_sequences() {
    let mut rig = Rig::one_server("");
    let asks = rig.client();
    let server = does(&mut rig, asks, "select lastval()");
    rig.answers_all_about(server, NOTHING);
    rig.client_leaves(asks);
    rig.answers_all_about(server, NOTHING);
    let (server, b) = deferrable_server(&mut rig);
    rig.says(b, |w| w.query(b"select 1"));
    let told = rig.answers_all_about(server, NOTHING);
    assert!(told[0].starts_with("Parse pgweir_4 BEGIN"), "{told:?}");
    assert!(
        told.iter().any(|line| line == "Bind pgweir_portal pgweir_c"),
        "{told:?}"
    );
    assert_eq!(told.iter().filter(|line| *line == "Bind  pgweir_4").count(), 1);
}

#[test]
fn a_begin_of_restored_settings_that_is_refused_costs_the_server() {
    let mut rig = Rig::one_server("");
    let (server, b) = deferrable_server(&mut rig);
    rig.says(b, |w| w.query(b"select 1"));
    rig.told(server);
    rig.says(server, |w| {
        w.empty(b'1');
        w.empty(b'2');
        w.error(&error("25001", "must be called before any query"));
        w.ready_for_query(Idle);
    });
    assert!(rig.closed.contains(&server.into()));
    rig.servers_log_in();
    let other = rig.server_of(b).expect("it goes on elsewhere");
    assert_eq!(rig.told(other), ["Query select 1"]);
}
