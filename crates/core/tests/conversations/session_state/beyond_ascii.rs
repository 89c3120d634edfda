//! Settings beyond ASCII have the bytes of the database's encoding, whatever the client's encoding is.

use crate::rig::{NO_TYPES, NOTHING, Rig, Session, error};
use pgweir_core::{ClientId, ServerId};
use pgweir_wire::TransactionStatus::Idle;

/// A client with client_encoding LATIN1 and a search_path beyond ASCII in its startup packet, in a database with the
/// encoding UTF8. The trial of its values has not been answered.
fn client_begins(rig: &mut Rig) -> (ClientId, ServerId) {
    let packet = [
        ("user", "u"),
        ("database", "db"),
        ("client_encoding", "LATIN1"),
        ("search_path", "\u{fc}"),
    ];
    let client = rig.client_begins(&packet);
    let server = rig.connects.pop_front().expect("a server for the login");
    rig.server_logs_in_with(server, &[("server_encoding", "UTF8")]);
    (client, server)
}

/// What was set by `set_config()`, and what was asked for, in messages that the test has not looked at.
fn bound(rig: &Rig, server: ServerId) -> Vec<String> {
    let binds = rig.values_bound(server);
    binds.iter().map(|values| values.join("=")).collect()
}

/// The server answers everything, and reports this client_encoding.
fn answers(rig: &mut Rig, server: ServerId, encoding: &str) {
    let told = rig.told(server);
    rig.answers(server, &told, &[("client_encoding", encoding)]);
}

const BEHIND: [&str; 2] = ["search_path=\u{fc}", "client_encoding=LATIN1"];

const PROBED: Session = Session {
    settings: &[("search_path", "\u{fc}"), ("client_encoding", "LATIN1")],
    ..NOTHING
};

/// Guards against the schema of another tenant: PostgreSQL takes the bytes of a startup packet as they are, and
/// `set_config()` converts them from client_encoding.
#[test]
fn a_value_of_the_startup_packet_is_not_read_in_the_client_s_encoding() {
    let mut rig = Rig::one_server("");
    let (client, server) = client_begins(&mut rig);
    assert_eq!(bound(&rig, server), BEHIND, "the trial");
    answers(&mut rig, server, "LATIN1");
    assert!(rig.told(client).ends_with(&["ReadyForQuery I".into()]));
    let other = rig.client();
    rig.query(other, "select 1");
    assert_eq!(bound(&rig, server), ["search_path=NULL", "client_encoding=UTF8"]);
    answers(&mut rig, server, "UTF8");
    rig.answers_all_about(server, NOTHING);
    rig.query(client, "select 2");
    assert_eq!(bound(&rig, server), BEHIND, "the restoration");
    answers(&mut rig, server, "LATIN1");
    assert_eq!(rig.answers_all_about(server, PROBED)[0], "Query select 2");
    rig.query(client, "reset all");
    rig.told(server);
    rig.says(server, |w| {
        w.command_complete("RESET");
        w.parameter_status(b"client_encoding", b"UTF8");
        w.ready_for_query(Idle);
    });
    let around = ["client_encoding=UTF8", BEHIND[0], BEHIND[1]];
    assert_eq!(bound(&rig, server), around, "behind the RESET");
}

/// Guards against a value that a client of another encoding could not read, and against one that is taken for another:
/// the bytes of one encoding may be valid in the other.
#[test]
fn a_probe_asks_in_the_encoding_of_the_database() {
    let mut rig = Rig::one_server("");
    let (client, server) = client_begins(&mut rig);
    answers(&mut rig, server, "LATIN1");
    rig.query(client, "set app.x = '1'");
    answers(&mut rig, server, "LATIN1");
    rig.told(server);
    rig.completes(server, "SET");
    let asked = bound(&rig, server);
    assert_eq!(asked[0], "client_encoding=UTF8", "{asked:?}");
    assert!(asked[1].contains("app.x"), "{asked:?}");
}

/// Clients that use only ASCII cost nothing more.
#[test]
fn ascii_is_set_and_asked_for_in_any_encoding() {
    let mut rig = Rig::one_server("");
    let packet = [
        ("user", "u"),
        ("database", "db"),
        ("client_encoding", "LATIN1"),
        ("search_path", "a"),
    ];
    let client = rig.client_begins(&packet);
    let server = rig.connects.pop_front().expect("a server for the login");
    rig.server_logs_in_with(server, &[("server_encoding", "UTF8")]);
    assert_eq!(bound(&rig, server), ["client_encoding=LATIN1", "search_path=a"]);
    answers(&mut rig, server, "LATIN1");
    rig.query(client, "select 1");
    assert_eq!(rig.told(server), ["Query select 1"]);
}

/// The server answers the first of two segments of settings; `refusal` refuses it.
fn answers_first(rig: &mut Rig, server: ServerId, refusal: Option<&'static str>) {
    let told = rig.told(server);
    assert_eq!(told.iter().filter(|line| *line == "Sync").count(), 2, "{told:?}");
    let end = told.iter().position(|line| line == "Sync").unwrap();
    match refusal {
        None => rig.answers(server, &told[..=end], &[]),
        Some(message) => refuses(rig, server, &told[..=end], message),
    }
}

/// The server refuses the first Bind of a segment.
fn refuses(rig: &mut Rig, server: ServerId, told: &[String], message: &'static str) {
    rig.says(server, |w| {
        if told[0].starts_with("Parse") {
            w.empty(b'1');
        }
        w.error(&error("22023", message));
        w.ready_for_query(Idle);
    });
}

const SECOND: [&str; 3] = ["Bind  pgweir_1", "Execute", "Sync"];

fn answers_second(rig: &mut Rig, server: ServerId, refusal: Option<&'static str>) {
    let told = SECOND.map(String::from);
    match refusal {
        None => rig.answers(server, &told, &[("client_encoding", "LATIN1")]),
        Some(message) => refuses(rig, server, &told, message),
    }
}

/// A client whose settings are restored in two segments, which the server has not answered.
fn is_restored_in_two_segments(rig: &mut Rig) -> (ClientId, ServerId) {
    let (client, server) = client_begins(rig);
    answers(rig, server, "LATIN1");
    rig.told(client);
    let other = rig.client();
    rig.query(other, "select 1");
    answers(rig, server, "UTF8");
    rig.answers_all_about(server, NOTHING);
    rig.query(client, "select 2");
    (client, server)
}

#[test]
fn no_request_comes_before_both_segments_are_answered() {
    let mut rig = Rig::one_server("");
    let (client, server) = is_restored_in_two_segments(&mut rig);
    answers_first(&mut rig, server, None);
    assert_eq!(rig.told(server), [""; 0]);
    answers_second(&mut rig, server, None);
    assert_eq!(rig.told(server), ["Query select 2"]);
    assert_eq!(rig.told(client), [""; 0], "no ParameterStatus");
}

/// Guards against settings that reach another client: the server has committed one of the two segments.
#[test]
fn a_server_that_refuses_one_of_two_segments_serves_nobody() {
    let (path, encoding) = (
        "invalid value for parameter \"search_path\"",
        "invalid value for parameter \"client_encoding\"",
    );
    for (first, second) in [(Some(path), None), (None, Some(encoding))] {
        let mut rig = Rig::one_server("");
        let (_, server) = is_restored_in_two_segments(&mut rig);
        answers_first(&mut rig, server, first);
        assert!(!rig.is_closed(server), "the second answer is awaited");
        answers_second(&mut rig, server, second);
        assert!(rig.is_closed(server), "restoration: {first:?} {second:?}");

        let mut rig = Rig::one_server("");
        let (client, server) = client_begins(&mut rig);
        answers_first(&mut rig, server, first);
        answers_second(&mut rig, server, second);
        let refusal = format!("Error 22023 {}", first.or(second).unwrap());
        assert_eq!(rig.told(client), [refusal]);
        assert!(rig.is_closed(server), "login: {first:?} {second:?}");
    }
}

/// Guards against another encoding than the one that the client has just chosen: only the server knows it before the
/// segment ends.
#[test]
fn a_startup_value_is_set_behind_an_encoding_that_was_chosen_in_the_same_segment() {
    let mut rig = Rig::one_server("");
    let (client, server) = client_begins(&mut rig);
    answers(&mut rig, server, "LATIN1");
    rig.says(client, |w| {
        for text in [&b"set client_encoding = 'UTF8'"[..], b"reset search_path"] {
            w.parse(b"", text, NO_TYPES);
            w.bind_text(b"", &[]);
            w.execute();
        }
        w.sync();
    });
    let bound = bound(&rig, server);
    assert!(bound.iter().any(|set| set.starts_with(BEHIND[0])), "{bound:?}");
    assert!(!bound.iter().any(|set| set.starts_with(BEHIND[1])), "{bound:?}");
}
