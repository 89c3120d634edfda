//! Names of more than 63 bytes. PostgreSQL up to version 16 cuts them, so they would lead to users and databases that
//! the pooler's rules do not mean.

use crate::rig::Rig;
use pgweir_core::{ClientId, Verified};

fn name(bytes: usize) -> String {
    "n".repeat(bytes)
}

fn begins(rig: &mut Rig, user: &str, database: &str) -> Vec<String> {
    let client = rig.client_begins(&[("user", user), ("database", database)]);
    answers(rig, client)
}

/// What the client is told, at last.
fn answers(rig: &mut Rig, client: ClientId) -> Vec<String> {
    rig.servers_log_in();
    let mut told = rig.told(client);
    told.drain(..told.len().saturating_sub(1));
    told
}

#[test]
fn a_database_with_a_name_that_the_server_would_cut_does_not_exist() {
    let rows = format!(
        "* = host=127.0.0.1 user=u\n{} = host=127.0.0.1 user=u dbname=short\n",
        name(70)
    );
    let mut rig = Rig::with(&rows, "");
    assert_eq!(begins(&mut rig, "a", &name(63)), ["ReadyForQuery I"]);
    let absent = format!("Error 3D000 database \"{}\" does not exist", name(64));
    assert_eq!(begins(&mut rig, "a", &name(64)), [absent]);
    assert_eq!(
        begins(&mut rig, "a", &name(70)),
        ["ReadyForQuery I"],
        "only pgweir knows this name"
    );
    // With the user's name as its default.
    let client = rig.client_begins(&[("user", &name(65))]);
    let absent = format!("Error 3D000 database \"{}\" does not exist", name(65));
    assert_eq!(answers(&mut rig, client), [absent]);
}

#[test]
fn a_user_with_a_name_that_the_server_would_cut_does_not_exist() {
    let users: String = [63, 64]
        .map(|bytes| format!("\"{}\" \"secret\"\n", name(bytes)))
        .concat();
    let rows = "db = host=127.0.0.1\nforced = host=127.0.0.1 user=u";
    let mut rig = Rig::with_databases_and_users(rows, "", &users);
    assert_eq!(begins(&mut rig, &name(63), "db"), ["ReadyForQuery I"]);
    assert_eq!(
        begins(&mut rig, &name(64), "forced"),
        ["ReadyForQuery I"],
        "the server does not get this name"
    );
    let refused = ["Error 28P01 \"trust\" authentication failed"];
    assert_eq!(begins(&mut rig, &name(64), "db"), refused);
    assert_eq!(begins(&mut rig, "nobody", "db"), refused);
}

/// A directory may know such a user.
#[test]
fn nobody_else_can_vouch_for_a_user_with_a_name_that_is_too_long() {
    for (database, is_let_in) in [("db", false), ("forced", true)] {
        let rows = "db = host=127.0.0.1\nforced = host=127.0.0.1 user=u";
        let mut rig = Rig::with(rows, "auth_type = pam");
        let client = rig.client_begins(&[("user", &name(64)), ("database", database)]);
        rig.comes(client, b"p\0\0\0\x0bsesame\0");
        rig.verified(client, Verified::Right);
        let told = answers(&mut rig, client);
        match is_let_in {
            true => assert_eq!(told, ["ReadyForQuery I"]),
            false => assert_eq!(told, ["Error 28P01 PAM authentication failed"]),
        }
    }
}

#[test]
fn the_console_knows_its_users_by_their_full_names() {
    let users = format!("\"{}\" \"secret\"\n", name(64));
    for (bytes, is_let_in) in [(64, true), (63, false)] {
        let settings = format!("admin_users = {}", name(bytes));
        let mut rig = Rig::with_databases_and_users("db = host=127.0.0.1", &settings, &users);
        assert_eq!(
            begins(&mut rig, &name(64), "pgbouncer") == ["ReadyForQuery I"],
            is_let_in
        );
    }
}
