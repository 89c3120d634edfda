//! What connect_query has set survives every reset.

use super::restorations::made;
use crate::rig::Rig;
use pgweir_core::{ClientId, ServerId};
use pgweir_wire::TransactionStatus::Idle;

/// A client on the only server of a pool whose connect_query sets a custom setting and work_mem.
fn with_connect_query(mode: &str) -> (Rig, ClientId, ServerId) {
    let query = "set app.pool = 1; set work_mem = 3072";
    let settings = format!("default_pool_size = 1\npool_mode = {mode}");
    let mut rig = Rig::with(
        &format!("db = host=127.0.0.1 user=u connect_query='{query}'"),
        &settings,
    );
    let id = rig.client_begins(&[("user", "u"), ("database", "db")]);
    let server = rig.connects.pop_front().expect("a server is wanted");
    rig.server_logs_in(server);
    assert_eq!(rig.told(server), [format!("Query {query}")]);
    rig.says(server, |w| {
        w.command_complete("SET");
        w.command_complete("SET");
        w.ready_for_query(Idle);
    });
    rig.tells_settings(server, &[("work_mem", "3072"), ("role", "none"), ("app.pool", "1")]);
    if mode == "transaction" {
        rig.tells_catalog(server, &[], &[]);
    }
    rig.told(id);
    (rig, id, server)
}

/// Guards against custom settings of connect_query that one client's RESET removes for all, because no view shows them.
#[test]
fn what_connect_query_has_set_is_made_again_behind_anothers_reset() {
    let (mut rig, one, server) = with_connect_query("transaction");
    let other = rig.client();
    rig.says(one, |w| w.query(b"reset app.pool"));
    assert_eq!(rig.hears(server).len(), 1);
    rig.completes(server, "RESET");
    rig.tells_settings(server, &[("work_mem", "3072"), ("role", "none"), ("app.pool", "")]);
    rig.says(other, |w| w.query(b"select 1"));
    assert_eq!(made(&rig.hears(server)), ["app.pool = 1"]);
}

/// Guards against a session pool whose second client runs without the settings of connect_query.
#[test]
fn what_connect_query_has_set_is_made_again_behind_the_reset_of_a_session() {
    let (mut rig, one, server) = with_connect_query("session");
    rig.says(one, |w| w.query(b"select 1"));
    rig.completes(server, "SELECT 1");
    rig.told(server);
    rig.client_leaves(one);
    assert_eq!(rig.told(server)[0], "Query DISCARD ALL");
    rig.completes(server, "DISCARD ALL");
    rig.says(server, |w| {
        w.data_row(1, [Some(&b"f"[..])]);
        w.command_complete("SELECT 1");
        w.ready_for_query(Idle);
    });
    let other = rig.client();
    rig.says(other, |w| w.query(b"select 1"));
    assert_eq!(made(&rig.hears(server)), ["app.pool = 1", "work_mem = 3072"]);
}

/// Guards against settings of connect_query that are forgotten because it has many.
#[test]
fn a_new_server_is_asked_for_every_setting_of_connect_query() {
    let names: Vec<String> = (0..300).map(|i| format!("app.n{i}")).collect();
    let query: String = names.iter().map(|name| format!("set {name} = 1; ")).collect();
    let entry = format!("db = host=127.0.0.1 user=u connect_query='{query}'");
    let mut rig = Rig::with(&entry, "default_pool_size = 1");
    rig.client_begins(&[("user", "u"), ("database", "db")]);
    let server = rig.connects.pop_front().expect("a server is wanted");
    rig.server_logs_in(server);
    rig.told(server);
    rig.says(server, |w| {
        names.iter().for_each(|_| w.command_complete("SET"));
        w.ready_for_query(Idle);
    });
    let asked = rig.raw(server);
    let asked = String::from_utf8_lossy(&asked);
    for name in names {
        assert!(asked.contains(&format!("\"{name}\"")), "{name}");
    }
}
