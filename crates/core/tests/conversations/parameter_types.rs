//! Statements are prepared again with the parameter types that their client got.

use crate::rig::{NO_TYPES, Rig};
use pgweir_core::{ClientId, ServerId};
use pgweir_wire::TransactionStatus::Idle;

const TEXT: &[u8] = b"insert into t values ($1)";
const INT4: &[u8] = &[0, 1, 0, 0, 0, 23];
const FLOAT8: &[u8] = &[0, 1, 0, 0, 2, 0xbd];

/// A client prepares, and the server reports these types if it is asked.
fn prepares(rig: &mut Rig, client: ClientId, types: &[u8], describes: bool) -> Vec<String> {
    rig.says(client, |w| {
        w.parse(b"s", TEXT, NO_TYPES);
        if describes {
            w.describe(b'S', b"s");
        }
        w.sync();
    });
    rig.servers_log_in();
    let server = rig.server_of(client).expect("a server");
    let told = rig.told(server);
    rig.says(server, |w| {
        if told[0].starts_with("Close") {
            w.empty(b'3');
        }
        w.empty(b'1');
        w.message(b't', |to| to.extend_from_slice(types));
        w.empty(b'n');
        w.ready_for_query(Idle);
    });
    told
}

/// The server on which a client binds, and the messages that it gets.
fn binds(rig: &mut Rig, client: ClientId) -> (ServerId, Vec<(u8, Vec<u8>)>) {
    rig.says(client, |w| {
        w.bind_text(b"s", &[Some(b"1")]);
        w.execute();
        w.sync();
    });
    rig.servers_log_in();
    let server = rig.server_of(client).expect("a server");
    (server, rig.hears(server))
}

fn does_it(rig: &mut Rig, server: ServerId, told: &[(u8, Vec<u8>)]) {
    rig.says(server, |w| {
        for (tag, _) in told {
            match tag {
                b'C' => w.empty(b'3'),
                b'P' => w.empty(b'1'),
                b'B' => w.empty(b'2'),
                b'E' => w.command_complete("INSERT 0 1"),
                b'S' => w.ready_for_query(Idle),
                other => panic!("{}", char::from(*other)),
            }
        }
    });
}

fn parsed_types(told: &[(u8, Vec<u8>)]) -> Option<&[u8]> {
    let (_, body) = told.iter().find(|(tag, _)| *tag == b'P')?;
    let at = body.windows(TEXT.len()).position(|w| w == TEXT)? + TEXT.len() + 1;
    Some(&body[at..])
}

/// Guards against binary values that are read as another type, because the column's type has changed between two
/// Parses of one statement.
#[test]
fn a_statement_is_prepared_again_with_the_types_that_its_client_was_told() {
    for describes in [true, false] {
        let mut rig = Rig::new("default_pool_size = 2");
        let (a, b) = (rig.client(), rig.client());
        let told = prepares(&mut rig, a, INT4, describes);
        assert_eq!(
            told,
            [
                "Parse pgweir_11 insert into t values ($1)",
                "Describe Spgweir_11",
                "Sync"
            ]
        );
        let heard = rig.told(a);
        let own: &[&str] = if describes { &["t?", "NoData"] } else { &[] };
        assert_eq!(heard[1..heard.len() - 1], *own, "only who asks is told");
        // The first server is busy.
        rig.says(b, |w| w.query(b"select pg_sleep(60)"));
        let (_, told) = binds(&mut rig, a);
        assert_eq!(parsed_types(&told), Some(INT4));
    }
}

/// Guards against one client's types for another client: both have prepared the same text, one of them after ALTER
/// TABLE.
#[test]
fn clients_that_were_told_other_types_share_no_statement() {
    let mut rig = Rig::new("default_pool_size = 1");
    let (a, b) = (rig.client(), rig.client());
    prepares(&mut rig, a, INT4, false);
    let told = prepares(&mut rig, b, FLOAT8, false);
    assert_eq!(
        told[0], "Close Spgweir_11",
        "a Parse whose types are inferred is asked of the server"
    );
    for (client, types) in [(a, Some(INT4)), (b, None), (a, None), (b, None)] {
        let (server, told) = binds(&mut rig, client);
        assert_eq!(parsed_types(&told), types, "once");
        does_it(&mut rig, server, &told);
    }
}

/// Guards against types that are lost: they are told when the client has already closed the statement, and the server
/// ignores that Close, because the segment has failed before.
#[test]
fn types_that_are_told_behind_a_close_in_a_failed_segment_count() {
    // Closed, closed and prepared again, or not closed.
    for (closes, again) in [(true, false), (true, true), (false, false)] {
        let mut rig = Rig::new("default_pool_size = 2");
        let (a, b) = (rig.client(), rig.client());
        rig.says(a, |w| {
            w.parse(b"s", TEXT, NO_TYPES);
            w.describe(b'P', b"missing");
            if closes {
                w.close(b'S', b"s");
            }
            if again {
                w.parse(b"s", TEXT, NO_TYPES);
            }
            w.sync();
        });
        let server = rig.server_of(a).expect("a server");
        rig.told(server);
        rig.says(server, |w| {
            w.empty(b'1');
            w.message(b't', |to| to.extend_from_slice(INT4));
            w.empty(b'n');
            w.error(&crate::rig::error("34000", "portal \"missing\" does not exist"));
            w.ready_for_query(Idle);
        });
        rig.says(b, |w| w.query(b"select pg_sleep(60)"));
        let (_, told) = binds(&mut rig, a);
        assert_eq!(parsed_types(&told), Some(INT4), "{closes} {again}");
    }
}

const TO_UNKNOWN: &[u8] = b"select $1::unknown = a from t";
const AS_TEXT: &[u8] = &[0, 1, 0, 0, 0, 25];

/// A client prepares under this name a statement that PostgreSQL refuses if it is given the types that it has told.
fn prepares_to_unknown(rig: &mut Rig, client: ClientId, name: &[u8]) -> ServerId {
    rig.says(client, |w| {
        w.parse(name, TO_UNKNOWN, NO_TYPES);
        w.describe(b'S', name);
        w.sync();
    });
    let server = rig.server_of(client).expect("a server");
    rig.told(server);
    rig.says(server, |w| {
        w.empty(b'1');
        w.message(b't', |to| to.extend_from_slice(AS_TEXT));
        w.empty(b'n');
        w.ready_for_query(Idle);
    });
    server
}

/// A client has prepared such a statement under this name, and uses it on another server, which is returned. That server
/// was asked for the types, and answers.
fn used_elsewhere(rig: &mut Rig, name: &[u8], types: &[u8]) -> (ClientId, ServerId) {
    let (a, b) = (rig.client(), rig.client());
    prepares_to_unknown(rig, a, name);
    rig.told(a);
    rig.says(b, |w| w.query(b"select pg_sleep(60)"));
    rig.says(a, |w| {
        w.bind_text(name, &[Some(b"1")]);
        w.execute();
        w.sync();
    });
    rig.servers_log_in();
    let second = rig.server_of(a).expect("a server");
    let told = rig.hears(second);
    let tags: Vec<_> = told.iter().map(|(tag, _)| *tag).collect();
    assert_eq!(
        tags, b"PDH",
        "the server infers the types, and tells them before the use"
    );
    assert_eq!(told[0].1.last_chunk(), Some(&[0, 0, 0]), "no types");
    rig.says(second, |w| {
        w.empty(b'1');
        w.message(b't', |to| to.extend_from_slice(types));
        w.empty(b'n');
    });
    (a, second)
}

/// Guards against an error that a direct connection does not give: PostgreSQL tells `text` for `$1::unknown`, but
/// refuses the statement if Parse gives that type.
#[test]
fn a_cast_to_unknown_is_prepared_again_without_types() {
    for name in [&b""[..], b"s"] {
        let mut rig = Rig::new("default_pool_size = 2");
        let (_, second) = used_elsewhere(&mut rig, name, AS_TEXT);
        assert_eq!(rig.told(second).len(), 3, "Bind, Execute, Sync");
    }
}

/// Guards against a value that is read as another type: the server infers other types than the client was told.
#[test]
fn a_cast_to_unknown_of_other_types_gets_the_types_that_were_told() {
    for name in [&b""[..], b"s"] {
        let mut rig = Rig::new("default_pool_size = 2");
        let (a, second) = used_elsewhere(&mut rig, name, INT4);
        let told = rig.hears(second);
        assert!(told[0].0 == b'P' && told[0].1.ends_with(AS_TEXT), "{told:?}");
        let refusal = crate::rig::error("XX000", "failed to find conversion function from unknown to text");
        rig.says(second, |w| w.error(&refusal));
        rig.told(second);
        rig.says(second, |w| w.ready_for_query(Idle));
        let heard = rig.told(a);
        assert!(heard[0].contains("XX000") && heard[1] == "ReadyForQuery I", "{heard:?}");
    }
}

/// Guards against a client that waits for ever: the question about the types is refused.
#[test]
fn a_cast_to_unknown_is_asked_again_after_a_refusal() {
    for name in [&b""[..], b"s"] {
        let mut rig = Rig::new("default_pool_size = 1");
        let a = rig.client();
        let uses = |rig: &mut Rig| {
            rig.says(a, |w| {
                w.bind_text(name, &[Some(b"1")]);
                w.execute();
                w.sync();
            });
            let server = rig.server_of(a).expect("a server");
            rig.hears(server).iter().map(|(tag, _)| *tag).collect::<Vec<_>>()
        };
        let server = prepares_to_unknown(&mut rig, a, name);
        // Another client's text may have ended the statements.
        let b = rig.client();
        rig.says(b, |w| w.query(b"deallocate all"));
        rig.told(server);
        rig.says(server, |w| {
            w.command_complete("DEALLOCATE ALL");
            w.ready_for_query(Idle);
        });
        rig.told(a);
        assert_eq!(uses(&mut rig), b"PDH");
        rig.says(server, |w| {
            w.empty(b'1');
            w.error(&crate::rig::error("57014", "canceling statement due to user request"));
        });
        rig.told(server);
        rig.says(server, |w| w.ready_for_query(Idle));
        let heard = rig.told(a);
        assert!(heard[0].contains("57014") && heard[1] == "ReadyForQuery I", "{heard:?}");
        assert!(uses(&mut rig).ends_with(b"DH"));
    }
}
