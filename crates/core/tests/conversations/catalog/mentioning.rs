//! Statements that mention a name of the catalog are followed by a probe.

use super::readings::{
    OBJECTS, PAUSE, SIZE_2, SOURCES, asks, catalog_is_empty, is_probed, nothing_found, rig, settles, start,
};
use crate::rig::{NOTHING, Rig};
use pgweir_wire::TransactionStatus::Idle;

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

/// Guards against a statement that a routine has put under a client's name: it ran for the next client that had the same
/// statement under that name, and what it did was not probed.
#[test]
fn a_statement_that_a_routine_may_have_replaced_is_prepared_again() {
    let objects = [["r", "16402", "replaces", "0"], ["r", "16403", "ends", "0"]];
    let sources = [
        [
            "16402",
            "p",
            "begin deallocate x; prepare x as select pg_advisory_lock(1); end",
        ],
        ["16403", "p", "begin deallocate x; end"],
    ];
    for routine in ["replaces", "ends"] {
        let mut rig = rig(SIZE_2);
        let (client, server) = start(&mut rig, &objects, &sources);
        rig.says(client, |w| w.query(b"prepare x as select 1"));
        rig.told(server);
        rig.completes(server, "PREPARE");
        rig.says(client, |w| w.query(format!("select {routine}()").as_bytes()));
        for _ in ["the statement and the text", "the probe"] {
            nothing_found(&mut rig, server);
        }
        rig.says(client, |w| w.query(b"execute x"));
        let told = rig.told(server);
        let prepares = ["Close Sx", "Parse pgweir_preparing prepare x as select 1"];
        assert!(
            prepares.iter().all(|line| told.contains(&line.to_string())),
            "{routine}: {told:?}"
        );
    }
}

/// Guards against checks of a domain that run in a Bind, although no text names the domain.
#[test]
fn a_parse_that_names_a_domain_by_its_oid_is_followed_by_a_probe() {
    let mut rig = rig(SIZE_2);
    let objects = [
        ["d", "20000", "checked", "2880"],
        ["b", "2880", "pg_advisory_lock", "0"],
    ];
    let (client, server) = start(&mut rig, &objects, &[]);
    let mut asks_with = |oid: u32| {
        let types = [&[0, 1][..], &oid.to_be_bytes()].concat();
        rig.says(client, |w| {
            w.parse(b"", b"select $1::text", &types);
            w.bind_text(b"", &[Some(b"x")]);
            w.execute();
            w.sync();
        });
        rig.told(server);
        rig.says(server, |w| {
            w.empty(b'1');
            w.empty(b'2');
            w.command_complete("SELECT 1");
            w.ready_for_query(Idle);
        });
        rig.server_of(client)
    };
    assert_eq!(asks_with(25), None);
    assert_eq!(asks_with(20000), Some(server), "a probe follows");
}

/// A domain whose check locks, and a table with a column of an array of it.
const CHECKED: [[&str; 4]; 3] = [
    ["d", "20000", "checked", "2880"],
    ["b", "2880", "pg_advisory_lock", "0"],
    ["c", "30000", "t", "20000"],
];

/// Guards against checks of a domain that run in a Parse without a Bind: PostgreSQL reads the constants of arrays and
/// rows when it analyses a statement.
#[test]
fn a_parse_that_may_read_constants_of_a_domain_is_followed_by_a_probe() {
    for name in [&b""[..], b"s"] {
        for (text, runs) in [
            ("select '{x}'::checked[]", true),
            ("insert into t values ('{x}')", true),
            ("select '{x}'::text[]", false),
        ] {
            let mut rig = rig(SIZE_2);
            let (client, server) = start(&mut rig, &CHECKED, &[]);
            rig.says(client, |w| {
                w.parse(name, text.as_bytes(), &[0, 0]);
                w.sync();
            });
            rig.told(server);
            rig.says(server, |w| {
                w.empty(b'1');
                w.ready_for_query(Idle);
            });
            assert_eq!(is_probed(&mut rig, server), runs, "{name:?} {text}");
        }
    }
}

/// Guards against probes that nobody needs: analysis runs no routine.
#[test]
fn a_parse_of_a_call_is_followed_by_no_probe() {
    let mut rig = rig(SIZE_2);
    let (client, server) = start(&mut rig, &OBJECTS, &SOURCES);
    rig.says(client, |w| {
        w.parse(b"s", b"select remember()", &[0, 0]);
        w.sync();
    });
    rig.told(server);
    rig.says(server, |w| {
        w.empty(b'1');
        w.ready_for_query(Idle);
    });
    assert_eq!(rig.server_of(client), None);
    assert_eq!(rig.told(server), [""; 0]);
}

/// Guards against the same in a Describe on a server that lacks the statement.
#[test]
fn a_describe_that_may_read_constants_of_a_domain_is_followed_by_a_probe() {
    let mut rig = rig(SIZE_2);
    let (client, server) = start(&mut rig, &CHECKED, &[]);
    rig.says(client, |w| {
        w.parse(b"s", b"insert into t values ('{x}')", &[0, 0]);
        w.sync();
    });
    rig.told(server);
    rig.says(server, |w| {
        w.empty(b'1');
        w.ready_for_query(Idle);
    });
    nothing_found(&mut rig, server);
    rig.says(client, |w| {
        w.describe(b'S', b"s");
        w.sync();
    });
    rig.told(server);
    rig.says(server, |w| {
        w.message(b't', |b| b.extend([0, 0]));
        w.empty(b'n');
        w.ready_for_query(Idle);
    });
    assert!(is_probed(&mut rig, server));
}

/// Guards against a check that has set the seed before the server refuses the text: no error undoes a seed.
#[test]
fn a_text_that_is_refused_after_checks_of_a_domain_is_not_forgotten() {
    let objects = [["d", "20000", "checked", "1599"], ["b", "1599", "setseed", "0"]];
    let column = &b"SERROR\0C42703\0Mno such column\0P26\0\0"[..];
    let typo = &b"SERROR\0C42601\0Msyntax error\0P26\0Rscanner_yyerror\0\0"[..];
    // A function that checks bodies of functions has told of an error in a body that is the same text as the constant.
    let in_constant = &b"SERROR\0C42601\0Msyntax error\0P9\0Rscanner_yyerror\0\0"[..];
    for (refusal, keeps) in [(column, true), (typo, false), (in_constant, true)] {
        for by_parse in [true, false] {
            let mut rig = rig(SIZE_2);
            let (client, server) = start(&mut rig, &objects, &[]);
            rig.says(client, |w| match by_parse {
                true => {
                    w.parse(b"", b"select '{x}'::checked[], nothing", &[0, 0]);
                    w.sync();
                }
                false => w.query(b"select '{x}'::checked[], nothing"),
            });
            rig.told(server);
            rig.says(server, |w| {
                w.message(b'E', |b| b.extend(refusal));
                w.ready_for_query(Idle);
            });
            rig.answers_all_about(server, NOTHING);
            assert_eq!(rig.server_of(client).is_some(), keeps, "{refusal:?} {by_parse}");
        }
    }
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
        let told = rig.told(server);
        rig.replies(server, &told, None, |w, _| w.command_complete("SELECT 1"));
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
    nothing_found(&mut rig, server);
    assert_eq!(rig.server_of(client), None);
    rig.serves(server, "RESET");
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
    let reading = settles(&mut rig, server);
    assert!(!reading.is_empty(), "nobody waits for it");
    rig.says(user, |w| w.query(b"insert into x values (1)"));
    rig.servers_log_in();
    assert_ne!(rig.server_of(user), Some(server));
    let other = rig.server_of(user).expect("linked");
    rig.completes(other, "INSERT 0 1");
    assert!(is_probed(&mut rig, other));
    catalog_is_empty(&mut rig, server, &reading);
    asks(&mut rig, maker, "insert into x values (1)");
    assert_eq!(rig.server_of(maker), None, "known again");
}

/// Where sessions are not kept the catalog is not read, as in PgBouncer.
#[test]
fn without_kept_sessions_and_in_session_pooling_nothing_is_read() {
    for settings in ["session_state = pgbouncer\n", "pool_mode = session\n"] {
        let mut rig = Rig::new(settings);
        rig.catalogs_are_empty = false;
        rig.client_begins(&[("user", "u"), ("database", "db")]);
        let server = rig.servers_log_in()[0];
        assert_eq!(rig.told(server), [""; 0], "{settings}");
    }
}
