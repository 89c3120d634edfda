//! A server that keeps the schema for temporary objects gives way to another one.

use super::temporary::{answers, asks, does, does_query_on_new, done, pool_of, server_with_schema};
use crate::rig::{EMPTIED, NOTHING};
use pgweir_wire::TransactionStatus::InTransaction;

#[test]
fn who_would_notice_gets_an_idle_server_without_the_schema() {
    let mut rig = pool_of(2);
    let (busy, other) = (rig.client(), rig.client());
    asks(&mut rig, busy, "select 1");
    let clean = rig.server_of(busy).expect("linked");
    let (marked, owner) = server_with_schema(&mut rig);
    done(&mut rig, busy, "select 1", NOTHING);
    assert_ne!(marked, clean);
    // The server that became idle last is taken first.
    does(&mut rig, owner, "select 1", EMPTIED);
    does(&mut rig, busy, "select 1", NOTHING);
    for text in [
        "select pg_my_temp_schema()",
        "select current_schemas(true)",
        "set temp_buffers = 200",
        "select * from pg_temp.f",
        "do $$begin perform pg_is_other_temp_schema(1); end$$",
    ] {
        asks(&mut rig, owner, "select 1");
        asks(&mut rig, busy, "select 1");
        let (a, b) = (rig.server_of(owner), rig.server_of(busy));
        let (marked_s, clean_s) = if a == Some(marked) {
            (owner, busy)
        } else {
            (busy, owner)
        };
        assert!(a != b && (a == Some(marked) || b == Some(marked)));
        done(&mut rig, clean_s, "select 1", NOTHING);
        done(&mut rig, marked_s, "select 1", EMPTIED);
        assert_eq!(does(&mut rig, other, text, NOTHING), clean, "{text}");
    }
    for text in ["select current_schemas(false)", "create table pg_temp.t (a int)"] {
        asks(&mut rig, owner, "select 1");
        asks(&mut rig, busy, "select 1");
        let marked_s = if rig.server_of(owner) == Some(marked) {
            owner
        } else {
            busy
        };
        let clean_s = if marked_s == owner { busy } else { owner };
        done(&mut rig, clean_s, "select 1", NOTHING);
        done(&mut rig, marked_s, "select 1", EMPTIED);
        assert_eq!(does(&mut rig, other, text, EMPTIED), marked, "{text}");
    }
    assert!(!rig.is_closed(marked) && !rig.is_closed(clean));
}

#[test]
fn a_new_server_takes_the_place_of_the_last_one() {
    let mut rig = pool_of(1);
    let (marked, owner) = server_with_schema(&mut rig);
    let other = rig.client();
    assert_eq!(does(&mut rig, other, "select 1", EMPTIED), marked);
    // A client that has had temporary objects itself expects such a schema.
    assert_eq!(does(&mut rig, owner, "select pg_my_temp_schema()", EMPTIED), marked);
    let new = does(&mut rig, other, "select pg_my_temp_schema()", NOTHING);
    assert!(new != marked && rig.is_closed(marked));
    assert_eq!(
        does(&mut rig, other, "select pg_my_temp_schema()", NOTHING),
        new,
        "once"
    );
}

/// Guards against overlooking the text of a Bind, and the message after a BEGIN in the same write.
#[test]
fn statements_prepared_before_and_behind_a_begin_are_seen() {
    for begins in [false, true] {
        let mut rig = pool_of(1);
        let other = rig.client();
        rig.says(other, |w| {
            w.parse(b"s", b"select pg_my_temp_schema()", &[0, 0]);
            w.parse(b"b", b"begin", &[0, 0]);
            w.sync();
        });
        let server = rig.server_of(other).expect("linked");
        answers(&mut rig, server, NOTHING);
        let (marked, _) = server_with_schema(&mut rig);
        assert_eq!(marked, server);
        rig.says(other, |w| {
            if begins {
                w.bind_text(b"b", &[]);
                w.execute();
            }
            w.bind_text(b"s", &[]);
            w.execute();
            w.sync();
        });
        rig.servers_log_in();
        assert!(rig.is_closed(marked), "begins: {begins}");
        assert!(rig.server_of(other).is_some_and(|new| new != marked));
    }
}

#[test]
fn a_transaction_that_has_begun_stays_where_it_is() {
    let mut rig = pool_of(1);
    let (marked, _) = server_with_schema(&mut rig);
    let other = rig.client();
    asks(&mut rig, other, "begin isolation level serializable");
    asks(&mut rig, other, "select pg_my_temp_schema()");
    // If it is not known yet, the message waits for the answer.
    assert_eq!(rig.told(marked), ["Query begin isolation level serializable"]);
    rig.says(marked, |w| {
        w.command_complete("BEGIN");
        w.ready_for_query(InTransaction);
    });
    assert_eq!(rig.told(marked), ["Query select pg_my_temp_schema()"]);
}

/// Guards against sending a Query, which follows another one in the same write, to the wrong server.
#[test]
fn an_answer_that_is_due_is_awaited() {
    let mut rig = pool_of(1);
    let (marked, _) = server_with_schema(&mut rig);
    let other = rig.client();
    asks(&mut rig, other, "select 1");
    asks(&mut rig, other, "select pg_my_temp_schema()");
    assert_eq!(rig.told(marked), ["Query select 1"]);
    rig.completes(marked, "SELECT 1");
    rig.servers_log_in();
    assert!(rig.is_closed(marked));
    does_query_on_new(&mut rig, other, marked);
}

/// Guards against a client that needs a server without traces and loses its place in the queue, or blocks it.
#[test]
fn a_server_that_becomes_free_is_replaced_for_the_client_that_waits() {
    let mut rig = pool_of(1);
    let (marked, owner) = server_with_schema(&mut rig);
    let (other, third) = (rig.client(), rig.client());
    asks(&mut rig, owner, "select 1");
    asks(&mut rig, other, "select pg_my_temp_schema()");
    asks(&mut rig, third, "select 3");
    assert_eq!(rig.server_of(other), None);
    rig.told(marked);
    rig.completes(marked, "SELECT 1");
    // It has its turn: its text is inspected, and the client after it need not wait for the new server.
    assert_eq!(rig.server_of(other), None);
    assert_eq!(rig.server_of(third), Some(marked));
    assert_eq!(rig.told(marked), ["Query select 3"]);
    rig.completes(marked, "SELECT 3");
    assert!(rig.is_closed(marked));
    rig.servers_log_in();
    does_query_on_new(&mut rig, other, marked);
}

/// Guards against an outage that begins because the pooler closes its last servers.
#[test]
fn while_no_server_can_be_opened_the_old_one_serves() {
    let mut rig = pool_of(2);
    let (marked, owner) = server_with_schema(&mut rig);
    let (other, third) = (rig.client(), rig.client());
    asks(&mut rig, owner, "select 1");
    rig.says(third, |w| w.query(b"select 3"));
    let failing = rig.connects.pop_front().expect("a second one is opened");
    rig.connect_fails(failing);
    rig.told(marked);
    rig.completes(marked, "SELECT 1");
    rig.told(marked);
    rig.completes(marked, "SELECT 3");
    rig.says(other, |w| w.query(b"select pg_my_temp_schema()"));
    assert_eq!(rig.server_of(other), Some(marked));
    assert_eq!(rig.told(marked), ["Query select pg_my_temp_schema()"]);
    rig.completes(marked, "SELECT 1");
    // As soon as the next attempt is allowed.
    rig.wait(std::time::Duration::from_secs(1));
    rig.says(other, |w| w.query(b"select pg_my_temp_schema()"));
    assert!(rig.is_closed(marked));
    rig.servers_log_in();
    does_query_on_new(&mut rig, other, marked);
}
