//! Iteration counts that clients are told in a SCRAM exchange. An attacker compares those of names before and after
//! what other users and operators do: nothing may tell which names exist.

use crate::rig::{Rig, configuration_with_users};
use pgweir_auth::{Credential, Password, ScramKeyCache, ScramKeys, ScramVerifier, ServerAuth, ServerStep};
use pgweir_core::{ClientId, ServerId};
use std::collections::BTreeMap;

const DATABASES: &str = "db = host=127.0.0.1\nlookups = host=127.0.0.1";
const BY_FILE: &str = "auth_type = scram-sha-256";
const BY_QUERY: &str = "auth_type = scram-sha-256\nauth_user = looker\nauth_dbname = lookups\nscram_iterations = 4096";
/// How Authentication messages begin: 10 and 5 in four bytes.
const SASL: u8 = 10;
const MD5: u8 = 5;
const LOOKER: &str = "\"looker\" \"md5c4ca4238a0b923820dcc509a6f75849b\"\n";

/// The stored secret of every user here: password `sesame`.
fn verifier(iterations: u32) -> String {
    let keys = ScramKeys::derive(b"sesame", &[3; 16], iterations);
    ScramVerifier::from(&keys).to_stored_text()
}

fn file(users: &[(&str, u32)]) -> String {
    let lines = users
        .iter()
        .map(|(name, count)| format!("\"{name}\" \"{}\"\n", verifier(*count)));
    lines.collect()
}

fn payload(rig: &mut Rig, client: ClientId) -> Vec<u8> {
    rig.hears(client).pop().expect("a message").1
}

/// The server on which auth_query runs for this client, if it runs.
fn asked(rig: &mut Rig, client: ClientId) -> Option<ServerId> {
    rig.servers_log_in();
    rig.server_of(client)
}

/// A client asks to log in; auth_query finds a verifier of so many iterations, or nobody.
fn begins(rig: &mut Rig, user: &str, found: Option<u32>) -> ClientId {
    let client = rig.client_begins(&[("user", user), ("database", "db")]);
    if let Some(server) = asked(rig, client) {
        rig.told(server);
        rig.auth_query_finds(server, user, found.map(verifier).as_deref());
    }
    client
}

/// It answers with this password, and is let in or refused. What the exchange has told it: `s=..,i=..`.
fn answers(rig: &mut Rig, client: ClientId, password: &str) -> String {
    let mut exchange = ServerAuth::new(b"u", Credential::Password(Password::from(password)), [9; 18]);
    let mut keys = ScramKeyCache::new(0);
    let mut told = String::new();
    for _ in 0..2 {
        let asked = payload(rig, client);
        let text = String::from_utf8_lossy(&asked).into_owned();
        if let Some((_, shown)) = text.split_once(",s=") {
            told = format!("s={shown}");
        }
        let step = match exchange.handle_message(&asked, &mut keys) {
            Ok(ServerStep::Derive(derivation)) => {
                Ok(exchange.handle_keys(derivation.derive(), &mut keys).expect("it waits"))
            }
            step => step,
        };
        match step {
            Ok(ServerStep::Send(answer)) => rig.says(client, |w| w.message(b'p', |to| to.extend(&answer))),
            other => panic!("{other:?}"),
        }
    }
    told
}

/// What a client that guesses is told.
fn probe(rig: &mut Rig, user: &str, found: Option<u32>) -> String {
    let client = begins(rig, user, found);
    let told = answers(rig, client, "guess");
    assert!(rig.is_closed(client), "it is refused");
    told
}

fn logs_in(rig: &mut Rig, user: &str, found: u32) {
    let client = begins(rig, user, Some(found));
    answers(rig, client, "sesame");
    assert!(!rig.is_closed(client), "{user} is let in");
    rig.client_leaves(client);
}

fn count(told: &str) -> u32 {
    told.rsplit_once("i=").expect("a count").1.parse().expect("a number")
}

/// What names that do not exist are told.
fn strangers(rig: &mut Rig) -> BTreeMap<String, String> {
    let names = (0..100).map(|number| format!("nobody{number}"));
    names.map(|name| (name.clone(), probe(rig, &name, None))).collect()
}

fn with_count(told: &BTreeMap<String, String>, of: u32) -> usize {
    told.values().filter(|told| count(told) == of).count()
}

fn reloads(rig: &mut Rig, users: &str) {
    rig.reloads(configuration_with_users(DATABASES, BY_FILE, users));
}

/// Guards against counts that no user has any more since a RELOAD: every name with such a count would not exist.
#[test]
fn a_reload_brings_the_counts_of_the_new_file_and_leaves_the_salts() {
    let mut rig = Rig::with_databases_and_users(DATABASES, BY_FILE, &file(&[("alice", 5000)]));
    let before = strangers(&mut rig);
    assert_eq!(with_count(&before, 5000), 100);
    reloads(&mut rig, &file(&[("alice", 6000)]));
    let after = strangers(&mut rig);
    let expected = |(name, told): (&String, &String)| (name.clone(), told.replace("i=5000", "i=6000"));
    assert_eq!(after, before.iter().map(expected).collect());
    assert_eq!(count(&probe(&mut rig, "alice", None)), 6000);
}

/// Guards against a new draw for every name at each RELOAD: names whose count changes do not exist.
#[test]
fn a_reload_with_one_more_user_changes_the_counts_of_few() {
    let users: Vec<String> = (0..20).map(|number| format!("user{number}")).collect();
    let mut lines: Vec<(&str, u32)> = users
        .iter()
        .zip([5000, 6000].into_iter().cycle())
        .map(|(u, c)| (&**u, c))
        .collect();
    let mut rig = Rig::with_databases_and_users(DATABASES, BY_FILE, &file(&lines));
    let before = strangers(&mut rig);
    assert!((25..75).contains(&with_count(&before, 5000)));
    lines.insert(0, ("aaa", 6000));
    reloads(&mut rig, &file(&lines));
    let after = strangers(&mut rig);
    let changed = before.iter().filter(|(name, told)| after[*name] != **told).count();
    assert!(changed <= 10, "{changed} of 100");
}

/// Guards against a count that tells all users whom auth_query finds from all names that it does not find.
#[test]
fn strangers_have_the_counts_of_users_whom_auth_query_has_found() {
    let mut rig = Rig::with_databases_and_users(DATABASES, BY_QUERY, LOOKER);
    assert_eq!(with_count(&strangers(&mut rig), 4096), 100, "nothing is known");
    logs_in(&mut rig, "alice", 5000);
    assert_eq!(with_count(&strangers(&mut rig), 5000), 100);
    for user in ["bob", "carol", "dave"] {
        logs_in(&mut rig, user, 6000);
    }
    let told = strangers(&mut rig);
    assert!(
        (10..40).contains(&with_count(&told, 5000)),
        "one of four users: {told:?}"
    );
    assert_eq!(with_count(&told, 5000) + with_count(&told, 6000), 100);
}

/// Guards against an oracle: somebody tries to log in as a user again and again, and watches whether the counts of
/// names that surely do not exist change. They would change only if the user exists.
#[test]
fn attempts_that_fail_change_no_count() {
    let mut rig = Rig::with_databases_and_users(DATABASES, BY_QUERY, LOOKER);
    for (user, iterations) in [("alice", 5000), ("bob", 6000)] {
        logs_in(&mut rig, user, iterations);
    }
    let before = strangers(&mut rig);
    for number in 0..70 {
        assert_eq!(count(&probe(&mut rig, "carol", Some(6000))), 6000);
        probe(&mut rig, &format!("user{number}"), Some(6000));
    }
    assert_eq!(strangers(&mut rig), before);
}

/// Guards against a user who logs in again and again, and learns so which names do not exist.
#[test]
fn a_user_counts_once() {
    let mut rig = Rig::with_databases_and_users(DATABASES, BY_QUERY, LOOKER);
    logs_in(&mut rig, "alice", 5000);
    logs_in(&mut rig, "bob", 6000);
    let before = strangers(&mut rig);
    for _ in 0..70 {
        logs_in(&mut rig, "bob", 6000);
    }
    assert_eq!(strangers(&mut rig), before);
}

/// Guards against counts that change at each login, all the time.
#[test]
fn the_counts_change_when_twice_as_many_users_are_known() {
    let mut rig = Rig::with_databases_and_users(DATABASES, BY_QUERY, LOOKER);
    let mut changes = Vec::new();
    let mut before = strangers(&mut rig);
    for number in 1..=20 {
        logs_in(&mut rig, &format!("user{number}"), 5000 + 1000 * (number % 2));
        let after = strangers(&mut rig);
        if after != before {
            changes.push(number);
        }
        before = after;
    }
    assert!(changes.iter().all(|number| number.is_power_of_two()), "{changes:?}");
    assert!(changes.contains(&2));
}

/// Guards against the same oracle by the kind of the exchange: `auth_type = md5` asks users with a verifier for SCRAM.
#[test]
fn attempts_that_fail_change_no_kind() {
    let settings = BY_QUERY.replace("scram-sha-256", "md5");
    let mut rig = Rig::with_databases_and_users(DATABASES, &settings, LOOKER);
    let kinds = |rig: &mut Rig| -> Vec<u8> {
        let names = (0..100).map(|number| format!("nobody{number}"));
        names
            .map(|name| {
                let client = begins(rig, &name, None);
                payload(rig, client)[3]
            })
            .collect()
    };
    let before = kinds(&mut rig);
    for _ in 0..70 {
        probe(&mut rig, "carol", Some(6000));
    }
    assert!(before.contains(&SASL) && before.contains(&MD5));
    assert_eq!(kinds(&mut rig), before);
}
