//! Errors, and clients that leave, between Parse and Sync.

use super::one_statement::{SELECT, binds, prepares};
use crate::rig::{NO_TYPES, Rig, error};
use pgweir_wire::TransactionStatus::Idle;

#[test]
fn an_error_in_a_pipeline_takes_the_unsent_answers_and_new_names_along() {
    let mut rig = Rig::new("");
    let (a, b) = (rig.client(), rig.client());
    prepares(&mut rig, a, b"s", SELECT);
    rig.says(b, |w| {
        w.parse(b"bad", b"selec", NO_TYPES);
        w.parse(b"t", SELECT, NO_TYPES);
        w.sync();
    });
    let server = rig.server_of(b).unwrap();
    rig.told(server);
    rig.says(server, |w| {
        w.error(&error("42601", "syntax error"));
        w.ready_for_query(Idle);
    });
    assert_eq!(
        rig.told(b),
        ["Error 42601 syntax error", "ReadyForQuery I"],
        "no ParseComplete for t"
    );
    binds(&mut rig, b, b"t");
    assert_eq!(
        rig.told(server)[0],
        "Bind  t",
        "t does not exist: the server says so with the client's own name"
    );
}

#[test]
fn a_client_that_disconnects_between_parse_and_sync_poisons_nothing() {
    let mut rig = Rig::new("");
    let a = rig.client();
    rig.says(a, |w| w.parse(b"s", b"selec", NO_TYPES));
    let server = rig.server_of(a).unwrap();
    rig.client_leaves(a);
    rig.told(server);
    rig.says(server, |w| {
        w.error(&error("42601", "syntax error"));
        w.ready_for_query(Idle);
    });
    rig.cancel_arrives(server);
    let b = rig.client();
    rig.says(b, |w| {
        w.parse(b"s", b"selec", NO_TYPES);
        w.sync();
    });
    assert_eq!(rig.server_of(b), Some(server));
    assert!(
        rig.told(server)[0].starts_with("Parse"),
        "the failed statement is not held"
    );
}

#[test]
fn a_duplicate_name_gets_the_servers_verdict_with_the_clients_own_name() {
    let mut rig = Rig::new("");
    let a = rig.client();
    prepares(&mut rig, a, b"s", SELECT);
    rig.says(a, |w| {
        w.parse(b"s", b"select 2", NO_TYPES);
        w.sync();
    });
    let server = rig.server_of(a).unwrap();
    let taken = "Parse pgweir_b ";
    assert_eq!(
        rig.told(server),
        ["Close Spgweir_b", taken, "Parse pgweir_b select 2", "Sync"],
        "whatever has become of what its own statement reads"
    );
    let refusal = rig.error_about("42P05", "prepared statement \"pgweir_b\" already exists");
    rig.says(server, |w| {
        w.empty(b'3');
        w.empty(b'1');
        w.error(&refusal);
        w.ready_for_query(Idle);
    });
    assert_eq!(rig.told(a)[0], "Error 42P05 prepared statement \"s\" already exists");
    binds(&mut rig, a, b"s");
    assert_eq!(rig.told(server)[0], "Bind  pgweir_11", "it means what it meant");
}

#[test]
fn what_a_failed_segment_would_have_prepared_does_not_exist_for_the_next() {
    let mut rig = Rig::new("");
    let a = rig.client();
    rig.says(a, |w| {
        w.parse(b"", b"selec", NO_TYPES);
        w.parse(b"b", b"select 2", NO_TYPES);
        w.sync();
        w.bind_text(b"b", &[]);
        w.execute();
        w.sync();
    });
    let server = rig.server_of(a).unwrap();
    rig.told(server);
    rig.says(server, |w| {
        w.error(&error("42601", "syntax error"));
        w.ready_for_query(Idle);
    });
    let server = rig.server_of(a).unwrap();
    assert_eq!(rig.told(server)[0], "Bind  b", "the server says 26000");
}

#[test]
fn errors_name_statements_as_the_client_does() {
    let mut rig = Rig::new("");
    let a = rig.client();
    prepares(&mut rig, a, b"mine", SELECT);
    let server = binds(&mut rig, a, b"mine").unwrap();
    let refusal = rig.error_about(
        "08P01",
        "bind message supplies 1 parameters, but prepared statement \"pgweir_11\" requires 2",
    );
    rig.says(server, |w| {
        w.error(&refusal);
        w.ready_for_query(Idle);
    });
    let said = "Error 08P01 bind message supplies 1 parameters, but prepared statement \"mine\" requires 2";
    assert_eq!(rig.told(a), [said, "ReadyForQuery I"]);
}
