//! Another process takes over, with its own configuration, and with the connections that it has got.

use crate::rig::{Rig, configuration, configuration_with_files, configuration_with_users};
use pgweir_core::{
    Accepted, Address, ClientId, ConnectionId, LogLevel, Pooler, ReloadOutcome, ServerId, Surroundings, Verification,
    Verified, WallClock,
};
use pgweir_wire::TransactionStatus::InTransaction;
use std::sync::Arc;

/// Another process with this configuration takes over, and gets these connections.
pub fn take_over(rig: &mut Rig, config: pgweir_config::Config, has: impl Fn(ConnectionId) -> bool) {
    let surroundings = Surroundings {
        seed: [9; 32],
        wall: WallClock { unix_us: 0 },
        own_uid: 0,
        host_name: "here".into(),
        open_files_max: 1000,
    };
    let frozen = rig.pooler.freeze();
    let (pooler, predecessor) = Pooler::thaw(&frozen, Arc::new(config), surroundings).unwrap();
    rig.pooler = pooler;
    rig.pooler.handle_taken_over(rig.now, predecessor, has);
    rig.settle(&[]);
}

/// The server that works for a client.
fn linked(rig: &mut Rig, client: ClientId) -> ServerId {
    rig.servers_log_in();
    rig.server_of(client).expect("a server")
}

pub const DATABASE: &str = "db = host=127.0.0.1 user=u";

#[test]
fn a_transaction_goes_on_and_a_server_that_was_idle_is_used_again() {
    let mut rig = Rig::new("");
    let client = rig.client();
    rig.says(client, |w| w.query(b"BEGIN; select 1"));
    let server = linked(&mut rig, client);
    rig.says(server, |w| {
        w.command_complete("BEGIN");
        w.command_complete("SELECT 1");
    });
    rig.says(server, |w| w.ready_for_query(InTransaction));
    take_over(&mut rig, configuration(DATABASE, ""), |_| true);
    rig.says(client, |w| w.query(b"COMMIT"));
    assert_eq!(rig.server_of(client), Some(server));
    rig.completes(server, "COMMIT");
    assert_eq!(rig.told(client).last().map(String::as_str), Some("ReadyForQuery I"));
    take_over(&mut rig, configuration(DATABASE, ""), |_| true);
    let other = rig.client();
    rig.says(other, |w| w.query(b"select 2"));
    assert_eq!(rig.server_of(other), Some(server));
    assert!(rig.connects.is_empty());
}

#[test]
fn a_server_that_was_being_connected_is_connected_once_more() {
    let mut rig = Rig::new("");
    let client = rig.client_begins(&[("user", "u"), ("database", "db")]);
    let server = rig.connects.pop_front().expect("a server is wanted");
    take_over(&mut rig, configuration(DATABASE, ""), |id| id != server.into());
    assert_eq!(rig.connects.front(), Some(&server));
    rig.servers_log_in();
    rig.says(client, |w| w.query(b"select 1"));
    assert_eq!(rig.server_of(client), Some(server));
}

#[test]
fn connections_that_did_not_come_along_are_gone() {
    let mut rig = Rig::new("");
    let (stays, goes) = (rig.client(), rig.client());
    rig.says(goes, |w| w.query(b"BEGIN; select 1"));
    let server = linked(&mut rig, goes);
    take_over(&mut rig, configuration(DATABASE, ""), |id| {
        id != goes.into() && id != server.into()
    });
    assert_eq!(rig.server_of(stays), None);
    let left: Vec<ConnectionId> = rig.pooler.connections();
    assert!(left.contains(&stays.into()) && !left.contains(&goes.into()) && !left.contains(&server.into()));
}

#[test]
fn its_own_configuration_counts_as_after_a_reload() {
    let mut rig = Rig::new("");
    let client = rig.client();
    rig.says(client, |w| w.query(b"select 1"));
    let server = linked(&mut rig, client);
    rig.completes(server, "SELECT 1");
    take_over(&mut rig, configuration("db = host=127.0.0.2 user=u", ""), |_| true);
    assert!(rig.closed.contains(&server.into()), "its address has changed");
    take_over(&mut rig, configuration("other = host=127.0.0.2 user=u", ""), |_| true);
    assert!(rig.closed.contains(&client.into()), "its database is gone");
}

#[test]
fn the_same_configuration_changes_nothing() {
    let mut rig = Rig::with_users("\"u\" \"secret\"", "");
    let client = rig.client();
    rig.says(client, |w| w.query(b"select 1"));
    let server = linked(&mut rig, client);
    rig.completes(server, "SELECT 1");
    let config = || configuration_with_users(DATABASE, "", "\"u\" \"secret\"");
    take_over(&mut rig, config(), |_| true);
    assert!(
        rig.closed.is_empty() && rig.connects.is_empty(),
        "{:?} {:?} {:?}",
        rig.closed,
        rig.connects,
        rig.log
    );
    let errors = |(level, _): &&(LogLevel, String)| *level <= LogLevel::Warning;
    assert_eq!(rig.log.iter().find(errors), None);
    rig.pooler
        .handle_reload(rig.now, None, ReloadOutcome::New(Arc::new(config()), Vec::new()));
    rig.settle(&[]);
    assert!(rig.closed.is_empty());
}

/// Guards against servers with what the last client has left there, which the old process did not follow: as after a
/// RELOAD, they are replaced.
#[test]
fn servers_that_were_followed_less_are_replaced() {
    for (old, new, is_replaced) in [
        ("session_state = pgbouncer", "session_state = full", true),
        ("max_prepared_statements = 0", "max_prepared_statements = 200", true),
        ("session_state = full", "session_state = pgbouncer", false),
        ("max_prepared_statements = 200", "max_prepared_statements = 0", false),
        ("max_prepared_statements = 200", "max_prepared_statements = 100", false),
    ] {
        let mut rig = Rig::new(old);
        let (idle, at_work) = (rig.client(), rig.client());
        rig.query(idle, "select 1");
        let free = linked(&mut rig, idle);
        rig.query(at_work, "begin; select 1");
        let linked = linked(&mut rig, at_work);
        rig.completes(free, "SELECT 1");
        rig.says(linked, |w| {
            w.command_complete("BEGIN");
            w.ready_for_query(InTransaction);
        });
        take_over(&mut rig, configuration(DATABASE, new), |_| true);
        assert_eq!(rig.is_closed(free), is_replaced, "{old}, {new}");
        assert!(!rig.is_closed(linked), "it has a client");
        rig.query(at_work, "commit");
        rig.completes(linked, "COMMIT");
        rig.client_leaves(at_work);
        rig.query(idle, "select 1");
        let last = self::linked(&mut rig, idle);
        assert_eq!(
            last != free && last != linked,
            is_replaced,
            "{old}, {new}: nobody gets them"
        );
        // The next take-over, by a process with the same configuration, has nothing to replace.
        rig.completes(last, "SELECT 1");
        take_over(&mut rig, configuration(DATABASE, new), |_| true);
        assert!(!rig.is_closed(last));
    }
}

/// Guards against the old weights for those who wait already.
#[test]
fn the_queue_goes_by_the_new_weights() {
    // Of two users who have used as much, the one with the larger weight is next, and stays it.
    let users = "\"a\" \"\"\n\"b\" \"\"\n\"u\" \"\"";
    let config = |weights: &str| {
        let settings = format!("default_pool_size = 1\nfair_by = user\n[users]\n{weights}");
        configuration_with_users(DATABASE, &settings, users)
    };
    let mut order = Vec::new();
    for weights in ["a = weight=1\nb = weight=1", "a = weight=9\nb = weight=1"] {
        let settings = "default_pool_size = 1\nfair_by = user";
        let mut rig = Rig::with_users(users, settings);
        let client = |rig: &mut Rig, user| {
            let id = rig.client_begins(&[("user", user), ("database", "db")]);
            rig.servers_log_in();
            id
        };
        let clients = ["b", "a", "a", "b", "a", "a"].map(|user| (client(&mut rig, user), user));
        for (id, _) in clients {
            rig.query(id, "select 1");
        }
        let server = linked(&mut rig, clients[0].0);
        take_over(&mut rig, config(weights), |_| true);
        let mut served = String::new();
        for _ in clients {
            let now = clients.iter().find(|(id, _)| rig.server_of(*id) == Some(server));
            served.push_str(now.expect("somebody is served").1);
            rig.wait(std::time::Duration::from_millis(10));
            rig.completes(server, "SELECT 1");
        }
        order.push(served);
    }
    assert_eq!(order, ["baabaa", "baaaab"]);
}

#[test]
fn who_was_asked_about_a_client_is_asked_again() {
    const SETTINGS: &str = "auth_type = hba\nauth_hba_file = hba\nauth_file = users.txt";
    let files = [
        ("hba", "local all all peer\nhost all all all pam\n"),
        ("users.txt", "\"a\" \"s\"\n"),
    ];
    let mut rig = Rig::with_files(SETTINGS, &files);
    let at = |peer, peer_uid| Accepted {
        peer,
        local: peer,
        peer_uid,
    };
    let parameters = [("user", "a"), ("database", "db")];
    let local = rig.client_begins_at(at(Address::Unix { port: 6432, pid: None }, Some(1000)), &parameters);
    let remote = rig.client_begins_at(at(Address::Tcp(([10, 0, 0, 1], 5).into()), None), &parameters);
    rig.says(remote, |w| w.password(b"secret\0"));
    let asked: Vec<(_, Verification)> = rig.questions.drain(..).collect();
    assert_eq!(
        asked.len(),
        2,
        "{:?} {:?} {:?}",
        rig.told(local),
        rig.told(remote),
        rig.log
    );
    take_over(&mut rig, configuration_with_files(SETTINGS, &files), |_| true);
    assert_eq!(rig.questions, asked);
    rig.verified(local, Verified::SystemUser(Some("a".into())));
    rig.verified(remote, Verified::Wrong("no".into()));
    assert!(rig.closed.contains(&remote.into()) && !rig.closed.contains(&local.into()));
}

#[test]
fn damaged_state_is_refused_and_never_panics() {
    let mut rig = Rig::new("");
    let client = rig.client();
    rig.says(client, |w| w.query(b"BEGIN; select 1"));
    rig.servers_log_in();
    let frozen = rig.pooler.freeze();
    let thaw = |bytes: &[u8]| {
        let surroundings = Surroundings {
            seed: [9; 32],
            wall: WallClock { unix_us: 0 },
            own_uid: 0,
            host_name: "here".into(),
            open_files_max: 1000,
        };
        Pooler::thaw(bytes, Arc::new(configuration(DATABASE, "")), surroundings).is_ok()
    };
    assert!(thaw(&frozen));
    for at in 0..frozen.len() {
        assert!(!thaw(&frozen[..at]), "cut at {at}");
    }
    for at in 0..frozen.len() {
        for byte in [0, 1, 255] {
            let mut bad = frozen.clone();
            bad[at] = byte;
            thaw(&bad);
        }
    }
}
