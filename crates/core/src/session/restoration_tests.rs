//! Tests of restored settings, without a pooler.

use super::*;
use crate::alone::{Alone, CLIENT, SERVER};
use crate::upstream::entry::Expect;
use pgweir_wire::ErrorFields;

/// The client wants a setting that its server does not have.
fn asked() -> Alone {
    let mut alone = Alone::linked();
    let target = alone.with("work_mem", "1MB");
    alone.client.session.has_settings(target.clone());
    let set = vec![("work_mem".into(), Some("1MB".into()))];
    alone.exchange().confirm_first(set, target);
    alone
}

fn status(name: &str, value: &str) -> Vec<u8> {
    format!("{name}\0{value}\0").into_bytes()
}

#[test]
fn restored_settings_are_a_segment_of_their_own() {
    let mut alone = asked();
    assert_eq!(alone.client.waiting, Waiting::ForRestoration);
    let written = alone.written(SERVER);
    let tags: String = written.iter().map(|(tag, _)| *tag).collect();
    assert_eq!(tags, "PBES");
    assert!(
        String::from_utf8_lossy(&written[1].1).contains("work_mem"),
        "{written:?}"
    );
    assert!(alone.written(CLIENT).is_empty());
    let mut owed = Vec::new();
    while let Some(entry) = alone.server.conversation.queue_mut().pop() {
        assert_eq!(entry.to(), To::Skip, "no client gets the reply");
        owed.push(entry.expect());
    }
    assert_eq!(owed, [Expect::Parse, Expect::Bind, Expect::Execute, Expect::Sync]);
}

/// The settings of a login are tried on servers with another client's time limits.
#[test]
fn a_time_limit_of_the_server_is_lifted_first() {
    let mut alone = Alone::linked();
    let limited = alone.with("lock_timeout", "1s");
    alone.server.session.has_settings(limited);
    let target = alone.client.session.shape().clone();
    let set = vec![("work_mem".into(), Some("1MB".into())), ("lock_timeout".into(), None)];
    alone.exchange().confirm_first(set, target);
    let written = alone.written(SERVER);
    let first = written.iter().find(|(tag, _)| *tag == 'B').map(|(_, body)| body);
    let first = String::from_utf8_lossy(first.unwrap());
    assert!(first.contains("lock_timeout"), "{first:?}");
}

#[test]
fn a_server_has_the_settings_only_when_it_has_confirmed_them() {
    let alone = asked();
    assert!(!Shape::same(alone.server.session.shape(), alone.client.session.shape()));
    let restoration = alone.server.session.restoration().unwrap();
    assert!(Shape::same(restoration.target(), alone.client.session.shape()));
}

#[test]
fn the_statement_is_prepared_once() {
    let mut alone = asked();
    alone.written(SERVER);
    let target = alone.client.session.shape().clone();
    let set = [("work_mem".into(), Some("1MB".into()))];
    alone.server_side().send_settings(&set, target);
    assert_eq!(alone.written_tags(SERVER), "BES");
}

#[test]
fn no_statement_precedes_the_sync_if_nothing_differs() {
    let mut alone = Alone::linked();
    let shape = alone.server.session.shape().clone();
    alone.server_side().send_settings(&[], shape);
    assert_eq!(alone.written_tags(SERVER), "S");
}

#[test]
fn custom_settings_are_remembered_for_their_server() {
    let mut alone = Alone::linked();
    let target = alone.with("app.tenant", "7");
    let set = [("app.tenant".into(), Some("7".into()))];
    alone.server_side().send_settings(&set, target);
    assert!(alone.server.session.has_traces());
}

#[test]
fn the_first_refusal_counts() {
    let mut alone = asked();
    for body in [
        &b"C22023\0Minvalid value\0Hvalid ones\0\0"[..],
        b"C25P02\0Mthe rest is ignored\0\0",
    ] {
        let error = ErrorFields::read(body).unwrap();
        alone.server.session.restoration_refused(&error);
    }
    let refused = alone.server.session.restoration_ends().unwrap().ends().1.unwrap();
    assert_eq!(
        (refused.sqlstate(), refused.message(), refused.hint()),
        ("22023", "invalid value", "valid ones")
    );
}

#[test]
fn reports_of_restored_settings_are_not_for_the_client() {
    let mut alone = asked();
    alone.written(SERVER);
    let body = status("DateStyle", "German, DMY");
    assert_eq!(alone.reply().parameter_status(&body), Passed::Skip);
    let session = &alone.server.session;
    let style = |shape: &Shape| shape.get("DateStyle").map(|s| s.value().to_string());
    assert_eq!(style(session.shape()).as_deref(), Some("German, DMY"));
    let target = session.restoration().unwrap().target();
    assert_eq!(
        style(target).as_deref(),
        Some("German, DMY"),
        "it will have this one, too"
    );
    assert_eq!(style(alone.client.session.shape()).as_deref(), Some("ISO, MDY"));
}

#[test]
fn reports_of_the_clients_own_settings_are_for_the_client() {
    let mut alone = Alone::linked();
    let body = status("DateStyle", "German, DMY");
    assert_eq!(alone.reply().parameter_status(&body), Passed::Forward);
    assert!(Shape::same(alone.client.session.shape(), alone.server.session.shape()));
}

#[test]
fn a_client_is_told_what_its_server_has_otherwise() {
    let mut alone = Alone::linked();
    let upgraded = [("server_version", Some("18.5"), true)];
    let shape = alone.server.session.shape().clone();
    let upgraded = alone.shared.shapes.change(&shape, upgraded);
    alone.server.session.has_settings(upgraded);
    alone.exchange().tell_differences();
    assert_eq!(alone.written(CLIENT), [('S', status("server_version", "18.5"))]);
    alone.exchange().tell_differences();
    assert!(alone.written(CLIENT).is_empty(), "once");
}

/// Guards against work for each report that grows with the number of settings reported before.
#[test]
fn a_server_may_report_some_settings_and_not_as_many_as_it_likes() {
    let mut alone = Alone::linked();
    let reported = |shape: &Shape| shape.settings().iter().filter(|s| s.is_reported()).count();
    let passes = |alone: &mut Alone, name: &str, value: &str| {
        let mut reply = alone.reply();
        let passed = reply.parameter_status(&status(name, value));
        assert_eq!(
            passed == Passed::Closed,
            !reply.deeds.is_empty(),
            "the server is closed"
        );
        passed == Passed::Forward
    };
    let before = reported(alone.server.session.shape());
    let many = (0..10_000).take_while(|number| passes(&mut alone, &format!("made.up{number}"), "x"));
    assert_eq!(before + many.count(), REPORTED_MAX);
    assert!(passes(&mut alone, "made.up0", "y"), "it is known");
    let (half, whole) = ("x".repeat(REPORTED_BYTES_MAX / 2), "y".repeat(REPORTED_BYTES_MAX));
    assert!(passes(&mut alone, "made.up0", &half));
    assert!(!passes(&mut alone, "made.up0", &whole));
    assert!(!passes(&mut alone, "made.up1", &half));
}

const PATH: &str = "search_path";

/// A client's server in a database with the encoding UTF8, whose client has this encoding.
fn with_encoding(client_encoding: &str) -> Alone {
    let mut alone = Alone::linked();
    let settings = [
        ("server_encoding", "UTF8"),
        ("client_encoding", client_encoding),
        (PATH, "a"),
    ];
    let changes = settings.map(|(name, value)| (name, Some(value), true));
    let shape = alone.shared.shapes.change(alone.server.session.shape(), changes);
    alone.server.session.has_settings(shape.clone());
    alone.client.session.has_settings(shape);
    alone
}

fn reports(alone: &mut Alone, name: &str, value: &[u8]) -> Passed {
    alone
        .reply()
        .parameter_status(&[name.as_bytes(), b"\0", value, b"\0"].concat())
}

/// The server reports a path whose bytes are valid UTF-8 by chance, as its client gets them.
#[test]
fn a_report_in_another_encoding_is_told_and_asked_for() {
    let mut alone = with_encoding("LATIN1");
    assert_eq!(reports(&mut alone, PATH, "\u{fc}".as_bytes()), Passed::Forward);
    assert_eq!(alone.server.session.shape().value(PATH).map(|v| &**v), Some("a"));
    assert!(alone.client.session.suspicion().is_some(), "a probe follows");
    let mut alone = with_encoding("LATIN1");
    alone.server.link = None;
    reports(&mut alone, PATH, "\u{fc}".as_bytes());
    assert_eq!(
        alone.server.close_reason,
        Some(CloseReason::StateUnknown),
        "nobody asks"
    );
}

/// The server reports the changes of a segment in any order, and all in the encoding that it has in the end.
#[test]
fn a_report_before_the_one_of_another_encoding_is_asked_for() {
    let mut alone = with_encoding("UTF8");
    reports(&mut alone, PATH, "\u{fc}".as_bytes());
    assert!(alone.client.session.suspicion().is_none());
    reports(&mut alone, CLIENT_ENCODING, b"LATIN1");
    assert!(alone.client.session.suspicion().is_some() && alone.server.session.is_unread(PATH));
    let mut alone = with_encoding("UTF8");
    reports(&mut alone, PATH, "\u{fc}".as_bytes());
    alone.server.session.settings_are_told();
    reports(&mut alone, CLIENT_ENCODING, b"LATIN1");
    assert!(alone.client.session.suspicion().is_none(), "it was reported earlier");
}

#[test]
fn what_a_restoration_sets_is_known_by_its_answer() {
    let mut alone = with_encoding("UTF8");
    let changes = [
        (PATH, Some("\u{c3}\u{bc}"), true),
        (CLIENT_ENCODING, Some("LATIN1"), true),
    ];
    let target = alone.shared.shapes.change(alone.server.session.shape(), changes);
    alone.exchange().confirm_first(Vec::new(), target.clone());
    // In LATIN1.
    assert_eq!(reports(&mut alone, PATH, "\u{fc}".as_bytes()), Passed::Skip);
    reports(&mut alone, CLIENT_ENCODING, b"LATIN1");
    assert!(Shape::same(
        alone.server.session.restoration().unwrap().target(),
        &target
    ));
    assert!(alone.server.close_reason.is_none());
}
