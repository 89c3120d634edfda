//! Clients whose queries wait behind the query of another client.

use crate::rig::{Rig, error};
use pgweir_core::{ClientId, ServerId};
use pgweir_wire::TransactionStatus::Idle;
use pgweir_wire::Writer;

/// One server, and every class of statements counts as short.
pub const SHARED: &str = "default_pool_size = 1\npipeline_depth = 8\nlink = adversarial";

/// A client that has logged in, and whose welcome has not been looked at.
pub fn login(rig: &mut Rig) -> ClientId {
    rig.client_begins(&[("user", "u"), ("database", "db")])
}

/// A client whose query runs, and others whose queries wait behind it, in order.
pub fn crowd(rig: &mut Rig, texts: &[&str]) -> (ServerId, Vec<ClientId>) {
    let first = rig.client();
    rig.query(first, "select 'first'");
    let server = rig.server_of(first).expect("the pool's only server");
    let others: Vec<ClientId> = texts.iter().map(|_| rig.client()).collect();
    for (client, text) in others.iter().zip(texts) {
        rig.told(*client);
        rig.query(*client, text);
    }
    rig.told(server);
    (server, others)
}

/// The server ends what runs in front of the crowd.
pub fn first_ends(rig: &mut Rig, server: ServerId) {
    rig.completes(server, "SELECT 1");
}

pub fn parse_and_run(w: &mut Writer<'_>, text: &str) {
    w.parse(b"", text.as_bytes(), &[0, 0]);
    w.bind_portal(b"", b"", &[]);
    w.execute_portal(b"");
    w.sync();
}

/// The end of a reply that a cancel has hit.
pub fn cancelled(w: &mut Writer<'_>) {
    w.error(&error("57014", "canceling statement due to user request"));
    w.ready_for_query(Idle);
}
