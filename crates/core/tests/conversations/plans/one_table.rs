//! Clients that share a prepared statement about one table.

use crate::rig::{NO_TYPES, Rig, error};
use pgweir_core::{ClientId, ServerId};
use pgweir_wire::write::Column;
use pgweir_wire::{TransactionStatus, Writer};

pub const TEXT: &[u8] = b"select * from t";
pub const CHANGED: &str = "cached plan must not change result type";

/// The description of a table with these columns.
pub fn rows(w: &mut Writer<'_>, names: &[&str]) {
    let column = |name| Column {
        name,
        type_oid: 23,
        type_bytes: 4,
    };
    let columns: Vec<_> = names.iter().map(|&name| column(name)).collect();
    w.message(b't', |body| body.extend([0, 0]));
    w.row_description(&columns);
}

pub fn describes(rig: &mut Rig, server: ServerId, names: &[&str]) {
    rig.says(server, |w| rows(w, names));
}

pub fn says_changed(rig: &mut Rig, server: ServerId, status: TransactionStatus) {
    rig.says(server, |w| {
        w.error(&error("0A000", CHANGED));
        w.ready_for_query(status);
    });
}

pub fn binds(rig: &mut Rig, client: ClientId) {
    rig.says(client, |w| {
        w.bind_text(b"s", &[]);
        w.execute();
        w.sync();
    });
}

/// `a` has prepared the statement on the only server, and `b` after it, so that the server did not see the Parse of
/// `b`.
pub fn shared() -> (Rig, ClientId, ClientId, ServerId) {
    let mut rig = Rig::new("default_pool_size = 1");
    let (a, b) = (rig.client(), rig.client());
    for client in [a, b] {
        rig.says(client, |w| {
            w.parse(b"s", TEXT, NO_TYPES);
            w.sync();
        });
        let server = rig.server_of(client).unwrap();
        rig.serves(server, "SELECT 1");
        rig.told(client);
        if client == b {
            return (rig, a, b, server);
        }
    }
    unreachable!()
}

pub fn binds_and_describes(rig: &mut Rig, client: ClientId) {
    rig.says(client, |w| {
        w.bind_text(b"s", &[]);
        w.describe(b'P', b"");
        w.execute();
        w.sync();
    });
}
