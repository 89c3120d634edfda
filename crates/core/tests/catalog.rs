//! The catalog: when it is read, and how it changes the treatment of statements that mention a name from it.

mod rig;

use pgweir_core::{ClientId, LogLevel, ServerId};
use pgweir_wire::TransactionStatus::Idle;
use rig::{Rig, error};
use std::time::Duration;

const SIZE_2: &str = "default_pool_size = 2\n";

/// A function that changes a setting, and one that does not.
const OBJECTS: [[&str; 4]; 2] = [["r", "16400", "remember", "0"], ["r", "16401", "harmless", "0"]];
const SOURCES: [[&str; 3]; 2] = [
    ["16400", "p", "begin perform set_config('app.x', '1', false); end"],
    ["16401", "s", "select 1"],
];

/// Whether a server has been asked for the catalog since the last look.
fn is_asked(rig: &mut Rig, server: ServerId) -> bool {
    rig.told(server).iter().any(|m| m == "Bind  pgweir_9")
}

fn rig(settings: &str) -> Rig {
    let mut rig = Rig::new(&format!("session_state = full\n{settings}"));
    rig.catalogs_are_empty = false;
    rig
}

/// A client, and the server that has read the catalog for it.
fn start(rig: &mut Rig, objects: &[[&str; 4]], sources: &[[&str; 3]]) -> (ClientId, ServerId) {
    let client = rig.client_begins(&[("user", "u"), ("database", "db")]);
    let server = rig.servers_log_in()[0];
    rig.tells_catalog(server, objects, sources);
    rig.told(client);
    (client, server)
}

/// Longer than the pause between two readings, and longer than waiting clients may delay one.
const PAUSE: Duration = Duration::from_millis(1001);

fn asks(rig: &mut Rig, client: ClientId, text: &str) -> ServerId {
    rig.says(client, |w| w.query(text.as_bytes()));
    let server = rig.server_of(client).expect("linked");
    rig.told(server);
    rig.completes(server, "SELECT 1");
    server
}

/// Answers a probe that finds nothing, or a reading of a catalog that is empty.
fn nothing_found(rig: &mut Rig, server: ServerId) -> Vec<String> {
    let told = rig.told(server);
    rig.says(server, |w| {
        for message in &told {
            match message.split(' ').next() {
                Some("Parse") => w.empty(b'1'),
                Some("Bind") => w.empty(b'2'),
                Some("Close") => w.empty(b'3'),
                Some("Execute") => w.command_complete("SELECT 0"),
                Some("Sync") => w.ready_for_query(Idle),
                other => panic!("{other:?} is no part of it"),
            }
        }
    });
    told
}

/// Whether a server has got a probe since the last look.
fn is_probed(rig: &mut Rig, server: ServerId) -> bool {
    let probes = ["Bind  pgweir_6", "Bind  pgweir_7"];
    rig.told(server).iter().any(|m| probes.contains(&&**m))
}

#[test]
fn the_first_server_reads_the_catalog_before_any_client_gets_it() {
    let mut rig = rig(SIZE_2);
    let client = rig.client_begins(&[("user", "u"), ("database", "db")]);
    let server = rig.servers_log_in()[0];
    rig.says(client, |w| w.query(b"select remember()"));
    assert!(rig.bytes_written(server) > 0);
    rig.tells_catalog(server, &OBJECTS, &SOURCES);
    assert_eq!(rig.told(server), ["Query select remember()"], "not before");
    assert_eq!(rig.connects.len(), 0, "one server is enough for one client");
}

/// Guards against a storm of readings: every server of a growing pool read the catalog.
#[test]
fn servers_that_log_in_while_another_reads_serve_and_are_probed() {
    let mut rig = rig(SIZE_2);
    let one = rig.client_begins(&[("user", "u"), ("database", "db")]);
    let two = rig.client_begins(&[("user", "u"), ("database", "db")]);
    let servers = rig.servers_log_in();
    assert_eq!(servers.len(), 2);
    assert!(rig.bytes_written(servers[0]) > 0);
    assert_eq!(rig.bytes_written(servers[1]), 0);
    let (reader, other) = (servers[0], servers[1]);
    rig.told(two);
    assert_eq!(asks(&mut rig, two, "select harmless()"), other);
    assert!(is_probed(&mut rig, other), "anything may be code yet");
    rig.tells_catalog(reader, &OBJECTS, &SOURCES);
    rig.told(one);
    asks(&mut rig, one, "select harmless()");
    assert_eq!(rig.server_of(one), None);
}

#[test]
fn a_statement_that_mentions_a_function_is_followed_by_a_probe_and_others_are_not() {
    let mut rig = rig(SIZE_2);
    let (client, server) = start(&mut rig, &OBJECTS, &SOURCES);
    for text in ["select 1", "select harmless()", "select remembered from t"] {
        asks(&mut rig, client, text);
        assert_eq!(rig.server_of(client), None, "{text}");
        assert_eq!(rig.told(server), [""; 0], "{text}");
    }
    asks(&mut rig, client, "select Remember()");
    assert_eq!(rig.server_of(client), Some(server), "its answer decides");
    nothing_found(&mut rig, server);
    assert_eq!(rig.server_of(client), None);
}

/// The verdict on a prepared statement is kept until the catalog has been read again.
#[test]
fn a_prepared_statement_is_judged_again_when_the_catalog_has_been_read_again() {
    let mut rig = rig(SIZE_2);
    let (client, server) = start(&mut rig, &OBJECTS, &SOURCES);
    rig.says(client, |w| {
        w.parse(b"s", b"select harmless()", &[0, 0]);
        w.sync();
    });
    rig.says(server, |w| {
        w.empty(b'1');
        w.ready_for_query(Idle);
    });
    let run = |rig: &mut Rig| {
        rig.told(server);
        rig.says(client, |w| {
            w.bind_text(b"s", &[]);
            w.execute();
            w.sync();
        });
        rig.says(server, |w| {
            w.empty(b'2');
            w.command_complete("SELECT 1");
            w.ready_for_query(Idle);
        });
        is_probed(rig, server)
    };
    assert!(!run(&mut rig));
    assert_eq!(rig.server_of(client), None);
    rig.wait(PAUSE);
    asks(
        &mut rig,
        client,
        "create or replace function harmless() returns void language plpgsql as 'begin listen x; end'",
    );
    assert_eq!(rig.server_of(client), None);
    let sources = [["16401", "p", "begin set work_mem = '1MB'; end"]];
    rig.tells_catalog(server, &OBJECTS, &sources);
    assert!(run(&mut rig));
}

/// Between the end of a definition and the next reading, any statement may run what was defined.
#[test]
fn until_the_catalog_has_been_read_again_every_statement_is_code() {
    let mut rig = rig(SIZE_2);
    let (maker, server) = start(&mut rig, &[], &[]);
    let user = rig.client();
    rig.wait(PAUSE);
    asks(
        &mut rig,
        maker,
        "create trigger t before insert on x execute function f()",
    );
    assert!(is_asked(&mut rig, server), "nobody waits for it");
    rig.says(user, |w| w.query(b"insert into x values (1)"));
    rig.servers_log_in();
    assert_ne!(rig.server_of(user), Some(server));
    let other = rig.server_of(user).expect("linked");
    rig.completes(other, "INSERT 0 1");
    assert!(is_probed(&mut rig, other));
    catalog_is_empty(&mut rig, server);
    asks(&mut rig, maker, "insert into x values (1)");
    assert_eq!(rig.server_of(maker), None, "known again");
}

/// Answers a reading whose messages have been looked at, on a server that has read before.
fn catalog_is_empty(rig: &mut Rig, server: ServerId) {
    rig.says(server, |w| {
        for statement in ["set", "set", "set", "set", "set", "objects", "sources"] {
            if statement != "set" {
                w.empty(b'1');
            }
            w.empty(b'2');
            w.command_complete("SELECT 0");
        }
        w.empty(b'3');
        w.empty(b'3');
        w.ready_for_query(Idle);
    });
}

/// Guards against a reading after each function that a migration makes: they cost more than the migration.
#[test]
fn many_definitions_make_few_readings() {
    let mut rig = rig(SIZE_2);
    let (client, server) = start(&mut rig, &[], &[]);
    let mut readings = 0;
    let mut run = |rig: &mut Rig, text: &str| {
        asks(rig, client, text);
        loop {
            let told = nothing_found(rig, server);
            readings += told.iter().filter(|m| *m == "Bind  pgweir_9").count();
            if told.is_empty() {
                break;
            }
        }
        readings
    };
    for n in 0..200 {
        rig.wait(Duration::from_millis(50));
        let text = format!("create function f{n}() returns void language plpgsql as 'begin reset all; end'");
        run(&mut rig, &text);
    }
    rig.wait(PAUSE);
    let readings = run(&mut rig, "select 1");
    assert!((30..=45).contains(&readings), "{readings} in eleven seconds");
    // The last definition was not forgotten.
    asks(&mut rig, client, "select 1");
    assert_eq!(rig.server_of(client), None);
}

/// A definition that commits while a server reads may be missing in that reading.
#[test]
fn a_definition_during_a_reading_makes_another_necessary() {
    let mut rig = rig(SIZE_2);
    let (maker, reader) = start(&mut rig, &[], &[]);
    let user = rig.client();
    rig.wait(PAUSE);
    asks(&mut rig, maker, "create extension x");
    assert!(is_asked(&mut rig, reader));
    rig.says(user, |w| w.query(b"create extension y"));
    rig.servers_log_in();
    let other = rig.server_of(user).expect("linked");
    rig.told(other);
    rig.completes(other, "CREATE EXTENSION");
    catalog_is_empty(&mut rig, reader);
    nothing_found(&mut rig, other);
    asks(&mut rig, maker, "select 1");
    assert!(rig.server_of(maker).is_some(), "still probed");
    rig.wait(PAUSE);
    let server = rig.server_of(maker).expect("linked");
    nothing_found(&mut rig, server);
    assert!(is_asked(&mut rig, server));
}

/// Guards against clients that wait for a server because of a reading that can wait.
#[test]
fn a_later_reading_lets_waiting_clients_go_first_for_a_while() {
    let mut rig = rig("default_pool_size = 1\n");
    let (maker, server) = start(&mut rig, &[], &[]);
    let users = [rig.client(), rig.client(), rig.client()];
    rig.wait(PAUSE);
    rig.says(maker, |w| w.query(b"create extension x"));
    users.iter().for_each(|&user| rig.says(user, |w| w.query(b"select 1")));
    rig.told(server);
    rig.completes(server, "CREATE EXTENSION");
    assert_eq!(rig.server_of(users[0]), Some(server), "goes first");
    rig.told(server);
    rig.wait(PAUSE);
    rig.completes(server, "SELECT 1");
    nothing_found(&mut rig, server);
    assert_eq!(rig.server_of(users[1]), None, "the reading has waited long enough");
    assert!(is_asked(&mut rig, server));
    catalog_is_empty(&mut rig, server);
    assert_eq!(rig.server_of(users[1]), Some(server));
}

fn refuses_reading(rig: &mut Rig, server: ServerId, sqlstate: &'static str, message: &'static str) {
    rig.told(server);
    rig.says(server, |w| {
        w.empty(b'1');
        w.error(&error(sqlstate, message));
        w.ready_for_query(Idle);
    });
}

/// The statements that were prepared.
fn parsed_in(told: &[String]) -> Vec<String> {
    let parse = |m: &String| Some(m.strip_prefix("Parse ")?.split(' ').next()?.to_string());
    told.iter().filter_map(parse).collect()
}

fn warnings(rig: &Rig) -> usize {
    let told = |(level, text): &&(LogLevel, String)| *level == LogLevel::Warning && text.contains("cannot tell what");
    rig.log.iter().filter(told).count()
}

#[test]
fn what_must_not_be_read_is_logged_and_keeps_nobody_waiting() {
    let mut rig = rig(SIZE_2);
    let client = rig.client_begins(&[("user", "u"), ("database", "db")]);
    let server = rig.servers_log_in()[0];
    refuses_reading(&mut rig, server, "42501", "permission denied for table pg_proc");
    assert_eq!(warnings(&rig), 1);
    rig.told(client);
    asks(&mut rig, client, "select abs(1)");
    assert_eq!(rig.server_of(client), None, "no probe without end");
    asks(&mut rig, client, "select remember()");
    assert_eq!(rig.server_of(client), Some(server), "nobody knows what it does");
    nothing_found(&mut rig, server);
    assert_eq!(rig.server_of(client), Some(server), "nor whose settings it makes");
}

/// After a time limit or a conflict on a standby the next attempt may succeed. Until then anything may be code.
#[test]
fn a_reading_that_fails_is_tried_again_some_times() {
    let mut rig = rig(SIZE_2);
    let client = rig.client_begins(&[("user", "u"), ("database", "db")]);
    let server = rig.servers_log_in()[0];
    let timeout = "canceling statement due to statement timeout";
    refuses_reading(&mut rig, server, "57014", timeout);
    rig.told(client);
    for _ in 0..2 {
        asks(&mut rig, client, "select 1");
        assert_eq!(rig.server_of(client), Some(server), "probed");
        rig.wait(PAUSE);
        nothing_found(&mut rig, server);
        refuses_reading(&mut rig, server, "57014", timeout);
    }
    asks(&mut rig, client, "select 1");
    assert_eq!(rig.server_of(client), None, "given up");
    assert_eq!(warnings(&rig), 1, "told once");
    // The failed segments have prepared nothing, and have closed nothing.
    rig.wait(PAUSE);
    asks(&mut rig, client, "create extension x");
    let told = rig.told(server);
    assert_eq!(parsed_in(&told), ["pgweir_9", "pgweir_a"]);
    rig.says(server, |w| {
        for _ in 0..5 {
            w.empty(b'2');
            w.command_complete("SELECT 1");
        }
        w.empty(b'1');
        w.error(&error("57014", timeout));
        w.ready_for_query(Idle);
    });
    asks(&mut rig, client, "select 1");
    rig.wait(PAUSE);
    nothing_found(&mut rig, server);
    let told = nothing_found(&mut rig, server);
    assert_eq!(parsed_in(&told), ["pgweir_a"]);
    asks(&mut rig, client, "select 1");
    assert_eq!(rig.server_of(client), None, "known");
}

/// Guards against a server crash caused by the reading, which would keep every client from ever getting a server.
#[test]
fn a_server_that_is_lost_while_it_reads_is_followed_by_one_that_serves() {
    let mut rig = rig(SIZE_2);
    let client = rig.client_begins(&[("user", "u"), ("database", "db")]);
    let server = rig.servers_log_in()[0];
    rig.says(client, |w| w.query(b"select 1"));
    rig.server_dies(server);
    let next = rig.servers_log_in()[0];
    assert_eq!(rig.told(next), ["Query select 1"]);
    rig.completes(next, "SELECT 1");
    assert!(is_probed(&mut rig, next));
}

#[test]
fn another_server_reads_it_again_only_when_what_is_known_is_old() {
    let mut rig = rig(SIZE_2);
    let (one, _) = start(&mut rig, &OBJECTS, &SOURCES);
    let two = rig.client();
    rig.says(one, |w| w.query(b"begin"));
    rig.says(one, |w| w.query(b"select 1"));
    rig.says(two, |w| w.query(b"select 1"));
    let second = rig.servers_log_in()[0];
    assert!(!is_asked(&mut rig, second), "known for no time");
    rig.server_dies(second);
    rig.told(one);
    rig.wait(Duration::from_secs(61));
    let three = rig.client();
    rig.says(three, |w| w.query(b"select 1"));
    let third = rig.servers_log_in()[0];
    assert_eq!(rig.told(third), ["Query select 1"], "the client does not wait");
    rig.completes(third, "SELECT 1");
    nothing_found(&mut rig, third);
    assert!(is_asked(&mut rig, third));
}

/// On the next servers the functions may do something else.
#[test]
fn after_reconnect_and_the_loss_of_a_server_everything_is_code_until_it_has_been_read() {
    let mut rig = rig(SIZE_2);
    let (client, server) = start(&mut rig, &[], &[]);
    asks(&mut rig, client, "select 1");
    assert_eq!(rig.server_of(client), None);
    rig.server_dies(server);
    rig.wait(PAUSE);
    rig.says(client, |w| w.query(b"select 1"));
    let next = rig.servers_log_in()[0];
    assert_eq!(rig.server_of(client), Some(next), "it does not wait");
    rig.told(next);
    rig.completes(next, "SELECT 1");
    nothing_found(&mut rig, next);
    rig.tells_catalog(next, &OBJECTS, &SOURCES);
    asks(&mut rig, client, "select remember()");
    assert!(is_probed(&mut rig, next));
}

/// Guards against a definition that is forgotten because its client leaves at once.
#[test]
fn a_client_that_leaves_behind_its_definition_leaves_a_catalog_that_is_read() {
    let mut rig = rig("default_pool_size = 1\n");
    let (maker, server) = start(&mut rig, &[], &[]);
    let user = rig.client();
    rig.wait(PAUSE);
    rig.says(maker, |w| w.query(b"create extension x"));
    rig.client_leaves(maker);
    rig.cancels.clear();
    rig.pooler.handle_cancel_finished(rig.now, server);
    rig.settle(&[]);
    rig.told(server);
    rig.completes(server, "CREATE EXTENSION");
    assert_eq!(rig.told(server)[0], "Query DISCARD ALL");
    rig.completes(server, "DISCARD ALL");
    rig.completes(server, "SELECT 1");
    rig.says(user, |w| w.query(b"select remember()"));
    assert_eq!(rig.server_of(user), None);
    rig.tells_catalog(server, &OBJECTS, &SOURCES);
    assert_eq!(rig.server_of(user), Some(server));
    rig.told(server);
    rig.completes(server, "SELECT 1");
    assert!(is_probed(&mut rig, server), "known by then");
}

/// Where sessions are not kept the catalog is not read, as in PgBouncer.
#[test]
fn without_kept_sessions_and_in_session_pooling_nothing_is_read() {
    for settings in [
        "session_state = pgbouncer\n",
        "session_state = full\npool_mode = session\n",
    ] {
        let mut rig = Rig::new(settings);
        rig.catalogs_are_empty = false;
        rig.client_begins(&[("user", "u"), ("database", "db")]);
        let server = rig.servers_log_in()[0];
        assert_eq!(rig.told(server), [""; 0], "{settings}");
    }
}

/// Guards against a warning about functions in the middle of an incident: the server was lost, which says nothing about
/// functions.
#[test]
fn a_server_that_is_lost_while_it_reads_is_not_worth_a_warning() {
    let mut rig = rig(SIZE_2);
    rig.client_begins(&[("user", "u"), ("database", "db")]);
    let server = rig.servers_log_in()[0];
    assert!(is_asked(&mut rig, server));
    rig.server_dies(server);
    let told = |level| {
        let tells = move |(l, text): &&(LogLevel, String)| *l == level && text.contains("cannot tell what");
        rig.log.iter().filter(tells).count()
    };
    assert_eq!((told(LogLevel::Warning), told(LogLevel::Debug)), (0, 1));
}
