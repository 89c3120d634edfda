//! Traces of earlier sessions that a client could notice on its server: conversations in virtual time.

mod rig;

use pgweir_core::{ClientId, ServerId};
use pgweir_wire::TransactionStatus::{Idle, InTransaction};
use rig::Rig;

/// The server's answer about temporary objects.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Temporary {
    /// None, and no schema for them.
    Nothing,
    /// None any more, but the schema.
    Schema,
    /// Some.
    Objects,
}

use Temporary::{Nothing, Objects, Schema};

/// The question after DISCARD ALL.
const REMAINS: &str = "Query SELECT pg_catalog.pg_my_temp_schema() OPERATOR(pg_catalog.<>) 0";

fn pool_of(size: u32) -> Rig {
    Rig::new(&format!(
        "session_state = full\ndefault_pool_size = {size}\ndeferred_begin = 1"
    ))
}

/// The server answers everything except Queries, until it is sent nothing more; returns the Queries.
fn answers(rig: &mut Rig, server: ServerId, temporary: Temporary, settings: &[(&str, &str)]) -> Vec<String> {
    let mut queries = Vec::new();
    loop {
        let told = rig.told(server);
        if told.is_empty() {
            return queries;
        }
        let mut bound = "";
        for line in &told {
            match line.split_once(' ').unwrap_or((line, "")) {
                ("Parse", _) => rig.says(server, |w| w.empty(b'1')),
                ("Close", _) => rig.says(server, |w| w.empty(b'3')),
                ("Bind", statement) => {
                    bound = statement;
                    rig.says(server, |w| w.empty(b'2'));
                }
                ("Execute", _) => rig.says(server, |w| {
                    if bound.ends_with("pgweir_6") {
                        let is = |held: bool| Some(if held { &b"t"[..] } else { b"f" });
                        let (objects, no) = (is(temporary == Objects), is(false));
                        w.data_row(6, [objects, no, no, no, no, is(temporary != Nothing)]);
                    } else if bound.ends_with("pgweir_7") {
                        for (name, value) in settings {
                            w.data_row(2, [Some(name.as_bytes()), Some(value.as_bytes())]);
                        }
                    } else {
                        w.data_row(1, [Some(&b""[..])]);
                    }
                    w.command_complete("SELECT 1");
                }),
                ("Sync", _) => rig.says(server, |w| w.ready_for_query(Idle)),
                ("Query", _) => queries.push(line.clone()),
                ("Terminate", _) => {}
                (other, _) => panic!("nobody answers {other}"),
            }
        }
    }
}

/// A client sends a Query. Its server answers it, and the probe after it; returns the server.
fn does(rig: &mut Rig, client: ClientId, text: &str, temporary: Temporary) -> ServerId {
    asks(rig, client, text);
    done(rig, client, text, temporary, &[])
}

fn asks(rig: &mut Rig, client: ClientId, text: &str) {
    rig.says(client, |w| w.query(text.as_bytes()));
    rig.servers_log_in();
}

fn done(rig: &mut Rig, client: ClientId, text: &str, temporary: Temporary, settings: &[(&str, &str)]) -> ServerId {
    let server = rig.server_of(client).expect("linked");
    loop {
        let told = rig.told(server);
        let mut tag = "SELECT 1";
        for line in &told {
            match line.split(' ').next() {
                Some("Parse") => rig.says(server, |w| w.empty(b'1')),
                Some("Bind") => {
                    // Other clients' values of sequences are discarded before code runs.
                    if line.ends_with("pgweir_c") {
                        tag = "DISCARD SEQUENCES";
                    }
                    rig.says(server, |w| w.empty(b'2'));
                }
                Some("Close") => rig.says(server, |w| w.empty(b'3')),
                Some("Execute") => rig.says(server, |w| w.command_complete(tag)),
                Some("Sync") => rig.says(server, |w| w.ready_for_query(Idle)),
                _ => {}
            }
        }
        let last = told.last().expect("something was sent");
        if last != "Sync" {
            assert_eq!(last, &format!("Query {text}"));
            break;
        }
    }
    rig.completes(server, "DONE");
    answers(rig, server, temporary, settings);
    server
}

/// A server that has had temporary objects, and the client that made them.
fn server_with_schema(rig: &mut Rig) -> (ServerId, ClientId) {
    let client = rig.client();
    let server = does(rig, client, "create temp table t (a int)", Objects);
    assert_eq!(does(rig, client, "drop table t", Schema), server);
    assert_eq!(rig.server_of(client), None, "unpinned");
    (server, client)
}

fn is_closed(rig: &Rig, server: ServerId) -> bool {
    rig.closed.contains(&server.into())
}

#[test]
fn who_would_notice_gets_an_idle_server_without_the_schema() {
    let mut rig = pool_of(2);
    let (busy, other) = (rig.client(), rig.client());
    asks(&mut rig, busy, "select 1");
    let clean = rig.server_of(busy).expect("linked");
    let (marked, owner) = server_with_schema(&mut rig);
    done(&mut rig, busy, "select 1", Nothing, &[]);
    assert_ne!(marked, clean);
    // The server that became idle last is taken first.
    does(&mut rig, owner, "select 1", Schema);
    does(&mut rig, busy, "select 1", Nothing);
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
        done(&mut rig, clean_s, "select 1", Nothing, &[]);
        done(&mut rig, marked_s, "select 1", Schema, &[]);
        assert_eq!(does(&mut rig, other, text, Nothing), clean, "{text}");
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
        done(&mut rig, clean_s, "select 1", Nothing, &[]);
        done(&mut rig, marked_s, "select 1", Schema, &[]);
        assert_eq!(does(&mut rig, other, text, Schema), marked, "{text}");
    }
    assert!(!is_closed(&rig, marked) && !is_closed(&rig, clean));
}

#[test]
fn a_new_server_takes_the_place_of_the_last_one() {
    let mut rig = pool_of(1);
    let (marked, owner) = server_with_schema(&mut rig);
    let other = rig.client();
    assert_eq!(does(&mut rig, other, "select 1", Schema), marked);
    // A client that has had temporary objects itself expects such a schema.
    assert_eq!(does(&mut rig, owner, "select pg_my_temp_schema()", Schema), marked);
    let new = does(&mut rig, other, "select pg_my_temp_schema()", Nothing);
    assert!(new != marked && is_closed(&rig, marked));
    assert_eq!(
        does(&mut rig, other, "select pg_my_temp_schema()", Nothing),
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
        answers(&mut rig, server, Nothing, &[]);
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
        assert!(is_closed(&rig, marked), "begins: {begins}");
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
    assert!(is_closed(&rig, marked));
    does_query_on_new(&mut rig, other, marked);
}

fn does_query_on_new(rig: &mut Rig, client: ClientId, old: ServerId) {
    let new = done(rig, client, "select pg_my_temp_schema()", Nothing, &[]);
    assert_ne!(new, old);
    let told = rig.told(client);
    assert_eq!(told.last().map(String::as_str), Some("ReadyForQuery I"));
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
    assert!(is_closed(&rig, marked));
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
    assert!(is_closed(&rig, marked));
    rig.servers_log_in();
    does_query_on_new(&mut rig, other, marked);
}

#[test]
fn temp_buffers_are_restored_where_they_can_be() {
    let mut rig = pool_of(1);
    let other = rig.client();
    asks(&mut rig, other, "set temp_buffers = 200");
    let server = done(
        &mut rig,
        other,
        "set temp_buffers = 200",
        Nothing,
        &[("temp_buffers", "200")],
    );
    let third = rig.client();
    asks(&mut rig, third, "select 1");
    answers(&mut rig, server, Nothing, &[]);
    rig.completes(server, "SELECT 1");
    let (marked, _) = server_with_schema(&mut rig);
    assert_eq!(marked, server);
    asks(&mut rig, other, "select 1");
    let new = rig.server_of(other).expect("linked");
    assert_ne!(new, marked, "it would be refused there");
    assert_eq!(answers(&mut rig, new, Nothing, &[]), ["Query select 1"]);
}

/// Guards against a schema that is not known, because the client left before a probe.
#[test]
fn what_discard_all_leaves_is_asked() {
    for remains in [false, true] {
        let mut rig = pool_of(1);
        let (client, other) = (rig.client(), rig.client());
        let server = does(
            &mut rig,
            client,
            "select pg_advisory_lock(1); do $$begin end$$",
            Objects,
        );
        rig.client_leaves(client);
        assert_eq!(rig.told(server), ["Query DISCARD ALL", REMAINS]);
        told_what_remains(&mut rig, server, remains);
        asks(&mut rig, other, "select pg_my_temp_schema()");
        // Only the pin showed that there were temporary objects.
        assert!(is_closed(&rig, server));
    }
}

fn told_what_remains(rig: &mut Rig, server: ServerId, schema: bool) {
    rig.completes(server, "DISCARD ALL");
    rig.says(server, |w| {
        w.data_row(1, [Some(if schema { &b"t"[..] } else { b"f" })]);
        w.command_complete("SELECT 1");
        w.ready_for_query(Idle);
    });
}

#[test]
fn in_session_pooling_a_server_with_traces_serves_nobody_else() {
    let remains = format!("{REMAINS} FROM pg_catalog.pg_stat_force_next_flush()");
    for (text, schema, closed) in [
        ("select 1", false, false),
        ("select f()", true, true),
        ("select setseed(0.5)", false, true),
        ("load 'x'", false, true),
        (
            "select pg_create_physical_replication_slot('s', false, true)",
            false,
            true,
        ),
        ("prepare q as select 1", false, false),
    ] {
        for parsed in [false, true] {
            let mut rig = Rig::new("session_state = full\npool_mode = session\ndefault_pool_size = 1");
            let client = rig.client();
            let server = if parsed {
                rig.says(client, |w| {
                    w.parse(b"", text.as_bytes(), &[0, 0]);
                    w.bind_text(b"", &[]);
                    w.execute();
                    w.sync();
                });
                let server = rig.server_of(client).expect("linked");
                answers(&mut rig, server, Nothing, &[]);
                server
            } else {
                does(&mut rig, client, text, Nothing)
            };
            rig.client_leaves(client);
            let told = rig.told(server);
            if closed && !schema {
                assert!(is_closed(&rig, server), "{text}: {told:?}");
                continue;
            }
            assert_eq!(told, ["Query DISCARD ALL", &remains], "{text}");
            told_what_remains(&mut rig, server, schema);
            assert_eq!(is_closed(&rig, server), closed, "{text}");
        }
    }
}

/// Guards against a table that is lost between two transactions: with `pg_temp` first in search_path, CREATE TABLE
/// makes a temporary table, and its text does not say so.
#[test]
fn what_is_created_under_a_search_path_with_pg_temp_pins() {
    let mut rig = pool_of(1);
    let client = rig.client();
    let text = "set search_path = pg_temp, public";
    asks(&mut rig, client, text);
    let server = done(&mut rig, client, text, Nothing, &[("search_path", "pg_temp, public")]);
    assert_eq!(rig.server_of(client), None, "the path alone is restored elsewhere");
    asks(&mut rig, client, "create table t (a int)");
    rig.told(server);
    rig.completes(server, "CREATE TABLE");
    answers(&mut rig, server, Objects, &[]);
    assert_eq!(rig.server_of(client), Some(server), "pinned");
    does(&mut rig, client, "drop table t", Schema);
    assert_eq!(rig.server_of(client), None);
    let other = rig.client();
    asks(&mut rig, other, "select pg_my_temp_schema()");
    // Its search_path is restored first, which the server must confirm.
    assert!(answers(&mut rig, server, Nothing, &[]).is_empty());
    assert!(is_closed(&rig, server), "it is known to have the schema");
    rig.servers_log_in();
    does_query_on_new(&mut rig, other, server);
}

/// Guards against an empty `current_setting('app.x', true)` for a client that has never set this setting, while a
/// server on which no client has set it is idle.
#[test]
fn a_strange_custom_setting_is_asked_for_where_nobody_has_made_it() {
    for makes in [
        "set app.x = 'v'",
        "set local app.x = 'v'",
        "select set_config('app.x', 'v', true)",
    ] {
        for asks_for in ["select current_setting('app.x', true)", "show app.x;"] {
            let mut rig = pool_of(2);
            let (a, b) = (rig.client(), rig.client());
            // Two idle servers, of which that of `a` is taken first.
            asks(&mut rig, a, "select 1");
            asks(&mut rig, b, "select 1");
            let (first, second) = (rig.server_of(a).unwrap(), rig.server_of(b).unwrap());
            done(&mut rig, b, "select 1", Nothing, &[]);
            done(&mut rig, a, "select 1", Nothing, &[]);
            asks(&mut rig, a, makes);
            assert_eq!(done(&mut rig, a, makes, Nothing, &[]), first);
            assert_eq!(does(&mut rig, b, asks_for, Nothing), second, "{makes}, {asks_for}");
            let other = "select current_setting('app.y', true)";
            assert_eq!(does(&mut rig, b, other, Nothing), second, "the one used last");
            does(&mut rig, a, makes, Nothing);
            // Now both servers have the setting, and neither is closed because of that.
            asks(&mut rig, b, asks_for);
            assert!(rig.server_of(b).is_some() && rig.connects.is_empty());
        }
    }
}
