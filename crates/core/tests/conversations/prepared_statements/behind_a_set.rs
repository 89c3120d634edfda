//! Statements that were prepared behind a SET in the same transaction: their server alone has them as their client has
//! prepared them.

use crate::rig::{NO_TYPES, NOTHING, Rig, error};
use pgweir_core::{ClientId, ServerId};
use pgweir_wire::TransactionStatus::{Failed, Idle, InTransaction};

const TEXT: &[u8] = b"select '01/02/2024'::date";

/// The client runs a text in a transaction block.
fn in_block(rig: &mut Rig, client: ClientId, text: &str) -> ServerId {
    rig.says(client, |w| w.query(text.as_bytes()));
    let server = rig.server_of(client).expect("linked");
    assert_eq!(rig.told(server).last(), Some(&format!("Query {text}")));
    rig.says(server, |w| {
        w.command_complete("DONE");
        w.ready_for_query(InTransaction);
    });
    server
}

/// The client runs a text; returns what the server is sent.
fn runs(rig: &mut Rig, client: ClientId, server: ServerId, text: &str) -> Vec<String> {
    rig.says(client, |w| w.query(text.as_bytes()));
    rig.answers_all_about(server, NOTHING)
}

/// A client that has prepared and described `s` behind SET LOCAL. Its transaction has ended.
fn prepared_behind_set() -> (Rig, ClientId, ServerId) {
    prepared_behind_set_with("")
}

fn prepared_behind_set_with(settings: &str) -> (Rig, ClientId, ServerId) {
    let mut rig = Rig::one_server(settings);
    let a = rig.client();
    let server = in_block(&mut rig, a, "begin; set local datestyle = 'sql, dmy'");
    rig.says(a, |w| {
        w.parse(b"s", TEXT, NO_TYPES);
        w.describe(b'S', b"s");
        w.sync();
    });
    assert_eq!(rig.told(server).len(), 3);
    rig.says(server, |w| {
        w.empty(b'1');
        w.message(b't', |body| body.extend([0, 0]));
        w.empty(b'n');
        w.ready_for_query(InTransaction);
    });
    runs(&mut rig, a, server, "commit");
    rig.told(a);
    (rig, a, server)
}

/// Guards against a client that never gets an answer: the server was asked again and again whether the plan is good, and
/// no answer counted, because code had run since the Parse.
#[test]
fn a_description_behind_code_comes() {
    let (mut rig, a, server) = prepared_behind_set();
    runs(&mut rig, a, server, "do $$begin end$$");
    rig.told(a);
    for _ in 0..3 {
        rig.says(a, |w| {
            w.describe(b'S', b"s");
            w.sync();
        });
        let told = rig.answers_all_about(server, NOTHING);
        assert_eq!(told.len(), 2, "{told:?}");
        assert_eq!(rig.told(a).last().unwrap(), "ReadyForQuery I");
    }
}

/// The client uses `s` by Bind and by EXECUTE: the server runs what it has, and prepares nothing.
fn uses_what_is_there(rig: &mut Rig, client: ClientId, server: ServerId) {
    for _ in 0..2 {
        rig.says(client, |w| {
            w.bind_text(b"s", &[]);
            w.execute();
            w.sync();
        });
        let mut told = rig.answers_all_about(server, NOTHING);
        told.extend(runs(rig, client, server, "execute s"));
        assert!(told.iter().any(|line| line == "Bind  s"), "{told:?}");
        assert!(told.iter().any(|line| line == "Query execute s"), "{told:?}");
        let anew = |line: &&String| *line == "Close Ss" || line.contains("01/02/2024");
        assert_eq!(told.iter().find(anew), None, "{told:?}");
        rig.told(client);
    }
}

/// Guards against constants that are read again under the settings of a later moment: the statement was closed so that
/// others fit, or because it could have been replaced, and prepared again before its next use. SQL that names it got
/// another copy.
#[test]
fn what_only_the_server_has_is_neither_closed_nor_prepared_again() {
    let others: Vec<String> = (0..4).map(|n| format!("o{n}")).collect();
    for between in ["", "do $$begin end$$", "others", "discard all"] {
        let (mut rig, a, server) = prepared_behind_set_with("max_prepared_statements = 2");
        match between {
            "others" => {
                for name in &others {
                    rig.says(a, |w| {
                        w.parse(name.as_bytes(), format!("select {name}").as_bytes(), NO_TYPES);
                        w.sync();
                    });
                    let told = rig.answers_all_about(server, NOTHING);
                    assert!(!told.contains(&"Close Ss".to_string()), "{told:?}");
                }
            }
            "discard all" => {
                in_block(&mut rig, a, "begin; select 1");
                rig.says(a, |w| w.query(b"discard all"));
                rig.told(server);
                rig.says(server, |w| {
                    w.error(&error("25001", "DISCARD ALL cannot run inside a transaction block"));
                    w.ready_for_query(Failed);
                });
                rig.says(a, |w| w.query(b"rollback"));
                assert_eq!(rig.told(server), ["Query rollback"]);
                rig.says(server, |w| {
                    w.command_complete("ROLLBACK");
                    w.ready_for_query(Idle);
                });
                rig.answers_all_about(server, NOTHING);
            }
            text => drop(runs(&mut rig, a, server, text)),
        }
        rig.told(a);
        uses_what_is_there(&mut rig, a, server);
    }
}

/// The same for a PREPARE: code could have replaced its statement.
#[test]
fn a_prepare_behind_a_set_is_not_run_again() {
    let mut rig = Rig::one_server("");
    let a = rig.client();
    in_block(&mut rig, a, "begin; set local datestyle = 'sql, dmy'");
    let server = in_block(&mut rig, a, "prepare s as select '01/02/2024'::date");
    runs(&mut rig, a, server, "commit");
    runs(&mut rig, a, server, "do $$begin end$$");
    rig.told(a);
    uses_what_is_there(&mut rig, a, server);
}

/// Guards against a DEALLOCATE that fails and has ended the statement all the same.
#[test]
fn a_deallocate_that_fails_leaves_the_statement() {
    let (mut rig, a, server) = prepared_behind_set_with("");
    in_block(&mut rig, a, "begin; select 1");
    rig.says(a, |w| w.query(b"deallocate s"));
    assert_eq!(rig.told(server), ["Query deallocate s"]);
    rig.says(server, |w| {
        w.error(&error("57014", "canceling statement due to user request"));
        w.ready_for_query(Failed);
    });
    rig.says(a, |w| w.query(b"rollback"));
    rig.answers_all_about(server, NOTHING);
    rig.told(a);
    uses_what_is_there(&mut rig, a, server);
}

/// A client that has parsed the unnamed statement behind a SET, in one pipeline with it. Its transaction has ended.
fn unnamed_behind_set(settings: &str) -> (Rig, ClientId, ServerId) {
    let mut rig = Rig::new(settings);
    let a = rig.client();
    rig.says(a, |w| {
        w.parse(b"", b"set datestyle = 'sql, dmy'", NO_TYPES);
        w.bind_text(b"", &[]);
        w.execute();
        w.parse(b"", TEXT, NO_TYPES);
        w.sync();
    });
    rig.servers_log_in();
    let server = rig.server_of(a).expect("linked");
    rig.answers_all_about(server, NOTHING.with(&[("DateStyle", "SQL, DMY")]));
    rig.told(a);
    assert!(rig.server_of(a).is_none(), "it is not pinned");
    (rig, a, server)
}

/// Guards against constants that are read again under other settings than those of the Parse.
#[test]
fn the_unnamed_statement_does_not_exist_on_another_server() {
    let (mut rig, a, server) = unnamed_behind_set("default_pool_size = 2");
    let other = rig.client();
    rig.says(other, |w| w.query(b"select pg_sleep(60)"));
    assert_eq!(rig.server_of(other), Some(server));
    rig.says(a, |w| {
        w.bind_text(b"", &[]);
        w.execute();
        w.sync();
    });
    rig.servers_log_in();
    let second = rig.server_of(a).expect("linked");
    let told = rig.answers_all_about(second, NOTHING);
    assert!(told.iter().any(|line| line == "Bind  "), "{told:?}");
    assert!(!told.iter().any(|line| line.contains("01/02/2024")), "{told:?}");
}

/// Another client's definition outdates what servers hold: the unnamed statement of a client in its transaction stays.
#[test]
fn the_unnamed_statement_is_not_parsed_again_in_its_transaction() {
    let mut rig = Rig::new("default_pool_size = 2");
    let (a, b) = (rig.client(), rig.client());
    let server = in_block(&mut rig, a, "begin; set local datestyle = 'sql, dmy'");
    rig.says(a, |w| {
        w.parse(b"", TEXT, NO_TYPES);
        w.sync();
    });
    rig.told(server);
    rig.says(server, |w| {
        w.empty(b'1');
        w.ready_for_query(InTransaction);
    });
    rig.says(b, |w| w.query(b"create view v as select 1"));
    rig.servers_log_in();
    let second = rig.server_of(b).expect("linked");
    rig.answers_all_about(second, NOTHING);
    rig.says(a, |w| {
        w.bind_text(b"", &[]);
        w.execute();
        w.sync();
    });
    let told = rig.told(server);
    assert_eq!(told, ["Bind  ", "Execute", "Sync"]);
}

/// A statement that the server has refused keeps no client on its server, unless another one does.
#[test]
fn a_refused_statement_behind_a_set_keeps_no_server() {
    for keeps in [false, true] {
        let mut rig = Rig::one_server("");
        let a = rig.client();
        let server = in_block(&mut rig, a, "begin; set local datestyle = 'sql, dmy'");
        rig.says(a, |w| {
            if keeps {
                w.parse(b"k", TEXT, NO_TYPES);
            }
            w.parse(b"s", b"select '1'::date from gone", NO_TYPES);
            w.sync();
        });
        assert!(rig.told(server).len() > 1);
        rig.says(server, |w| {
            if keeps {
                w.empty(b'1');
            }
            w.error(&error("42P01", "relation \"gone\" does not exist"));
            w.ready_for_query(Failed);
        });
        runs(&mut rig, a, server, "rollback");
        assert_eq!(rig.server_of(a).is_some(), keeps);
    }
}
