//! PAUSE, RESUME and SUSPEND.

use super::orders::{commit, done, in_transaction, logged, order, reload, signal};
use crate::rig::Rig;
use pgweir_config::{Place, Problem};
use pgweir_core::{Command, ReloadOutcome};
use std::time::Duration;

#[test]
fn pause_waits_for_transactions_and_closes_servers_and_resume_serves_who_waits() {
    let mut rig = Rig::new("");
    let (client, server) = in_transaction(&mut rig);
    let (boss, other) = (rig.console(), rig.console());
    assert!(order(&mut rig, boss, "pause").is_empty(), "a transaction is open");
    assert!(!rig.pooler.may_read(boss.into()), "the console waits");
    assert_eq!(order(&mut rig, other, "pause")[0], "Error 55000 already paused");
    let waiting = rig.client();
    rig.says(waiting, |w| w.query(b"select 2"));
    commit(&mut rig, client);
    assert!(rig.is_closed(server) && logged(&rig, "closing because: pause mode"));
    assert_eq!(rig.told(boss), done("PAUSE"));
    assert!(rig.connects.is_empty() && rig.told(waiting).is_empty());
    rig.wait(Duration::from_secs(3));
    assert!(rig.connects.is_empty(), "nothing is opened under PAUSE");
    assert_eq!(order(&mut rig, other, "resume"), done("RESUME"));
    assert_eq!(rig.servers_log_in().len(), 1);
    assert_eq!(
        rig.server_of(waiting).map(|s| rig.told(s)),
        Some(vec!["Query select 2".into()])
    );
}

#[test]
fn commands_behind_a_waiting_one_are_answered_in_their_turn() {
    let mut rig = Rig::new("");
    let (client, _) = in_transaction(&mut rig);
    let boss = rig.console();
    rig.says(boss, |w| {
        w.query(b"pause db");
        w.query(b"resume db");
    });
    assert!(rig.told(boss).is_empty());
    commit(&mut rig, client);
    assert_eq!(rig.told(boss), [done("PAUSE"), done("RESUME")].concat());
}

#[test]
fn a_waiting_pause_ends_with_resume_or_with_its_console() {
    let mut rig = Rig::new("");
    let (client, server) = in_transaction(&mut rig);
    let (boss, other) = (rig.console(), rig.console());
    order(&mut rig, boss, "pause db");
    assert_eq!(order(&mut rig, other, "resume db"), done("RESUME"));
    assert_eq!(
        rig.told(boss),
        ["Error 57014 PAUSE was ended by RESUME", "ReadyForQuery I"]
    );
    order(&mut rig, boss, "pause");
    rig.client_leaves(boss);
    commit(&mut rig, client);
    assert!(rig.is_closed(server), "the order stands without who gave it");
    assert_eq!(order(&mut rig, other, "resume"), done("RESUME"));
}

#[test]
fn a_cancel_request_ends_the_wait_and_not_the_pause() {
    let mut rig = Rig::new("");
    let (client, server) = in_transaction(&mut rig);
    let (boss, key) = rig.console_with_key();
    rig.cancel_request(&key);
    assert!(rig.told(boss).is_empty(), "there is nothing to cancel");
    order(&mut rig, boss, "pause");
    rig.cancel_request(&key);
    assert_eq!(
        rig.told(boss),
        ["Error 57014 PAUSE was ended by a cancel request", "ReadyForQuery I"]
    );
    commit(&mut rig, client);
    assert!(rig.is_closed(server), "the order itself stands");
    assert_eq!(order(&mut rig, boss, "resume"), done("RESUME"));
}

#[test]
fn pause_of_one_database_leaves_the_others_alone() {
    let mut rig = Rig::with("db = host=127.0.0.1 user=u\nother = host=127.0.0.1 user=u", "");
    let client = rig.client();
    let boss = rig.console();
    assert_eq!(order(&mut rig, boss, "pause other"), done("PAUSE"));
    rig.says(client, |w| w.query(b"select 1"));
    assert!(rig.server_of(client).is_some());
    let other = rig.client_begins(&[("user", "u"), ("database", "other")]);
    assert!(rig.connects.is_empty() && rig.told(other).is_empty());
    assert_eq!(order(&mut rig, boss, "resume other"), done("RESUME"));
    rig.servers_log_in();
    assert_eq!(rig.told(other).last().map(String::as_str), Some("ReadyForQuery I"));
}

#[test]
fn session_pooling_pauses_when_clients_have_left() {
    let mut rig = Rig::with("db = host=127.0.0.1 user=u pool_mode=session", "server_reset_query =");
    let client = rig.client();
    rig.says(client, |w| w.query(b"select 1"));
    let server = rig.server_of(client).unwrap();
    rig.completes(server, "SELECT 1");
    let boss = rig.console();
    assert!(order(&mut rig, boss, "pause").is_empty());
    rig.client_leaves(client);
    assert_eq!(rig.told(boss), done("PAUSE"));
    assert!(rig.is_closed(server));
}

#[test]
fn signals_pause_and_resume() {
    let mut rig = Rig::new("");
    let client = rig.client();
    signal(&mut rig, Command::Resume);
    assert!(logged(&rig, "got SIGUSR2, but not paused"));
    signal(&mut rig, Command::Pause);
    signal(&mut rig, Command::Pause);
    assert!(logged(&rig, "got SIGUSR1, pausing all activity") && logged(&rig, "got SIGUSR1, but already paused"));
    rig.says(client, |w| w.query(b"select 1"));
    assert!(rig.server_of(client).is_none());
    signal(&mut rig, Command::Resume);
    assert!(logged(&rig, "got SIGUSR2, continuing from PAUSE"));
    rig.servers_log_in();
    assert!(rig.server_of(client).is_some());
}

#[test]
fn suspend_reads_nobody_but_the_console() {
    let mut rig = Rig::new("query_timeout = 1");
    let client = rig.client();
    rig.says(client, |w| w.query(b"select 1"));
    let server = rig.server_of(client).unwrap();
    let boss = rig.console();
    assert_eq!(order(&mut rig, boss, "suspend"), done("SUSPEND"));
    assert!(!rig.pooler.may_read(client.into()) && !rig.pooler.may_read(server.into()));
    assert!(rig.pooler.may_read(boss.into()));
    assert_eq!(order(&mut rig, boss, "suspend")[0], "Error 55000 already paused");
    rig.wait(Duration::from_secs(5));
    assert!(!rig.is_closed(client), "no time runs out meanwhile");
    assert_eq!(order(&mut rig, boss, "resume"), done("RESUME"));
    assert!(rig.pooler.may_read(client.into()) && rig.pooler.may_read(server.into()));
}

#[test]
fn waiting_commands_work_by_the_extended_protocol_too() {
    let mut rig = Rig::new("");
    let boss = rig.console();
    rig.says(boss, |w| {
        w.parse(b"", b"reload", &[0, 0]);
        w.bind_text(b"", &[]);
        w.describe(b'P', b"");
        w.execute();
        w.sync();
    });
    assert_eq!(rig.told(boss), ["ParseComplete", "BindComplete", "NoData"]);
    reload(
        &mut rig,
        ReloadOutcome::Bad(vec![Problem::error(&Place::file("a.ini"), "x")]),
    );
    let told = rig.told(boss);
    assert_eq!(told.len(), 2);
    assert!(told[0].starts_with("Error F0000 ") && told[1] == "ReadyForQuery I");
}
