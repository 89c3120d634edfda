//! Statements that are not tracked (`max_prepared_statements = 0`) are judged when they are parsed, and run later.

use super::session::{does, probes};
use crate::rig::{LOCKED, NO_TYPES, NOTHING, Rig, Session, error};
use pgweir_core::{ClientId, ServerId};
use pgweir_wire::TransactionStatus::{self, Failed, Idle, InTransaction};

const UNTRACKED: &str = "max_prepared_statements = 0";

/// The client sends a Parse in a segment of its own, and the server answers.
fn parses(rig: &mut Rig, client: ClientId, name: &str, text: &str, status: TransactionStatus) -> ServerId {
    rig.says(client, |w| {
        w.parse(name.as_bytes(), text.as_bytes(), NO_TYPES);
        w.sync();
    });
    let server = rig.server_of(client).expect("linked");
    rig.told(server);
    rig.says(server, |w| {
        w.empty(b'1');
        w.ready_for_query(status);
    });
    server
}

/// The client binds a statement and executes it in a segment of its own, and the server answers.
fn runs(rig: &mut Rig, client: ClientId, name: &str, status: TransactionStatus) -> ServerId {
    rig.says(client, |w| {
        w.bind_text(name.as_bytes(), &[]);
        w.execute();
        w.sync();
    });
    let server = rig.server_of(client).expect("linked");
    rig.told(server);
    rig.says(server, |w| {
        w.empty(b'2');
        w.command_complete("DONE");
        w.ready_for_query(status);
    });
    server
}

fn block(rig: &mut Rig, client: ClientId, text: &str, status: TransactionStatus) -> ServerId {
    rig.says(client, |w| w.query(text.as_bytes()));
    let server = rig.server_of(client).expect("linked");
    rig.told(server);
    rig.says(server, |w| {
        w.command_complete(text);
        w.ready_for_query(status);
    });
    server
}

/// Guards against a SET, a lock or a SET ROLE that is parsed in one transaction and runs in another one: the next client
/// of the server had its effects.
#[test]
fn a_statement_of_another_transaction_is_code_that_is_not_read() {
    let mut rig = Rig::one_server(UNTRACKED);
    let client = rig.client();
    let server = parses(&mut rig, client, "s", "set role x", Idle);
    rig.answers_all_about(server, NOTHING);
    assert_eq!(rig.server_of(client), None);
    let server = runs(&mut rig, client, "s", Idle);
    assert!(probes(&rig.answers_about(server, NOTHING)));
    assert_eq!(rig.server_of(client), Some(server), "no probe shows everything");
}

/// The same for a text that is harmless by itself: the name may mean what an earlier client has prepared.
#[test]
fn a_statement_that_its_client_has_not_parsed_is_code_that_is_not_read() {
    let mut rig = Rig::one_server(UNTRACKED);
    let client = rig.client();
    let server = runs(&mut rig, client, "s", Idle);
    assert!(probes(&rig.answers_about(server, NOTHING)));
    assert_eq!(rig.server_of(client), Some(server));
}

#[test]
fn a_harmless_statement_of_the_same_segment_or_block_is_followed_by_no_probe() {
    let mut rig = Rig::one_server(UNTRACKED);
    let client = rig.client();
    rig.says(client, |w| {
        w.parse(b"", b"select 1", NO_TYPES);
        w.bind_text(b"", &[]);
        w.execute();
        w.sync();
    });
    let server = rig.server_of(client).unwrap();
    rig.told(server);
    rig.says(server, |w| {
        w.empty(b'1');
        w.empty(b'2');
        w.command_complete("SELECT 1");
        w.ready_for_query(Idle);
    });
    assert_eq!(rig.server_of(client), None);
    assert_eq!(rig.told(server), [""; 0]);
    block(&mut rig, client, "BEGIN", InTransaction);
    parses(&mut rig, client, "", "select 1", InTransaction);
    for _ in 0..2 {
        runs(&mut rig, client, "", InTransaction);
    }
    block(&mut rig, client, "COMMIT", Idle);
    assert_eq!(rig.server_of(client), None);
    assert_eq!(rig.told(server), [""; 0]);
}

/// Guards against a named statement that the next client of the server could bind.
#[test]
fn a_client_keeps_its_server_until_its_named_statements_are_gone() {
    let mut rig = Rig::one_server(UNTRACKED);
    let client = rig.client();
    let left = Session {
        prepared: true,
        ..NOTHING
    };
    let server = parses(&mut rig, client, "s", "select 1", Idle);
    assert!(probes(&rig.answers_about(server, left)));
    assert_eq!(rig.server_of(client), Some(server));
    rig.says(client, |w| {
        w.close(b'S', b"s");
        w.sync();
    });
    rig.told(server);
    rig.says(server, |w| {
        w.empty(b'3');
        w.ready_for_query(Idle);
    });
    assert!(probes(&rig.answers_about(server, NOTHING)));
    assert_eq!(rig.server_of(client), None);
}

/// Guards against the unnamed statement of another client, also behind a Parse that the server ignores.
#[test]
fn the_unnamed_statement_of_another_client_is_closed_before_its_use() {
    for (ignored, describes) in [(false, false), (false, true), (true, false)] {
        let mut rig = Rig::one_server(UNTRACKED);
        let (owner, other) = (rig.client(), rig.client());
        let server = parses(&mut rig, owner, "", "select 'secret'", Idle);
        assert_eq!(rig.server_of(owner), None);
        if ignored {
            rig.says(other, |w| {
                w.describe(b'S', b"nothing");
                w.parse(b"", b"select 1", NO_TYPES);
                w.sync();
            });
            rig.told(server);
            rig.says(server, |w| {
                w.error(&error("26000", "no such statement"));
                w.ready_for_query(Idle);
            });
        }
        rig.says(other, |w| {
            match describes {
                true => w.describe(b'S', b""),
                false => w.bind_text(b"", &[]),
            }
            w.sync();
        });
        let told = rig.told(server);
        assert_eq!(told[0], "Close S", "{told:?}");
    }
}

/// A client that keeps its server finds its unnamed statement there. One that has been away does not: it may have
/// replaced the statement on another server.
#[test]
fn the_unnamed_statement_is_the_clients_own_while_it_keeps_its_server() {
    for keeps in [true, false] {
        let mut rig = Rig::one_server(UNTRACKED);
        let client = rig.client();
        if keeps {
            let server = does(&mut rig, client, "select pg_advisory_lock(1)");
            rig.answers_about(server, LOCKED);
        }
        let server = parses(&mut rig, client, "", "select 1", Idle);
        assert_eq!(rig.server_of(client).is_some(), keeps);
        rig.says(client, |w| {
            w.bind_text(b"", &[]);
            w.sync();
        });
        let told = rig.told(server);
        let first = if keeps { "Bind" } else { "Close S" };
        assert!(told[0].starts_with(first), "{told:?}");
    }
}

/// Guards against a Parse that the server has refused or ignored: the name still means what it meant before. For the
/// unnamed statement see below.
#[test]
fn a_refused_parse_judges_no_name() {
    for (name, ignored) in [("s", false), ("s", true)] {
        let mut rig = Rig::one_server(UNTRACKED);
        let client = rig.client();
        let server = block(&mut rig, client, "BEGIN", InTransaction);
        block(&mut rig, client, "SAVEPOINT a", InTransaction);
        rig.says(client, |w| {
            if ignored {
                w.bind_text(b"nothing", &[]);
            }
            w.parse(name.as_bytes(), b"select 1", NO_TYPES);
            w.sync();
        });
        rig.told(server);
        rig.says(server, |w| {
            w.error(&error("42P05", "prepared statement exists"));
            w.ready_for_query(Failed);
        });
        block(&mut rig, client, "ROLLBACK TO a", InTransaction);
        runs(&mut rig, client, name, InTransaction);
        block(&mut rig, client, "COMMIT", Idle);
        assert!(probes(&rig.answers_about(server, NOTHING)), "{name:?} {ignored}");
        assert_eq!(rig.server_of(client), Some(server));
    }
}

/// Guards against EXECUTE of a statement that came by Parse in an earlier transaction.
#[test]
fn an_execute_of_a_statement_of_another_transaction_is_code_that_is_not_read() {
    let mut rig = Rig::one_server(UNTRACKED);
    let client = rig.client();
    let server = parses(&mut rig, client, "s", "select set_config('a.b', 'c', false)", Idle);
    rig.answers_all_about(server, NOTHING);
    let server = does(&mut rig, client, "execute s");
    assert!(probes(&rig.answers_about(server, NOTHING)));
    assert_eq!(rig.server_of(client), Some(server));
}

/// Guards against a pin for something that a text without EXECUTE cannot do: seed `random()`, for example.
#[test]
fn a_deallocate_among_other_statements_executes_nothing() {
    for (text, executes) in [
        ("select 1; deallocate s", false),
        ("select 1; deallocate all", false),
        ("prepare t as select 1; deallocate t", false),
        ("select 1; Execute s; deallocate s", true),
        ("select 1; deallocate s; do $$begin end$$", true),
    ] {
        let mut rig = Rig::one_server(UNTRACKED);
        let client = rig.client();
        let server = does(&mut rig, client, text);
        assert!(probes(&rig.answers_about(server, NOTHING)), "{text}");
        assert_eq!(rig.server_of(client), executes.then_some(server), "{text}");
    }
}
