//! Secrets that auth_query has found, and that `auth_query_cache_time` keeps for further logins.

use crate::rig::{Rig, configuration_with_users, fatal};
use pgweir_core::{ClientId, ServerId};
use pgweir_wire::TransactionStatus::Idle;
use std::time::Duration;

const DATABASES: &str = "db = host=127.0.0.1\nlookups = host=127.0.0.1";
const USERS: &str = "\"looker\" \"\"\n\"boss\" \"secret\"\n";

fn settings(kept_for: u32) -> String {
    format!(
        "auth_type = plain\nauth_user = looker\nauth_dbname = lookups\nadmin_users = boss\n\
         auth_query_cache_time = {kept_for}\nserver_login_retry = 60"
    )
}

fn rig(kept_for: u32) -> Rig {
    Rig::with_databases_and_users(DATABASES, &settings(kept_for), USERS)
}

/// A client of user `u` asks to log in. If auth_query runs for it, the server that it runs on.
fn begins(rig: &mut Rig) -> (ClientId, Option<ServerId>) {
    let client = rig.client_begins(&[("user", "u"), ("database", "db")]);
    rig.servers_log_in();
    (client, rig.server_of(client))
}

fn proves(rig: &mut Rig, client: ClientId, password: &str) {
    rig.says(client, |w| w.password(format!("{password}\0").as_bytes()));
    rig.servers_log_in();
}

fn is_in(rig: &mut Rig, client: ClientId) -> bool {
    rig.told(client).iter().any(|line| line.starts_with("ReadyForQuery"))
}

/// User `u` has logged in with password `first`, which is kept for ten seconds.
fn first_is_kept() -> Rig {
    let mut rig = rig(10);
    asks(&mut rig, "first");
    rig
}

/// The next login of user `u` asks, and gets in with what is found.
fn asks(rig: &mut Rig, password: &str) {
    let (client, server) = begins(rig);
    rig.finds_secret(server.expect("auth_query runs"), password);
    proves(rig, client, password);
    assert!(is_in(rig, client));
}

/// The next login of user `u` gets in without a question to PostgreSQL.
fn asks_not(rig: &mut Rig, password: &str) {
    let (client, server) = begins(rig);
    assert_eq!(server, None, "the secret is kept");
    proves(rig, client, password);
    assert!(is_in(rig, client));
}

#[test]
fn a_kept_secret_is_used_until_its_time_is_over() {
    let mut rig = first_is_kept();
    rig.wait(Duration::from_secs(5));
    asks_not(&mut rig, "first");
    // A login that used it does not make it newer.
    rig.wait(Duration::from_secs(5));
    asks(&mut rig, "second");
    asks_not(&mut rig, "second");
}

#[test]
fn nothing_is_kept_if_the_setting_does_not_say_so() {
    let mut rig = rig(0);
    asks(&mut rig, "first");
    asks(&mut rig, "second");
}

/// Guards against a user who has a new password and is refused more than once.
#[test]
fn after_a_failed_login_the_next_one_asks() {
    let mut rig = first_is_kept();
    let (client, server) = begins(&mut rig);
    assert_eq!(server, None);
    proves(&mut rig, client, "second");
    assert!(rig.is_closed(client));
    assert!(rig.told(client).last().unwrap().starts_with("Error 28P01"));
    asks(&mut rig, "second");
    asks_not(&mut rig, "second");
}

/// Guards against strangers who fill the memory, and against a secret that no proof has confirmed.
#[test]
fn a_secret_that_let_nobody_in_is_not_kept() {
    let mut rig = rig(10);
    let (client, server) = begins(&mut rig);
    rig.finds_secret(server.expect("auth_query runs"), "first");
    proves(&mut rig, client, "wrong");
    assert!(rig.is_closed(client));
    asks(&mut rig, "first");
}

/// Guards against a kept secret that outlives the user's refusal by PostgreSQL.
#[test]
fn a_server_that_refuses_the_user_ends_it() {
    let mut rig = first_is_kept();
    rig.wait(Duration::from_secs(1));
    let (client, _) = begins(&mut rig);
    proves(&mut rig, client, "first");
    assert!(is_in(&mut rig, client));
    let others: Vec<ClientId> = (0..30).map(|_| client_in(&mut rig)).collect();
    for other in others {
        rig.query(other, "select 1");
    }
    let server = rig.connects.pop_front().expect("a further server is tried");
    rig.server_connects(server);
    rig.says(server, |w| w.error(&fatal("28P01", "password authentication failed")));
    rig.server_dies(server);
    asks(&mut rig, "second");
}

fn client_in(rig: &mut Rig) -> ClientId {
    let (client, _) = begins(rig);
    proves(rig, client, "first");
    assert!(is_in(rig, client));
    client
}

/// Guards against an old password that is good for logins after ALTER ROLE, where the pooler has seen it, also for a
/// login that had its answer before.
#[test]
fn a_changed_role_ends_it() {
    let mut rig = first_is_kept();
    let client = client_in(&mut rig);
    rig.wait(Duration::from_secs(11));
    let (slow, server) = begins(&mut rig);
    rig.finds_secret(server.expect("auth_query runs"), "first");
    rig.query(client, "alter role u password 'second'");
    let server = rig.server_of(client).expect("it has a server");
    rig.says(server, |w| {
        w.command_complete("ALTER ROLE");
        w.ready_for_query(Idle);
    });
    proves(&mut rig, slow, "first");
    asks(&mut rig, "second");
}

/// Guards against answers of a query that the configuration no longer names.
#[test]
fn a_reload_ends_it() {
    let mut rig = first_is_kept();
    rig.reloads(configuration_with_users(DATABASES, &settings(10), USERS));
    asks(&mut rig, "second");
}

/// Guards against a secret that lets its user in although the database of auth_query is disabled.
#[test]
fn a_database_that_cannot_be_asked_ends_it() {
    let mut rig = first_is_kept();
    let boss = rig.client_begins(&[("user", "boss"), ("database", "pgbouncer")]);
    rig.says(boss, |w| w.password(b"secret\0"));
    rig.query(boss, "DISABLE lookups");
    let (client, server) = begins(&mut rig);
    assert_eq!(server, None);
    proves(&mut rig, client, "first");
    assert!(rig.is_closed(client));
    assert!(rig.told(client).last().unwrap().starts_with("Error 28P01"));
}
