//! Orders, their answers, and what they have done.

use crate::rig::{NOTHING, Rig};
use pgweir_core::{ClientId, Command, ReloadOutcome, ServerId};
use pgweir_wire::TransactionStatus::InTransaction;

pub const GONE: &str = "Error 57P01 server shutting down";
pub const KILLED: &str = "Error 57P01 database removed";

pub fn order(rig: &mut Rig, id: ClientId, text: &str) -> Vec<String> {
    rig.says(id, |w| w.query(text.as_bytes()));
    rig.told(id)
}

pub fn done(tag: &str) -> Vec<String> {
    vec![format!("CommandComplete {tag}"), "ReadyForQuery I".into()]
}

pub fn signal(rig: &mut Rig, command: Command) {
    rig.pooler.handle_command(rig.now, command);
    rig.settle(&[]);
}

pub fn logged(rig: &Rig, text: &str) -> bool {
    rig.log.iter().any(|(_, line)| line.contains(text))
}

/// A client with an open transaction, and its server.
pub fn in_transaction(rig: &mut Rig) -> (ClientId, ServerId) {
    let client = rig.client();
    rig.says(client, |w| w.query(b"begin; select 1"));
    let server = rig.server_of(client).expect("linked");
    rig.says(server, |w| {
        w.command_complete("SELECT 1");
        w.ready_for_query(InTransaction);
    });
    rig.told(client);
    (client, server)
}

pub fn commit(rig: &mut Rig, client: ClientId) {
    rig.says(client, |w| w.query(b"commit"));
    let server = rig.server_of(client).expect("still linked");
    rig.told(server);
    rig.completes(server, "COMMIT");
    rig.answers_all_about(server, NOTHING);
}

pub fn reload(rig: &mut Rig, outcome: ReloadOutcome) {
    let by = rig.reloads.pop_front().expect("a reload was asked for");
    rig.pooler.handle_reload(rig.now, by, outcome);
    rig.settle(&[]);
}
