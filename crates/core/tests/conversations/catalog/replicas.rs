//! A primary and its standbys have one database: definitions reach the standbys when these have replayed them.

use super::readings::{OBJECTS, PAUSE, SOURCES, is_probed, settles};
use crate::rig::{self, Rig};
use pgweir_core::{ClientId, ServerId};
use std::time::Duration;

/// What every server of the cluster says of its database, beside [`OBJECTS`].
const IDENTITY: [&str; 4] = ["i", "5", "7712862618141694750", "0"];

/// `remember()` does nothing.
const CLEAN: [[&str; 3]; 2] = [["16400", "s", "select 1"], ["16401", "s", "select 1"]];

/// The primary and a standby, each with an entry.
const TWO_ENTRIES: &str = "rw = host=10.0.0.1 user=u dbname=app\nro = host=10.0.0.2 user=u dbname=app";

/// Both in each entry, and each entry takes only one of them.
const TWO_TARGETS: &str = "rw = host=10.0.0.1,10.0.0.2 user=u dbname=app target_session_attrs=read-write\n\
    ro = host=10.0.0.1,10.0.0.2 user=u dbname=app target_session_attrs=standby";

/// Both in each entry, and each entry takes both.
const TWO_HOSTS: &str = "rw = host=10.0.0.1,10.0.0.2 user=u dbname=app\n\
    ro = host=10.0.0.1,10.0.0.2 user=u dbname=app";

fn tells(rig: &mut Rig, server: ServerId, sources: &[[&str; 3]]) {
    rig.tells_catalog(server, &[&OBJECTS[..], &[IDENTITY]].concat(), sources);
}

/// Logs in to an entry, and opens its server; a standby has replayed up to `replayed`.
fn login(rig: &mut Rig, entry: &str, replayed: Option<u64>) -> (ClientId, ServerId) {
    let client = rig.client_begins(&[("user", "u"), ("database", entry)]);
    let host = if replayed.is_some() { "10.0.0.2" } else { "10.0.0.1" };
    let mut server = None;
    while let Some(id) = rig.connects.pop_front() {
        if !format!("{:?}", rig.endpoints[&id]).contains(host) {
            rig.connect_fails(id);
            continue;
        }
        let on = if replayed.is_some() { "on" } else { "off" };
        if let Some(lsn) = replayed {
            rig.replayed.insert(id, lsn);
        }
        rig.server_logs_in_with(id, &[("in_hot_standby", on), ("default_transaction_read_only", "off")]);
        server = Some(id);
    }
    let server = server.expect("a server of the host");
    (client, server)
}

/// A client, and the server that it gets.
type Pair = (ClientId, ServerId);

/// A rig whose primary and standby have been read, and the client and server of each.
fn two(databases: &str) -> (Rig, Pair, Pair) {
    let mut rig = Rig::with(databases, "default_pool_size = 1\n");
    rig.catalogs_are_empty = false;
    let primary = login(&mut rig, "rw", None);
    tells(&mut rig, primary.1, &CLEAN);
    let standby = login(&mut rig, "ro", Some(0));
    if databases != TWO_HOSTS {
        tells(&mut rig, standby.1, &CLEAN);
    }
    rig.told(primary.1);
    rig.told(standby.1);
    for pair in [primary, standby] {
        assert!(!is_doubted(&mut rig, pair));
    }
    (rig, primary, standby)
}

/// The server gets a client's text. Before it, the server may be told to discard its functions' plans.
fn text_comes(rig: &mut Rig, server: ServerId) {
    let told = rig.told(server);
    if !told.iter().any(|m| m.starts_with("Query")) {
        rig.replies(server, &told, None, |w, _| w.command_complete("DISCARD PLANS"));
        rig.told(server);
    }
}

/// Whether a client's call of a harmless function is followed by a probe. Then the server answers the probe, and is
/// perhaps asked for its catalog.
fn is_doubted(rig: &mut Rig, (client, server): Pair) -> bool {
    rig.query(client, "select harmless()");
    assert_eq!(rig.server_of(client), Some(server));
    text_comes(rig, server);
    rig.completes(server, "SELECT 1");
    rig.server_of(client).is_some()
}

/// The server answers probes, and says whether it is asked for its catalog; it answers that with these sources.
fn is_read(rig: &mut Rig, server: ServerId, sources: &[[&str; 3]]) -> bool {
    let reading = settles(rig, server);
    if reading.is_empty() {
        return false;
    }
    rig.replies(server, &reading, None, |w, statement| {
        let identity = [IDENTITY];
        let objects = OBJECTS.iter().chain(&identity).map(|row| row.to_vec());
        let rows: Vec<Vec<&str>> = match statement.trim() {
            "pgweir_9" => objects.collect(),
            "pgweir_a" => sources.iter().map(|row| [&row[..], &[""]].concat()).collect(),
            _ => Vec::new(),
        };
        for row in rows {
            w.data_row(row.len(), row.iter().map(|value| Some(value.as_bytes())));
        }
        w.command_complete("SELECT 1");
    });
    true
}

/// The same, within eight seconds. For one second a server is left to the last client if that may have drawn from
/// sequences there.
fn is_read_soon(rig: &mut Rig, server: ServerId, sources: &[[&str; 3]]) -> bool {
    (0..80).any(|_| {
        let is_read = is_read(rig, server, sources);
        if !is_read {
            rig.wait(Duration::from_millis(100));
        }
        is_read
    })
}

/// The client replaces the function; the server has not been read since.
fn replaces(rig: &mut Rig, (client, server): Pair) {
    rig.wait(PAUSE);
    rig.query(
        client,
        "create or replace function remember() returns int language plpgsql as 'x'",
    );
    rig.told(server);
    rig.completes(server, "CREATE FUNCTION");
}

#[test]
fn a_standby_is_doubted_until_it_has_replayed_a_definition() {
    for databases in [TWO_ENTRIES, TWO_TARGETS, TWO_HOSTS] {
        let (mut rig, primary, standby) = two(databases);
        replaces(&mut rig, primary);
        assert!(is_read(&mut rig, primary.1, &SOURCES));
        assert!(is_doubted(&mut rig, standby), "it has not been read");
        assert!(is_read_soon(&mut rig, standby.1, &CLEAN));
        assert!(is_doubted(&mut rig, standby), "it has not replayed the definition");
        rig.replayed.insert(standby.1, 1);
        assert!(is_read_soon(&mut rig, standby.1, &SOURCES));
        assert!(!is_doubted(&mut rig, standby), "{databases}");
        assert!(!is_doubted(&mut rig, primary));
        rig.query(standby.0, "select remember()");
        rig.told(standby.1);
        rig.completes(standby.1, "SELECT 1");
        assert!(is_probed(&mut rig, standby.1));
    }
}

/// What was defined before a standby was first used counts, too.
#[test]
fn a_new_standby_is_doubted_until_it_has_replayed_earlier_definitions() {
    let mut rig = Rig::with(TWO_ENTRIES, "default_pool_size = 1\n");
    rig.catalogs_are_empty = false;
    let primary = login(&mut rig, "rw", None);
    tells(&mut rig, primary.1, &CLEAN);
    rig.told(primary.1);
    assert!(!is_doubted(&mut rig, primary));
    replaces(&mut rig, primary);
    assert!(is_read(&mut rig, primary.1, &SOURCES));
    let standby = login(&mut rig, "ro", Some(0));
    tells(&mut rig, standby.1, &CLEAN);
    rig.told(standby.1);
    assert!(is_doubted(&mut rig, standby), "it has not replayed the definition");
    rig.replayed.insert(standby.1, 1);
    assert!(is_read_soon(&mut rig, standby.1, &SOURCES));
    assert!(!is_doubted(&mut rig, standby));
}

/// RELOAD gives the entry of a primary the address of a standby.
#[test]
fn a_new_address_is_doubted_until_it_has_replayed_earlier_definitions() {
    let databases = |host: &str| format!("rw = host={host} user=u dbname=app");
    let settings = "default_pool_size = 1\n";
    let mut rig = Rig::with(&databases("10.0.0.1"), settings);
    rig.catalogs_are_empty = false;
    let primary = login(&mut rig, "rw", None);
    tells(&mut rig, primary.1, &CLEAN);
    rig.told(primary.1);
    replaces(&mut rig, primary);
    assert!(is_read(&mut rig, primary.1, &SOURCES));
    settles(&mut rig, primary.1);
    rig.reloads(rig::configuration(&databases("10.0.0.2"), settings));
    let standby = login(&mut rig, "rw", Some(0));
    tells(&mut rig, standby.1, &CLEAN);
    rig.told(standby.1);
    assert!(is_doubted(&mut rig, standby), "it has not replayed the definition");
}

/// If entries take both hosts, the primary is doubted as long as its standby.
#[test]
fn what_is_read_of_one_host_does_not_count_for_the_other() {
    let (mut rig, primary, _) = two(TWO_TARGETS);
    replaces(&mut rig, primary);
    assert!(is_read(&mut rig, primary.1, &SOURCES));
    assert!(!is_doubted(&mut rig, primary));
    let (mut rig, primary, standby) = two(TWO_HOSTS);
    replaces(&mut rig, primary);
    assert!(is_read(&mut rig, primary.1, &SOURCES));
    assert!(is_doubted(&mut rig, primary));
    assert!(!is_read(&mut rig, primary.1, &SOURCES));
    rig.wait(Duration::from_millis(300));
    assert!(!is_read(&mut rig, primary.1, &SOURCES), "the other host is read first");
    rig.replayed.insert(standby.1, 1);
    assert!(is_read(&mut rig, standby.1, &SOURCES));
    assert!(!is_doubted(&mut rig, primary) && !is_doubted(&mut rig, standby));
    rig.server_dies(standby.1);
    assert!(is_read_soon(&mut rig, primary.1, &SOURCES));
    assert!(!is_doubted(&mut rig, primary));
}

#[test]
fn a_host_whose_servers_are_gone_is_not_waited_for() {
    let (mut rig, primary, standby) = two(TWO_HOSTS);
    replaces(&mut rig, primary);
    assert!(is_read(&mut rig, primary.1, &SOURCES));
    assert!(is_doubted(&mut rig, primary));
    settles(&mut rig, primary.1);
    let console = rig.console();
    rig.query(console, "KILL ro");
    assert!(rig.is_closed(standby.1));
    is_read_soon(&mut rig, primary.1, &SOURCES);
    assert!(!is_doubted(&mut rig, primary));
}

/// The standby waits for what the primary tells, even if nobody uses the primary.
#[test]
fn an_idle_primary_is_read_after_the_pause() {
    let (mut rig, primary, standby) = two(TWO_ENTRIES);
    rig.replayed.insert(standby.1, 1);
    replaces(&mut rig, primary);
    assert!(is_read(&mut rig, primary.1, &SOURCES));
    assert!(is_read_soon(&mut rig, standby.1, &SOURCES));
    assert!(!is_doubted(&mut rig, standby));
    rig.query(primary.0, "create extension x");
    text_comes(&mut rig, primary.1);
    rig.completes(primary.1, "CREATE EXTENSION");
    assert!(!is_read(&mut rig, primary.1, &SOURCES), "too soon");
    rig.wait(Duration::from_millis(400));
    assert!(is_read(&mut rig, standby.1, &SOURCES), "idle, too");
    assert!(is_doubted(&mut rig, standby), "its primary has not been read");
    assert!(is_read(&mut rig, primary.1, &SOURCES));
    assert!(is_read_soon(&mut rig, standby.1, &SOURCES));
    assert!(!is_doubted(&mut rig, standby));
}

/// A pool in session pooling reads no catalog, so the position of the definition is never known.
#[test]
fn a_standby_of_a_primary_that_nobody_reads_is_doubted_for_a_minute() {
    let databases = "rw = host=10.0.0.1 user=u dbname=app pool_mode=session\nro = host=10.0.0.2 user=u dbname=app";
    let mut rig = Rig::with(databases, "default_pool_size = 1\n");
    rig.catalogs_are_empty = false;
    let primary = login(&mut rig, "rw", None);
    let standby = login(&mut rig, "ro", Some(7));
    tells(&mut rig, standby.1, &CLEAN);
    rig.told(primary.1);
    rig.told(standby.1);
    assert!(!is_doubted(&mut rig, standby));
    replaces(&mut rig, primary);
    for _ in 0..59 {
        is_read(&mut rig, standby.1, &SOURCES);
        assert!(is_doubted(&mut rig, standby));
        is_read(&mut rig, standby.1, &SOURCES);
        rig.wait(Duration::from_secs(1));
    }
    is_read(&mut rig, standby.1, &SOURCES);
    rig.wait(PAUSE);
    is_read(&mut rig, standby.1, &SOURCES);
    assert!(!is_doubted(&mut rig, standby));
}

/// The same if the standby is first used after the definition.
#[test]
fn a_new_standby_of_a_primary_that_nobody_reads_is_doubted() {
    let databases = "rw = host=10.0.0.1 user=u dbname=app pool_mode=session\nro = host=10.0.0.2 user=u dbname=app";
    let mut rig = Rig::with(databases, "default_pool_size = 1\n");
    rig.catalogs_are_empty = false;
    let primary = login(&mut rig, "rw", None);
    rig.told(primary.1);
    replaces(&mut rig, primary);
    let standby = login(&mut rig, "ro", Some(7));
    tells(&mut rig, standby.1, &CLEAN);
    rig.told(standby.1);
    assert!(is_doubted(&mut rig, standby));
}

/// Two spellings of one address.
const TWO_SPELLINGS: &str = "rw = host=10.0.0.1 user=u dbname=app\nro = host=10.0.0.2 user=u dbname=app\n\
    admin = host=10.0.0.1 user=u dbname=postgres";

/// A client asks for something, and the server does it.
fn does(rig: &mut Rig, (client, server): Pair, text: &str) {
    rig.query(client, text);
    settles(rig, server);
    rig.completes(server, text.split_once(" of").map_or(text, |(tag, _)| tag));
    settles(rig, server);
}

#[test]
fn servers_are_replaced_under_every_address_when_defaults_change() {
    let (mut rig, primary, standby) = two(TWO_ENTRIES);
    does(&mut rig, primary, "alter role u set search_path = x");
    assert!(rig.is_closed(standby.1));
}

#[test]
fn drop_database_closes_idle_servers_under_every_address() {
    let mut rig = Rig::with(TWO_SPELLINGS, "default_pool_size = 1\n");
    rig.catalogs_are_empty = false;
    let mut pairs = Vec::new();
    for (entry, oid) in [("rw", "5"), ("ro", "5"), ("admin", "1")] {
        let client = rig.client_begins(&[("user", "u"), ("database", entry)]);
        let server = rig.servers_log_in()[0];
        let identity = ["i", oid, IDENTITY[2], "0"];
        rig.tells_catalog(server, &[&OBJECTS[..], &[identity]].concat(), &CLEAN);
        rig.told(client);
        pairs.push((client, server));
    }
    let [rw, ro, admin] = pairs[..] else { panic!("three") };
    rig.client_leaves(rw.0);
    rig.client_leaves(ro.0);
    rig.query(admin.0, "drop database app");
    assert!(rig.is_closed(rw.1) && rig.is_closed(ro.1));
}
