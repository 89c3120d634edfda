//! Answers that need no server.

use super::one_statement::{SELECT, binds, one_row, plan_is_good, prepares};
use crate::rig::{NO_TYPES, Rig};
use pgweir_wire::TransactionStatus::Idle;
use pgweir_wire::Writer;

#[test]
fn same_text_of_another_client_is_answered_by_the_pooler_in_its_turn() {
    let mut rig = Rig::new("");
    let (a, b) = (rig.client(), rig.client());
    prepares(&mut rig, a, b"s", SELECT);
    rig.says(b, |w| {
        w.parse(b"other_name", SELECT, NO_TYPES);
        w.describe(b'S', b"other_name");
        w.bind_text(b"other_name", &[Some(b"1")]);
        w.execute();
        w.sync();
    });
    let server = rig.server_of(b).unwrap();
    assert!(rig.told(b).is_empty(), "nothing before Flush or Sync is answered");
    plan_is_good(&mut rig, server);
    assert_eq!(
        rig.told(server),
        ["Describe Spgweir_11", "Bind  pgweir_11", "Execute", "Sync"]
    );
    rig.says(server, |w| {
        w.message(b't', |body| body.extend([0, 0]));
        w.empty(b'n');
    });
    one_row(&mut rig, server);
    let told = rig.told(b);
    assert_eq!(told[..4], ["ParseComplete", "t?", "NoData", "BindComplete"]);
}

#[test]
fn flush_gets_the_answers_that_need_no_server() {
    let mut rig = Rig::new("");
    let (a, b) = (rig.client(), rig.client());
    prepares(&mut rig, a, b"s", SELECT);
    rig.says(b, |w| {
        w.parse(b"t", SELECT, NO_TYPES);
        w.empty(b'H');
    });
    assert_eq!(rig.told(b), ["ParseComplete"]);
}

#[test]
fn the_unnamed_statement_survives_sync_and_moves_with_its_client() {
    let mut rig = Rig::new("");
    let (a, b) = (rig.client(), rig.client());
    rig.says(a, |w| {
        w.parse(b"", SELECT, NO_TYPES);
        w.sync();
    });
    let server = rig.server_of(a).unwrap();
    rig.says(server, |w| {
        w.empty(b'1');
        w.ready_for_query(Idle);
    });
    rig.says(b, |w| {
        w.query(b"select 'this destroys the unnamed statement of the server'")
    });
    rig.completes(server, "SELECT 1");
    rig.told(server);
    rig.told(a);
    binds(&mut rig, a, b"");
    assert_eq!(
        rig.told(server),
        ["Parse  select 1", "Bind", "Execute", "Sync"].map(|l| l.replace("Bind", "Bind  "))
    );
}

#[test]
fn nobody_binds_the_unnamed_statement_of_another() {
    let mut rig = Rig::new("");
    let (a, b) = (rig.client(), rig.client());
    rig.says(a, |w| {
        w.parse(b"", SELECT, NO_TYPES);
        w.sync();
    });
    let server = rig.server_of(a).unwrap();
    rig.says(server, |w| {
        w.empty(b'1');
        w.ready_for_query(Idle);
    });
    rig.told(server);
    binds(&mut rig, b, b"");
    assert_eq!(
        rig.told(server)[0],
        "Close S",
        "b has none, so the server must have none"
    );
}

#[test]
fn close_needs_no_server_and_does_not_drop_the_statement() {
    let mut rig = Rig::new("");
    let a = rig.client();
    prepares(&mut rig, a, b"s", SELECT);
    rig.says(a, |w| {
        w.close(b'S', b"s");
        w.sync();
    });
    assert_eq!(rig.told(a), ["CloseComplete", "ReadyForQuery I"]);
    assert_eq!(rig.server_of(a), None);
    prepares(&mut rig, a, b"s", SELECT);
}

/// The client would take an answer in the midst of the message for a part of it.
#[test]
fn an_answer_waits_for_the_rest_of_a_message_that_has_begun() {
    let mut rig = Rig::new("");
    let a = rig.client();
    prepares(&mut rig, a, b"s", SELECT);
    rig.says(a, |w| {
        w.parse(b"wide", b"select 1, 2", NO_TYPES);
        w.bind_text(b"wide", &[]);
        w.execute();
        w.flush();
    });
    let server = rig.server_of(a).unwrap();
    rig.told(server);
    rig.says(server, |w| {
        w.empty(b'1');
        w.empty(b'2');
        w.command_complete("SELECT 1");
    });
    rig.told(a);
    rig.says(a, |w| {
        w.describe(b'P', b"");
        w.close(b'S', b"s");
    });
    let mut columns = vec![0, 2];
    columns.extend([b'x'; 200]);
    let mut reply = Vec::new();
    Writer::new(&mut reply).message(b'T', |body| body.extend(&columns));
    let (begins, ends) = reply.split_at(20);
    rig.comes(server, begins);
    // Neither the end of what has come nor a Flush is the time for it.
    rig.says(a, |w| w.flush());
    rig.comes(server, ends);
    let told = rig.raw(a);
    assert_eq!(told[..reply.len()], reply, "the message is whole");
    assert_eq!(told[reply.len()..], *b"3\0\0\0\x04", "the CloseComplete follows");
}
