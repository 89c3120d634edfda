//! Servers that answer questions about the session of their last client.

use crate::rig::{NOTHING, Rig, error};
use pgweir_core::{ClientId, ServerId};
use pgweir_wire::TransactionStatus;
use pgweir_wire::TransactionStatus::Idle;

/// The server answers a Query; returns what it was sent before.
pub fn answers_to_query(rig: &mut Rig, server: ServerId, fails: bool, status: TransactionStatus) -> Vec<String> {
    let told = rig.told(server);
    rig.says(server, |w| {
        if fails {
            w.error(&error("22012", "division by zero"));
        } else {
            w.command_complete("DONE");
        }
        w.ready_for_query(status);
    });
    told
}

/// A client sends a Query, and its server answers it.
pub fn does(rig: &mut Rig, client: ClientId, text: &str) -> ServerId {
    rig.says(client, |w| w.query(text.as_bytes()));
    let server = rig.server_of(client).expect("linked");
    assert_eq!(rig.told(server).last(), Some(&format!("Query {text}")));
    rig.completes(server, "DONE");
    server
}

/// A server is cleaned after its client has left.
pub fn is_discarded(rig: &mut Rig, server: ServerId) {
    rig.is_told_to_discard(server);
    rig.completes(server, "DISCARD ALL");
    rig.says(server, |w| {
        w.data_row(1, [Some(&b"t"[..])]);
        w.command_complete("SELECT 1");
        w.ready_for_query(Idle);
    });
}

/// Whether these messages contain a probe of pins.
pub fn probes(told: &[String]) -> bool {
    told.iter()
        .any(|line| line.starts_with("Bind") && line.ends_with("pgweir_6"))
}

/// A server refuses a probe, whose statements are prepared again.
pub fn probe_fails(rig: &mut Rig, server: ServerId) {
    let told = rig.told(server);
    let prepares = |line: &String| line.starts_with("Parse pgweir_6") || line.starts_with("Parse pgweir_7");
    assert!(told.iter().any(prepares), "{told:?}");
    rig.says(server, |w| {
        w.error(&error("XX000", "out of order"));
        w.ready_for_query(Idle);
    });
}

pub fn client_begins_with_work_mem(rig: &mut Rig) -> ClientId {
    rig.client_begins(&[("user", "u"), ("database", "db"), ("work_mem", "8MB")])
}

pub fn client_with_startup_value(rig: &mut Rig) -> ClientId {
    let client = client_begins_with_work_mem(rig);
    let server = rig.connects.pop_front().expect("a server for the login");
    rig.server_logs_in(server);
    rig.answers_all_about(server, NOTHING);
    rig.told(client);
    client
}
