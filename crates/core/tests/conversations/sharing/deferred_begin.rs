//! BEGIN takes no server and travels with the first statement of its transaction.

use crate::rig::{Rig, error};
use pgweir_core::{ClientId, ServerId};
use pgweir_wire::TransactionStatus::{Failed, Idle, InTransaction};
use pgweir_wire::Writer;
use std::time::Duration;

#[test]
fn begin_takes_no_server_and_travels_with_the_first_statement() {
    // Where sessions are not kept, a client could have prepared another statement under that name.
    for (settings, closes) in [("", false), ("session_state = pgbouncer", true)] {
        let mut rig = Rig::new(settings);
        let client = rig.client();
        rig.says(client, |w| w.query(b"BEGIN"));
        assert_eq!(rig.told(client), ["CommandComplete BEGIN", "ReadyForQuery T"]);
        assert_eq!(rig.server_of(client), None);
        rig.says(client, |w| w.query(b"insert"));
        let server = rig.server_of(client).unwrap();
        let mut told = rig.told(server);
        if closes {
            assert_eq!(told.remove(0), "Close Spgweir_2");
        }
        assert_eq!(
            told,
            [
                "Parse pgweir_2 BEGIN",
                "Bind  pgweir_2",
                "Execute",
                "Close P",
                "Query insert"
            ]
        );
        rig.says(server, |w| {
            if closes {
                w.empty(b'3');
            }
            w.empty(b'1');
            w.empty(b'2');
            w.command_complete("BEGIN");
            w.empty(b'3');
            w.command_complete("INSERT 0 1");
            w.ready_for_query(InTransaction);
        });
        assert_eq!(rig.told(client), ["CommandComplete INSERT 0 1", "ReadyForQuery T"]);
        rig.says(client, |w| w.query(b"commit"));
        rig.completes(server, "COMMIT");
        assert_eq!(rig.server_of(client), None);
    }
}

#[test]
fn the_unnamed_portal_of_a_begin_by_bind_and_execute_is_there_as_if_it_had_not_been_deferred() {
    let mut rig = Rig::new("");
    let client = rig.client();
    rig.says(client, |w| {
        w.parse(b"", b"begin", &[0, 0]);
        w.bind_text(b"", &[]);
        w.execute();
        w.sync();
    });
    assert_eq!(rig.server_of(client), None);
    rig.says(client, |w| {
        w.describe(b'P', b"");
        w.sync();
    });
    let server = rig.server_of(client).unwrap();
    assert_eq!(
        rig.told(server),
        [
            "Parse pgweir_2 BEGIN",
            "Bind  pgweir_2",
            "Execute",
            "Describe P",
            "Sync"
        ],
        "NoData and not 34000: no Close of the portal"
    );
}

#[test]
fn begin_then_commit_needs_no_server_at_all() {
    let mut rig = Rig::new("");
    let client = rig.client();
    for (text, tag) in [
        ("begin", "BEGIN"),
        ("commit;", "COMMIT"),
        ("START TRANSACTION", "START TRANSACTION"),
        ("rollback", "ROLLBACK"),
    ] {
        rig.says(client, |w| w.query(text.as_bytes()));
        assert_eq!(rig.told(client)[0], format!("CommandComplete {tag}"));
        assert_eq!(rig.server_of(client), None);
    }
}

#[test]
fn a_deferred_begin_that_fails_lets_nothing_run_outside_the_transaction() {
    let mut rig = Rig::new("");
    let client = rig.client();
    rig.says(client, |w| w.query(b"begin"));
    rig.told(client);
    rig.says(client, |w| w.query(b"insert"));
    let server = rig.server_of(client).unwrap();
    rig.told(server);
    rig.says(server, |w| {
        w.empty(b'1');
        w.empty(b'2');
        w.error(&error("57014", "canceling statement due to user request"));
    });
    assert_eq!(
        rig.told(client),
        ["Error 57014 canceling statement due to user request"]
    );
    assert_eq!(
        rig.told(server),
        ["Sync"],
        "the server ignores the Query, so a Sync must bring it back"
    );
    rig.says(server, |w| w.ready_for_query(Idle));
    assert_eq!(
        rig.told(client),
        ["ReadyForQuery E"],
        "it believes that it is in a transaction"
    );
    rig.says(client, |w| w.query(b"rollback"));
    assert_eq!(rig.told(client), ["CommandComplete ROLLBACK", "ReadyForQuery I"]);
}

/// A client with a deferred BEGIN has sent this, and the server refuses the BEGIN.
fn refuses_begin(before_the_error: impl FnOnce(&mut Writer<'_>)) -> (Rig, ClientId, ServerId) {
    let mut rig = Rig::new("");
    let client = rig.client();
    rig.says(client, |w| w.query(b"begin"));
    rig.told(client);
    rig.says(client, before_the_error);
    let server = rig.server_of(client).unwrap();
    rig.told(server);
    rig.says(server, |w| {
        w.empty(b'1');
        w.empty(b'2');
        w.error(&error("53200", "out of memory"));
    });
    assert_eq!(rig.told(client), ["Error 53200 out of memory"]);
    (rig, client, server)
}

/// Guards against a client that waits for ever: the server ignores everything up to a Sync, which was held back.
#[test]
fn the_sync_behind_a_begin_that_the_server_refuses_is_sent() {
    let parses = |w: &mut Writer<'_>| w.parse(b"", b"insert", &[0, 0]);
    let flushes = |w: &mut Writer<'_>| {
        parses(w);
        w.flush();
    };
    let (mut rig, client, server) = refuses_begin(flushes);
    assert_eq!(rig.told(server), [""; 0]);
    rig.says(client, |w| {
        w.bind_text(b"", &[]);
        w.execute();
        w.sync();
    });
    assert_eq!(rig.told(server), ["Sync"], "the server would ignore the others");
    rig.says(server, |w| w.ready_for_query(Idle));
    assert_eq!(rig.told(client), ["ReadyForQuery E"]);
    rig.says(client, |w| w.query(b"rollback"));
    assert_eq!(rig.told(client), ["CommandComplete ROLLBACK", "ReadyForQuery I"]);
}

/// A Query without a Sync before it.
#[test]
fn a_query_behind_a_begin_that_the_server_refuses_fails() {
    let (mut rig, client, server) = refuses_begin(|w| {
        w.parse(b"", b"insert", &[0, 0]);
        w.flush();
    });
    rig.says(client, |w| w.query(b"select 1"));
    assert_eq!(rig.told(server), ["Sync"]);
    rig.says(server, |w| w.ready_for_query(Idle));
    assert_eq!(
        rig.told(server),
        [
            "Bind  pgweir_2",
            "Execute",
            "Close P",
            "Describe Pthe transaction has failed",
            "Sync"
        ],
        "it fails a transaction, as the client expects"
    );
    rig.says(server, |w| {
        w.empty(b'2');
        w.command_complete("BEGIN");
        w.empty(b'3');
        w.error(&error("34000", "portal does not exist"));
        w.ready_for_query(Failed);
    });
    assert_eq!(rig.told(server), ["Query select 1"]);
    rig.says(server, |w| {
        w.error(&error("25P02", "current transaction is aborted"));
        w.ready_for_query(Failed);
    });
    assert_eq!(
        rig.told(client),
        ["Error 25P02 current transaction is aborted", "ReadyForQuery E"]
    );
}

/// Guards against a Sync in the midst of a Query: the server would read it as text, and the end of the text as
/// messages.
#[test]
fn a_deferred_begin_is_answered_before_a_query_goes_through_in_pieces() {
    let mut rig = Rig::new("");
    let client = rig.client();
    rig.says(client, |w| w.query(b"begin"));
    rig.told(client);
    let mut query = Vec::new();
    pgweir_wire::Writer::new(&mut query).query("insert".repeat(100_000).as_bytes());
    let (first, rest) = query.split_at(90_000);
    rig.comes(client, first);
    let server = rig.server_of(client).unwrap();
    assert_eq!(
        rig.told(server).last().unwrap(),
        "Sync",
        "the BEGIN, and nothing of the client's"
    );
    rig.says(server, |w| {
        w.error(&error("57014", "canceling statement due to statement timeout"));
        w.ready_for_query(Idle);
    });
    rig.comes(client, rest);
    assert_eq!(
        rig.told(client),
        ["Error 57014 canceling statement due to statement timeout"]
    );
    // The client believes that it is in a transaction, so the transaction must have failed before its Query runs.
    let told = rig.told(server);
    rig.fails_begin(server, &told);
    assert!(rig.told(server)[0].starts_with("Query insert"));
}

#[test]
fn a_server_that_answers_a_deferred_begin_with_something_else_is_closed() {
    let mut rig = Rig::new("");
    let client = rig.client();
    rig.says(client, |w| w.query(b"begin"));
    rig.says(client, |w| w.query(b"insert"));
    let server = rig.server_of(client).unwrap();
    rig.says(server, |w| {
        w.empty(b'1');
        w.empty(b'2');
        w.command_complete("SELECT 1");
        w.ready_for_query(Idle);
    });
    assert!(rig.closed.contains(&server.into()));
}

#[test]
fn the_deferral_is_bounded() {
    let mut rig = Rig::new("deferred_begin = 0.5");
    let client = rig.client();
    rig.says(client, |w| w.query(b"begin"));
    rig.wait(Duration::from_millis(400));
    assert_eq!(rig.server_of(client), None);
    rig.wait(Duration::from_millis(300));
    let server = rig.server_of(client).expect("the BEGIN went to a server alone");
    assert_eq!(rig.told(server).last().unwrap(), "Sync");
}

/// Guards against a server that is kept, without BEGIN, by a client whose next message is not complete.
#[test]
fn a_begin_whose_deferral_is_over_does_not_wait_for_the_rest_of_a_message() {
    for part in [b"Q\0".as_slice(), b"Q\0\0\0\x10sele"] {
        let mut rig = Rig::new("default_pool_size = 1");
        let (client, other) = (rig.client(), rig.client());
        rig.says(client, |w| w.query(b"begin"));
        rig.told(client);
        rig.comes(client, part);
        rig.says(other, |w| w.query(b"select 1"));
        let server = rig.server_of(other).expect("no other client uses it");
        rig.wait(Duration::from_millis(1100));
        assert_eq!(rig.server_of(client), None, "the only server is busy");
        rig.told(server);
        rig.completes(server, "SELECT 1");
        assert_eq!(rig.server_of(client), Some(server));
        assert!(rig.told(server).contains(&"Bind  pgweir_2".to_string()), "{part:?}");
    }
}

#[test]
fn deferral_can_be_switched_off() {
    let mut rig = Rig::new("deferred_begin = 0");
    let client = rig.client();
    rig.says(client, |w| w.query(b"begin"));
    let server = rig.server_of(client).unwrap();
    assert_eq!(rig.told(server), ["Query begin"]);
}

#[test]
fn in_a_failed_transaction_nothing_is_answered_by_the_pooler() {
    let mut rig = Rig::new("");
    let client = rig.client();
    rig.says(client, |w| {
        w.parse(b"s", b"select 1", &[0, 0]);
        w.sync();
    });
    let server = rig.server_of(client).unwrap();
    rig.says(server, |w| {
        w.empty(b'1');
        w.ready_for_query(Idle);
    });
    rig.says(client, |w| w.query(b"begin; select 1/0"));
    rig.says(server, |w| {
        w.error(&error("22012", "division by zero"));
        w.ready_for_query(Failed);
    });
    rig.told(server);
    rig.told(client);
    rig.says(client, |w| {
        w.parse(b"t", b"select 1", &[0, 0]);
        w.sync();
    });
    let asked = rig.told(server);
    assert_eq!(
        asked,
        ["Close Spgweir_11", "Parse pgweir_11 select 1", "Sync"],
        "the server must say 25P02 itself"
    );
}

/// Guards against a client that counted as idle although it had sent its statement: its cancel was ignored, and
/// idle_transaction_timeout ended it.
#[test]
fn a_client_that_sends_its_statement_after_the_deferral_can_cancel_it_and_is_not_idle() {
    for cancels in [true, false] {
        let mut rig = Rig::new("default_pool_size = 1\nidle_transaction_timeout = 3");
        let holder = rig.client();
        rig.says(holder, |w| w.query(b"begin; select 1"));
        let server = rig.server_of(holder).unwrap();
        rig.says(server, |w| {
            w.command_complete("SELECT 1");
            w.ready_for_query(InTransaction);
        });
        let client = rig.client_begins(&[("user", "u"), ("database", "db")]);
        let key = rig.key_told(client);
        rig.told(client);
        rig.says(client, |w| w.query(b"begin"));
        rig.told(client);
        rig.wait(Duration::from_millis(1500));
        rig.says(client, |w| w.query(b"select 2"));
        if cancels {
            rig.cancel_request(&key);
            assert_eq!(
                rig.told(client),
                ["Error 57014 canceling statement due to user request", "ReadyForQuery E"]
            );
            continue;
        }
        for _ in 0..4 {
            rig.wait(Duration::from_millis(500));
            rig.says(holder, |w| w.query(b"select 1"));
            rig.says(server, |w| {
                w.command_complete("SELECT 1");
                w.ready_for_query(InTransaction);
            });
        }
        assert_eq!(
            rig.told(client),
            [""; 0],
            "it waits for the pooler, not the pooler for it"
        );
    }
}

/// Guards against a cancel that hit a request which its client sent later, and against requests that got no answer: a
/// copy message, which PostgreSQL ignores there, counted as the request.
#[test]
fn a_copy_message_behind_a_begin_whose_deferral_is_over_is_not_what_a_cancel_hits() {
    for with_query in [false, true] {
        let mut rig = Rig::new("default_pool_size = 1");
        let holder = rig.client();
        rig.says(holder, |w| w.query(b"begin; select 1"));
        let server = rig.server_of(holder).unwrap();
        rig.says(server, |w| {
            w.command_complete("SELECT 1");
            w.ready_for_query(InTransaction);
        });
        let client = rig.client_begins(&[("user", "u"), ("database", "db")]);
        let key = rig.key_told(client);
        rig.told(client);
        rig.says(client, |w| w.query(b"begin"));
        rig.told(client);
        rig.wait(Duration::from_millis(1500));
        rig.says(client, |w| {
            w.message(b'f', |b| b.extend(b"no copy\0"));
            w.flush();
            w.empty(b'c');
            if with_query {
                w.query(b"select 2");
                w.query(b"select 3");
            }
        });
        rig.cancel_request(&key);
        let error = "Error 57014 canceling statement due to user request";
        match with_query {
            // The first Query is answered, and the second one waits for a server.
            true => assert_eq!(rig.told(client), [error, "ReadyForQuery E"]),
            false => assert_eq!(rig.told(client), [""; 0], "no request has come"),
        }
    }
}

/// Guards against a block that nobody has begun: the unnamed statement began one once, but the request names a new one.
#[test]
fn a_cancelled_request_that_replaces_the_unnamed_statement_fails_no_block() {
    for (closes, ready) in [(true, "ReadyForQuery I"), (false, "ReadyForQuery E")] {
        let mut rig = Rig::new("default_pool_size = 1");
        let holder = rig.client();
        let client = rig.client_begins(&[("user", "u"), ("database", "db")]);
        let key = rig.key_told(client);
        rig.says(client, |w| {
            w.parse(b"", b"start transaction", &[0, 0]);
            w.sync();
        });
        let server = rig.server_of(client).expect("linked");
        rig.serves(server, "");
        rig.says(holder, |w| w.query(b"select 1"));
        rig.told(client);
        rig.says(client, |w| {
            w.parse(b"x", b"select 1", &[0, 0]);
            if closes {
                w.parse(b"", b"select 2", &[0, 0]);
            }
            w.bind_text(b"", &[]);
            w.execute();
            w.sync();
        });
        rig.cancel_request(&key);
        let told = rig.told(client);
        assert_eq!(
            told,
            ["Error 57014 canceling statement due to user request", ready],
            "{closes}"
        );
    }
}

/// Guards against BEGIN and COMMIT that PostgreSQL refuses, and the pooler answered with success.
#[test]
fn a_text_that_is_not_plain_takes_a_server() {
    for text in [
        b"begin /* \xe4 */".as_slice(),
        b"begin\x0b",
        b"start transaction -- \xc3\xa4",
    ] {
        for is_parsed in [false, true] {
            let mut rig = Rig::new("");
            let client = rig.client();
            rig.says(client, |w| match is_parsed {
                false => w.query(text),
                true => {
                    w.parse(b"", text, &[0, 0]);
                    w.bind_text(b"", &[]);
                    w.execute();
                    w.sync();
                }
            });
            assert_eq!(rig.told(client), [""; 0], "{}", String::from_utf8_lossy(text));
            assert!(rig.server_of(client).is_some());
        }
    }
    let mut rig = Rig::new("");
    let client = rig.client();
    rig.says(client, |w| w.query(b"begin"));
    rig.told(client);
    rig.says(client, |w| w.query(b"commit -- \xff"));
    assert_eq!(rig.told(client), [""; 0]);
    assert!(rig.server_of(client).is_some());
}

/// Guards against a BEGIN in malformed messages, which PostgreSQL refuses, and the pooler answered with success.
#[test]
fn a_message_that_is_not_well_formed_takes_a_server() {
    const BIND: &[u8] = b"\0\0\0\0\0\0\0\0";
    const EXECUTE: &[u8] = b"\0\0\0\0\0";
    let well_formed: [(&[u8], &[u8], &[u8]); 4] = [
        (BIND, EXECUTE, b""),
        (b"\0\0\0\x01\0\x01\0\0\0\0", EXECUTE, b""),
        (b"\0\0\0\0\0\0\0\x02\0\x01\0\x01", EXECUTE, b""),
        (BIND, b"\0\0\0\0\x01", b""),
    ];
    let malformed: [(&[u8], &[u8], &[u8]); 7] = [
        (b"\0\0\0\x02\0\0\0\0\0\0\0\0", EXECUTE, b""),
        (b"\0\0\0\0\0\0\0\0xx", EXECUTE, b""),
        (b"\0\0\0\0\0\0\0\x02\0\0", EXECUTE, b""),
        (b"\0\0\0\0\0\0", EXECUTE, b""),
        (BIND, b"\0", b""),
        (BIND, b"\0\0\0\0\0zz", b""),
        (BIND, EXECUTE, b"zz"),
    ];
    let cases = well_formed.map(|case| (case, true)).into_iter();
    for ((bind, execute, sync), needs_none) in cases.chain(malformed.map(|case| (case, false))) {
        let mut rig = Rig::new("");
        let client = rig.client();
        rig.says(client, |w| {
            w.parse(b"", b"begin", &[0, 0]);
            w.message(b'B', |body| body.extend(bind));
            w.message(b'E', |body| body.extend(execute));
            w.message(b'S', |body| body.extend(sync));
        });
        assert_eq!(
            rig.server_of(client).is_none(),
            needs_none,
            "{bind:?} {execute:?} {sync:?}"
        );
    }
}

/// Guards against a BEGIN that was bound without the value of its declared parameter.
#[test]
fn a_begin_with_a_parameter_takes_a_server() {
    let mut rig = Rig::new("");
    let client = rig.client();
    rig.says(client, |w| {
        w.parse(b"begins", b"begin", &[0, 1, 0, 0, 0, 23]);
        w.sync();
    });
    let server = rig.server_of(client).expect("it is prepared");
    rig.serves(server, "");
    rig.told(client);
    rig.says(client, |w| {
        w.bind_text(b"begins", &[]);
        w.execute();
        w.sync();
    });
    assert_eq!(rig.told(client), [""; 0]);
    assert!(rig.server_of(client).is_some());
}

/// How a client sends the beginning of a transaction block.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Sends {
    Query,
    Parse,
    /// A Bind of a statement that the client has prepared before.
    Bind,
}

/// Guards against requests that ran outside of the transaction in which their client had sent them: the pooler had
/// cancelled only its beginning.
#[test]
fn what_is_sent_behind_a_beginning_that_was_cancelled_does_not_run() {
    for sends in [Sends::Query, Sends::Parse, Sends::Bind] {
        for text in ["begin isolation level serializable", "start transaction read write"] {
            runs_nothing_behind_cancelled_beginning(text, sends);
        }
    }
    runs_nothing_behind_cancelled_beginning("begin; set local work_mem = '1MB'", Sends::Query);
}

fn runs_nothing_behind_cancelled_beginning(text: &str, sends: Sends) {
    let mut rig = Rig::new("default_pool_size = 1");
    let holder = rig.client();
    let client = rig.client_begins(&[("user", "u"), ("database", "db")]);
    let key = rig.key_told(client);
    if sends == Sends::Bind {
        rig.says(client, |w| {
            w.parse(b"opens", text.as_bytes(), &[0, 0]);
            w.sync();
        });
        let server = rig.server_of(client).expect("linked");
        rig.serves(server, "");
    }
    rig.says(holder, |w| w.query(b"begin; select 1"));
    let server = rig.server_of(holder).unwrap();
    rig.told(server);
    rig.says(server, |w| {
        w.command_complete("BEGIN");
        w.command_complete("SELECT 1");
        w.ready_for_query(InTransaction);
    });
    rig.told(client);
    rig.says(client, |w| {
        match sends {
            Sends::Query => w.query(text.as_bytes()),
            Sends::Parse => {
                w.parse(b"", text.as_bytes(), &[0, 0]);
                w.bind_text(b"", &[]);
            }
            Sends::Bind => w.bind_text(b"opens", &[]),
        }
        if sends != Sends::Query {
            w.execute();
            w.sync();
        }
        w.query(b"insert into t values (1)");
    });
    rig.cancel_request(&key);
    assert_eq!(
        rig.told(client),
        ["Error 57014 canceling statement due to user request", "ReadyForQuery E"],
        "{text} {sends:?}"
    );
    rig.says(holder, |w| w.query(b"rollback"));
    rig.told(server);
    rig.says(server, |w| {
        w.command_complete("ROLLBACK");
        w.ready_for_query(Idle);
    });
    let told = rig.told(server);
    assert_eq!(told[..1], ["Parse pgweir_2 BEGIN"], "{told:?}");
    assert!(
        told.iter().any(|line| line == "Describe Pthe transaction has failed"),
        "{told:?}"
    );
}
