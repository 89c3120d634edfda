//! Which users and databases exist, tried out by the steps that a login takes: each step is a round trip, which takes
//! time. With `auth_dbname` the steps are the same for all names that are not in `auth_file`.

use crate::rig::Rig;
use pgweir_core::{Verification, Verified};

const DATABASES: &str = "db = host=127.0.0.1\nforced = host=127.0.0.1 user=owner\nlookups = host=127.0.0.1";
const LOOKER: &str = "\"looker\" \"\"\n";
/// A name that cannot exist at a server.
const LONG: &str = "uuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuu";

/// The kinds of the messages that a login with a wrong password causes, to the server of auth_query and to the client.
fn steps(method: &str, user: &str, database: &str, secret: Option<&str>) -> Vec<String> {
    let settings = format!("auth_type = {method}\nauth_user = looker\nauth_dbname = lookups");
    let mut rig = Rig::with_databases_and_users(DATABASES, &settings, LOOKER);
    let client = rig.client_begins(&[("user", user), ("database", database)]);
    rig.servers_log_in();
    let mut steps = Vec::new();
    let mut note = |told: Vec<String>| {
        let kinds = told.iter().filter_map(|line| line.split(' ').next());
        steps.extend(kinds.map(str::to_string));
    };
    if let Some(server) = rig.server_of(client) {
        note(rig.told(server));
        rig.auth_query_finds(server, user, secret);
    }
    note(rig.told(client));
    rig.says(client, |w| w.password(b"wrong\0"));
    if let Some((asker, Verification::Keys(derivation))) = rig.questions.pop_front() {
        rig.verified(asker, Verified::Keys(derivation.derive()));
    }
    note(rig.told(client));
    assert!(rig.is_closed(client), "{user} is let into {database}: {:?}", rig.log);
    steps
}

#[test]
fn neither_users_nor_databases_show_by_the_steps_of_a_login() {
    let usual = steps("plain", "alice", "db", Some("right"));
    assert!(usual.contains(&"Bind".to_string()), "it is looked up: {usual:?}");
    for (user, database, secret) in [
        ("alice", "nosuch", Some("right")),
        ("alice", "pgbouncer", Some("right")),
        ("alice", "forced", Some("right")),
        ("nobody", "db", None),
        ("nobody", "nosuch", None),
        ("nobody", "forced", None),
    ] {
        assert_eq!(steps("plain", user, database, secret), usual, "{user} in {database}");
    }
}

/// Guards against an answer at once to a name that cannot exist at a server, unless the database has a forced user: it
/// showed which databases exist and have one.
#[test]
fn a_long_name_does_not_show_which_databases_have_a_forced_user() {
    assert_eq!(LONG.len(), 64);
    let usual = steps("plain", "nobody", "db", None);
    for (database, secret) in [
        ("db", None),
        ("db", Some("right")),
        ("nosuch", None),
        ("nosuch", Some("right")),
        ("forced", None),
        ("forced", Some("right")),
        // It does not exist there, whatever auth_query finds and whichever password it has.
        ("db", Some("wrong")),
        ("nosuch", Some("wrong")),
    ] {
        assert_eq!(steps("plain", LONG, database, secret), usual, "{database}, {secret:?}");
    }
}
