//! When the catalog is read again.

use super::readings::{
    OBJECTS, PAUSE, SIZE_2, SOURCES, asks, catalog_is_empty, is_asked, is_probed, nothing_found, rig, settles, start,
};
use crate::rig::{Rig, configuration, error};
use pgweir_core::{CancelEnd, ClientId, ServerId};
use pgweir_wire::TransactionStatus::{Idle, InTransaction};
use std::time::Duration;

/// Guards against a reading after each function that a migration makes: they cost more than the migration.
#[test]
fn many_definitions_make_few_readings() {
    let mut rig = rig(SIZE_2);
    let (client, server) = start(&mut rig, &[], &[]);
    let mut readings = 0;
    let mut run = |rig: &mut Rig, text: &str| {
        asks(rig, client, text);
        let reading = settles(rig, server);
        if !reading.is_empty() {
            readings += 1;
            catalog_is_empty(rig, server, &reading);
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
    let reading = settles(&mut rig, reader);
    rig.says(user, |w| w.query(b"create extension y"));
    rig.servers_log_in();
    let other = rig.server_of(user).expect("linked");
    rig.told(other);
    rig.completes(other, "CREATE EXTENSION");
    catalog_is_empty(&mut rig, reader, &reading);
    settles(&mut rig, other);
    asks(&mut rig, maker, "select 1");
    assert!(rig.server_of(maker).is_some(), "still probed");
    rig.wait(PAUSE);
    assert!(
        [reader, other]
            .iter()
            .any(|&server| !settles(&mut rig, server).is_empty())
    );
}

/// Guards against clients that wait for a server because of a reading that can wait: what is known is valid, and old.
#[test]
fn a_reading_of_what_is_only_old_lets_waiting_clients_go_first_for_a_while() {
    let mut rig = rig("default_pool_size = 2\n");
    let (one, first) = start(&mut rig, &[], &[]);
    rig.says(one, |w| w.query(b"begin; select 1"));
    rig.wait(Duration::from_secs(61));
    let users = [rig.client(), rig.client(), rig.client()];
    users.iter().for_each(|&user| rig.says(user, |w| w.query(b"select 1")));
    let second = rig.servers_log_in()[0];
    for _ in 0..2 {
        assert_eq!(rig.told(second), ["Query select 1"], "goes first");
        rig.wait(PAUSE / 3);
        rig.completes(second, "SELECT 1");
    }
    assert_eq!(rig.server_of(users[2]), Some(second));
    rig.wait(PAUSE);
    rig.completes(second, "SELECT 1");
    assert!(is_asked(&mut rig, second), "the reading has waited long enough");
    rig.told(first);
}

/// Guards against clients whose transactions are followed by probes for longer than necessary.
#[test]
fn a_reading_behind_a_definition_comes_before_waiting_clients() {
    let mut rig = rig("default_pool_size = 1\n");
    let (maker, server) = start(&mut rig, &[], &[]);
    let user = rig.client();
    rig.wait(PAUSE);
    rig.says(maker, |w| w.query(b"create extension x"));
    rig.says(user, |w| w.query(b"select 1"));
    rig.told(server);
    rig.completes(server, "CREATE EXTENSION");
    let reading = settles(&mut rig, server);
    catalog_is_empty(&mut rig, server, &reading);
    assert_eq!(rig.server_of(user), Some(server));
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
    assert_eq!(rig.server_of(client), None, "it waits for the reading");
    rig.tells_catalog(next, &OBJECTS, &SOURCES);
    assert_eq!(rig.server_of(client), Some(next));
    rig.told(next);
    rig.completes(next, "SELECT 1");
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
    rig.pooler.handle_cancel_finished(rig.now, server, CancelEnd::Over);
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

/// Whether the catalog counts as outdated behind a text that has just been answered.
fn is_doubted(rig: &mut Rig, client: ClientId, server: ServerId) -> bool {
    let reading = settles(rig, server);
    if rig.server_of(client).is_none() {
        return !reading.is_empty();
    }
    // Its client keeps the server, so another one is used before the reading.
    let user = rig.client();
    rig.says(user, |w| w.query(b"select 1"));
    let other = rig.servers_log_in()[0];
    let mut told = rig.told(other);
    if rig.server_of(user) == Some(other) {
        rig.completes(other, "SELECT 1");
        told.extend(rig.told(other));
    }
    let doubts = ["Bind  pgweir_6", "Bind  pgweir_7", "Bind  pgweir_9"];
    told.iter().any(|m| doubts.contains(&&**m))
}

/// Guards against verdicts that stay when the text of a definition shows nothing of what the object does.
#[test]
fn whatever_may_bring_code_makes_the_catalog_be_read_again() {
    for text in [
        "create view v as select query_to_xml('select 1', true, true, '')",
        "create table t (a text default query_to_xml('select 1', true, true, '')::text)",
        "create or replace function harmless() returns void language plpgsql as e'begin \\x65xecute 1; end'",
        "do $$begin execute 'cre' || 'ate view v as select 1'; end$$",
    ] {
        let mut rig = rig(SIZE_2);
        let (client, server) = start(&mut rig, &[], &[]);
        rig.wait(PAUSE);
        asks(&mut rig, client, text);
        assert!(is_doubted(&mut rig, client, server), "{text}");
    }
    let mut rig = rig(SIZE_2);
    let (client, server) = start(&mut rig, &[], &[]);
    rig.wait(PAUSE);
    for text in [
        "create table t (a int default 1)",
        "create index on t (lower(a))",
        "alter table t add b int",
        "create or replace view v as select lower(a) from t",
    ] {
        asks(&mut rig, client, text);
        assert!(!is_asked(&mut rig, server), "{text}");
    }
}

/// Guards against a view that is taken for harmless because its own words show nothing.
#[test]
fn a_view_counts_if_what_it_names_has_effects() {
    let objects = [
        ["r", "16400", "acts", "0"],
        ["r", "16401", "rests", "0"],
        ["t", "16500", "orders", "16400"],
    ];
    let sources = [
        ["16400", "p", "begin set work_mem = '1MB'; return new; end"],
        ["16401", "s", "select 1"],
    ];
    for (text, counts) in [
        ("create view v as select rests()", false),
        ("create temp view v as select * from others", false),
        ("create view v as select acts()", true),
        ("create view v as select * from orders", true),
        ("create view v as select unheard_of()", true),
        ("create view orders as select 1", true),
    ] {
        let mut rig = rig(SIZE_2);
        let (client, server) = start(&mut rig, &objects, &sources);
        rig.wait(PAUSE);
        asks(&mut rig, client, text);
        assert_eq!(is_doubted(&mut rig, client, server), counts, "{text}");
    }
}

/// Guards against new clients with settings that no new session has any more, on servers older than an ALTER ROLE.
#[test]
fn servers_are_replaced_when_a_client_changes_what_new_sessions_begin_with() {
    let mut rig = rig(SIZE_2);
    let (maker, first) = start(&mut rig, &[], &[]);
    let two = rig.client();
    rig.says(maker, |w| w.query(b"alter role u set work_mem = '9MB'"));
    rig.says(two, |w| w.query(b"select 1"));
    let second = rig.servers_log_in()[0];
    rig.told(first);
    assert!(!rig.is_closed(first), "it has not been answered");
    rig.completes(first, "ALTER ROLE");
    nothing_found(&mut rig, first);
    assert!(rig.is_closed(first), "when it is free");
    assert!(!rig.is_closed(second), "it is at work");
    rig.told(second);
    rig.completes(second, "SELECT 1");
    nothing_found(&mut rig, second);
    assert!(rig.is_closed(second));
}

/// Whether the only server of the pool is replaced after this text.
fn is_replaced(text: &str, answer: impl Fn(&mut Rig, ServerId)) -> bool {
    let mut rig = rig(SIZE_2);
    let (client, server) = start(&mut rig, &[], &[]);
    rig.says(client, |w| w.query(text.as_bytes()));
    rig.told(server);
    answer(&mut rig, server);
    settles(&mut rig, server);
    rig.is_closed(server)
}

fn refuses(rig: &mut Rig, server: ServerId) {
    rig.says(server, |w| {
        w.error(&error("42501", "permission denied"));
        w.ready_for_query(Idle);
    });
}

/// Guards against a client that has everybody's servers replaced, as often as it likes.
#[test]
fn servers_stay_if_nothing_that_they_began_with_has_changed() {
    let completes = |rig: &mut Rig, server| rig.completes(server, "ALTER ROLE");
    for text in [
        "alter role u set a.b = 'c'",
        "ALTER DATABASE db SET a.b = 'c';",
        "alter role all reset all",
    ] {
        assert!(is_replaced(text, completes), "{text}");
        assert!(!is_replaced(text, refuses), "{text}");
    }
    for text in [
        "alter role v set a.b = 'c'",
        "alter database other reset all",
        "alter role \"U\" set a.b = 'c'",
    ] {
        assert!(!is_replaced(text, completes), "{text}");
    }
    for text in [
        "alter role u reset all; commit; select a",
        "do 'begin alter role u reset all; end'",
    ] {
        assert!(is_replaced(text, refuses), "{text}: the error may be of something else");
    }
}

/// Guards against a text that claims such a change again and again, and need not have made it.
#[test]
fn servers_are_replaced_again_after_some_seconds() {
    let mut rig = Rig::new("default_pool_size = 1\n");
    let maker = rig.client();
    let claims = |rig: &mut Rig| {
        rig.query(maker, "do 'begin alter role u reset all; end'");
        rig.servers_log_in();
        let server = rig.server_of(maker).expect("linked");
        rig.told(server);
        rig.completes(server, "DO");
        while !nothing_found(rig, server).is_empty() {}
        server
    };
    let first = claims(&mut rig);
    assert!(rig.is_closed(first));
    let second = claims(&mut rig);
    for _ in 0..45 {
        assert_eq!(claims(&mut rig), second);
        rig.wait(Duration::from_millis(100));
    }
    assert!(!rig.is_closed(second));
    rig.wait(Duration::from_secs(1));
    nothing_found(&mut rig, second);
    assert!(rig.is_closed(second), "the last change counts, too");
    let third = claims(&mut rig);
    rig.wait(Duration::from_secs(4));
    assert!(!rig.is_closed(third));
}

/// Guards against an error of a Query that ends a transaction before its own.
#[test]
fn servers_are_replaced_if_the_error_is_not_of_the_transaction_that_changed_them() {
    let alter = b"alter role u set a.b = 'c'";
    let ends = |rig: &mut Rig, client, server| {
        rig.says(client, |w| w.query(b"commit; select nosuch"));
        rig.told(server);
        refuses(rig, server);
        nothing_found(rig, server);
        assert!(rig.is_closed(server));
    };
    let mut block = rig(SIZE_2);
    let (client, server) = start(&mut block, &[], &[]);
    block.says(client, |w| w.query(b"begin"));
    block.says(client, |w| w.query(alter));
    block.told(server);
    block.says(server, |w| {
        w.command_complete("BEGIN");
        w.ready_for_query(InTransaction);
        w.command_complete("ALTER ROLE");
        w.ready_for_query(InTransaction);
    });
    ends(&mut block, client, server);
    let mut pipeline = rig(SIZE_2);
    let (client, server) = start(&mut pipeline, &[], &[]);
    pipeline.says(client, |w| {
        w.parse(b"", alter, &[0, 0]);
        w.bind_text(b"", &[]);
        w.execute();
        w.message(b'H', |_| {});
    });
    pipeline.told(server);
    pipeline.says(server, |w| {
        w.empty(b'1');
        w.empty(b'2');
        w.command_complete("ALTER ROLE");
    });
    ends(&mut pipeline, client, server);
}

/// Guards against judging a database's statements by the catalog of the database that its entry led to before.
#[test]
fn a_reading_tells_of_the_database_that_was_read_whatever_a_reload_changes() {
    let mut rig = rig(SIZE_2);
    let client = rig.client_begins(&[("user", "u"), ("database", "db")]);
    let reader = rig.servers_log_in()[0];
    rig.reloads(configuration("db = host=127.0.0.9 user=u", SIZE_2));
    rig.tells_catalog(reader, &[], &[]);
    assert!(rig.is_closed(reader));
    rig.says(client, |w| w.query(b"select 1"));
    let other = rig.servers_log_in()[0];
    assert!(
        is_asked(&mut rig, other),
        "the catalog of the other database is not known"
    );
}
