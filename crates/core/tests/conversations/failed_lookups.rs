//! auth_query that fails while it runs: a client that is not authenticated is told what a user with a wrong password is
//! told, and the log has the reason.

use crate::rig::{Rig, configuration_with_users, fatal};
use crate::trust::restorations::confirms;
use pgweir_core::{ClientId, ServerId};
use pgweir_wire::TransactionStatus::Idle;
use std::time::Duration;

const USERS: &str = "\"known\" \"secret\"\n\"looker\" \"\"\n\"boss\" \"secret\"\n";
const DATABASES: &str = "db = host=127.0.0.1\nother = host=127.0.0.1";

fn settings(more: &str) -> String {
    format!("auth_type = plain\nauth_user = looker\nadmin_users = boss\n{more}")
}

/// A stranger whose secret a server is looking up.
fn stranger(more: &str) -> (Rig, ClientId, ServerId) {
    let mut rig = Rig::with_databases_and_users(DATABASES, &settings(more), USERS);
    let client = rig.client_begins(&[("user", "stranger"), ("database", "db")]);
    rig.servers_log_in();
    let server = rig.server_of(client).expect("auth_query runs");
    assert!(rig.told(server).iter().any(|line| line.starts_with("Bind")));
    (rig, client, server)
}

/// The client is asked for its password and refused, as a known user with a wrong password is.
fn is_told_nothing(rig: &mut Rig, client: ClientId, why: &str) {
    let known = rig.client_begins(&[("user", "known"), ("database", "other")]);
    for id in [known, client] {
        rig.says(id, |w| w.password(b"wrong\0"));
    }
    let right = rig.told(known);
    assert!(right.last().unwrap().starts_with("Error 28P01"), "{right:?}");
    let hide = |line: String| line.replace("known", "?").replace("stranger", "?");
    let told: Vec<String> = rig.told(client).into_iter().map(hide).collect();
    assert_eq!(told, right.into_iter().map(hide).collect::<Vec<_>>(), "{why}");
    assert!(rig.is_closed(client));
    let is_reason = |text: &str| text.contains("cannot look up the user") && text.contains(why);
    assert!(rig.log.iter().any(|(_, text)| is_reason(text)), "{why}: {:?}", rig.log);
}

#[test]
fn the_end_of_the_server_is_not_told() {
    for says_why in [true, false] {
        let (mut rig, client, server) = stranger("");
        if says_why {
            rig.says(server, |w| w.error(&fatal("57P01", "terminating connection")));
            is_told_nothing(&mut rig, client, "terminating connection");
        } else {
            rig.server_dies(server);
            is_told_nothing(&mut rig, client, "server conn crashed?");
        }
    }
}

#[test]
fn time_limits_are_not_told() {
    let (mut rig, client, server) = stranger("query_timeout = 2");
    rig.wait(Duration::from_secs(5));
    assert_eq!(rig.cancels.len(), 1, "the server does not work on for nobody");
    assert_eq!(rig.cancels[0].0, server);
    is_told_nothing(&mut rig, client, "query timeout");
    for limit in ["query_wait_timeout", "query_timeout"] {
        let (mut rig, _, _) = stranger(&format!("default_pool_size = 1\n{limit} = 2"));
        let late = rig.client_begins(&[("user", "stranger"), ("database", "db")]);
        rig.wait(Duration::from_secs(3));
        is_told_nothing(&mut rig, late, limit);
    }
}

/// Guards against a user who is let in by the second of three columns, which may be something else.
#[test]
fn an_answer_of_other_than_two_columns_is_not_told_and_opens_nothing() {
    let row = |columns: usize| {
        [Some(&b"stranger"[..]), Some(b"wrong"), Some(b"more")]
            .into_iter()
            .take(columns)
    };
    for columns in [0, 1, 3] {
        let (mut rig, client, server) = stranger("");
        rig.says(server, |w| {
            w.empty(b'1');
            w.empty(b'2');
            w.data_row(columns, row(columns));
            w.data_row(columns, row(columns));
            w.command_complete("SELECT 2");
            w.ready_for_query(Idle);
        });
        is_told_nothing(
            &mut rig,
            client,
            &format!("expected 2 columns from auth_query, not {columns}"),
        );
    }
}

#[test]
fn a_removed_database_is_not_told() {
    let (mut rig, client, _) = stranger("");
    rig.reloads(configuration_with_users("other = host=127.0.0.1", &settings(""), USERS));
    is_told_nothing(&mut rig, client, "database removed");
}

#[test]
fn the_time_for_a_login_still_ends() {
    let (mut rig, client, _) = stranger("client_login_timeout = 5");
    rig.wait(Duration::from_secs(6));
    assert!(rig.is_closed(client));
    assert!(rig.told(client)[0].contains("client_login_timeout"));
}

/// The server goes on after the cancel, and serves the next login.
#[test]
fn the_server_of_a_lookup_that_was_given_up_is_used_again() {
    let (mut rig, client, server) = stranger("default_pool_size = 1\nquery_timeout = 2");
    rig.wait(Duration::from_secs(3));
    rig.says(client, |w| w.password(b"wrong\0"));
    rig.told(client);
    rig.says(server, |w| {
        w.error(&crate::rig::error("57014", "canceling statement"));
        w.ready_for_query(Idle);
    });
    rig.cancel_arrives(server);
    let told = rig.told(server);
    let next = rig.client_begins(&[("user", "stranger"), ("database", "db")]);
    rig.servers_log_in();
    assert!(rig.server_of(next).is_some(), "{told:?}");
}

/// Guards against an error for a login whose startup values another server could try.
#[test]
fn a_login_whose_server_ends_while_it_tries_values_takes_another() {
    let mut rig = Rig::one_server("");
    rig.client();
    let client = rig.client_begins(&[("user", "u"), ("database", "db"), ("app.x", "1")]);
    let server = rig.server_of(client).expect("it tries the value");
    rig.server_dies(server);
    assert!(rig.told(client).is_empty());
    let other = rig.servers_log_in()[0];
    assert_eq!(rig.server_of(client), Some(other));
    confirms(&mut rig, other, &[]);
    assert!(rig.told(client).ends_with(&["ReadyForQuery I".into()]));
    let client = rig.client_begins(&[("user", "u"), ("database", "db"), ("app.x", "2")]);
    for server in [other, ServerId(other.0)] {
        let server = rig.server_of(client).unwrap_or(server);
        rig.server_dies(server);
        rig.servers_log_in();
    }
    assert!(
        rig.told(client)[0].starts_with("Error 08006"),
        "values that end servers do not end all of them"
    );
}
