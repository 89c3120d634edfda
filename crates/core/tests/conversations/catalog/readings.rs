//! A server that is asked for the catalog.

use crate::rig::Rig;
use pgweir_core::{ClientId, ServerId};
use std::time::Duration;

pub const SIZE_2: &str = "default_pool_size = 2\n";

/// A function that changes a setting, and one that does not.
pub const OBJECTS: [[&str; 4]; 2] = [["r", "16400", "remember", "0"], ["r", "16401", "harmless", "0"]];

pub const SOURCES: [[&str; 3]; 2] = [
    ["16400", "p", "begin perform set_config('app.x', '1', false); end"],
    ["16401", "s", "select 1"],
];

/// The first statement of a reading.
const READS: &str = "Bind  pgweir_9";

/// Whether a server has been asked for the catalog since the last look.
pub fn is_asked(rig: &mut Rig, server: ServerId) -> bool {
    rig.told(server).iter().any(|m| m == READS)
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
    // A server on which others have drawn from sequences may be told to forget the values first.
    let query = format!("Query {text}");
    loop {
        let told = rig.told(server);
        if told.contains(&query) {
            break;
        }
        rig.replies(server, &told, None, |w, _| w.command_complete("DISCARD SEQUENCES"));
    }
    rig.completes(server, "SELECT 1");
    server
}

/// Answers a probe that finds nothing, with DISCARD PLANS before it if there is one, or a reading of a catalog that is
/// empty.
pub fn nothing_found(rig: &mut Rig, server: ServerId) -> Vec<String> {
    let told = rig.told(server);
    rig.replies(server, &told, Some("DISCARD PLANS"), |w, _| {
        w.command_complete("SELECT 0")
    });
    told
}

/// A server answers the probe behind code that is not read, and the RESET that follows. Returns the reading of the
/// catalog that may come last and is not answered.
pub fn settles(rig: &mut Rig, server: ServerId) -> Vec<String> {
    loop {
        let told = rig.told(server);
        if told.is_empty() || told.iter().any(|m| m == READS) {
            return told;
        }
        rig.replies(server, &told, Some("SELECT 0"), |w, _| w.command_complete("SELECT 0"));
    }
}

/// Whether a server has got a probe since the last look.
pub fn is_probed(rig: &mut Rig, server: ServerId) -> bool {
    let probes = ["Bind  pgweir_6", "Bind  pgweir_7"];
    rig.told(server).iter().any(|m| probes.contains(&&**m))
}

/// Answers a reading whose messages have been looked at.
pub fn catalog_is_empty(rig: &mut Rig, server: ServerId, told: &[String]) {
    assert!(told.iter().any(|m| m == READS), "{told:?}");
    rig.replies(server, told, None, |w, _| w.command_complete("SELECT 0"));
}
