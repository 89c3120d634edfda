//! Passwords that change while clients log in: the pool logs in to its servers with the newest one that is known.

use crate::rig::{Rig, configuration_with_users, fatal};
use pgweir_core::{ClientId, ServerId};
use pgweir_wire::TransactionStatus::Idle;
use std::time::Duration;

const SETTINGS: &str = "auth_type = plain\nauth_user = looker\nauth_dbname = lookups\nserver_login_retry = 60\n\
                        server_lifetime = 3600";
const DATABASES: &str = "db = host=127.0.0.1\nlookups = host=127.0.0.1";

fn rig() -> Rig {
    Rig::with(DATABASES, SETTINGS)
}

/// A client of user `u` asks to log in; returns it and the server that looks up its password.
fn begins(rig: &mut Rig) -> (ClientId, ServerId) {
    let client = rig.client_begins(&[("user", "u"), ("database", "db")]);
    rig.servers_log_in();
    let server = rig.server_of(client).expect("auth_query runs for it");
    (client, server)
}

fn proves(rig: &mut Rig, client: ClientId, password: &str) {
    rig.says(client, |w| w.password(format!("{password}\0").as_bytes()));
}

/// A whole login, but for a server of the client's own pool.
fn logs_in(rig: &mut Rig, password: &str) -> ClientId {
    let (client, server) = begins(rig);
    rig.finds_secret(server, password);
    proves(rig, client, password);
    client
}

/// The next server of the clients' pool asks for a password: which one it is given.
fn is_given(rig: &mut Rig) -> (ServerId, String) {
    let server = rig.connects.pop_front().expect("a server is tried");
    rig.server_connects(server);
    rig.says(server, |w| w.authentication(&3u32.to_be_bytes()));
    let heard = rig.hears(server);
    let (_, password) = heard.iter().find(|(tag, _)| *tag == b'p').expect("a password");
    let password = String::from_utf8_lossy(password).trim_end_matches('\0').to_string();
    (server, password)
}

fn lets_in(rig: &mut Rig, server: ServerId) {
    rig.says(server, |w| {
        w.authentication(&0u32.to_be_bytes());
        for (name, value) in [("client_encoding", "UTF8"), ("server_version", "15.1")] {
            w.parameter_status(name.as_bytes(), value.as_bytes());
        }
        w.backend_key_data(crate::rig::process_id(server), b"key!");
        w.ready_for_query(Idle);
    });
    rig.answers_questions_at_login(server);
}

fn refuses(rig: &mut Rig, server: ServerId) {
    rig.says(server, |w| w.error(&fatal("28P01", "password authentication failed")));
    rig.server_dies(server);
}

/// A pool that has learnt the first password, and has no server any more.
fn first_password_is_known() -> (Rig, ClientId) {
    let mut rig = rig();
    let client = logs_in(&mut rig, "first");
    let (server, given) = is_given(&mut rig);
    assert_eq!(given, "first");
    lets_in(&mut rig, server);
    assert!(rig.told(client).ends_with(&["ReadyForQuery I".into()]));
    rig.wait(Duration::from_secs(20));
    rig.server_dies(server);
    (rig, client)
}

/// Guards against a client with the right password that is told what happened to an old one.
#[test]
fn a_new_password_ends_the_remembered_refusal() {
    let (mut rig, old) = first_password_is_known();
    rig.query(old, "select 1");
    let (server, given) = is_given(&mut rig);
    assert_eq!(given, "first");
    refuses(&mut rig, server);
    assert!(rig.told(old)[0].starts_with("Error 28P01"));
    let new = logs_in(&mut rig, "second");
    rig.query(new, "select 1");
    let (server, given) = is_given(&mut rig);
    assert_eq!(given, "second", "it is tried at once");
    lets_in(&mut rig, server);
    assert_eq!(rig.server_of(new), Some(server));
}

/// Guards against an old password that replaces a new one, because its login has taken long.
#[test]
fn a_login_that_began_before_a_newer_lookup_teaches_nothing() {
    let (mut rig, _) = first_password_is_known();
    let (slow, lookup) = begins(&mut rig);
    rig.finds_secret(lookup, "first");
    rig.wait(Duration::from_secs(1));
    let new = logs_in(&mut rig, "second");
    proves(&mut rig, slow, "first");
    rig.query(new, "select 1");
    assert_eq!(is_given(&mut rig).1, "second");
}

/// Guards against a refused attempt with the old password that keeps the new one from being tried.
#[test]
fn a_refusal_of_an_older_password_says_nothing_about_the_newer_one() {
    let (mut rig, old) = first_password_is_known();
    rig.query(old, "select 1");
    let (server, given) = is_given(&mut rig);
    assert_eq!(given, "first");
    let new = logs_in(&mut rig, "second");
    rig.query(new, "select 1");
    refuses(&mut rig, server);
    assert!(!rig.is_closed(new) && !rig.is_closed(old));
    let (server, given) = is_given(&mut rig);
    assert_eq!(given, "second");
    lets_in(&mut rig, server);
    assert_eq!(rig.server_of(old), Some(server), "it has waited longest");
}

/// Guards against a password that was refused, and comes back from a standby that lags behind.
#[test]
fn a_refused_password_is_not_put_back() {
    let (mut rig, old) = first_password_is_known();
    rig.query(old, "select 1");
    let (server, _) = is_given(&mut rig);
    refuses(&mut rig, server);
    let new = logs_in(&mut rig, "second");
    rig.wait(Duration::from_secs(1));
    logs_in(&mut rig, "first");
    rig.query(new, "select 1");
    let (server, given) = is_given(&mut rig);
    assert_eq!(given, "second");
    refuses(&mut rig, server);
    let again = logs_in(&mut rig, "first");
    rig.query(again, "select 1");
    assert_eq!(is_given(&mut rig).1, "first", "the newer one was refused, too");
}

/// The same with a password that a RELOAD brings.
#[test]
fn a_login_that_began_before_a_reload_teaches_nothing() {
    let config = |verifier: &str| {
        let users = format!("\"u\" \"{verifier}\"\n");
        let plain = "auth_type = plain";
        configuration_with_users("db = host=127.0.0.1", plain, &users)
    };
    let mut rig = Rig::with_databases_and_users(
        "db = host=127.0.0.1",
        "auth_type = plain",
        &format!("\"u\" \"{}\"\n", MD5_OF_FIRST),
    );
    let slow = rig.client_begins(&[("user", "u"), ("database", "db")]);
    let fast = rig.client_begins(&[("user", "u"), ("database", "db")]);
    proves(&mut rig, fast, "first");
    let (server, _) = is_given(&mut rig);
    lets_in(&mut rig, server);
    rig.wait(Duration::from_secs(1));
    rig.reloads(config(MD5_OF_SECOND));
    let new = rig.client_begins(&[("user", "u"), ("database", "db")]);
    proves(&mut rig, new, "second");
    proves(&mut rig, slow, "first");
    rig.wait(Duration::from_secs(20));
    rig.server_dies(server);
    rig.query(new, "select 1");
    assert_eq!(is_given(&mut rig).1, "second");
}

const MD5_OF_FIRST: &str = "md5d152857a6cd741ab892b4e0ad8997031";
const MD5_OF_SECOND: &str = "md5e55bf3c4116ccb27368494b2d204983a";
