//! Servers that have, or had, temporary objects.

use crate::rig::Rig;
use Temporary::{Nothing, Objects, Schema};
use pgweir_core::{ClientId, ServerId};
use pgweir_wire::TransactionStatus::Idle;

/// The server's answer about temporary objects.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Temporary {
    /// None, and no schema for them.
    Nothing,
    /// None any more, but the schema.
    Schema,
    /// Some.
    Objects,
}

/// The question after DISCARD ALL.
pub const REMAINS: &str = "Query SELECT pg_catalog.pg_my_temp_schema() OPERATOR(pg_catalog.<>) 0";

pub fn pool_of(size: u32) -> Rig {
    Rig::new(&format!(
        "session_state = full\ndefault_pool_size = {size}\ndeferred_begin = 1"
    ))
}

/// The server answers everything except Queries, until it is sent nothing more; returns the Queries.
pub fn answers(rig: &mut Rig, server: ServerId, temporary: Temporary, settings: &[(&str, &str)]) -> Vec<String> {
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
pub fn does(rig: &mut Rig, client: ClientId, text: &str, temporary: Temporary) -> ServerId {
    asks(rig, client, text);
    done(rig, client, text, temporary, &[])
}

pub fn asks(rig: &mut Rig, client: ClientId, text: &str) {
    rig.says(client, |w| w.query(text.as_bytes()));
    rig.servers_log_in();
}

pub fn done(rig: &mut Rig, client: ClientId, text: &str, temporary: Temporary, settings: &[(&str, &str)]) -> ServerId {
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
pub fn server_with_schema(rig: &mut Rig) -> (ServerId, ClientId) {
    let client = rig.client();
    let server = does(rig, client, "create temp table t (a int)", Objects);
    assert_eq!(does(rig, client, "drop table t", Schema), server);
    assert_eq!(rig.server_of(client), None, "unpinned");
    (server, client)
}

pub fn is_closed(rig: &Rig, server: ServerId) -> bool {
    rig.closed.contains(&server.into())
}

pub fn does_query_on_new(rig: &mut Rig, client: ClientId, old: ServerId) {
    let new = done(rig, client, "select pg_my_temp_schema()", Nothing, &[]);
    assert_ne!(new, old);
    let told = rig.told(client);
    assert_eq!(told.last().map(String::as_str), Some("ReadyForQuery I"));
}
