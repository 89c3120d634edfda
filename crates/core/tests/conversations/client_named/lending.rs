//! A statement has its client-named name on the server while its client uses it.

use super::one_server::{Scripted, asks, begins, one_server, prepares, runs, with_one_gone};
use crate::rig::error;
use pgweir_wire::TransactionStatus::{Failed, Idle};

#[test]
fn execute_finds_what_parse_has_prepared() {
    let (mut rig, a, _) = one_server();
    prepares(&mut rig, a, b"s", b"select 1");
    let told = asks(&mut rig, a, "EXECUTE S", "SELECT 1");
    assert_eq!(told, ["Close Ss", "Parse s select 1", "Sync", "Query EXECUTE S"]);
    assert_eq!(rig.told(a), ["CommandComplete SELECT 1", "ReadyForQuery I"]);
    assert_eq!(rig.server_of(a), None, "it keeps no server");
    assert_eq!(
        asks(&mut rig, a, "execute s", "SELECT 1"),
        ["Query execute s"],
        "it is there"
    );
}

/// Guards against a client that can run or see another client's statements on the same server.
#[test]
fn what_is_lent_is_closed_in_front_of_the_next_client() {
    let (mut rig, a, b) = one_server();
    asks(&mut rig, a, "prepare s as select 'a'", "PREPARE");
    assert_eq!(rig.server_of(a), None, "PREPARE alone keeps no server");
    let told = asks(&mut rig, b, "execute s", "SELECT 1");
    assert_eq!(told[0], "Close Ss");
    assert!(told.contains(&"Query execute s".to_string()), "{told:?}");
    let told = asks(&mut rig, a, "execute s", "SELECT 1");
    let made = told
        .iter()
        .position(|l| l == "Parse pgweir_preparing prepare s as select 'a'");
    assert!(
        made.is_some_and(|at| told[at..].iter().any(|l| l.starts_with("Execute"))),
        "{told:?}"
    );
    assert_eq!(told.last().unwrap(), "Query execute s");
}

/// Clients of one program use the same names for the same statements: the next one need not prepare them again, unless
/// DDL may have changed them meanwhile.
#[test]
fn the_same_statement_under_the_same_name_is_there_for_the_next_client() {
    let (mut rig, a, b) = one_server();
    asks(&mut rig, a, "prepare s as select 1", "PREPARE");
    assert_eq!(
        asks(&mut rig, b, "prepare s as select 1", "PREPARE"),
        ["Close Ss", "Sync", "Query prepare s as select 1"],
        "b has no such name yet"
    );
    assert_eq!(
        asks(&mut rig, a, "execute s", "SELECT 1"),
        ["Query execute s"],
        "made after a has prepared it"
    );
    asks(&mut rig, a, "deallocate s", "DEALLOCATE");
    asks(&mut rig, a, "prepare s as select 1", "PREPARE");
    assert_eq!(asks(&mut rig, b, "execute s", "SELECT 1"), ["Query execute s"]);
    rig.told(a);
    rig.says(a, |w| w.query(b"set datestyle = 'ISO, DMY'"));
    let server = rig.server_of(a).unwrap();
    rig.told(server);
    rig.says(server, |w| {
        w.command_complete("SET");
        w.parameter_status(b"DateStyle", b"ISO, DMY");
        w.ready_for_query(Idle);
    });
    rig.serves(server, "");
    let told = asks(&mut rig, a, "execute s", "SELECT 1");
    assert!(told.len() > 1, "under other settings it is a's alone: {told:?}");
}

#[test]
fn a_prepare_that_the_server_refuses_gives_no_name() {
    let (mut rig, a, b) = one_server();
    rig.says(a, |w| w.query(b"prepare s as selec"));
    let server = rig.server_of(a).unwrap();
    rig.told(server);
    rig.says(server, |w| {
        w.error(&error("42601", "syntax error"));
        w.ready_for_query(Idle);
    });
    asks(&mut rig, b, "select 1", "SELECT 1");
    assert_eq!(asks(&mut rig, a, "execute s", "x"), ["Query execute s"]);
    rig.told(a);
    rig.says(a, |w| {
        w.parse(b"s", b"select 2", &[0, 0]);
        w.sync();
    });
    assert_eq!(rig.told(server)[0], "Parse pgweir_12 select 2", "the name is free");
}

/// Guards against "prepared statement does not exist" where the statement's table does not exist.
#[test]
fn what_cannot_be_made_again_is_the_error_of_its_execute() {
    for in_block in [false, true] {
        let (mut rig, a, b) = one_server();
        asks(&mut rig, a, "prepare s as select * from gone", "PREPARE");
        asks(&mut rig, b, "select 1", "SELECT 1");
        rig.told(a);
        let mut status = Idle;
        if in_block {
            rig.says(a, |w| w.query(b"begin isolation level serializable"));
            let server = rig.server_of(a).unwrap();
            begins(&mut rig, server);
            status = Failed;
            rig.told(a);
        }
        rig.says(a, |w| w.query(b"execute s"));
        let server = rig.server_of(a).unwrap();
        let told = rig.told(server);
        assert_eq!(told.last().unwrap(), "Query execute s");
        rig.says(server, |w| {
            if !in_block {
                w.empty(b'3');
            }
            w.empty(b'3');
            w.empty(b'1');
            w.empty(b'2');
            w.error(&error("42P01", "relation \"gone\" does not exist"));
            w.ready_for_query(status);
            let (sqlstate, message) = if in_block {
                ("25P02", "aborted")
            } else {
                ("26000", "prepared statement \"s\" does not exist")
            };
            w.error(&error(sqlstate, message));
            w.ready_for_query(status);
        });
        let heard = rig.told(a);
        assert!(heard[0].contains("42P01"), "{heard:?}");
        assert_eq!(heard.len(), 2, "{heard:?}");
    }
}

/// Guards against an internal PREPARE that runs in a failed transaction, or is taken for data of a COPY.
#[test]
fn nothing_is_lent_behind_a_segment_that_is_not_answered() {
    type Sends = fn(&mut pgweir_wire::Writer<'_>);
    let ways: [(Sends, &str); 4] = [
        (|w| w.query(b"select 1; execute s"), "Query select 1; execute s"),
        (|w| w.parse(b"", b"execute s", &[0, 0]), "Parse  execute s"),
        (|w| w.parse(b"t", b"execute s", &[0, 0]), "execute s"),
        (|w| w.query(b"select 1; deallocate s"), "Query select 1; deallocate s"),
    ];
    for (sends, sent) in ways {
        let (mut rig, a, _) = one_server();
        prepares(&mut rig, a, b"s", b"select 1");
        rig.says(a, |w| {
            w.query(b"begin isolation level serializable");
            w.query(b"select 1/0");
            sends(w);
            w.sync();
        });
        let server = rig.server_of(a).unwrap();
        begins(&mut rig, server);
        let told = rig.told(server);
        assert!(
            !told.iter().any(|l| l.ends_with("select 1") || l.contains("Parse s")),
            "{told:?}"
        );
        rig.says(server, |w| {
            w.error(&error("22012", "division by zero"));
            w.ready_for_query(pgweir_wire::TransactionStatus::Failed);
        });
        let told = rig.told(server);
        assert!(
            told[0].ends_with(sent),
            "in a failed transaction nothing can be made: {told:?}"
        );
    }
}

/// Guards against two statements of one name: until it is known what a text has prepared, the server decides.
#[test]
fn a_parse_behind_a_prepare_among_other_statements_goes_under_the_clients_name() {
    let (mut rig, a, _) = one_server();
    rig.says(a, |w| w.query(b"select 1; prepare s as select 2"));
    let server = rig.server_of(a).unwrap();
    rig.told(server);
    rig.says(server, |w| {
        w.command_complete("SELECT 1");
        w.command_complete("PREPARE");
        w.ready_for_query(Idle);
    });
    rig.told(server);
    rig.says(a, |w| {
        w.parse(b"s", b"select 3", &[0, 0]);
        w.sync();
    });
    assert_eq!(rig.told(server), ["Parse s select 3", "Sync"]);
}

/// Guards against a second statement of a name whose first cannot be prepared again, because its table is gone.
#[test]
fn a_name_that_cannot_be_made_again_is_taken() {
    let (mut rig, a, server) = with_one_gone();
    rig.says(a, |w| w.query(b"prepare s as select 2"));
    assert_eq!(
        rig.told(server),
        ["Close Ss", "Parse s ", "Sync", "Query prepare s as select 2"]
    );
    rig.says(server, |w| {
        w.empty(b'3');
        w.empty(b'1');
        w.ready_for_query(Idle);
        w.error(&error("42P05", "prepared statement \"s\" already exists"));
        w.ready_for_query(Idle);
    });
    let mut postgres = Scripted::new();
    postgres.answers(&mut rig, server);
    rig.says(a, |w| w.query(b"execute s"));
    let told = postgres.answers(&mut rig, server);
    assert!(
        runs(&told, "prepare s as select * from gone") < told.len() - 1,
        "{told:?}"
    );
    // In the extended protocol, too.
    rig.says(a, |w| {
        w.parse(b"", b"prepare s as select 3", &[0, 0]);
        w.bind_text(b"", &[]);
    });
    let told = rig.told(server);
    assert!(!told.iter().any(|l| l.contains("gone")), "{told:?}");
    assert!(told.contains(&"Parse s ".to_string()), "{told:?}");
}
