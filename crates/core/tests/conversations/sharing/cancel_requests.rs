//! Cancel requests reach the query of their own client only.

use crate::rig::Rig;
use pgweir_core::ClientId;
use pgweir_wire::TransactionStatus::Idle;

#[test]
fn a_cancel_reaches_the_query_of_its_own_client_and_the_server_waits_for_it() {
    let mut rig = Rig::new("default_pool_size = 1");
    let client = rig.client_begins(&[("user", "u"), ("database", "db")]);
    rig.servers_log_in();
    rig.told(client);
    let key = pgweir_wire::CancelKey {
        process_id: client.0.index + 1,
        secret: b"nope".as_slice().into(),
    };
    rig.says(client, |w| w.query(b"select pg_sleep(9)"));
    let asked = rig.cancel_request(&key);
    assert!(rig.cancels.is_empty(), "a wrong secret cancels nothing");
    assert!(rig.closed.contains(&asked.into()));
}

#[test]
fn a_server_with_a_cancel_on_its_way_is_not_handed_out() {
    let mut rig = Rig::new("default_pool_size = 1");
    let (client, key) = rig.client_with_key();
    let other = rig.client();
    rig.says(client, |w| w.query(b"select pg_sleep(9)"));
    let server = rig.server_of(client).unwrap();
    let asked = [rig.cancel_request(&key), rig.cancel_request(&key)];
    assert_eq!(
        rig.cancels.len(),
        1,
        "a second request would find nothing else than the first"
    );
    rig.says(other, |w| w.query(b"select 1"));
    rig.completes(server, "SELECT 1");
    assert_eq!(rig.server_of(other), None, "the cancel could hit the wrong query");
    let is_closed = |rig: &Rig, id: ClientId| rig.closed.contains(&id.into());
    assert!(
        !asked.iter().any(|&id| is_closed(&rig, id)),
        "no signal has been sent yet"
    );
    rig.cancel_arrives(server);
    assert!(asked.iter().all(|&id| is_closed(&rig, id)));
    assert_eq!(rig.server_of(other), Some(server));
    rig.cancel_request(&key);
    assert_eq!(rig.cancels.len(), 1, "the query is over: the request has no effect");
}

#[test]
fn a_client_that_waits_can_cancel_its_wait() {
    let mut rig = Rig::new("default_pool_size = 1");
    let busy = rig.client();
    rig.says(busy, |w| w.query(b"select pg_sleep(9)"));
    let (client, key) = rig.client_with_key();
    rig.says(client, |w| w.query(b"select 1"));
    rig.cancel_request(&key);
    assert_eq!(
        rig.told(client),
        ["Error 57014 canceling statement due to user request", "ReadyForQuery I"]
    );
    rig.says(client, |w| {
        w.parse(b"", b"select 2", &[0, 0]);
        w.sync();
    });
    rig.cancel_request(&key);
    assert_eq!(
        rig.told(client),
        ["Error 57014 canceling statement due to user request", "ReadyForQuery I"]
    );
}

/// A BEGIN has no parameters. PostgreSQL refuses a Bind with values of it, so no transaction block has begun.
#[test]
fn a_cancelled_wait_fails_a_block_only_if_the_bind_could_begin_it() {
    for (values, end) in [(&[][..], "ReadyForQuery E"), (&[None][..], "ReadyForQuery I")] {
        let mut rig = Rig::new("default_pool_size = 1");
        let (client, key) = rig.client_with_key();
        rig.says(client, |w| {
            w.parse(b"b", b"begin", &[0, 0]);
            w.sync();
        });
        if let Some(server) = rig.server_of(client) {
            rig.answers_all_about(server, crate::rig::NOTHING);
        }
        rig.told(client);
        let busy = rig.client();
        rig.says(busy, |w| w.query(b"select pg_sleep(9)"));
        rig.says(client, |w| {
            w.bind_text(b"b", values);
            w.execute();
            w.parse(b"", b"select 1", &[0, 0]);
            w.sync();
        });
        rig.cancel_request(&key);
        assert_eq!(
            rig.told(client),
            ["Error 57014 canceling statement due to user request", end],
            "{values:?}"
        );
    }
}

/// PostgreSQL drops the unnamed statement at the beginning of a Parse and of a Query, before a cancel can hit them.
#[test]
fn a_cancelled_wait_drops_the_unnamed_statement_as_a_cancelled_query_does() {
    for parses in [true, false] {
        let mut rig = Rig::new("default_pool_size = 1");
        let (client, key) = rig.client_with_key();
        let busy = rig.client();
        rig.says(client, |w| {
            w.parse(b"", b"select 1", &[0, 0]);
            w.sync();
        });
        let server = rig.server_of(client).unwrap();
        rig.says(server, |w| {
            w.empty(b'1');
            w.ready_for_query(Idle);
        });
        rig.says(busy, |w| w.query(b"select pg_sleep(9)"));
        rig.told(client);
        rig.says(client, |w| {
            match parses {
                true => w.parse(b"", b"select 2", &[0, 0]),
                false => w.describe(b'S', b""),
            }
            w.sync();
        });
        rig.cancel_request(&key);
        assert_eq!(rig.told(client).last().unwrap(), "ReadyForQuery I");
        rig.says(client, |w| {
            w.bind_text(b"", &[]);
            w.execute();
            w.sync();
        });
        rig.told(server);
        rig.completes(server, "SELECT 1");
        let told = rig.told(server);
        let is_there = told.first().is_some_and(|line| line.ends_with("select 1"));
        assert_eq!(is_there, !parses, "otherwise the server refuses the Bind: {told:?}");
    }
}
