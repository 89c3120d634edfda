//! A client's statement runs in exactly its own session, or not at all, whatever cancels, disconnects and refusals
//! happen meanwhile.

mod rig;

use pgweir_core::{ClientId, ServerId};
use pgweir_wire::TransactionStatus::Idle;
use rig::{Rig, error};
use std::time::Duration;

/// A pool with one server and `session_state = full`.
fn full(settings: &str) -> Rig {
    Rig::new(&format!("session_state = full\ndefault_pool_size = 1\n{settings}"))
}

/// The server answers a segment of restored settings, and has got nothing else.
fn confirms(rig: &mut Rig, server: ServerId, reports: &[(&str, &str)]) {
    let told = rig.told(server);
    assert!(!told.iter().any(|l| l.starts_with("Query")), "{told:?}");
    rig.answers(server, &told, reports);
}

fn refuses(rig: &mut Rig, server: ServerId, sqlstate: &'static str) {
    rig.told(server);
    rig.says(server, |w| {
        w.error(&error(sqlstate, "no"));
        w.ready_for_query(Idle);
    });
}

/// The settings in restorations, as `name = value`.
fn made(told: &[(u8, Vec<u8>)]) -> Vec<String> {
    let binds = told.iter().filter(|(tag, _)| *tag == b'B');
    binds
        .map(|(_, body)| {
            // Portal, statement, no formats, two values.
            let at = body.iter().position(|&b| b == 0).unwrap() + 1;
            let at = at + body[at..].iter().position(|&b| b == 0).unwrap() + 1;
            let mut rest = &body[at + 4..];
            let mut values = Vec::new();
            for _ in 0..2 {
                let (length, behind) = rest.split_at(4);
                let length = i32::from_be_bytes(length.try_into().unwrap());
                let (value, behind) = behind.split_at(usize::try_from(length).unwrap_or(0));
                values.push(if length < 0 {
                    "DEFAULT".into()
                } else {
                    String::from_utf8_lossy(value).into_owned()
                });
                rest = behind;
            }
            values.join(" = ")
        })
        .collect()
}

/// A client with a time zone of its own, in a pool whose only server does not have it.
fn tokyo(rig: &mut Rig) -> (ClientId, ClientId, ServerId) {
    let plain = rig.client();
    let id = rig.client_begins(&[("user", "u"), ("database", "db"), ("TimeZone", "Asia/Tokyo")]);
    let server = rig.server_of(id).expect("it tries the value");
    confirms(rig, server, &[("TimeZone", "Asia/Tokyo")]);
    rig.told(id);
    rig.says(plain, |w| w.query(b"select 1"));
    confirms(rig, server, &[("TimeZone", "UTC")]);
    rig.completes(server, "SELECT 1");
    rig.told(server);
    rig.told(plain);
    (plain, id, server)
}

#[test]
fn nothing_of_a_client_reaches_a_server_before_its_settings_are_confirmed() {
    let mut rig = full("");
    let (_, client, server) = tokyo(&mut rig);
    rig.says(client, |w| w.query(b"insert into t values (now())"));
    assert_eq!(rig.told(server).last().unwrap(), "Sync");
    rig.says(server, |w| {
        w.empty(b'2');
        w.command_complete("SELECT 1");
        w.parameter_status(b"TimeZone", b"Asia/Tokyo");
    });
    assert_eq!(rig.told(server), [""; 0], "the end is still to come");
    rig.says(server, |w| w.ready_for_query(Idle));
    assert_eq!(rig.told(server), ["Query insert into t values (now())"]);
}

/// Guards against a login that is abandoned while the server tries its startup values, which the next client then had.
#[test]
fn the_startup_values_of_a_client_that_has_left_are_undone_before_the_next() {
    let mut rig = full("");
    let plain = rig.client();
    let gone = rig.client_begins(&[("user", "u"), ("database", "db"), ("search_path", "evil")]);
    let server = rig.server_of(gone).expect("it tries the value");
    rig.client_leaves(gone);
    assert!(rig.cancels.is_empty(), "what the pooler asks is not cancelled");
    rig.says(plain, |w| w.query(b"select 1"));
    assert_eq!(rig.server_of(plain), None);
    confirms(&mut rig, server, &[]);
    assert_eq!(rig.server_of(plain), Some(server));
    assert_eq!(made(&rig.hears(server)), ["search_path = DEFAULT"]);
}

#[test]
fn a_server_whose_restoration_fails_behind_a_client_that_has_left_is_closed() {
    let mut rig = full("");
    let (plain, client, server) = tokyo(&mut rig);
    rig.says(client, |w| w.query(b"select 1"));
    rig.client_leaves(client);
    rig.says(plain, |w| w.query(b"select 2"));
    refuses(&mut rig, server, "57014");
    assert!(rig.closed.contains(&server.into()), "what it looks like is not known");
    let other = rig.servers_log_in()[0];
    assert_eq!(rig.told(other), ["Query select 2"]);
}

/// A restoration that waits for a lock does not keep a server from other clients for ever.
#[test]
fn a_restoration_that_hangs_behind_a_client_that_has_left_is_cancelled_in_time() {
    let mut rig = full("");
    let (_, client, server) = tokyo(&mut rig);
    rig.says(client, |w| w.query(b"select 1"));
    rig.client_leaves(client);
    assert!(rig.cancels.is_empty());
    rig.wait(Duration::from_secs(2));
    assert_eq!(rig.cancels.len(), 1);
    refuses(&mut rig, server, "57014");
    rig.cancel_arrives(server);
    assert!(rig.closed.contains(&server.into()));
}

#[test]
fn a_client_whose_settings_one_server_refuses_runs_on_another() {
    let mut rig = full("");
    let (_, client, server) = tokyo(&mut rig);
    rig.says(client, |w| w.query(b"select 1"));
    refuses(&mut rig, server, "42602");
    assert!(rig.closed.contains(&server.into()));
    let other = rig.servers_log_in()[0];
    confirms(&mut rig, other, &[("TimeZone", "Asia/Tokyo")]);
    assert_eq!(rig.told(other), ["Query select 1"]);
}

#[test]
fn a_client_whose_settings_no_server_takes_is_told_and_nothing_of_it_runs() {
    let mut rig = full("");
    let (_, client, mut server) = tokyo(&mut rig);
    rig.says(client, |w| w.query(b"select 1"));
    for last in [false, false, true] {
        refuses(&mut rig, server, "42602");
        if !last {
            server = rig.servers_log_in()[0];
        }
    }
    assert_eq!(rig.told(client), ["Error 55000 cannot restore the session's settings"]);
}

#[test]
fn a_cancel_during_a_restoration_ends_the_request_and_spares_the_restoration() {
    let mut rig = full("");
    let plain = rig.client();
    let id = rig.client_begins(&[("user", "u"), ("database", "db"), ("TimeZone", "Asia/Tokyo")]);
    let server = rig.server_of(id).unwrap();
    confirms(&mut rig, server, &[("TimeZone", "Asia/Tokyo")]);
    let key = rig.key_told(id);
    rig.told(id);
    rig.says(plain, |w| w.query(b"select 1"));
    confirms(&mut rig, server, &[("TimeZone", "UTC")]);
    rig.completes(server, "SELECT 1");
    rig.told(server);
    rig.says(id, |w| w.query(b"insert into t values (1)"));
    rig.cancel_request(&key);
    assert!(rig.cancels.is_empty());
    assert_eq!(
        rig.told(id),
        ["Error 57014 canceling statement due to user request", "ReadyForQuery I"]
    );
    confirms(&mut rig, server, &[("TimeZone", "Asia/Tokyo")]);
    assert_eq!(rig.told(server), [""; 0], "the INSERT has not run");
    rig.says(id, |w| w.query(b"select 2"));
    assert_eq!(rig.told(server), ["Query select 2"], "the server looks like it already");
}

/// As in PostgreSQL, a cancel in a transaction fails it, even if no server has begun it.
#[test]
fn a_cancel_in_front_of_a_deferred_begin_fails_the_transaction() {
    let mut rig = full("");
    let (a, b) = (rig.client(), rig.client_begins(&[("user", "u"), ("database", "db")]));
    let key = rig.key_told(b);
    rig.told(b);
    rig.says(a, |w| w.query(b"select pg_sleep(1)"));
    let server = rig.server_of(a).unwrap();
    rig.says(b, |w| w.query(b"begin"));
    rig.says(b, |w| w.query(b"insert into t values (1)"));
    rig.cancel_request(&key);
    assert_eq!(
        rig.told(b),
        [
            "CommandComplete BEGIN",
            "ReadyForQuery T",
            "Error 57014 canceling statement due to user request",
            "ReadyForQuery E"
        ]
    );
    rig.completes(server, "SELECT 1");
    rig.told(server);
    rig.says(b, |w| w.query(b"insert into t values (2)"));
    let told = rig.told(server);
    assert_eq!(
        told.last().unwrap(),
        "Sync",
        "what follows waits until the transaction has failed"
    );
    assert!(
        told.iter().any(|l| l.starts_with("Describe P")),
        "the transaction is made to fail: {told:?}"
    );
    rig.says(server, |w| {
        w.empty(b'1');
        w.empty(b'2');
        w.command_complete("BEGIN");
        w.empty(b'3');
        w.error(&error("34000", "portal does not exist"));
        w.ready_for_query(pgweir_wire::TransactionStatus::Failed);
    });
    assert_eq!(rig.told(server), ["Query insert into t values (2)"]);
    rig.says(server, |w| {
        w.error(&error("25P02", "current transaction is aborted"));
        w.ready_for_query(pgweir_wire::TransactionStatus::Failed);
    });
    assert_eq!(
        rig.told(b),
        ["Error 25P02 current transaction is aborted", "ReadyForQuery E"]
    );
}

#[test]
fn a_transaction_that_failed_before_it_began_is_rolled_back_without_a_server() {
    let mut rig = full("");
    let (a, b) = (rig.client(), rig.client_begins(&[("user", "u"), ("database", "db")]));
    let key = rig.key_told(b);
    rig.says(a, |w| w.query(b"select pg_sleep(1)"));
    rig.says(b, |w| w.query(b"begin"));
    rig.says(b, |w| w.query(b"insert into t values (1)"));
    rig.cancel_request(&key);
    rig.told(b);
    rig.says(b, |w| w.query(b"commit"));
    assert_eq!(rig.told(b), ["CommandComplete ROLLBACK", "ReadyForQuery I"]);
}

/// A client, its cancel key and its server, which has been sent a probe after a DO.
fn probed(rig: &mut Rig) -> (ClientId, pgweir_wire::CancelKey, ServerId) {
    let first = rig.client();
    let id = rig.client_begins(&[("user", "u"), ("database", "db")]);
    let key = rig.key_told(id);
    rig.told(id);
    rig.told(first);
    rig.says(id, |w| w.query(b"do $$ begin perform 1; end $$"));
    let server = rig.server_of(id).unwrap();
    rig.completes(server, "DO");
    assert_eq!(rig.told(id), ["CommandComplete DO", "ReadyForQuery I"]);
    (id, key, server)
}

#[test]
fn a_cancel_of_an_idle_client_does_not_hit_the_question_about_its_session() {
    let mut rig = full("session_state_probe = always");
    let (id, key, server) = probed(&mut rig);
    assert_eq!(
        rig.server_of(id),
        Some(server),
        "it is asked what has become of the session"
    );
    rig.cancel_request(&key);
    assert!(rig.cancels.is_empty());
    // The client's next query is not cancelled either.
    rig.says(id, |w| w.query(b"select 1"));
    let told = rig.told(server);
    rig.answers(server, &told, &[]);
    assert!(rig.cancels.is_empty());
}

#[test]
fn a_cancel_of_a_request_behind_the_question_waits_for_its_turn() {
    let mut rig = full("session_state_probe = always");
    let (id, key, server) = probed(&mut rig);
    rig.says(id, |w| w.query(b"select pg_sleep(9)"));
    rig.cancel_request(&key);
    assert!(rig.cancels.is_empty());
    let told = rig.told(server);
    assert_eq!(told.last().unwrap(), "Query select pg_sleep(9)");
    rig.answers(server, &told, &[]);
    assert_eq!(rig.cancels.len(), 1, "now it is at work");
}

/// Guards against a late cancel that makes the probe fail, so that the client's settings are lost.
#[test]
fn the_question_about_a_session_waits_for_the_end_of_a_cancel() {
    let mut rig = full("");
    let first = rig.client();
    let id = rig.client_begins(&[("user", "u"), ("database", "db")]);
    let key = rig.key_told(id);
    rig.told(id);
    rig.told(first);
    rig.says(id, |w| w.query(b"set role bob"));
    let server = rig.server_of(id).unwrap();
    rig.cancel_request(&key);
    assert_eq!(rig.cancels.len(), 1);
    rig.told(server);
    rig.completes(server, "SET");
    assert_eq!(rig.told(server), [""; 0]);
    assert_eq!(rig.server_of(id), Some(server));
    rig.cancel_arrives(server);
    assert!(
        rig.told(server).iter().any(|l| l.starts_with("Bind")),
        "now it is asked"
    );
}

/// A client that sends two queries at once, and leaves.
fn leaves_two_queries(rig: &mut Rig, first: &[u8]) -> ServerId {
    let id = rig.client();
    rig.says(id, |w| {
        w.query(first);
        w.query(b"delete from t");
    });
    let server = rig.server_of(id).unwrap();
    rig.client_leaves(id);
    server
}

/// Guards against a statement that runs without what its client has sent in front of it: the client left, and the pooler
/// cancelled the SET ROLE.
#[test]
fn nothing_is_cancelled_while_more_of_the_client_that_left_is_behind_it() {
    let mut rig = full("");
    let server = leaves_two_queries(&mut rig, b"set role bob");
    rig.wait(Duration::from_millis(500));
    assert_eq!(rig.cancels.len(), 0);
    rig.completes(server, "SET");
    rig.wait(Duration::from_millis(400));
    assert_eq!(rig.cancels.len(), 1, "nothing is behind the second one");
    rig.cancel_arrives(server);
    rig.says(server, |w| {
        w.error(&error("57014", "canceling statement due to user request"));
        w.ready_for_query(Idle);
    });
    assert_eq!(rig.aborted, []);
    assert!(rig.told(server).iter().any(|line| line == "Query DISCARD ALL"));
}

/// Guards against a server that is lost for ten seconds, while PostgreSQL runs queries that no client waits for.
#[test]
fn queries_that_a_client_has_left_behind_end_with_their_connection_if_the_first_takes_long() {
    let mut rig = full("");
    let server = leaves_two_queries(&mut rig, b"select pg_sleep(9)");
    rig.wait(Duration::from_millis(1400));
    assert_eq!(rig.cancels.len(), 1);
    assert_eq!(rig.aborted, [server], "so that it does not read the second");
}

/// Guards against a client that gets a server which waits for a Sync: a Bind failed after its last client had left, and
/// the Query after it was ignored.
#[test]
fn a_server_that_waits_for_a_sync_gets_one_when_its_client_has_left() {
    let mut rig = full("");
    let id = rig.client();
    rig.says(id, |w| {
        w.bind_text(b"nothing", &[]);
        w.query(b"select 1");
    });
    let server = rig.server_of(id).unwrap();
    rig.told(server);
    rig.client_leaves(id);
    rig.cancel_arrives(server);
    rig.says(server, |w| {
        w.error(&error("26000", "prepared statement does not exist"));
    });
    assert_eq!(rig.told(server), ["Sync"]);
    rig.says(server, |w| w.ready_for_query(Idle));
    assert!(
        rig.closed.contains(&server.into()),
        "PostgreSQL 18 would fail the next client's command"
    );
}

/// Guards against running another client's unnamed statement: a Query without its terminator fails before it destroys
/// that statement.
#[test]
fn a_malformed_query_does_not_end_the_unnamed_statement_of_another_client() {
    for broken in [&b"select 1"[..], b"select\0 1\0"] {
        let mut rig = full("");
        let (a, b) = (rig.client(), rig.client());
        rig.says(a, |w| {
            w.parse(b"", b"select 'secret'", &[0, 0]);
            w.sync();
        });
        let server = rig.server_of(a).unwrap();
        rig.told(server);
        rig.says(server, |w| {
            w.empty(b'1');
            w.ready_for_query(Idle);
        });
        rig.says(b, |w| {
            w.message(b'Q', |body| body.extend_from_slice(broken));
            w.bind_text(b"", &[]);
            w.execute();
            w.sync();
        });
        let mut told = rig.told(server);
        if told.iter().any(|l| l.ends_with("pgweir_c")) {
            // A text that cannot be read counts as code: other clients' values of sequences are discarded first.
            rig.says(server, |w| {
                w.empty(b'1');
                w.empty(b'2');
                w.command_complete("DISCARD SEQUENCES");
                w.empty(b'3');
                w.ready_for_query(Idle);
            });
            told = rig.told(server);
        }
        let close = told
            .iter()
            .position(|l| l == "Close S")
            .expect("the statement is closed");
        let bind = told.iter().rposition(|l| l.starts_with("Bind")).unwrap();
        assert!(close < bind, "{told:?}");
    }
}

/// A client on the only server of a pool whose connect_query sets a custom setting and work_mem.
fn with_connect_query(mode: &str) -> (Rig, ClientId, ServerId) {
    let query = "set app.pool = 1; set work_mem = 3072";
    let settings = format!("session_state = full\ndefault_pool_size = 1\npool_mode = {mode}");
    let mut rig = Rig::with(
        &format!("db = host=127.0.0.1 user=u connect_query='{query}'"),
        &settings,
    );
    let id = rig.client_begins(&[("user", "u"), ("database", "db")]);
    let server = rig.connects.pop_front().expect("a server is wanted");
    rig.server_logs_in(server);
    assert_eq!(rig.told(server), [format!("Query {query}")]);
    rig.says(server, |w| {
        w.command_complete("SET");
        w.command_complete("SET");
        w.ready_for_query(Idle);
    });
    rig.tells_settings(server, &[("work_mem", "3072"), ("role", "none"), ("app.pool", "1")]);
    if mode == "transaction" {
        rig.tells_catalog(server, &[], &[]);
    }
    rig.told(id);
    (rig, id, server)
}

/// Guards against custom settings of connect_query that one client's RESET removes for all, because no view shows them.
#[test]
fn what_connect_query_has_set_is_made_again_behind_anothers_reset() {
    let (mut rig, one, server) = with_connect_query("transaction");
    let other = rig.client();
    rig.says(one, |w| w.query(b"reset app.pool"));
    assert_eq!(rig.hears(server).len(), 1);
    rig.completes(server, "RESET");
    rig.tells_settings(server, &[("work_mem", "3072"), ("role", "none"), ("app.pool", "")]);
    rig.says(other, |w| w.query(b"select 1"));
    assert_eq!(made(&rig.hears(server)), ["app.pool = 1"]);
}

/// Guards against a session pool whose second client runs without the settings of connect_query.
#[test]
fn what_connect_query_has_set_is_made_again_behind_the_reset_of_a_session() {
    let (mut rig, one, server) = with_connect_query("session");
    rig.says(one, |w| w.query(b"select 1"));
    rig.completes(server, "SELECT 1");
    rig.told(server);
    rig.client_leaves(one);
    assert_eq!(rig.told(server)[0], "Query DISCARD ALL");
    rig.completes(server, "DISCARD ALL");
    rig.says(server, |w| {
        w.data_row(1, [Some(&b"f"[..])]);
        w.command_complete("SELECT 1");
        w.ready_for_query(Idle);
    });
    let other = rig.client();
    rig.says(other, |w| w.query(b"select 1"));
    assert_eq!(made(&rig.hears(server)), ["app.pool = 1", "work_mem = 3072"]);
}

/// Guards against sending a call that the pooler must handle itself to a server, which does not know the process id.
#[test]
fn a_client_is_ended_by_the_process_id_it_was_told() {
    let mut rig = full("");
    let client = rig.client_begins(&[("user", "u"), ("database", "db")]);
    rig.servers_log_in();
    let process_id = rig.key_told(client).process_id;
    rig.told(client);
    rig.says(client, |w| w.query(b"select 1"));
    let server = rig.server_of(client).expect("linked");
    rig.completes(server, "SELECT 1");
    rig.told(server);
    rig.told(client);
    rig.says(client, |w| {
        w.query(format!("select pg_terminate_backend({process_id})").as_bytes())
    });
    assert_eq!(rig.told(server), [""; 0]);
    assert!(rig.told(client)[0].contains("57P01"));
    assert!(rig.closed.contains(&client.into()));
}
