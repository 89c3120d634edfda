//! Clients' pipelines, and the pooler's own messages in them.

use crate::rig::{NO_TYPES, NOTHING, Rig};
use pgweir_wire::TransactionStatus::{Idle, InTransaction};

fn has(told: &[String], begin: &str) -> bool {
    told.iter().any(|line| line.starts_with(begin))
}

/// Guards against an internal Sync that commits what PostgreSQL 18 leaves open behind a Query between an Execute and
/// its Sync: the client's statement would stay although a later message of its pipeline fails.
#[test]
fn nothing_of_ours_ends_the_block_that_a_query_in_a_pipeline_leaves_open() {
    let mut rig = Rig::new("default_pool_size = 2");
    let (a, b) = (rig.client(), rig.client());
    rig.says(a, |w| {
        w.parse(b"s", b"select 1", NO_TYPES);
        w.sync();
    });
    let first = rig.server_of(a).unwrap();
    rig.says(first, |w| {
        w.empty(b'1');
        w.ready_for_query(Idle);
    });
    rig.says(b, |w| w.query(b"select pg_sleep(60)"));
    // Another server, which does not hold the statement, and settings that it was not parsed under.
    rig.says(a, |w| w.query(b"set datestyle = 'ISO, DMY'"));
    let second = rig.servers_log_in()[0];
    assert_ne!(first, second);
    rig.told(second);
    rig.says(second, |w| {
        w.command_complete("SET");
        w.parameter_status(b"DateStyle", b"ISO, DMY");
        w.ready_for_query(Idle);
    });
    rig.answers_all_about(second, NOTHING.with(&[("DateStyle", "ISO, DMY")]));
    rig.says(a, |w| {
        w.parse(b"", b"insert into t values (1)", NO_TYPES);
        w.bind_text(b"", &[]);
        w.execute();
        w.query(b"select 2");
    });
    rig.says(second, |w| {
        w.empty(b'1');
        w.empty(b'2');
        w.command_complete("INSERT 0 1");
        w.command_complete("SELECT 1");
        w.ready_for_query(InTransaction);
    });
    rig.told(second);
    rig.says(a, |w| {
        w.bind_text(b"s", &[Some(b"1")]);
        w.execute();
    });
    let told = rig.told(second);
    assert!(has(&told, "Parse"), "it is prepared again: {told:?}");
    assert!(!has(&told, "Sync"), "{told:?}");
}

/// Guards against a client that keeps its server for ever: a server that reads data of a COPY takes a request for a
/// breach of the protocol, and sends nothing but that error.
#[test]
fn a_request_among_the_data_of_a_copy_ends_its_client() {
    type Sends = fn(&mut pgweir_wire::Writer<'_>);
    let requests: [Sends; 3] = [
        |w| w.query(b"select 1"),
        |w| w.parse(b"s", b"select 1", NO_TYPES),
        |w| w.execute(),
    ];
    for state in [
        "session_state = full",
        "session_state = pgbouncer\nmax_prepared_statements = 0",
    ] {
        for (request, before) in requests.into_iter().flat_map(|r| [(r, false), (r, true)]) {
            let mut rig = Rig::new(&format!("default_pool_size = 1\n{state}"));
            let (a, b) = (rig.client(), rig.client());
            rig.says(a, |w| w.query(b"copy t from stdin"));
            let server = rig.server_of(a).unwrap();
            if before {
                rig.says(a, request);
            }
            rig.says(server, |w| w.message(b'G', |b| b.extend([0, 0, 0])));
            if !before {
                rig.says(a, request);
            }
            let told = rig.told(a);
            assert!(told.last().is_some_and(|l| l.contains("08P01")), "{told:?}");
            rig.says(b, |w| w.query(b"select 2"));
            if rig.server_of(b).is_none() && !rig.servers_log_in().is_empty() {
                continue;
            }
            assert!(has(&rig.told(server), "CopyFail"));
            rig.says(server, |w| {
                w.error(&crate::rig::error("57014", "COPY from stdin failed"));
                w.ready_for_query(Idle);
            });
            rig.cancel_arrives(server);
            assert_eq!(rig.server_of(b), Some(server), "it is free again");
        }
    }
}

/// Guards against memory without a limit: what the pooler answers itself meets no full socket that would stop its client.
#[test]
fn a_client_far_ahead_of_its_replies_waits() {
    let mut rig = Rig::new("default_pool_size = 1");
    let a = rig.client();
    rig.says(a, |w| {
        w.parse(b"s", b"select 1", NO_TYPES);
        w.sync();
    });
    let server = rig.server_of(a).unwrap();
    rig.says(server, |w| {
        w.empty(b'1');
        w.ready_for_query(Idle);
    });
    rig.told(a);
    // A Describe is not answered before the Flush. Behind it come requests that only the pooler must answer.
    rig.says(a, |w| w.describe(b'P', b""));
    let mut sent = 0;
    let mut answers = 0;
    while rig.pooler.may_read(a.into()) {
        assert!(sent < 100_000, "it never waits");
        rig.says(a, |w| {
            for _ in 0..1000 {
                w.close(b'S', b"s");
                w.parse(b"s", b"select 1", NO_TYPES);
            }
        });
        sent += 2000;
    }
    assert!(sent > 10_000, "it waits after {sent}");
    assert!(has(&rig.told(server), "Flush"), "else the server keeps its reply");
    answers += rig.told(a).len();
    assert_eq!(answers, 0);
    rig.says(server, |w| w.empty(b'n'));
    assert!(rig.pooler.may_read(a.into()));
    answers += rig.told(a).len();
    rig.says(a, |w| w.sync());
    rig.says(server, |w| w.ready_for_query(Idle));
    answers += rig.told(a).len();
    assert_eq!(answers, sent + 2, "NoData, all that the pooler answers, ReadyForQuery");
    assert_eq!(rig.server_of(a), None);
}

/// The same for a pipeline of whole requests: the client goes on when half of them are answered.
#[test]
fn a_client_with_thousands_of_requests_goes_on_when_half_are_answered() {
    let mut rig = Rig::new("default_pool_size = 1");
    let a = rig.client();
    let mut sent = 0;
    while rig.pooler.may_read(a.into()) {
        assert!(sent < 100_000, "it never waits");
        rig.says(a, |w| (0..1000).for_each(|_| w.query(b"select 1")));
        sent += 1000;
    }
    let server = rig.server_of(a).unwrap();
    let passed = rig.told(server).len();
    let answer = |rig: &mut Rig| {
        rig.says(server, |w| {
            w.command_complete("SELECT 0");
            w.ready_for_query(Idle);
        });
    };
    let mut answered = 0;
    while !rig.pooler.may_read(a.into()) {
        answer(&mut rig);
        answered += 1;
    }
    assert!(
        answered > passed / 3 && answered < passed,
        "{answered} of {passed}, {sent} sent"
    );
    for _ in answered..sent {
        answer(&mut rig);
    }
    assert_eq!(rig.told(a).len(), sent * 2);
    assert_eq!(rig.server_of(a), None);
}

/// PostgreSQL answers a Sync or a Flush that has a body with an error, which fails the client's transaction.
#[test]
fn a_server_answers_a_sync_or_flush_with_a_body_behind_a_deferred_begin() {
    for tag in *b"SH" {
        let mut rig = Rig::one_server("deferred_begin = 1");
        let client = rig.client();
        rig.says(client, |w| w.query(b"begin"));
        assert_eq!(rig.told(client), ["CommandComplete BEGIN", "ReadyForQuery T"]);
        rig.says(client, |w| w.message(tag, |body| body.push(b'x')));
        let server = rig.server_of(client).expect("a server must answer");
        let told = rig.told(server);
        assert!(has(&told, "Execute"), "the BEGIN comes first: {told:?}");
        let last = if tag == b'S' { "Sync" } else { "Flush" };
        assert!(told.last().unwrap().starts_with(last), "{told:?}");
    }
}
