//! What the tables count and show.

use super::tables::{console, query, value};
use crate::rig::Rig;
use pgweir_core::ClientId;
use std::time::Duration;

#[test]
fn pools_of_one_database_and_user_are_one_row_whatever_they_are_for() {
    let settings = "auth_user = u\nauth_dbname = db\nadmin_users = boss";
    let mut rig = Rig::with_users("\"u\" \"\"\n\"boss\" \"\"\n", settings);
    let client = rig.client();
    rig.says(client, |w| w.query(b"select 1"));
    let unknown = rig.client_begins(&[("user", "somebody"), ("database", "db")]);
    assert!(rig.told(unknown).is_empty(), "auth_query is asked");
    rig.client_begins(&[("user", "u"), ("database", "db"), ("replication", "database")]);
    let id = console(&mut rig);
    let (_, rows) = query(&mut rig, id, "show pools");
    let keys: Vec<_> = rows
        .iter()
        .map(|r| (r[0].as_deref().unwrap(), r[1].as_deref().unwrap()))
        .collect();
    assert_eq!(keys, [("db", "u"), ("pgbouncer", "pgbouncer")]);
    let numbers: Vec<_> = rows[0][2..15].iter().map(|v| v.as_deref().unwrap()).collect();
    assert_eq!(
        numbers,
        ["1", "2", "0", "0", "1", "0", "0", "0", "0", "0", "2", "0", "0"],
        "one at work; one waits for auth_query and one to stream, whose servers log in"
    );
    assert_eq!(rows[0][15].as_deref(), Some("transaction"));
}

#[test]
fn waits_are_shown_with_the_longest_first_waiter() {
    let mut rig = Rig::with("db = host=127.0.0.1 user=u pool_size=1", "query_wait_notify = 0");
    let (busy, waiting) = (rig.client(), rig.client());
    rig.says(busy, |w| w.query(b"select 1"));
    rig.says(waiting, |w| w.query(b"select 2"));
    rig.wait(Duration::from_millis(2_500));
    let id = console(&mut rig);
    assert_eq!(value(&mut rig, id, "show pools", 0, "cl_waiting"), "1");
    assert_eq!(value(&mut rig, id, "show pools", 0, "maxwait"), "2");
    assert_eq!(value(&mut rig, id, "show pools", 0, "maxwait_us"), "500000");
    let (columns, rows) = query(&mut rig, id, "show clients");
    let state = columns.iter().position(|(n, _)| n == "state").unwrap();
    let states: Vec<_> = rows.iter().map(|r| r[state].as_deref().unwrap()).collect();
    assert_eq!(states, ["active", "waiting", "idle"]);
    assert_eq!(value(&mut rig, id, "show clients", 1, "wait"), "2");
    assert_eq!(value(&mut rig, id, "show clients", 2, "application_name"), "watch");
}

#[test]
fn clients_and_servers_point_at_each_other() {
    let mut rig = Rig::new("");
    let client = rig.client_begins(&[("user", "alice"), ("database", "db"), ("application_name", "shop")]);
    rig.servers_log_in();
    rig.told(client);
    rig.says(client, |w| w.query(b"select 1"));
    let id = console(&mut rig);
    let cell = |rig: &mut Rig, show: &str, column: &str| value(rig, id, show, 0, column);
    assert_eq!(cell(&mut rig, "show clients", "user"), "alice");
    assert_eq!(cell(&mut rig, "show servers", "user"), "u");
    assert_eq!(cell(&mut rig, "show clients", "application_name"), "shop");
    assert_eq!(cell(&mut rig, "show servers", "state"), "active");
    assert_eq!(cell(&mut rig, "show servers", "remote_pid"), "4711");
    assert_eq!(
        cell(&mut rig, "show clients", "link"),
        cell(&mut rig, "show servers", "ptr")
    );
    assert_eq!(
        cell(&mut rig, "show servers", "link"),
        cell(&mut rig, "show clients", "ptr")
    );
    assert_eq!(
        cell(&mut rig, "show clients", "connect_time"),
        "1970-01-01 00:00:00 UTC"
    );
    let (_, users) = query(&mut rig, id, "show users");
    let row = |name: &str| users.iter().find(|r| r[0].as_deref() == Some(name)).unwrap();
    assert_eq!(
        (row("alice")[5].as_deref(), row("alice")[7].as_deref()),
        (Some("0"), Some("1"))
    );
    assert_eq!((row("u")[5].as_deref(), row("u")[7].as_deref()), (Some("1"), Some("0")));
}

#[test]
fn statistics_count_and_average_and_are_logged() {
    let mut rig = Rig::new("stats_period = 10");
    rig.wait(Duration::from_millis(1));
    let client = rig.client();
    for _ in 0..20 {
        rig.says(client, |w| w.query(b"select 1"));
        let server = rig.server_of(client).unwrap();
        rig.completes(server, "SELECT 1");
    }
    rig.wait(Duration::from_secs(10));
    let id = console(&mut rig);
    assert_eq!(value(&mut rig, id, "show stats", 0, "total_query_count"), "20");
    assert_eq!(value(&mut rig, id, "show stats", 0, "avg_query_count"), "2");
    assert_eq!(value(&mut rig, id, "show stats", 0, "total_client_login_count"), "1");
    assert_eq!(value(&mut rig, id, "show stats", 1, "database"), "pgbouncer");
    assert_eq!(value(&mut rig, id, "show stats_averages", 0, "query_count"), "2");
    let (_, totals) = query(&mut rig, id, "show totals");
    let names: Vec<_> = totals.iter().map(|r| r[0].as_deref().unwrap()).collect();
    assert_eq!(names.len(), 24);
    assert_eq!(
        (names[3], names[4], names[20]),
        ("total_client_bytes", "total_server_bytes", "avg_ps_client_parse_count")
    );
    let line = rig
        .log
        .iter()
        .find(|(_, text)| text.starts_with("stats: 2 xacts/s, 2 queries/s, "));
    assert!(line.is_some(), "{:?}", rig.log);
    let status = rig.status.take().unwrap();
    assert!(status.starts_with("stats: 2 xacts/s, 2 queries/s, "), "{status}");
    order_log_stats_off(&mut rig, id);
    rig.wait(Duration::from_secs(10));
    assert!(rig.status.is_some(), "it does not depend on log_stats");
}

fn order_log_stats_off(rig: &mut Rig, id: ClientId) {
    rig.says(id, |w| w.query(b"set log_stats = 0"));
}

/// As in PgBouncer, each ReadyForQuery that a client got counts, also those from the
/// pooler.
#[test]
fn queries_that_no_server_has_answered_count() {
    let mut rig = Rig::new("default_pool_size = 1");
    let busy = rig.client();
    rig.says(busy, |w| w.query(b"select pg_sleep(9)"));
    let waiting = rig.client_begins(&[("user", "u"), ("database", "db")]);
    let key = rig.key_told(waiting);
    rig.told(waiting);
    let id = console(&mut rig);
    rig.says(waiting, |w| w.sync());
    assert_eq!(rig.told(waiting), ["ReadyForQuery I"]);
    assert_eq!(value(&mut rig, id, "show stats", 0, "total_query_count"), "1");
    rig.says(waiting, |w| w.query(b"select 1"));
    rig.cancel_request(&key);
    assert_eq!(rig.told(waiting).last().unwrap(), "ReadyForQuery I");
    assert_eq!(value(&mut rig, id, "show stats", 0, "total_query_count"), "2");
}

#[test]
fn totals_do_not_go_back_when_a_database_made_from_the_wildcard_is_forgotten() {
    let mut rig = Rig::with(
        "* = host=127.0.0.1 user=u",
        "autodb_idle_timeout = 5\nserver_idle_timeout = 1",
    );
    let client = rig.client();
    rig.says(client, |w| w.query(b"select 1"));
    let server = rig.server_of(client).unwrap();
    rig.completes(server, "SELECT 1");
    rig.client_leaves(client);
    let id = console(&mut rig);
    let total = |rig: &mut Rig| {
        let (_, rows) = query(rig, id, "show totals");
        rows[2][1].as_deref().unwrap().parse::<u64>().unwrap()
    };
    let before = total(&mut rig);
    rig.wait(Duration::from_secs(20));
    let (_, rows) = query(&mut rig, id, "show stats");
    assert_eq!(rows.len(), 1, "the database is gone: {rows:?}");
    assert!(total(&mut rig) > before);
}

/// How many clients share a server: pgweir's own column, which exporters of PgBouncer's columns do not see.
#[test]
fn show_servers_extended_counts_flights() {
    let mut rig = Rig::new("default_pool_size = 1\npipeline_depth = 8\nlink = adversarial");
    let boss = console(&mut rig);
    let flights = |rig: &mut Rig| value(rig, boss, "SHOW SERVERS EXTENDED", 0, "flights");
    let crowd: Vec<ClientId> = (0..4).map(|_| rig.client()).collect();
    for client in &crowd {
        rig.says(*client, |w| w.query(b"select 1"));
    }
    let server = rig.server_of(crowd[0]).expect("the pool's only server");
    assert_eq!(flights(&mut rig), "0", "the first works alone");
    rig.completes(server, "SELECT 1");
    assert_eq!(flights(&mut rig), "3");
    rig.completes(server, "SELECT 1");
    assert_eq!(flights(&mut rig), "2");
    let (columns, _) = query(&mut rig, boss, "SHOW SERVERS");
    assert!(columns.iter().all(|(name, _)| name != "flights"));
}

/// Guards against clients that hang behind a transaction and look idle.
#[test]
fn clients_behind_the_flights_of_others_wait() {
    let mut rig = Rig::new("default_pool_size = 1\npipeline_depth = 8\nlink = adversarial\nquery_wait_notify = 0");
    let crowd: Vec<ClientId> = (0..3).map(|_| rig.client()).collect();
    for client in &crowd {
        rig.says(*client, |w| w.query(b"select 1"));
    }
    rig.wait(Duration::from_millis(500));
    let server = rig.server_of(crowd[0]).expect("the pool's only server");
    rig.completes(server, "SELECT 1");
    rig.wait(Duration::from_secs(2));
    let id = console(&mut rig);
    let columns = |rig: &mut Rig, show: &str, names: [&str; 4]| {
        let (columns, rows) = query(rig, id, show);
        let at = names.map(|name| columns.iter().position(|(n, _)| n == name).unwrap());
        let row = |row: &Vec<Option<String>>| at.map(|at| row[at].clone().unwrap());
        rows.iter().map(row).collect::<Vec<_>>()
    };
    let own = value(&mut rig, id, "show servers", 0, "ptr");
    let clients = columns(&mut rig, "show clients", ["state", "link", "wait", "wait_us"]);
    assert_eq!(clients[0], ["idle", "", "0", "0"]);
    assert_eq!(clients[1], ["active", &own, "0", "0"], "the server can have begun it");
    assert_eq!(clients[2], ["waiting", &own, "2", "500000"]);
    let sockets = columns(&mut rig, "show sockets", ["type", "state", "link", "wait"]);
    assert_eq!(sockets[2], ["C", "cl_waiting", &own, "2"]);
    let pools = columns(
        &mut rig,
        "show pools",
        ["cl_active", "cl_waiting", "maxwait", "maxwait_us"],
    );
    assert_eq!(pools[0], ["2", "1", "2", "500000"]);
}
