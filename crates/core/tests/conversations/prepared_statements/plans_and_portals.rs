//! Plans that cannot be used any more, suspended portals, cursors and COPY.

use super::one_statement::{SELECT, binds, one_row, prepares};
use crate::rig::{NO_TYPES, Rig, error};
use pgweir_core::{ClientId, ServerId};
use pgweir_wire::TransactionStatus::{Idle, InTransaction};

#[test]
fn portal_suspended_keeps_the_transaction_where_it_is() {
    let mut rig = Rig::new("");
    let a = rig.client();
    rig.says(a, |w| w.query(b"begin; select 1"));
    let server = rig.server_of(a).unwrap();
    rig.says(server, |w| {
        w.command_complete("SELECT 1");
        w.ready_for_query(InTransaction);
    });
    rig.says(a, |w| {
        w.parse(b"", b"select generate_series(1,5)", NO_TYPES);
        w.bind_text(b"", &[]);
        w.message(b'E', |b| b.extend([0, 0, 0, 0, 2]));
        w.sync();
    });
    rig.says(server, |w| {
        w.empty(b'1');
        w.empty(b'2');
        w.data_row(1, [Some(&b"1"[..])]);
        w.empty(b's');
        w.ready_for_query(InTransaction);
    });
    assert_eq!(rig.server_of(a), Some(server));
}

#[test]
fn a_plan_the_server_cannot_use_any_more_is_not_given_to_the_next_parse() {
    let mut rig = Rig::new("");
    let a = rig.client();
    prepares(&mut rig, a, b"s", SELECT);
    let server = binds(&mut rig, a, b"s").unwrap();
    rig.told(server);
    rig.says(server, |w| {
        w.error(&error("0A000", "cached plan must not change result type"));
        w.ready_for_query(Idle);
    });
    rig.told(a);
    rig.says(a, |w| {
        w.close(b'S', b"s");
        w.parse(b"s", SELECT, NO_TYPES);
        w.sync();
    });
    assert_eq!(
        rig.told(server),
        ["Close Spgweir_11", "Parse pgweir_11 select 1", "Sync"]
    );
}

/// Guards against a copy that knows a type that is no more: the server refused it, and the next Parse was answered from it.
#[test]
fn a_copy_whose_type_is_gone_is_not_used_any_more() {
    let gone = [
        ("XX000", "cache lookup failed for type 16400"),
        ("42704", "type with OID 16400 does not exist"),
    ];
    for (sqlstate, message) in gone {
        for is_parsed in [true, false] {
            let mut rig = Rig::new("");
            let (a, b) = (rig.client(), rig.client());
            prepares(&mut rig, a, b"s", SELECT);
            let server = binds(&mut rig, a, b"s").unwrap();
            rig.told(server);
            rig.says(server, |w| {
                w.error(&error(sqlstate, message));
                w.ready_for_query(Idle);
            });
            assert_eq!(
                rig.told(a)[0],
                format!("Error {sqlstate} {message}"),
                "as PostgreSQL says"
            );
            let client = if is_parsed {
                rig.says(b, |w| w.parse(b"t", SELECT, NO_TYPES));
                binds(&mut rig, b, b"t");
                b
            } else {
                binds(&mut rig, a, b"s");
                a
            };
            let told = prepares_again(&mut rig, server, client);
            assert!(!told.is_empty(), "{sqlstate} {is_parsed}");
            binds(&mut rig, client, if is_parsed { b"t" } else { b"s" });
            assert_eq!(rig.told(server)[0], "Bind  pgweir_11", "once");
        }
    }
}

/// A server is told to forget its copy and to prepare it again, and does so. The client's reply has no error.
fn prepares_again(rig: &mut Rig, server: ServerId, client: ClientId) -> Vec<String> {
    let again = ["Close Spgweir_11", "Parse pgweir_11 select 1", "Bind  pgweir_11"];
    assert_eq!(rig.told(server)[..3], again);
    rig.says(server, |w| {
        w.empty(b'3');
        w.empty(b'1');
    });
    one_row(rig, server);
    let told = rig.told(client);
    assert!(!told.iter().any(|l| l.starts_with("Error")), "{told:?}");
    told
}

/// The same where the pooler itself asks about the copy, because another client's Parse was answered from it.
#[test]
fn a_question_about_a_copy_whose_type_is_gone_is_not_the_clients_error() {
    for sqlstate in ["XX000", "42704", "0A000"] {
        let mut rig = Rig::new("");
        let (a, b) = (rig.client(), rig.client());
        prepares(&mut rig, a, b"s", SELECT);
        rig.says(b, |w| w.parse(b"t", SELECT, NO_TYPES));
        let server = binds(&mut rig, b, b"t").unwrap();
        assert_eq!(rig.told(server), ["Describe Spgweir_11", "Sync"]);
        rig.says(server, |w| {
            w.error(&error(sqlstate, "cache lookup failed for type 16400"));
            w.ready_for_query(Idle);
        });
        assert_eq!(prepares_again(&mut rig, server, b)[0], "ParseComplete", "{sqlstate}");
    }
}

/// A message must wait although a COPY is in the pipeline: the server either sends CopyInResponse and swallows the Sync
/// before it, or sends ReadyForQuery.
#[test]
fn a_message_behind_a_copy_is_held_back_until_what_it_means_is_certain() {
    let mut rig = Rig::new("");
    let a = rig.client();
    rig.says(a, |w| {
        w.parse(b"", b"copy t from stdin", NO_TYPES);
        w.bind_text(b"", &[]);
        w.execute();
        w.sync();
        w.copy_fail("enough");
        w.parse(b"s", SELECT, NO_TYPES);
        w.sync();
    });
    let server = rig.server_of(a).unwrap();
    assert_eq!(
        rig.told(server),
        ["Parse  copy t from stdin", "Bind", "Execute", "Sync", "CopyFail"].map(|l| l.replace("Bind", "Bind  "))
    );
    rig.says(server, |w| {
        w.empty(b'1');
        w.empty(b'2');
        w.message(b'G', |b| b.extend([0, 0, 0]));
    });
    let asked = rig.told(server);
    assert!(
        asked[0].starts_with("Parse pgweir_") && asked[1] == "Sync",
        "the Sync belonged to the copy, so nothing stands between: {asked:?}"
    );
    rig.says(server, |w| {
        w.error(&error("57014", "COPY from stdin failed: enough"));
        w.ready_for_query(Idle);
    });
    rig.told(a);
    binds(&mut rig, a, b"s");
    assert_eq!(rig.told(server)[0], "Bind  s", "its Parse was ignored with the rest");
}

/// Then its data and its end are ignored: they must not delay later answers.
#[test]
fn the_end_of_a_copy_that_was_none_is_answered_by_nothing() {
    let mut rig = Rig::new("");
    let a = rig.client();
    rig.says(a, |w| {
        w.parse(b"", b"", NO_TYPES);
        w.bind_text(b"", &[]);
        w.execute();
        w.empty(b'c');
        w.parse(b"c", SELECT, NO_TYPES);
        w.describe(b'S', b"nosuch");
        w.sync();
    });
    let server = rig.server_of(a).unwrap();
    rig.says(server, |w| {
        w.empty(b'1');
        w.empty(b'2');
        w.empty(b'I');
        w.empty(b'1');
        w.error(&error("26000", "prepared statement \"nosuch\" does not exist"));
        w.ready_for_query(Idle);
    });
    rig.told(server);
    binds(&mut rig, a, b"c");
    assert_eq!(
        rig.told(server)[0],
        "Describe Spgweir_12",
        "c was made before the error, in a transaction that came to nothing"
    );
}

/// PostgreSQL crashes when a FETCH that was prepared beside a cursor is described without it: no client gets another
/// client's statement.
#[test]
fn a_fetch_is_prepared_by_each_client() {
    let mut rig = Rig::new("");
    let (a, b) = (rig.client(), rig.client());
    let mut parses = Vec::new();
    for client in [a, b] {
        rig.says(client, |w| {
            w.parse(b"s", b"fetch 1 from c", &[0, 0]);
            w.sync();
        });
        let server = rig.server_of(client).unwrap();
        let told = rig.told(server);
        parses.extend(told.into_iter().filter(|m| m.contains("fetch 1 from c")));
        rig.says(server, |w| {
            w.empty(b'1');
            w.ready_for_query(Idle);
        });
    }
    assert_eq!(parses.len(), 2, "{parses:?}");
    assert_ne!(parses[0], parses[1]);
}
