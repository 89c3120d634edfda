//! A text that the server refuses has done nothing. That says nothing about other texts.

use super::session::does;
use crate::rig::{NOTHING, Rig};
use pgweir_core::{ClientId, ServerId};
use pgweir_wire::TransactionStatus::{self, Failed, Idle, InTransaction};

/// No probe can see what this text does.
const SEEDS: &[u8] = b"select setseed(0.5)";

/// A server finds an unknown name in a text, before any of the text has run.
fn refuses(rig: &mut Rig, server: ServerId, status: TransactionStatus) {
    rig.told(server);
    rig.says(server, |w| {
        w.message(b'E', |b| b.extend(*b"SERROR\0C42703\0Mno such column\0P8\0\0"));
        w.ready_for_query(status);
    });
}

fn is_pinned(rig: &mut Rig, client: ClientId, server: ServerId) -> bool {
    rig.answers_all_about(server, NOTHING);
    rig.server_of(client) == Some(server)
}

/// A server answers a Query.
fn completes(rig: &mut Rig, server: ServerId, tag: &str, status: TransactionStatus) {
    rig.told(server);
    rig.says(server, |w| {
        w.command_complete(tag);
        w.ready_for_query(status);
    });
}

/// The client begins a transaction block in which this text runs.
fn runs_in_block(rig: &mut Rig, client: ClientId, text: &[u8]) -> ServerId {
    rig.says(client, |w| w.query(b"begin"));
    rig.says(client, |w| w.query(text));
    let server = rig.server_of(client).expect("a server for the block");
    let told = rig.told(server);
    assert!(
        told[0].starts_with("Query begin") || told[0].starts_with("Parse"),
        "{told:?}"
    );
    rig.replies(server, &told[..told.len() - 1], Some("BEGIN"), |w, _| {
        w.command_complete("BEGIN")
    });
    completes(rig, server, "SELECT 1", InTransaction);
    server
}

#[test]
fn a_refused_text_does_not_pin() {
    let mut rig = Rig::one_server("");
    let client = rig.client();
    rig.says(client, |w| w.query(b"select setseed(0.5), nosuch"));
    let server = rig.server_of(client).unwrap();
    refuses(&mut rig, server, Idle);
    assert!(!is_pinned(&mut rig, client, server));
    // So does a Parse, with all that was sent behind it.
    rig.says(client, |w| {
        w.parse(b"", b"select setseed(0.5), nosuch", b"\0\0");
        w.bind_text(b"", &[]);
        w.execute();
        w.empty(b'S');
    });
    refuses(&mut rig, server, Idle);
    assert!(!is_pinned(&mut rig, client, server));
    let server = does(&mut rig, client, "select setseed(0.5)");
    assert!(is_pinned(&mut rig, client, server), "or the test shows nothing");
}

/// A probe sees what the other text does.
#[test]
fn a_refused_text_does_not_pin_behind_another_text() {
    let mut rig = Rig::one_server("");
    let client = rig.client();
    let server = runs_in_block(&mut rig, client, b"create temporary table t ()");
    rig.says(client, |w| w.query(b"select setseed(0.5), nosuch"));
    refuses(&mut rig, server, Failed);
    rig.says(client, |w| w.query(b"rollback"));
    completes(&mut rig, server, "ROLLBACK", Idle);
    assert!(!is_pinned(&mut rig, client, server));
}

#[test]
fn a_refused_text_does_not_unpin_for_an_earlier_one() {
    let mut rig = Rig::one_server("");
    let client = rig.client();
    let server = runs_in_block(&mut rig, client, SEEDS);
    rig.says(client, |w| w.query(b"select nosuch"));
    refuses(&mut rig, server, Failed);
    rig.says(client, |w| w.query(b"rollback"));
    completes(&mut rig, server, "ROLLBACK", Idle);
    assert!(is_pinned(&mut rig, client, server));
}

#[test]
fn a_refused_parse_does_not_unpin_for_what_ran_in_front_of_it() {
    for second in [&b"select nosuch"[..], SEEDS] {
        let mut rig = Rig::one_server("");
        let client = rig.client();
        rig.says(client, |w| {
            w.parse(b"", SEEDS, b"\0\0");
            w.bind_text(b"", &[]);
            w.execute();
            w.parse(b"", second, b"\0\0");
            w.bind_text(b"", &[]);
            w.execute();
            w.empty(b'S');
        });
        let server = rig.server_of(client).unwrap();
        rig.told(server);
        rig.says(server, |w| {
            w.empty(b'1');
            w.empty(b'2');
            w.command_complete("SELECT 1");
        });
        refuses(&mut rig, server, Idle);
        assert!(
            is_pinned(&mut rig, client, server),
            "{}",
            String::from_utf8_lossy(second)
        );
    }
}

#[test]
fn a_refused_query_does_not_unpin_for_the_one_behind_it() {
    let mut rig = Rig::one_server("");
    let client = rig.client();
    rig.says(client, |w| {
        w.query(b"select nosuch");
        w.query(SEEDS);
    });
    let server = rig.server_of(client).unwrap();
    refuses(&mut rig, server, Idle);
    completes(&mut rig, server, "SELECT 1", Idle);
    assert!(is_pinned(&mut rig, client, server));
}
