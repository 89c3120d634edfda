//! Whose statements are sent behind those of others.

use super::crowd::{SHARED, cancelled, crowd, first_ends, login};
use crate::rig::Rig;
use pgweir_wire::TransactionStatus::Idle;
use std::time::Duration;

#[test]
fn who_waits_is_sent_to_the_server_together_and_answered_in_turn() {
    let mut rig = Rig::new(SHARED);
    let (server, crowd) = crowd(&mut rig, &["select 'a'", "select 'b'", "values (3)"]);
    first_ends(&mut rig, server);
    assert_eq!(
        rig.told(server),
        ["Query select 'a'", "Query select 'b'", "Query values (3)"]
    );
    for (n, client) in crowd.iter().enumerate() {
        assert_eq!(rig.server_of(*client), Some(server), "its turn");
        rig.completes(server, &format!("SELECT {n}"));
        assert_eq!(
            rig.told(*client),
            [format!("CommandComplete SELECT {n}"), "ReadyForQuery I".into()]
        );
        assert_eq!(rig.server_of(*client), None);
    }
    // One more finds the server idle, and the pooler has not kept what was sent.
    rig.query(crowd[0], "select 'again'");
    assert_eq!(rig.told(server), ["Query select 'again'"]);
}

#[test]
fn whoever_comes_while_flights_are_under_way_joins_them() {
    let mut rig = Rig::new(SHARED);
    let (server, crowd) = crowd(&mut rig, &["select 'a'"]);
    first_ends(&mut rig, server);
    rig.told(server);
    let late = rig.client();
    rig.told(late);
    rig.query(late, "select 'late'");
    assert_eq!(rig.told(server), ["Query select 'late'"]);
    rig.says(server, |w| {
        w.command_complete("SELECT 1");
        w.ready_for_query(Idle);
        w.command_complete("SELECT 2");
        w.ready_for_query(Idle);
    });
    assert_eq!(rig.told(crowd[0]), ["CommandComplete SELECT 1", "ReadyForQuery I"]);
    assert_eq!(rig.told(late), ["CommandComplete SELECT 2", "ReadyForQuery I"]);
}

#[test]
fn what_may_write_lock_or_open_a_block_is_never_sent_behind_another() {
    for text in [
        "insert into t values (1)",
        "select * from t for update",
        "select nextval('s')",
        "select 1; select 2",
        "with x as (delete from t returning *) select * from x",
        "copy t to stdout",
        "set timezone = 'UTC'",
    ] {
        let mut rig = Rig::new(SHARED);
        let (server, crowd) = crowd(&mut rig, &["select 'a'", text, "select 'c'"]);
        first_ends(&mut rig, server);
        assert_eq!(rig.told(server), ["Query select 'a'"], "{text}");
        // Who stands behind it in the queue does not pass it.
        rig.completes(server, "SELECT 1");
        assert_eq!(rig.server_of(crowd[1]), Some(server), "{text}");
    }
}

#[test]
fn who_looks_otherwise_gets_a_server_of_their_own() {
    let mut rig = Rig::new(SHARED);
    let (server, crowd) = crowd(&mut rig, &["select 'a'"]);
    let other = rig.client_begins(&[("user", "u"), ("database", "db"), ("application_name", "other")]);
    rig.told(other);
    rig.query(other, "select 'b'");
    first_ends(&mut rig, server);
    assert_eq!(rig.told(server), ["Query select 'a'"]);
    rig.completes(server, "SELECT 1");
    assert_eq!(rig.told(crowd[0]).len(), 2);
    let restored = rig.told(server);
    assert!(restored.iter().all(|line| !line.contains("select 'b'")), "{restored:?}");
}

#[test]
fn without_pipeline_depth_everyone_waits_for_the_server_to_be_free() {
    let mut rig = Rig::new("default_pool_size = 1\nlink = adversarial");
    let (server, _) = crowd(&mut rig, &["select 'a'", "select 'b'"]);
    first_ends(&mut rig, server);
    assert_eq!(rig.told(server), ["Query select 'a'"]);
}

#[test]
fn no_more_than_pipeline_depth_are_under_way() {
    let mut rig = Rig::new("default_pool_size = 1\npipeline_depth = 2\nlink = adversarial");
    let (server, _) = crowd(&mut rig, &["select 'a'", "select 'b'", "select 'c'"]);
    first_ends(&mut rig, server);
    assert_eq!(rig.told(server), ["Query select 'a'", "Query select 'b'"]);
    rig.completes(server, "SELECT 1");
    assert_eq!(rig.told(server), ["Query select 'c'"]);
}

#[test]
fn a_class_flies_alone_until_it_is_known_to_be_short() {
    let mut rig = Rig::new("default_pool_size = 1\npipeline_depth = 2");
    let first = rig.client();
    rig.query(first, "select 'first'");
    let server = rig.server_of(first).unwrap();
    let (a, b) = (rig.client(), rig.client());
    rig.query(a, "select 1");
    rig.query(b, "select 2");
    let mut alone = 0;
    loop {
        rig.told(server);
        rig.now = rig.now + Duration::from_micros(40);
        rig.completes(server, "SELECT 1");
        let sent = rig.told(server);
        match sent.len() {
            1 => alone += 1,
            _ => break assert_eq!(sent.len(), 2),
        }
        let next = if alone % 2 == 1 { b } else { a };
        let idle = if next == a { b } else { a };
        rig.query(idle, "select 3");
        assert!(alone < 100, "it is never known");
    }
    assert!(alone >= 32, "{alone} are not enough to know");
    // One that takes long makes it unknown again.
    rig.now = rig.now + Duration::from_millis(50);
    rig.completes(server, "SELECT 1");
    rig.completes(server, "SELECT 1");
    rig.query(first, "select 5");
    rig.query(a, "select 4");
    rig.query(b, "select 4");
    rig.told(server);
    rig.completes(server, "SELECT 1");
    assert_eq!(rig.told(server).len(), 1);
}

#[test]
fn a_prepared_statement_is_sent_under_the_servers_name_for_it() {
    let mut rig = Rig::new(SHARED);
    let (a, b) = (rig.client(), rig.client());
    let mut server = None;
    for client in [a, b] {
        rig.told(client);
        rig.says(client, |w| {
            w.parse(b"s", b"select 7", &[0, 0]);
            w.describe(b'S', b"s");
            w.sync();
        });
        let at = *server.get_or_insert_with(|| rig.server_of(client).unwrap());
        while let lines @ [_, ..] = &rig.told(at)[..] {
            for line in lines {
                match line.split(' ').next().unwrap() {
                    "Parse" => rig.says(at, |w| w.empty(b'1')),
                    "Describe" => rig.says(at, |w| {
                        w.message(b't', |body| body.extend_from_slice(&[0, 0]));
                        w.row_description(&[]);
                    }),
                    "Sync" => rig.says(at, |w| w.ready_for_query(Idle)),
                    other => panic!("{other}"),
                }
            }
        }
        rig.told(client);
    }
    let server = server.unwrap();
    let first = rig.client();
    rig.query(first, "select 'first'");
    for client in [a, b] {
        rig.says(client, |w| {
            w.bind_portal(b"", b"s", &[]);
            w.execute_portal(b"");
            w.sync();
        });
    }
    first_ends(&mut rig, server);
    let sent = rig.told(server).split_off(1);
    assert_eq!(sent.len(), 6, "{sent:?}");
    assert!(
        sent[0].starts_with("Bind") && sent[0] == sent[3] && sent[0].contains("pgweir_"),
        "{sent:?}"
    );
    for client in [a, b] {
        rig.says(server, |w| {
            w.empty(b'2');
            w.command_complete("SELECT 1");
            w.ready_for_query(Idle);
        });
        assert_eq!(
            rig.told(client),
            ["BindComplete", "CommandComplete SELECT 1", "ReadyForQuery I"]
        );
    }
}

/// There the pooler knows no objects, only the settings that the server reports.
#[test]
fn with_session_state_pgbouncer_servers_are_shared_too() {
    let mut rig = Rig::new(&format!("{SHARED}\nsession_state = pgbouncer"));
    let texts = ["select 'a'", "select x from public.view", "select f(1)"];
    let (server, crowd) = crowd(&mut rig, &texts);
    let zone = rig.client_begins(&[("user", "u"), ("database", "db"), ("TimeZone", "Europe/Vienna")]);
    rig.told(zone);
    rig.query(zone, "select 'zone'");
    first_ends(&mut rig, server);
    assert_eq!(
        rig.told(server),
        ["Query select 'a'", "Query select x from public.view"],
        "the text names a function that is not PostgreSQL's own"
    );
    rig.completes(server, "SELECT 1");
    assert_eq!(rig.told(crowd[0]), ["CommandComplete SELECT 1", "ReadyForQuery I"]);
    rig.completes(server, "SELECT 2");
    assert_eq!(rig.told(crowd[1]), ["CommandComplete SELECT 2", "ReadyForQuery I"]);
    assert_eq!(rig.told(server), ["Query select f(1)"]);
    rig.completes(server, "SELECT 3");
    assert_eq!(rig.told(crowd[2]), ["CommandComplete SELECT 3", "ReadyForQuery I"]);
    let told = rig.told(server);
    assert!(told.iter().any(|message| message.contains("set_config")), "{told:?}");
    assert!(told.iter().all(|message| !message.contains("zone'")), "{told:?}");
}

#[test]
fn with_session_state_pgbouncer_another_clients_cancel_is_not_noticed_either() {
    let mut rig = Rig::new(&format!("{SHARED}\nsession_state = pgbouncer"));
    let (server, _) = crowd(&mut rig, &[]);
    let (a, b) = (login(&mut rig), login(&mut rig));
    let key = rig.key_told(a);
    for client in [a, b] {
        rig.told(client);
        rig.query(client, "select 'short'");
    }
    first_ends(&mut rig, server);
    rig.told(server);
    rig.cancel_request(&key);
    rig.completes(server, "SELECT 1");
    rig.says(server, cancelled);
    assert!(rig.told(b).is_empty());
    rig.cancel_arrives(server);
    assert_eq!(rig.told(server), ["Query select 'short'"]);
    rig.completes(server, "SELECT 2");
    assert_eq!(rig.told(b), ["CommandComplete SELECT 2", "ReadyForQuery I"]);
}
