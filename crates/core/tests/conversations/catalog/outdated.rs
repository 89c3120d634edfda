//! Servers whose sessions began before their role or their database was altered.

use super::readings::{SIZE_2, nothing_found};
use crate::rig::{Rig, error};
use pgweir_core::{ClientId, ServerId};
use pgweir_wire::TransactionStatus::Idle;

/// A client's statement, and whether the server that has answered it with this command tag was replaced.
fn is_replaced(rig: &mut Rig, client: ClientId, text: &str, tag: &str) -> bool {
    let server = run(rig, client, text, tag);
    rig.is_closed(server)
}

fn run(rig: &mut Rig, client: ClientId, text: &str, tag: &str) -> ServerId {
    rig.says(client, |w| w.query(text.as_bytes()));
    rig.servers_log_in();
    let server = rig.server_of(client).expect("linked");
    rig.told(server);
    match tag {
        "" => rig.says(server, |w| {
            w.error(&error("42501", "permission denied"));
            w.ready_for_query(Idle);
        }),
        _ => rig.completes(server, tag),
    }
    while !rig.is_closed(server) && !nothing_found(rig, server).is_empty() {}
    server
}

/// Guards against clients of a new role that run as the old role of that name: each time, not once in some seconds.
#[test]
fn servers_of_a_role_are_replaced_whenever_its_name_comes_to_mean_another() {
    let mut rig = Rig::new(SIZE_2);
    let client = rig.client();
    for (text, tag) in [
        ("alter role u rename to v", "ALTER ROLE"),
        ("create role u login", "CREATE ROLE"),
        ("drop role u", "DROP ROLE"),
        ("alter role v rename to u", "ALTER ROLE"),
        ("alter role u nologin", "ALTER ROLE"),
        ("drop role if exists x, u", "DROP ROLE"),
        ("drop role u; create role u", "CREATE ROLE"),
    ] {
        assert!(is_replaced(&mut rig, client, text, tag), "{text}");
    }
    for (text, tag) in [
        ("drop role u", ""),
        ("create role u", ""),
        ("drop role v", "DROP ROLE"),
        ("create user mapping for u server s", "CREATE USER MAPPING"),
        ("grant u to v", "GRANT ROLE"),
    ] {
        assert!(!is_replaced(&mut rig, client, text, tag), "{text}");
    }
}

/// Guards against servers that serve whom PostgreSQL would not let in any more.
#[test]
fn servers_are_replaced_when_somebody_may_be_locked_out() {
    for (text, tag) in [
        ("revoke connect on database db from public", "REVOKE"),
        ("revoke x from y", "REVOKE ROLE"),
        ("alter database db allow_connections false", "ALTER DATABASE"),
        ("alter role u valid until '2001-01-01'", "ALTER ROLE"),
        ("drop owned by u", "DROP OWNED"),
        ("do $$begin execute 'drop role u'; end$$", "DO"),
    ] {
        let mut rig = Rig::new(SIZE_2);
        let client = rig.client();
        assert!(is_replaced(&mut rig, client, text, tag), "{text}");
    }
    let mut rig = Rig::new(SIZE_2);
    let client = rig.client();
    for text in [
        "revoke connect on database other from public",
        "revoke all on t from public",
    ] {
        assert!(!is_replaced(&mut rig, client, text, "REVOKE"), "{text}");
    }
}

/// Guards against a client that is told that it is logged in, and whose first query gets the error of the login.
#[test]
fn the_next_login_waits_for_a_new_server() {
    let mut rig = Rig::new(SIZE_2);
    let client = rig.client();
    let welcome = |rig: &mut Rig| {
        let id = rig.client_begins(&[("user", "u"), ("database", "db")]);
        rig.told(id).last().is_some_and(|line| line == "ReadyForQuery I")
    };
    assert!(welcome(&mut rig));
    run(&mut rig, client, "alter role u nologin", "ALTER ROLE");
    assert!(!welcome(&mut rig));
    rig.servers_log_in();
    assert!(welcome(&mut rig));
    run(&mut rig, client, "do $$begin execute 'drop role u'; end$$", "DO");
    assert!(welcome(&mut rig), "any client may claim this");
}
