//! Readings that are refused or lost.

use super::readings::{PAUSE, SIZE_2, asks, catalog_is_empty, is_asked, is_probed, nothing_found, rig, settles};
use crate::rig::{Rig, error};
use pgweir_core::{LogLevel, ServerId};
use pgweir_wire::TransactionStatus::Idle;
use std::time::Duration;

fn refuses_reading(rig: &mut Rig, server: ServerId, sqlstate: &'static str, message: &'static str) {
    rig.told(server);
    rig.says(server, |w| {
        w.empty(b'1');
        w.error(&error(sqlstate, message));
        w.ready_for_query(Idle);
    });
}

/// The statements that were prepared.
fn parsed_in(told: &[String]) -> Vec<String> {
    let parse = |m: &String| Some(m.strip_prefix("Parse ")?.split(' ').next()?.to_string());
    told.iter().filter_map(parse).collect()
}

fn warnings(rig: &Rig) -> usize {
    let told = |(level, text): &&(LogLevel, String)| *level == LogLevel::Warning && text.contains("cannot tell what");
    rig.log.iter().filter(told).count()
}

/// Guards against trusting a catalog that nobody could read: a trigger or a view may run any function.
#[test]
fn if_the_catalog_must_not_be_read_every_transaction_is_probed() {
    let mut rig = rig(SIZE_2);
    let client = rig.client_begins(&[("user", "u"), ("database", "db")]);
    let server = rig.servers_log_in()[0];
    refuses_reading(&mut rig, server, "42501", "permission denied for table pg_proc");
    assert_eq!(warnings(&rig), 1);
    rig.told(client);
    for text in ["select abs(1)", "insert into t values (1)"] {
        asks(&mut rig, client, text);
        assert_eq!(rig.server_of(client), Some(server), "probed: {text}");
        nothing_found(&mut rig, server);
        rig.serves(server, "RESET");
        assert_eq!(rig.server_of(client), None, "no probe without end: {text}");
    }
    asks(&mut rig, client, "select remember()");
    nothing_found(&mut rig, server);
    assert_eq!(
        rig.server_of(client),
        Some(server),
        "nobody knows whose settings it makes"
    );
    assert_eq!(warnings(&rig), 1, "told once");
}

/// After a time limit or a conflict on a standby the next attempt may succeed. Until then anything may be code.
#[test]
fn a_reading_that_fails_is_tried_again_some_times() {
    let mut rig = rig(SIZE_2);
    let client = rig.client_begins(&[("user", "u"), ("database", "db")]);
    let server = rig.servers_log_in()[0];
    let timeout = "canceling statement due to statement timeout";
    refuses_reading(&mut rig, server, "57014", timeout);
    rig.told(client);
    for _ in 0..2 {
        asks(&mut rig, client, "select 1");
        assert_eq!(rig.server_of(client), Some(server), "probed");
        rig.wait(PAUSE);
        nothing_found(&mut rig, server);
        rig.serves(server, "RESET");
        refuses_reading(&mut rig, server, "57014", timeout);
    }
    asks(&mut rig, client, "select 1");
    assert_eq!(rig.server_of(client), Some(server), "still probed");
    assert_eq!(warnings(&rig), 1, "told once");
    rig.wait(PAUSE);
    assert!(settles(&mut rig, server).is_empty(), "not so soon");
    rig.wait(Duration::from_secs(60));
    rig.says(client, |w| w.query(b"select 2"));
    let told = settles(&mut rig, server);
    // The failed segments have prepared nothing, and have closed nothing; what has run may have replaced all others.
    assert_eq!(
        parsed_in(&told),
        ["pgweir_3", "pgweir_b", "pgweir_10", "pgweir_9", "pgweir_a"]
    );
    rig.says(server, |w| {
        w.empty(b'3');
        w.empty(b'1');
        for _ in 0..5 {
            w.empty(b'2');
            w.command_complete("SELECT 1");
        }
        w.empty(b'1');
        w.error(&error("57014", timeout));
        w.ready_for_query(Idle);
    });
    rig.wait(Duration::from_secs(60));
    rig.says(client, |w| w.query(b"select 2"));
    let told = settles(&mut rig, server);
    catalog_is_empty(&mut rig, server, &told);
    rig.serves(server, "SELECT 1");
    rig.serves(server, "SELECT 1");
    assert_eq!(rig.server_of(client), None, "known");
}

/// Guards against a server crash caused by the reading, which would keep every client from ever getting a server.
#[test]
fn a_server_that_is_lost_while_it_reads_is_followed_by_one_that_serves() {
    let mut rig = rig(SIZE_2);
    let client = rig.client_begins(&[("user", "u"), ("database", "db")]);
    let server = rig.servers_log_in()[0];
    rig.says(client, |w| w.query(b"select 1"));
    rig.server_dies(server);
    let next = rig.servers_log_in()[0];
    assert_eq!(rig.told(next), ["Query select 1"]);
    rig.completes(next, "SELECT 1");
    assert!(is_probed(&mut rig, next));
}

/// Guards against a warning about functions in the middle of an incident: the server was lost, which says nothing about
/// functions.
#[test]
fn a_server_that_is_lost_while_it_reads_is_not_worth_a_warning() {
    let mut rig = rig(SIZE_2);
    rig.client_begins(&[("user", "u"), ("database", "db")]);
    let server = rig.servers_log_in()[0];
    assert!(is_asked(&mut rig, server));
    rig.server_dies(server);
    let told = |level| {
        let tells = move |(l, text): &&(LogLevel, String)| *l == level && text.contains("cannot tell what");
        rig.log.iter().filter(tells).count()
    };
    assert_eq!((told(LogLevel::Warning), told(LogLevel::Debug)), (0, 1));
}

/// Guards against trusting an old catalog because every server that was to read a new one was ended: a client can end
/// the server processes of its own role.
#[test]
fn after_several_servers_lost_while_they_read_nothing_is_trusted() {
    let mut rig = rig(SIZE_2);
    let client = rig.client_begins(&[("user", "u"), ("database", "db")]);
    let mut server = rig.servers_log_in()[0];
    rig.told(client);
    for _ in 0..3 {
        rig.told(server);
        rig.server_dies(server);
        rig.wait(PAUSE);
        rig.says(client, |w| w.query(b"select 1"));
        server = rig.servers_log_in()[0];
        let told = settles(&mut rig, server);
        assert!(
            told.iter().all(|m| !m.starts_with("Query")) || told.is_empty(),
            "{told:?}"
        );
    }
    assert_eq!(warnings(&rig), 1, "it is worth a warning now");
    rig.told(server);
    asks(&mut rig, client, "insert into t values (1)");
    assert_eq!(rig.server_of(client), Some(server), "still probed");
}
