//! A server that is asked for the catalog.

use crate::rig::Rig;
use pgweir_core::{ClientId, ServerId};
use pgweir_wire::TransactionStatus::Idle;
use std::time::Duration;

pub const SIZE_2: &str = "default_pool_size = 2\n";

/// A function that changes a setting, and one that does not.
pub const OBJECTS: [[&str; 4]; 2] = [["r", "16400", "remember", "0"], ["r", "16401", "harmless", "0"]];

pub const SOURCES: [[&str; 3]; 2] = [
    ["16400", "p", "begin perform set_config('app.x', '1', false); end"],
    ["16401", "s", "select 1"],
];

/// Whether a server has been asked for the catalog since the last look.
pub fn is_asked(rig: &mut Rig, server: ServerId) -> bool {
    rig.told(server).iter().any(|m| m == "Bind  pgweir_9")
}

pub fn rig(settings: &str) -> Rig {
    let mut rig = Rig::new(settings);
    rig.catalogs_are_empty = false;
    rig
}

/// A client, and the server that has read the catalog for it.
pub fn start(rig: &mut Rig, objects: &[[&str; 4]], sources: &[[&str; 3]]) -> (ClientId, ServerId) {
    let client = rig.client_begins(&[("user", "u"), ("database", "db")]);
    let server = rig.servers_log_in()[0];
    rig.tells_catalog(server, objects, sources);
    rig.told(client);
    (client, server)
}

/// Longer than the pause between two readings, and longer than waiting clients may delay one.
pub const PAUSE: Duration = Duration::from_millis(1001);

pub fn asks(rig: &mut Rig, client: ClientId, text: &str) -> ServerId {
    rig.says(client, |w| w.query(text.as_bytes()));
    let server = rig.server_of(client).expect("linked");
    rig.told(server);
    rig.completes(server, "SELECT 1");
    server
}

/// Answers a probe that finds nothing, or a reading of a catalog that is empty.
pub fn nothing_found(rig: &mut Rig, server: ServerId) -> Vec<String> {
    let told = rig.told(server);
    rig.replies(server, &told, None, |w, _| w.command_complete("SELECT 0"));
    told
}

/// Whether a server has got a probe since the last look.
pub fn is_probed(rig: &mut Rig, server: ServerId) -> bool {
    let probes = ["Bind  pgweir_6", "Bind  pgweir_7"];
    rig.told(server).iter().any(|m| probes.contains(&&**m))
}

/// Answers a reading whose messages have been looked at, on a server that has read before.
pub fn catalog_is_empty(rig: &mut Rig, server: ServerId) {
    rig.says(server, |w| {
        for statement in ["set", "set", "set", "set", "set", "objects", "sources"] {
            if statement != "set" {
                w.empty(b'1');
            }
            w.empty(b'2');
            w.command_complete("SELECT 0");
        }
        w.empty(b'3');
        w.empty(b'3');
        w.ready_for_query(Idle);
    });
}
