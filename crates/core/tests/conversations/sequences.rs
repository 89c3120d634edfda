//! currval() and lastval(): conversations in virtual time, each naming what it guards against.

use crate::rig::{Rig, error};
use pgweir_core::{ClientId, ServerId};
use pgweir_wire::TransactionStatus::{self, Failed, Idle, InTransaction};
use pgweir_wire::Writer;

/// A pool with one server, in which no client has called currval().
fn one_server() -> Rig {
    Rig::new("default_pool_size = 1\ndeferred_begin = 1")
}

/// A client on a server that another client has used.
fn on_used_server(rig: &mut Rig) -> (ClientId, ServerId) {
    let (other, client) = (rig.client(), rig.client());
    let server = does(rig, other, "insert into t values (1)", Idle);
    rig.told(client);
    (client, server)
}

/// Runs a text in the unnamed statement and portal.
fn unnamed(w: &mut Writer<'_>, text: &[u8]) {
    w.parse(b"", text, &[0, 0]);
    w.bind_text(b"", &[]);
    w.execute();
}

/// A client's Query, which reaches the server at once and is answered.
fn does(rig: &mut Rig, client: ClientId, text: &str, status: TransactionStatus) -> ServerId {
    rig.says(client, |w| w.query(text.as_bytes()));
    let server = rig.server_of(client).expect("linked");
    runs(rig, server, text, status);
    server
}

/// The server was sent a Query, maybe after a BEGIN, and answers it.
fn runs(rig: &mut Rig, server: ServerId, text: &str, status: TransactionStatus) {
    let told = rig.told(server);
    assert_eq!(told.last(), Some(&format!("Query {text}")), "{told:?}");
    rig.says(server, |w| {
        for line in &told {
            match line.split(' ').next() {
                Some("Parse") => w.empty(b'1'),
                Some("Bind") => w.empty(b'2'),
                Some("Close") => w.empty(b'3'),
                Some("Execute") => w.command_complete("BEGIN"),
                _ => {}
            }
        }
        w.command_complete("DONE");
        w.ready_for_query(status);
    });
}

/// The server was sent DISCARD SEQUENCES, and no message of a client's after it; it confirms.
fn forgets(rig: &mut Rig, server: ServerId, status: TransactionStatus) -> Vec<String> {
    let told = rig.told(server);
    let is_asked = told.iter().any(|line| line == "Bind pgweir_portal pgweir_c");
    let of_client = |line: &String| line.starts_with("Query") || line.contains("select");
    assert!(is_asked && !told.iter().any(of_client), "{told:?}");
    rig.says(server, |w| {
        let mut tag = "BEGIN";
        for line in &told {
            match line.split(' ').next() {
                Some("Parse") => w.empty(b'1'),
                Some("Bind") => {
                    if line.ends_with("pgweir_c") {
                        tag = "DISCARD SEQUENCES";
                    }
                    w.empty(b'2');
                }
                Some("Close") => w.empty(b'3'),
                Some("Execute") => w.command_complete(tag),
                Some("Sync") => w.ready_for_query(status),
                Some("Flush") => {}
                _ => panic!("{told:?}"),
            }
        }
    });
    told
}

/// Guards against 55000 for a client's first currval() in a pool, although the client called nextval() in the same
/// transaction.
#[test]
fn what_others_have_drawn_is_forgotten_before_the_client_draws_and_not_between() {
    let mut rig = one_server();
    let (client, server) = on_used_server(&mut rig);
    rig.says(client, |w| w.query(b"begin"));
    rig.says(client, |w| w.query(b"select nextval('s')"));
    let told = forgets(&mut rig, server, InTransaction);
    assert_eq!(told.last().map(String::as_str), Some("Sync"), "the BEGIN has no other");
    runs(&mut rig, server, "select nextval('s')", InTransaction);
    does(&mut rig, client, "select currval('s')", InTransaction);
    does(&mut rig, client, "do $$ begin end $$", InTransaction);
    does(&mut rig, client, "select lastval()", InTransaction);
}

/// A law: no byte of a client's reaches a server before that server has confirmed what the client relies on.
#[test]
fn nothing_of_a_question_is_sent_before_the_server_has_forgotten() {
    for block in [false, true] {
        let mut rig = one_server();
        let (client, server) = on_used_server(&mut rig);
        let status = if block { InTransaction } else { Idle };
        if block {
            rig.says(client, |w| w.query(b"begin"));
            does(&mut rig, client, "select 1", InTransaction);
        }
        rig.says(client, |w| w.query(b"select lastval()"));
        forgets(&mut rig, server, status);
        runs(&mut rig, server, "select lastval()", status);
    }
}

/// The same after other messages of a segment that the client has not ended: a Flush brings the confirmation.
#[test]
fn in_a_pipeline_the_question_waits_for_a_flush() {
    let mut rig = one_server();
    let (client, server) = on_used_server(&mut rig);
    rig.says(client, |w| {
        unnamed(w, b"select 1");
        w.parse(b"q", b"select lastval()", &[0, 0]);
        w.bind_text(b"q", &[]);
        w.execute();
        w.sync();
    });
    let told = rig.told(server);
    assert_eq!(
        told[..4],
        [
            "Parse  select 1",
            "Bind  ",
            "Execute",
            "Parse pgweir_12 select lastval()"
        ]
    );
    assert_eq!(told.last().map(String::as_str), Some("Flush"));
    let (forget, is_asked) = (&told[4..], told.iter().any(|l| l == "Bind pgweir_portal pgweir_c"));
    assert!(is_asked && !told.iter().any(|l| l == "Bind  pgweir_12"), "{told:?}");
    let prepares = forget.iter().filter(|l| l.starts_with("Parse")).count();
    let closes = forget.iter().filter(|l| l.starts_with("Close")).count();
    assert_eq!((prepares, closes), (1, 1), "{told:?}");
    rig.says(server, |w| {
        w.empty(b'1');
        w.empty(b'2');
        w.command_complete("SELECT 1");
        w.empty(b'1');
        w.empty(b'1');
        w.empty(b'2');
        w.command_complete("DISCARD SEQUENCES");
        w.empty(b'3');
    });
    assert_eq!(rig.told(server), ["Bind  pgweir_12", "Execute", "Sync"]);
}

/// Guards against a DISCARD that the server has ignored after an error, and that was believed to be under way: the next
/// currval() would have returned another client's value.
#[test]
fn what_was_ignored_behind_an_error_is_sent_again() {
    let mut rig = one_server();
    let (client, server) = on_used_server(&mut rig);
    rig.says(client, |w| w.query(b"begin"));
    does(&mut rig, client, "savepoint a", InTransaction);
    rig.says(client, |w| {
        unnamed(w, b"select 1/0");
        unnamed(w, b"select lastval()");
        w.sync();
    });
    rig.told(server);
    rig.says(server, |w| {
        w.empty(b'1');
        w.empty(b'2');
        w.error(&error("22012", "division by zero"));
    });
    assert_eq!(rig.told(server), ["Sync"], "the rest would be ignored");
    rig.says(server, |w| w.ready_for_query(Failed));
    does(&mut rig, client, "rollback to a", InTransaction);
    rig.says(client, |w| w.query(b"select lastval()"));
    forgets(&mut rig, server, InTransaction);
    runs(&mut rig, server, "select lastval()", InTransaction);
}

#[test]
fn a_server_that_does_not_forget_in_a_transaction_fails_the_question() {
    let mut rig = one_server();
    let (client, server) = on_used_server(&mut rig);
    rig.says(client, |w| w.query(b"begin"));
    does(&mut rig, client, "select 1", InTransaction);
    rig.told(client);
    rig.says(client, |w| w.query(b"select lastval()"));
    rig.told(server);
    rig.says(server, |w| {
        w.error(&error("57014", "canceling statement due to statement timeout"));
        w.ready_for_query(Failed);
    });
    assert_eq!(
        rig.told(client),
        [
            "Error 57014 canceling statement due to statement timeout",
            "ReadyForQuery E"
        ]
    );
    assert_eq!(rig.told(server), Vec::<String>::new(), "the question is not sent");
    does(&mut rig, client, "rollback", Idle);
}

/// Guards against a Query that ends a failed transaction, which refuses DISCARD SEQUENCES, and then calls currval().
#[test]
fn a_query_that_ends_a_failed_transaction_and_asks_is_refused() {
    let mut rig = one_server();
    let (client, server) = on_used_server(&mut rig);
    rig.says(client, |w| w.query(b"begin"));
    does(&mut rig, client, "select 1/0", Failed);
    rig.told(client);
    rig.says(client, |w| w.query(b"rollback; select lastval()"));
    assert_eq!(rig.told(server), Vec::<String>::new());
    let told = rig.told(client);
    assert!(
        told[0].starts_with("Error 25P02 ") && told[1..] == ["ReadyForQuery E"],
        "{told:?}"
    );
    does(&mut rig, client, "select lastval()", Failed);
    does(&mut rig, client, "rollback", Idle);
}

/// The same in the extended protocol, where the end of the transaction is answered only to a Flush.
#[test]
fn a_pipeline_that_ends_a_failed_transaction_and_asks_forgets_between() {
    let mut rig = one_server();
    let (client, server) = on_used_server(&mut rig);
    rig.says(client, |w| w.query(b"begin"));
    does(&mut rig, client, "select 1/0", Failed);
    rig.says(client, |w| {
        unnamed(w, b"rollback");
        w.flush();
    });
    rig.told(server);
    rig.says(server, |w| {
        w.empty(b'1');
        w.empty(b'2');
        w.command_complete("ROLLBACK");
    });
    rig.says(client, |w| {
        unnamed(w, b"select lastval()");
        w.sync();
    });
    let told = rig.told(server);
    assert_eq!(told[0], "Parse  select lastval()");
    assert!(told.iter().any(|l| l == "Bind pgweir_portal pgweir_c"), "{told:?}");
    assert_eq!(told.last().map(String::as_str), Some("Flush"));
}

/// A deferred BEGIN that the server refuses before it leaves the client in a failed transaction.
#[test]
fn a_refused_begin_before_it_fails_the_transaction() {
    let mut rig = one_server();
    let (client, server) = on_used_server(&mut rig);
    rig.says(client, |w| w.query(b"begin"));
    rig.says(client, |w| w.query(b"select nextval('s')"));
    rig.told(server);
    rig.told(client);
    rig.says(server, |w| {
        w.error(&error("57014", "canceling statement due to statement timeout"));
        w.ready_for_query(Idle);
    });
    assert_eq!(
        rig.told(client),
        [
            "Error 57014 canceling statement due to statement timeout",
            "ReadyForQuery E"
        ]
    );
    rig.says(client, |w| w.query(b"select 1"));
    let told = rig.told(server);
    assert!(told.iter().any(|l| l == "Bind  pgweir_2"), "{told:?}");
    assert!(
        told.iter().any(|l| l.starts_with("Describe P")),
        "what fails it: {told:?}"
    );
}

/// Guards against PostgreSQL 18, which does not commit a Query behind an internal Execute in its segment.
#[test]
fn a_segment_that_has_executed_nothing_ends_before_the_server_forgets() {
    for fails in [false, true] {
        let mut rig = one_server();
        let (client, server) = on_used_server(&mut rig);
        rig.says(client, |w| {
            w.close(b'S', b"s");
            w.parse(b"a", b"select 1", &[0, 0]);
            w.query(b"do 'begin insert into t values (1); end'");
        });
        let told = rig.told(server);
        assert_eq!(told.last().map(String::as_str), Some("Flush"), "{told:?}");
        assert!(
            told.iter().all(|m| !m.starts_with("Query") && m != "Execute"),
            "{told:?}"
        );
        if fails {
            rig.says(server, |w| {
                w.empty(b'3');
                w.error(&error("42601", "syntax error"));
            });
            rig.says(client, |w| w.sync());
            assert_eq!(rig.told(server), ["Sync"], "the Query would be ignored");
            continue;
        }
        rig.replies(server, &told[..told.len() - 1], None, |_, _| {});
        assert_eq!(rig.told(server), ["Sync"]);
        rig.says(server, |w| w.ready_for_query(Idle));
        forgets(&mut rig, server, Idle);
        let told = rig.told(server);
        assert_eq!(
            told.last().map(String::as_str),
            Some("Query do 'begin insert into t values (1); end'")
        );
    }
}

/// The same if the pooler answers everything in the segment. Guards against a client that waits for ever: the server was
/// told to send replies, and had none to send.
#[test]
fn a_segment_of_which_the_server_knows_nothing_ends_before_the_server_forgets() {
    let mut rig = one_server();
    let (other, client) = (rig.client(), rig.client());
    rig.says(other, |w| {
        w.parse(b"s", b"select 1", &[0, 0]);
        w.sync();
    });
    let server = rig.server_of(other).expect("linked");
    rig.serves(server, "");
    does(&mut rig, other, "insert into t values (1)", Idle);
    rig.told(client);
    rig.says(client, |w| {
        w.parse(b"a", b"select 1", &[0, 0]);
        w.query(b"do 'begin insert into t values (1); end'");
    });
    assert_eq!(rig.told(server), ["Sync"]);
    assert_eq!(rig.told(client), ["ParseComplete"]);
    rig.says(server, |w| w.ready_for_query(Idle));
    forgets(&mut rig, server, Idle);
    let told = rig.told(server);
    assert_eq!(
        told.last().map(String::as_str),
        Some("Query do 'begin insert into t values (1); end'")
    );
}

/// Guards against two errors for one Query: a DISCARD SEQUENCES in a transaction that has failed, as its answer shows soon.
#[test]
fn nothing_is_forgotten_before_a_begin_that_fails_is_answered() {
    let mut rig = one_server();
    let (other, client) = (rig.client(), rig.client_begins(&[("user", "u"), ("database", "db")]));
    let key = rig.key_told(client);
    let server = does(&mut rig, other, "insert into t values (1)", Idle);
    rig.says(other, |w| w.query(b"select pg_sleep(1)"));
    rig.says(client, |w| w.query(b"begin"));
    rig.says(client, |w| w.query(b"select 1"));
    rig.cancel_request(&key);
    assert_eq!(rig.told(client).last().map(String::as_str), Some("ReadyForQuery E"));
    rig.completes(server, "SELECT 1");
    rig.told(server);
    rig.says(client, |w| w.query(b"select currval('s')"));
    let told = rig.told(server);
    assert!(!told.iter().any(|line| line.contains("pgweir_c")), "{told:?}");
    rig.fails_begin(server, &told);
    assert_eq!(rig.told(server), ["Query select currval('s')"]);
}
