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

/// What a client hears of who it is.
fn identity(rig: &mut Rig, client: ClientId) -> Vec<String> {
    let mut told = rig.told(client);
    told.retain(|line| line.starts_with("ParameterStatus"));
    told
}

const AS_EVE: [(&str, &str); 2] = [("session_authorization", "eve"), ("is_superuser", "off")];
const AS_ITSELF: [(&str, &str); 2] = [("session_authorization", "u"), ("is_superuser", "on")];

const EVE: Session = Session {
    settings: &[("session_authorization", "eve")],
    ..NOTHING
};

fn shown(values: &[(&str, &str)]) -> Vec<String> {
    let one = |(name, value): &(&str, &str)| format!("ParameterStatus {name} {value}");
    values.iter().map(one).collect()
}

fn reports(rig: &mut Rig, server: ServerId, tag: &str, values: &[(&str, &str)]) {
    rig.says(server, |w| {
        w.command_complete(tag);
        for (name, value) in values {
            w.parameter_status(name.as_bytes(), value.as_bytes());
        }
        w.ready_for_query(Idle);
    });
}

/// Guards against a ParameterStatus that a direct connection does not send, or that is missing: a session authorization
/// is made, restored behind another client, and reset.
#[test]
fn a_session_authorization_is_told_once_and_its_reset_once() {
    let mut rig = Rig::one_server("");
    let client = rig.client_begins(&[("user", "u"), ("database", "db")]);
    let server = rig.connects.pop_front().expect("a server for the login");
    rig.server_logs_in_with(server, &AS_ITSELF);
    rig.told(client);
    rig.query(client, "set session authorization eve");
    rig.told(server);
    reports(&mut rig, server, "SET", &AS_EVE);
    rig.answers_all_about(server, EVE);
    assert_eq!(identity(&mut rig, client), shown(&AS_EVE));

    let other = rig.client();
    rig.query(other, "select 1");
    let restored = rig.told(server);
    assert!(restored.contains(&"Bind  pgweir_1".into()), "{restored:?}");
    rig.answers(server, &restored, &AS_ITSELF);
    assert_eq!(rig.told(server), ["Query select 1"]);
    rig.completes(server, "SELECT 1");
    assert_eq!(identity(&mut rig, other), [""; 0], "its login has told it");

    rig.query(client, "select 2");
    let restored = rig.told(server);
    assert!(restored.contains(&"Bind  pgweir_1".into()), "{restored:?}");
    rig.answers(server, &restored, &AS_EVE);
    assert_eq!(rig.told(server), ["Query select 2"]);
    rig.completes(server, "SELECT 1");
    assert_eq!(identity(&mut rig, client), [""; 0], "it has been told before");

    rig.query(client, "reset session authorization");
    rig.told(server);
    reports(&mut rig, server, "RESET", &AS_ITSELF);
    rig.answers_all_about(server, NOTHING);
    assert_eq!(identity(&mut rig, client), shown(&AS_ITSELF));

    rig.query(other, "select 3");
    assert_eq!(rig.told(server), ["Query select 3"], "the server is itself again");
    rig.completes(server, "SELECT 1");
    assert_eq!(identity(&mut rig, other), [""; 0]);
}
