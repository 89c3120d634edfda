//! How clients share servers: conversations in virtual time, each naming what it guards against.

mod rig;

use pgweir_core::{ClientId, ServerId};
use pgweir_wire::TransactionStatus::{Failed, Idle, InTransaction};
use rig::{Rig, error, fatal};
use std::time::Duration;

#[test]
fn a_server_is_released_at_the_idle_ready_for_query_that_empties_the_queue_and_not_before() {
    let mut rig = Rig::new("");
    let client = rig.client();
    rig.says(client, |w| {
        w.query(b"select 1");
        w.query(b"select 2");
    });
    let server = rig.server_of(client).expect("linked");
    assert_eq!(rig.told(server), ["Query select 1", "Query select 2"]);
    rig.completes(server, "SELECT 1");
    assert_eq!(rig.server_of(client), Some(server), "one answer is still owed");
    rig.completes(server, "SELECT 1");
    assert_eq!(rig.server_of(client), None);
    assert_eq!(rig.told(client).len(), 4);
}

#[test]
fn half_a_message_keeps_the_server() {
    let mut rig = Rig::new("");
    let client = rig.client();
    rig.says(client, |w| w.query(b"copy t from stdin"));
    let server = rig.server_of(client).unwrap();
    rig.comes(client, b"d\0\0\0\x08ab");
    rig.completes(server, "COPY 0");
    assert!(
        rig.server_of(client).is_some(),
        "two bytes of a CopyData are still to come"
    );
    rig.comes(client, b"cd");
    assert_eq!(rig.server_of(client), None);
}

#[test]
fn an_extended_segment_without_sync_keeps_the_server() {
    let mut rig = Rig::new("");
    let client = rig.client();
    rig.says(client, |w| {
        w.parse(b"", b"select 1", &[0, 0]);
        w.empty(b'H');
    });
    let server = rig.server_of(client).unwrap();
    rig.says(server, |w| w.empty(b'1'));
    assert_eq!(rig.told(client), ["ParseComplete"]);
    rig.client_leaves(client);
    assert_eq!(
        rig.told(server),
        ["Parse  select 1", "Flush", "Sync"],
        "the implicit transaction is ended, not handed on"
    );
}

#[test]
fn sync_during_copy_in_is_swallowed_by_the_server_and_not_waited_for() {
    let mut rig = Rig::new("");
    let client = rig.client();
    rig.says(client, |w| {
        w.parse(b"", b"copy t from stdin", &[0, 0]);
        w.bind_text(b"", &[]);
        w.execute();
        w.sync();
    });
    let server = rig.server_of(client).unwrap();
    rig.says(server, |w| {
        w.empty(b'1');
        w.empty(b'2');
        w.message(b'G', |b| b.extend([0, 0, 0]));
    });
    rig.says(client, |w| {
        w.message(b'd', |b| b.extend(*b"1\n"));
        w.empty(b'c');
        w.sync();
    });
    rig.completes(server, "COPY 1");
    assert_eq!(rig.server_of(client), None, "one ReadyForQuery, not two (recording E7)");
}

#[test]
fn begin_takes_no_server_and_travels_with_the_first_statement() {
    let mut rig = Rig::new("");
    let client = rig.client();
    rig.says(client, |w| w.query(b"BEGIN"));
    assert_eq!(rig.told(client), ["CommandComplete BEGIN", "ReadyForQuery T"]);
    assert_eq!(rig.server_of(client), None);
    rig.says(client, |w| w.query(b"insert"));
    let server = rig.server_of(client).unwrap();
    assert_eq!(
        rig.told(server),
        [
            "Close Spgweir_2",
            "Parse pgweir_2 BEGIN",
            "Bind  pgweir_2",
            "Execute",
            "Close P",
            "Query insert"
        ]
    );
    rig.says(server, |w| {
        w.empty(b'3');
        w.empty(b'1');
        w.empty(b'2');
        w.command_complete("BEGIN");
        w.empty(b'3');
        w.command_complete("INSERT 0 1");
        w.ready_for_query(InTransaction);
    });
    assert_eq!(rig.told(client), ["CommandComplete INSERT 0 1", "ReadyForQuery T"]);
    rig.says(client, |w| w.query(b"commit"));
    rig.completes(server, "COMMIT");
    assert_eq!(rig.server_of(client), None);
}

#[test]
fn the_unnamed_portal_of_a_begin_by_bind_and_execute_is_there_as_if_it_had_not_been_deferred() {
    let mut rig = Rig::new("");
    let client = rig.client();
    rig.says(client, |w| {
        w.parse(b"", b"begin", &[0, 0]);
        w.bind_text(b"", &[]);
        w.execute();
        w.sync();
    });
    assert_eq!(rig.server_of(client), None);
    rig.says(client, |w| {
        w.describe(b'P', b"");
        w.sync();
    });
    let server = rig.server_of(client).unwrap();
    assert_eq!(
        rig.told(server),
        [
            "Close Spgweir_2",
            "Parse pgweir_2 BEGIN",
            "Bind  pgweir_2",
            "Execute",
            "Describe P",
            "Sync"
        ],
        "NoData and not 34000: no Close of the portal"
    );
}

#[test]
fn begin_then_commit_needs_no_server_at_all() {
    let mut rig = Rig::new("");
    let client = rig.client();
    for (text, tag) in [
        ("begin", "BEGIN"),
        ("commit;", "COMMIT"),
        ("START TRANSACTION", "START TRANSACTION"),
        ("rollback", "ROLLBACK"),
    ] {
        rig.says(client, |w| w.query(text.as_bytes()));
        assert_eq!(rig.told(client)[0], format!("CommandComplete {tag}"));
        assert_eq!(rig.server_of(client), None);
    }
}

#[test]
fn a_deferred_begin_that_fails_lets_nothing_run_outside_the_transaction() {
    let mut rig = Rig::new("");
    let client = rig.client();
    rig.says(client, |w| w.query(b"begin"));
    rig.told(client);
    rig.says(client, |w| w.query(b"insert"));
    let server = rig.server_of(client).unwrap();
    rig.told(server);
    rig.says(server, |w| {
        w.empty(b'1');
        w.empty(b'2');
        w.error(&error("57014", "canceling statement due to user request"));
    });
    assert_eq!(
        rig.told(client),
        ["Error 57014 canceling statement due to user request"]
    );
    assert_eq!(
        rig.told(server),
        ["Sync"],
        "the server ignores the Query, so a Sync must bring it back"
    );
    rig.says(server, |w| w.ready_for_query(Idle));
    assert_eq!(
        rig.told(client),
        ["ReadyForQuery E"],
        "it believes that it is in a transaction"
    );
    rig.says(client, |w| w.query(b"rollback"));
    assert_eq!(rig.told(client), ["CommandComplete ROLLBACK", "ReadyForQuery I"]);
}

/// Guards against a Sync in the midst of a Query: the server would read it as text, and the end of the text as
/// messages.
#[test]
fn a_deferred_begin_is_answered_before_a_query_goes_through_in_pieces() {
    let mut rig = Rig::new("");
    let client = rig.client();
    rig.says(client, |w| w.query(b"begin"));
    rig.told(client);
    let mut query = Vec::new();
    pgweir_wire::Writer::new(&mut query).query("insert".repeat(100_000).as_bytes());
    let (first, rest) = query.split_at(90_000);
    rig.comes(client, first);
    let server = rig.server_of(client).unwrap();
    assert_eq!(
        rig.told(server).last().unwrap(),
        "Sync",
        "the BEGIN, and nothing of the client's"
    );
    rig.says(server, |w| {
        w.error(&error("57014", "canceling statement due to statement timeout"));
        w.ready_for_query(Idle);
    });
    rig.comes(client, rest);
    assert_eq!(
        rig.told(client),
        ["Error 57014 canceling statement due to statement timeout"]
    );
    // The client believes that it is in a transaction, so the transaction must have failed before its Query runs.
    let told = rig.told(server);
    assert!(told[told.len() - 2].starts_with("Describe P"), "{told:?}");
    assert_eq!(told.last().unwrap(), "Sync");
    rig.says(server, |w| {
        w.empty(b'3');
        w.empty(b'1');
        w.empty(b'2');
        w.command_complete("BEGIN");
        w.empty(b'3');
        w.error(&error("34000", "portal \"the transaction has failed\" does not exist"));
        w.ready_for_query(Failed);
    });
    assert!(rig.told(server)[0].starts_with("Query insert"));
}

#[test]
fn messages_of_a_copy_that_cannot_be_do_not_reach_the_server() {
    let mut rig = Rig::new("");
    let client = rig.client();
    rig.says(client, |w| {
        w.parse(b"", b"select 1", &[0, 0]);
        w.message(b'd', |b| b.extend(b"data"));
        w.message(b'c', |b| b.extend([0; 300]));
        w.sync();
    });
    let server = rig.server_of(client).unwrap();
    assert_eq!(rig.told(server), ["Parse  select 1", "Sync"]);
}

#[test]
fn a_server_that_answers_a_deferred_begin_with_something_else_is_closed() {
    let mut rig = Rig::new("");
    let client = rig.client();
    rig.says(client, |w| w.query(b"begin"));
    rig.says(client, |w| w.query(b"insert"));
    let server = rig.server_of(client).unwrap();
    rig.says(server, |w| {
        w.empty(b'1');
        w.empty(b'2');
        w.command_complete("SELECT 1");
        w.ready_for_query(Idle);
    });
    assert!(rig.closed.contains(&server.into()));
}

#[test]
fn a_server_that_begins_a_copy_when_its_settings_are_restored_is_closed() {
    let mut rig = Rig::new("default_pool_size = 1");
    let (a, b) = (rig.client(), rig.client());
    rig.says(a, |w| w.query(b"set timezone = 'Asia/Tokyo'"));
    let server = rig.server_of(a).unwrap();
    rig.says(server, |w| {
        w.command_complete("SET");
        w.parameter_status(b"TimeZone", b"Asia/Tokyo");
        w.ready_for_query(Idle);
    });
    rig.says(b, |w| w.query(b"select now()"));
    rig.says(server, |w| {
        w.empty(b'3');
        w.empty(b'1');
        w.empty(b'2');
        w.message(b'G', |b| b.extend([0, 0, 0]));
    });
    assert!(rig.closed.contains(&server.into()));
}

#[test]
fn the_deferral_is_bounded() {
    let mut rig = Rig::new("deferred_begin = 0.5");
    let client = rig.client();
    rig.says(client, |w| w.query(b"begin"));
    rig.wait(Duration::from_millis(400));
    assert_eq!(rig.server_of(client), None);
    rig.wait(Duration::from_millis(300));
    let server = rig.server_of(client).expect("the BEGIN went to a server alone");
    assert_eq!(rig.told(server).last().unwrap(), "Sync");
}

#[test]
fn deferral_can_be_switched_off() {
    let mut rig = Rig::new("deferred_begin = 0");
    let client = rig.client();
    rig.says(client, |w| w.query(b"begin"));
    let server = rig.server_of(client).unwrap();
    assert_eq!(rig.told(server), ["Query begin"]);
}

#[test]
fn a_client_gets_its_settings_on_a_server_that_another_client_has_changed() {
    let mut rig = Rig::new("");
    let (a, b) = (rig.client(), rig.client());
    rig.says(a, |w| w.query(b"set timezone = 'Asia/Tokyo'"));
    let server = rig.server_of(a).unwrap();
    rig.told(server);
    rig.says(server, |w| {
        w.command_complete("SET");
        w.parameter_status(b"TimeZone", b"Asia/Tokyo");
        w.ready_for_query(Idle);
    });
    rig.says(b, |w| w.query(b"select now()"));
    assert_eq!(rig.server_of(b), Some(server), "the pool has one server");
    assert_eq!(
        rig.told(server),
        [
            "Close Spgweir_1",
            "Parse pgweir_1 SELECT pg_catalog.set_config($1, $2, false)",
            "Bind  pgweir_1",
            "Execute",
            "Sync"
        ],
        "nothing of the client's before the server has confirmed"
    );
    rig.says(server, |w| {
        w.empty(b'3');
        w.empty(b'1');
        w.empty(b'2');
        w.data_row(1, [Some(&b"UTC"[..])]);
        w.command_complete("SELECT 1");
        w.parameter_status(b"TimeZone", b"UTC");
        w.ready_for_query(Idle);
    });
    assert_eq!(rig.told(server), ["Query select now()"]);
    rig.completes(server, "SELECT 1");
    assert_eq!(
        rig.told(b),
        ["CommandComplete SELECT 1", "ReadyForQuery I"],
        "the restoration is not the client's to see"
    );
}

#[test]
fn waiting_clients_are_served_in_order() {
    let mut rig = Rig::new("default_pool_size = 1");
    let clients: Vec<_> = (0..4).map(|_| rig.client()).collect();
    for &client in &clients {
        rig.says(client, |w| w.query(b"select 1"));
    }
    let server = rig.server_of(clients[0]).unwrap();
    for &client in &clients {
        assert_eq!(rig.server_of(client), Some(server));
        rig.completes(server, "SELECT 1");
    }
}

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
    let (client, key) = client_with_key(&mut rig);
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
    let (client, key) = client_with_key(&mut rig);
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

fn client_with_key(rig: &mut Rig) -> (pgweir_core::ClientId, pgweir_wire::CancelKey) {
    let id = rig.client_begins(&[("user", "u"), ("database", "db")]);
    rig.servers_log_in();
    let key = rig.key_told(id);
    rig.told(id);
    (id, key)
}

#[test]
fn a_client_that_vanishes_in_a_transaction_leaves_a_rolled_back_server() {
    let mut rig = Rig::new("");
    let client = rig.client();
    rig.says(client, |w| w.query(b"begin; insert"));
    let server = rig.server_of(client).unwrap();
    rig.told(server);
    rig.says(server, |w| {
        w.command_complete("INSERT 0 1");
        w.ready_for_query(InTransaction);
    });
    rig.client_leaves(client);
    assert_eq!(rig.told(server), ["Query ROLLBACK"]);
    rig.completes(server, "ROLLBACK");
    let next = rig.client();
    rig.says(next, |w| w.query(b"select 1"));
    assert_eq!(rig.server_of(next), Some(server), "the server was not lost");
}

#[test]
fn a_client_that_vanishes_mid_query_has_it_cancelled_and_its_answer_reaches_nobody() {
    let mut rig = Rig::new("default_pool_size = 1");
    let client = rig.client();
    rig.says(client, |w| w.query(b"select pg_sleep(9)"));
    let server = rig.server_of(client).unwrap();
    let next = rig.client();
    rig.says(next, |w| w.query(b"select 2"));
    rig.client_leaves(client);
    assert_eq!(rig.cancels.len(), 1);
    rig.says(server, |w| {
        w.error(&error("57014", "canceling statement due to user request"));
        w.ready_for_query(Idle);
    });
    assert_eq!(rig.server_of(next), None);
    rig.cancel_arrives(server);
    assert_eq!(rig.server_of(next), Some(server));
    assert!(rig.told(next).is_empty());
}

#[test]
fn a_client_that_vanishes_in_copy_in_ends_it_with_copy_fail() {
    let mut rig = Rig::new("");
    let client = rig.client();
    rig.says(client, |w| w.query(b"copy t from stdin"));
    let server = rig.server_of(client).unwrap();
    rig.says(server, |w| w.message(b'G', |b| b.extend([0, 0, 0])));
    rig.told(server);
    rig.client_leaves(client);
    assert_eq!(rig.told(server), ["CopyFail"]);
    rig.says(server, |w| {
        w.error(&error("57014", "COPY from stdin failed: client disconnected"));
        w.ready_for_query(Idle);
    });
    rig.cancel_arrives(server);
    let next = rig.client();
    rig.says(next, |w| w.query(b"select 1"));
    assert_eq!(rig.server_of(next), Some(server));
}

/// The beginning of a Query that is too long to be kept completely.
fn cut_off() -> Vec<u8> {
    [b"Q\0\x10\0\0select '".as_slice(), &[b'x'; 70_000]].concat()
}

#[test]
fn a_client_that_vanishes_inside_a_message_costs_its_server() {
    let mut rig = Rig::new("");
    let client = rig.client();
    rig.comes(client, &cut_off());
    let server = rig.server_of(client).unwrap();
    rig.client_leaves(client);
    assert!(
        rig.closed.contains(&server.into()),
        "the rest of the message cannot be made up"
    );
}

#[test]
fn a_client_without_a_server_does_not_notice_that_servers_die() {
    let mut rig = Rig::new("");
    let client = rig.client();
    rig.says(client, |w| w.query(b"select 1"));
    let server = rig.server_of(client).unwrap();
    rig.completes(server, "SELECT 1");
    rig.told(client);
    rig.says(server, |w| {
        w.error(&fatal("57P01", "terminating connection due to administrator command"))
    });
    rig.server_dies(server);
    assert!(rig.told(client).is_empty());
    rig.says(client, |w| w.query(b"select 1"));
    let up = rig.servers_log_in();
    assert_eq!(rig.server_of(client), Some(up[0]));
}

#[test]
fn a_client_in_a_transaction_hears_the_servers_own_last_words() {
    let mut rig = Rig::new("");
    let client = rig.client();
    rig.says(client, |w| w.query(b"select 1"));
    let server = rig.server_of(client).unwrap();
    rig.says(server, |w| {
        w.error(&fatal("57P01", "terminating connection due to administrator command"))
    });
    rig.server_dies(server);
    assert_eq!(
        rig.told(client),
        ["Error 57P01 terminating connection due to administrator command"]
    );
    assert!(rig.closed.contains(&client.into()));
}

#[test]
fn query_wait_timeout_ends_the_wait_and_a_notice_comes_before() {
    let mut rig = Rig::new("default_pool_size = 1\nquery_wait_timeout = 7\nquery_wait_notify = 5");
    let busy = rig.client();
    rig.says(busy, |w| w.query(b"select pg_sleep(99)"));
    let client = rig.client();
    rig.says(client, |w| w.query(b"select 1"));
    rig.wait(Duration::from_secs(6));
    assert_eq!(rig.told(client).len(), 1, "the NOTICE");
    rig.wait(Duration::from_secs(2));
    assert_eq!(rig.told(client), ["Error 57014 query_wait_timeout"]);
    assert!(rig.closed.contains(&client.into()));
}

#[test]
fn the_pool_never_grows_beyond_its_size_and_the_reserve_comes_late() {
    let mut rig = Rig::new("default_pool_size = 2\nreserve_pool_size = 1\nreserve_pool_timeout = 3");
    let clients: Vec<_> = (0..5).map(|_| rig.client()).collect();
    for &client in &clients {
        rig.says(client, |w| w.query(b"select pg_sleep(99)"));
    }
    rig.servers_log_in();
    let linked = |rig: &Rig| clients.iter().filter(|&&c| rig.server_of(c).is_some()).count();
    assert_eq!(linked(&rig), 2);
    rig.wait(Duration::from_secs(4));
    rig.servers_log_in();
    assert_eq!(linked(&rig), 3);
    rig.wait(Duration::from_secs(9));
    assert!(rig.connects.is_empty());
}

#[test]
fn a_limit_holds_over_pools_and_an_idle_server_makes_way() {
    let databases = "one = host=127.0.0.1 user=u\ntwo = host=127.0.0.1 user=u";
    let mut rig = Rig::with(databases, "max_user_connections = 1");
    let enter = |rig: &mut Rig, database: &str| {
        let id = rig.client_begins(&[("user", "u"), ("database", database)]);
        rig.servers_log_in();
        id
    };
    let one = enter(&mut rig, "one");
    rig.says(one, |w| w.query(b"select pg_sleep(9)"));
    let server = rig.server_of(one).unwrap();
    let two = enter(&mut rig, "two");
    assert!(rig.told(two).is_empty(), "user u may have one connection");
    rig.told(server);
    rig.completes(server, "SELECT 1");
    rig.wait(Duration::from_secs(1));
    assert_eq!(rig.told(server), ["Terminate"], "evicted");
    assert!(rig.connects.is_empty(), "it counts until PostgreSQL has closed its end");
    rig.server_dies(server);
    rig.servers_log_in();
    assert!(rig.told(two).contains(&"ReadyForQuery I".to_string()));
}

#[test]
fn statement_pooling_refuses_transaction_blocks() {
    let mut rig = Rig::new("pool_mode = statement");
    let client = rig.client();
    rig.says(client, |w| w.query(b"begin"));
    let server = rig.server_of(client).unwrap();
    rig.told(server);
    rig.says(server, |w| {
        w.command_complete("BEGIN");
        w.ready_for_query(InTransaction);
    });
    assert_eq!(
        rig.told(client).last().unwrap(),
        "Error 0A000 transaction blocks not allowed in statement pooling mode"
    );
    assert!(rig.closed.contains(&client.into()));
    assert_eq!(rig.told(server), ["Query ROLLBACK"]);
}

#[test]
fn session_pooling_keeps_the_server_and_resets_it_afterwards() {
    let mut rig = Rig::new("pool_mode = session");
    let client = rig.client();
    rig.says(client, |w| w.query(b"select 1"));
    let server = rig.server_of(client).unwrap();
    rig.completes(server, "SELECT 1");
    assert_eq!(rig.server_of(client), Some(server));
    rig.told(server);
    rig.says(client, |w| w.terminate());
    assert_eq!(rig.told(server)[0], "Query DISCARD ALL");
}

#[test]
fn late_copy_messages_take_no_server() {
    let mut rig = Rig::new("");
    let client = rig.client();
    rig.says(client, |w| {
        w.message(b'd', |b| b.extend(*b"1\n"));
        w.empty(b'c');
    });
    assert_eq!(rig.server_of(client), None);
    assert!(rig.told(client).is_empty());
}

#[test]
fn in_a_failed_transaction_nothing_is_answered_by_the_pooler() {
    let mut rig = Rig::new("");
    let client = rig.client();
    rig.says(client, |w| {
        w.parse(b"s", b"select 1", &[0, 0]);
        w.sync();
    });
    let server = rig.server_of(client).unwrap();
    rig.says(server, |w| {
        w.empty(b'1');
        w.ready_for_query(Idle);
    });
    rig.says(client, |w| w.query(b"begin; select 1/0"));
    rig.says(server, |w| {
        w.error(&error("22012", "division by zero"));
        w.ready_for_query(Failed);
    });
    rig.told(server);
    rig.told(client);
    rig.says(client, |w| {
        w.parse(b"t", b"select 1", &[0, 0]);
        w.sync();
    });
    let asked = rig.told(server);
    assert_eq!(
        asked,
        ["Close Spgweir_10", "Parse pgweir_10 select 1", "Sync"],
        "the server must say 25P02 itself"
    );
}

#[test]
fn nothing_is_written_behind_half_a_message() {
    let mut rig = Rig::new("");
    let cut = rig.client();
    rig.comes(cut, &cut_off());
    let server = rig.server_of(cut).unwrap();
    let before = rig.bytes_written(server);
    rig.client_leaves(cut);
    assert_eq!(
        rig.bytes_written(server),
        before,
        "a Terminate would complete the client's message"
    );
}

#[test]
fn a_server_whose_lifetime_ends_while_it_logs_in_is_counted_once() {
    let mut rig = Rig::new("server_lifetime = 1\ndefault_pool_size = 1");
    let client = rig.client_begins(&[("user", "u"), ("database", "db")]);
    let server = rig.connects.pop_front().unwrap();
    rig.wait(Duration::from_secs(5));
    rig.server_logs_in(server);
    rig.wait(Duration::from_secs(1));
    assert!(rig.closed.contains(&server.into()));
    assert!(rig.told(client).contains(&"ReadyForQuery I".to_string()));
    rig.says(client, |w| w.query(b"select 1"));
    assert_eq!(rig.servers_log_in().len(), 1, "the pool still opens servers");
}

#[test]
fn nothing_of_ours_is_written_into_the_middle_of_a_servers_message() {
    let mut rig = Rig::new("");
    let client = rig.client();
    rig.says(client, |w| w.query(b"select 1"));
    let server = rig.server_of(client).unwrap();
    rig.comes(server, b"D\0\0\x10\0half a row");
    let before = rig.bytes_written(client);
    rig.server_dies(server);
    assert_eq!(rig.bytes_written(client), before);
    assert!(rig.closed.contains(&client.into()));
}

#[test]
fn a_replaced_error_does_not_repeat_what_came_before_it() {
    let mut rig = Rig::new("");
    let client = rig.client();
    rig.says(client, |w| {
        w.parse(b"s", b"select 1", &[0, 0]);
        w.sync();
    });
    let server = rig.server_of(client).unwrap();
    rig.says(server, |w| {
        w.empty(b'1');
        w.ready_for_query(Idle);
    });
    rig.told(client);
    rig.says(client, |w| {
        w.bind_text(b"s", &[]);
        w.parse(b"s", b"select 2", &[0, 0]);
        w.sync();
    });
    rig.told(server);
    let refusal = rig.error_about("42P05", "prepared statement \"pgweir_b\" already exists");
    rig.says(server, |w| {
        w.empty(b'2');
        w.empty(b'3');
        w.empty(b'1');
        w.error(&refusal);
        w.ready_for_query(Idle);
    });
    let told = rig.told(client);
    assert_eq!(
        told,
        [
            "BindComplete",
            "Error 42P05 prepared statement \"s\" already exists",
            "ReadyForQuery I"
        ]
    );
}

#[test]
fn a_query_inside_a_pipeline_costs_its_server() {
    let mut rig = Rig::new("");
    let client = rig.client();
    rig.says(client, |w| {
        w.parse(b"", b"select 1", &[0, 0]);
        w.bind_text(b"", &[]);
        w.execute();
        w.query(b"select 2");
        w.sync();
    });
    let server = rig.server_of(client).unwrap();
    rig.says(server, |w| {
        w.empty(b'1');
        w.empty(b'2');
        w.command_complete("SELECT 1");
        w.command_complete("SELECT 1");
        w.ready_for_query(InTransaction);
        w.ready_for_query(Idle);
    });
    assert!(
        rig.closed.contains(&server.into()),
        "PostgreSQL 18 would fail the next client's command"
    );
}

#[test]
fn a_lifetime_of_zero_uses_each_server_once() {
    let mut rig = Rig::new("server_lifetime = 0");
    let client = rig.client();
    for _ in 0..3 {
        rig.says(client, |w| w.query(b"select 1"));
        rig.servers_log_in();
        let server = rig.server_of(client).expect("a server serves before it goes");
        rig.completes(server, "SELECT 1");
        assert!(rig.closed.contains(&server.into()));
    }
}

#[test]
fn a_place_under_a_shared_limit_goes_to_the_pool_that_waited_longest() {
    let databases = "one = host=127.0.0.1 user=u\ntwo = host=127.0.0.1 user=u";
    let mut rig = Rig::with(databases, "max_user_connections = 1");
    let one = rig.client_begins(&[("user", "u"), ("database", "one")]);
    rig.servers_log_in();
    rig.says(one, |w| w.query(b"select pg_sleep(9)"));
    let server = rig.server_of(one).unwrap();
    let two = rig.client_begins(&[("user", "u"), ("database", "two")]);
    rig.wait(Duration::from_secs(2));
    // The pool that holds the server has a waiting client, too, but one that came later.
    let three = rig.client_begins(&[("user", "u"), ("database", "one")]);
    rig.says(three, |w| w.query(b"select 1"));
    rig.completes(server, "SELECT 1");
    rig.server_dies(server);
    rig.servers_log_in();
    assert!(rig.told(two).contains(&"ReadyForQuery I".to_string()));
}

#[test]
fn a_client_that_never_logs_in_is_closed() {
    let mut rig = Rig::new("client_login_timeout = 2");
    let silent = rig.silent_client();
    rig.wait(Duration::from_secs(1));
    assert!(!rig.closed.contains(&silent.into()));
    rig.wait(Duration::from_secs(2));
    assert!(rig.closed.contains(&silent.into()));
}

#[test]
fn a_connect_query_that_fails_is_logged_and_the_server_is_used() {
    let mut rig = Rig::with("db = host=127.0.0.1 user=u connect_query='selec'", "");
    let client = rig.client_begins(&[("user", "u"), ("database", "db")]);
    let server = rig.connects.pop_front().unwrap();
    rig.server_logs_in(server);
    assert_eq!(rig.told(server), ["Query selec"]);
    rig.says(server, |w| {
        w.error(&error("42601", "syntax error"));
        w.ready_for_query(Idle);
    });
    assert!(rig.told(client).contains(&"ReadyForQuery I".to_string()));
    rig.says(client, |w| w.query(b"select 1"));
    assert_eq!(rig.server_of(client), Some(server));
}

#[test]
fn a_server_that_skips_authentication_is_not_believed() {
    let mut rig = Rig::new("");
    rig.client_begins(&[("user", "u"), ("database", "db")]);
    let server = rig.connects.pop_front().unwrap();
    rig.server_connects(server);
    rig.says(server, |w| w.ready_for_query(Idle));
    assert!(rig.closed.contains(&server.into()));
}

#[test]
fn the_next_host_is_tried_before_anybody_is_told() {
    let mut rig = Rig::with("db = host=127.0.0.99,127.0.0.1 user=u", "");
    let client = rig.client_begins(&[("user", "u"), ("database", "db")]);
    let first = rig.connects.pop_front().unwrap();
    rig.connect_fails(first);
    assert!(!rig.closed.contains(&client.into()));
    rig.servers_log_in();
    assert!(rig.told(client).contains(&"ReadyForQuery I".to_string()));
}

#[test]
fn a_flush_is_answered_when_what_stands_before_it_is() {
    let mut rig = Rig::new("");
    let client = rig.client();
    rig.says(client, |w| {
        w.parse(b"s", b"select 1", &[0, 0]);
        w.close(b'S', b"s");
        w.empty(b'H');
    });
    let server = rig.server_of(client).unwrap();
    rig.says(server, |w| w.empty(b'1'));
    assert_eq!(rig.told(client), ["ParseComplete", "CloseComplete"]);
}

/// PostgreSQL refuses it and then ignores everything up to Sync: the next client of that server would never get an
/// answer.
#[test]
fn a_flush_with_a_body_behind_a_sync_keeps_the_server() {
    let mut rig = Rig::new("");
    let client = rig.client();
    rig.says(client, |w| {
        w.query(b"select 1");
        w.message(b'H', |b| b.extend(*b"poison"));
    });
    let server = rig.server_of(client).unwrap();
    rig.completes(server, "SELECT 1");
    assert_eq!(rig.server_of(client), Some(server), "an error is owed");
    rig.says(server, |w| w.error(&error("08P01", "invalid message format")));
    rig.says(client, |w| w.query(b"ignored"));
    rig.says(client, |w| w.sync());
    let told = rig.told(server);
    assert_eq!(told[told.len() - 1], "Sync", "{told:?}");
    rig.says(server, |w| w.ready_for_query(Idle));
    assert_eq!(
        rig.told(client)[2..],
        ["Error 08P01 invalid message format", "ReadyForQuery I"]
    );
    assert_eq!(rig.server_of(client), None);
}

#[test]
fn a_server_that_complains_unasked_is_not_handed_out_again() {
    let mut rig = Rig::new("");
    let client = rig.client();
    rig.says(client, |w| w.query(b"select 1"));
    let server = rig.server_of(client).unwrap();
    rig.completes(server, "SELECT 1");
    rig.says(server, |w| w.error(&error("08P01", "invalid message format")));
    assert!(rig.closed.contains(&server.into()));
}

/// In COPY FROM STDIN a Sync is swallowed, but not if the COPY had failed by then: the server may owe one ReadyForQuery
/// or two.
#[test]
fn a_sync_among_the_data_of_a_copy_that_fails_costs_the_server_and_nobody_else() {
    for leaves in [true, false] {
        let mut rig = Rig::new("");
        let client = rig.client();
        rig.says(client, |w| {
            w.parse(b"", b"copy t from stdin", &[0, 0]);
            w.bind_text(b"", &[]);
            w.execute();
            w.message(b'd', |b| b.extend(*b"bad\n"));
            w.sync();
        });
        let server = rig.server_of(client).unwrap();
        if leaves {
            rig.client_leaves(client);
        } else {
            rig.says(client, |w| {
                w.empty(b'c');
                w.sync();
            });
        }
        rig.says(server, |w| {
            w.empty(b'1');
            w.empty(b'2');
            w.message(b'G', |b| b.extend([0, 0, 0]));
            w.error(&error("22P02", "invalid input syntax"));
            w.ready_for_query(Idle);
        });
        assert!(rig.closed.contains(&server.into()), "client leaves: {leaves}");
    }
}

/// The server reads CopyFail after everything before it, so the Sync there was swallowed: one ReadyForQuery is owed.
#[test]
fn a_sync_among_the_data_of_a_copy_that_its_client_ends_is_no_trouble_to_the_client() {
    let mut rig = Rig::new("");
    let client = rig.client();
    rig.says(client, |w| {
        w.parse(b"", b"copy t from stdin", &[0, 0]);
        w.bind_text(b"", &[]);
        w.execute();
    });
    let server = rig.server_of(client).unwrap();
    rig.says(server, |w| {
        w.empty(b'1');
        w.empty(b'2');
        w.message(b'G', |b| b.extend([0, 0, 0]));
    });
    rig.says(client, |w| {
        w.message(b'd', |b| b.extend(*b"1\n"));
        w.sync();
        w.copy_fail("enough");
        w.sync();
    });
    rig.told(client);
    rig.says(server, |w| {
        w.error(&error("57014", "COPY from stdin failed: enough"));
        w.ready_for_query(Idle);
    });
    assert_eq!(
        rig.told(client),
        ["Error 57014 COPY from stdin failed: enough", "ReadyForQuery I"]
    );
    assert!(!rig.closed.contains(&client.into()));
    assert!(
        rig.closed.contains(&server.into()),
        "a cancel looks the same, so nobody else gets the server"
    );
}

/// Guards against a server that gets another client while the rest of a message has not arrived.
#[test]
fn a_server_whose_client_leaves_in_the_midst_of_a_message_that_nothing_asked_for_is_closed() {
    let mut rig = Rig::new("pool_mode = session");
    let client = rig.client();
    rig.says(client, |w| w.query(b"select 1"));
    let server = rig.server_of(client).unwrap();
    rig.completes(server, "SELECT 1");
    // A NoticeResponse of 64 kB, of which a part has arrived.
    let mut part = vec![b'N', 0, 1, 0, 0];
    part.extend([b'x'; 40_000]);
    rig.comes(server, &part);
    assert_eq!(rig.server_of(client), Some(server));
    rig.client_leaves(client);
    assert!(rig.closed.contains(&server.into()));
}

/// Two clients, and two servers that must be checked before a client gets them; the pool allows no more.
fn with_two_stale_servers() -> (Rig, [ClientId; 2], [ServerId; 2]) {
    let mut rig = Rig::new("server_check_query = select 1\nserver_check_delay = 1\nmax_db_connections = 2");
    let clients = [rig.client(), rig.client()];
    for client in clients {
        rig.says(client, |w| w.query(b"select 'first'"));
        rig.servers_log_in();
    }
    let servers = clients.map(|client| rig.server_of(client).expect("linked"));
    assert_ne!(servers[0], servers[1], "both are opened");
    for server in servers {
        rig.completes(server, "SELECT 1");
        rig.told(server);
    }
    rig.wait(Duration::from_secs(2));
    (rig, clients, servers)
}

/// Guards against a client that waits for ever beside an idle server, because the server that was checked first was
/// given to another client and then lost.
#[test]
fn nobody_waits_while_a_server_lies_idle() {
    let (mut rig, clients, servers) = with_two_stale_servers();
    for client in clients {
        rig.says(client, |w| w.query(b"select 'second'"));
    }
    for server in servers {
        assert_eq!(rig.told(server), ["Query select 1"], "both servers are tested");
        rig.completes(server, "SELECT 1");
        assert_eq!(rig.told(server), ["Query select 'second'"]);
    }
}

/// The same if the server that is being checked turns out to be lost.
#[test]
fn an_idle_server_takes_the_place_of_one_that_fails_its_test() {
    let (mut rig, [one, _], servers) = with_two_stale_servers();
    rig.says(one, |w| w.query(b"select 'second'"));
    let (tested, idle): (Vec<_>, Vec<_>) = servers.into_iter().partition(|server| !rig.told(*server).is_empty());
    rig.server_dies(tested[0]);
    assert_eq!(rig.told(idle[0]), ["Query select 1"], "it is tested instead");
    rig.completes(idle[0], "SELECT 1");
    assert_eq!(rig.told(idle[0]), ["Query select 'second'"]);
}
