//! Servers that have, or had, temporary objects.

use crate::rig::{EMPTIED, NOTHING, Rig, Session, TEMPORARY};
use pgweir_core::{ClientId, ServerId};

pub fn pool_of(size: u32) -> Rig {
    Rig::new(&format!("default_pool_size = {size}\ndeferred_begin = 1"))
}

/// A client sends a Query. Its server answers it, and the probe after it; returns the server.
pub fn does(rig: &mut Rig, client: ClientId, text: &str, session: Session<'_>) -> ServerId {
    asks(rig, client, text);
    done(rig, client, text, session)
}

pub fn asks(rig: &mut Rig, client: ClientId, text: &str) {
    rig.says(client, |w| w.query(text.as_bytes()));
    rig.servers_log_in();
}

/// The server of a client answers its Query, the requests in front of it and behind it; returns the server.
pub fn done(rig: &mut Rig, client: ClientId, text: &str, session: Session<'_>) -> ServerId {
    let server = rig.server_of(client).expect("linked");
    loop {
        let told = rig.told(server);
        rig.replies_about(server, &told, NOTHING);
        let last = told.last().expect("something was sent");
        if last != "Sync" {
            assert_eq!(last, &format!("Query {text}"));
            break;
        }
    }
    rig.completes(server, "DONE");
    answers(rig, server, session);
    server
}

/// The server answers everything except Queries, until it is sent nothing more; returns the Queries.
pub fn answers(rig: &mut Rig, server: ServerId, session: Session<'_>) -> Vec<String> {
    let mut queries = Vec::new();
    loop {
        let told = rig.told(server);
        if told.is_empty() {
            return queries;
        }
        rig.replies_about(server, &told, session);
        queries.extend(told.into_iter().filter(|line| line.starts_with("Query")));
    }
}

/// A server that has had temporary objects, and the client that made them.
pub fn server_with_schema(rig: &mut Rig) -> (ServerId, ClientId) {
    let client = rig.client();
    let server = does(rig, client, "create temp table t (a int)", TEMPORARY);
    assert_eq!(does(rig, client, "drop table t", EMPTIED), server);
    assert_eq!(rig.server_of(client), None, "unpinned");
    (server, client)
}

pub fn does_query_on_new(rig: &mut Rig, client: ClientId, old: ServerId) {
    let new = done(rig, client, "select pg_my_temp_schema()", NOTHING);
    assert_ne!(new, old);
    let told = rig.told(client);
    assert_eq!(told.last().map(String::as_str), Some("ReadyForQuery I"));
}
