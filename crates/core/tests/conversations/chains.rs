//! Servers that are not PostgreSQL: other poolers, their consoles, and servers that answer wrongly.

use crate::rig::{NATURE_QUESTION, REPORTED, Rig, configuration, error, process_id};
use pgweir_core::{ClientId, ServerId};
use pgweir_wire::TransactionStatus::Idle;
use pgweir_wire::Writer;

/// A client begins to log in; the server that it needs logs in with this process id, and is asked for its process id.
fn asked(rig: &mut Rig, parameters: &[(&str, &str)], told_at_login: u32) -> (ClientId, ServerId) {
    let mut all = vec![("user", "u"), ("database", "db")];
    all.extend(parameters);
    let client = rig.client_begins(&all);
    let server = rig.connects.pop_front().expect("a server is wanted");
    lets_in(rig, server, told_at_login);
    (client, server)
}

fn lets_in(rig: &mut Rig, server: ServerId, told_at_login: u32) {
    lets_in_unasked(rig, server, told_at_login);
    let question = format!("Query {NATURE_QUESTION}");
    assert_eq!(
        rig.told(server),
        [question],
        "nothing but the question, in words that a console answers"
    );
}

fn lets_in_unasked(rig: &mut Rig, server: ServerId, told_at_login: u32) {
    rig.server_connects(server);
    rig.says(server, |w| {
        w.authentication(&0u32.to_be_bytes());
        for (name, value) in REPORTED {
            w.parameter_status(name.as_bytes(), value.as_bytes());
        }
        w.backend_key_data(told_at_login, b"key!");
        w.ready_for_query(Idle);
    });
}

/// A client whose server is another pooler.
fn behind_pooler(rig: &mut Rig, parameters: &[(&str, &str)]) -> (ClientId, ServerId) {
    let (client, server) = asked(rig, parameters, u32::MAX);
    rig.tells_process_id(server, 77);
    (client, server)
}

fn logged(rig: &Rig, words: &str) -> usize {
    rig.log.iter().filter(|(_, text)| text.contains(words)).count()
}

#[test]
fn a_server_that_tells_the_process_id_of_its_session_is_postgresql() {
    let mut rig = Rig::one_server("");
    let (_, server) = asked(&mut rig, &[], 4711);
    rig.tells_process_id(server, 4711);
    let told = rig.told(server);
    assert!(
        told.contains(&"Bind  pgweir_7".into()),
        "its settings are asked for: {told:?}"
    );
    assert_eq!(logged(&rig, "another pooler"), 0);
}

#[test]
fn another_pooler_gets_no_internal_message() {
    let mut rig = Rig::one_server("");
    let (client, server) = behind_pooler(&mut rig, &[]);
    assert_eq!(rig.told(server), [] as [&str; 0], "no catalog, no probe, no settings");
    assert!(rig.told(client).ends_with(&["ReadyForQuery I".into()]));
    assert_eq!(logged(&rig, "the server is another pooler"), 1);
    rig.says(client, |w| w.query(b"create temp table t (a int)"));
    assert_eq!(rig.told(server), ["Query create temp table t (a int)"]);
    rig.completes(server, "CREATE TABLE");
    assert_eq!(rig.told(server), [] as [&str; 0], "no probe behind it");
    assert_eq!(rig.server_of(client), None, "and no pin");
}

/// A number that could be a process id, but is not that of the session: the server is asked all the same.
#[test]
fn a_pooler_that_looks_like_postgresql_is_found_out() {
    let mut rig = Rig::one_server("");
    let (_, server) = asked(&mut rig, &[], 4711);
    rig.tells_process_id(server, 4712);
    assert_eq!(rig.told(server), [] as [&str; 0]);
    assert_eq!(logged(&rig, "the server is another pooler"), 1);
}

/// Whether the server is closed, and not used, after this answer to the first question.
fn is_not_used_after(answers: impl FnOnce(&mut Writer<'_>)) {
    let mut rig = Rig::one_server("");
    let (client, server) = asked(&mut rig, &[], 4711);
    rig.says(server, |w| {
        answers(w);
        w.ready_for_query(Idle);
    });
    assert!(rig.closed.contains(&server.into()), "it is closed");
    assert_eq!(rig.server_of(client), None);
    assert!(logged(&rig, "it is not known whether the server is PostgreSQL") > 0);
    assert_eq!(logged(&rig, "console"), 0);
}

#[test]
fn a_server_that_says_nothing_sensible_is_not_used() {
    for value in [&b"many"[..], b"", b"-1", b"99999999999"] {
        is_not_used_after(|w| {
            w.data_row(1, [Some(value)]);
            w.command_complete("SELECT 1");
        });
    }
    is_not_used_after(|_| {});
}

/// Guards against clients that share sessions: PostgreSQL refused the question (a time limit, a cancel, a lock, no
/// memory, no right), counted as a console from then on, and nothing was restored on any server of its pool.
#[test]
fn a_refused_question_makes_no_console() {
    for sqlstate in ["57014", "55P03", "53200", "42501", "42601"] {
        let fields = [(b'R', "ProcessInterrupts")];
        is_not_used_after(|w| w.error_with(&error(sqlstate, "refused"), &fields));
    }
    for sqlstate in ["57014", "53300", "26000"] {
        is_not_used_after(|w| w.error(&error(sqlstate, "another pooler is busy")));
    }
}

/// Guards against sessions that clients have left on PostgreSQL, and that nobody replaces any more: a pooler's address is
/// among the hosts of the pool.
#[test]
fn servers_are_replaced_when_a_pooler_is_found_among_them() {
    let mut rig = Rig::new("default_pool_size = 2");
    let (a, b) = (rig.client(), rig.client());
    rig.says(a, |w| w.query(b"begin"));
    rig.says(a, |w| w.query(b"select 1"));
    let postgresql = rig.server_of(a).unwrap();
    rig.says(b, |w| w.query(b"select 2"));
    let pooler = rig.connects.pop_front().expect("a second server is wanted");
    lets_in(&mut rig, pooler, u32::MAX);
    rig.tells_process_id(pooler, 77);
    rig.serves(postgresql, "SELECT 1");
    rig.says(a, |w| w.query(b"commit"));
    rig.serves(postgresql, "COMMIT");
    assert!(rig.closed.contains(&postgresql.into()), "it is closed when it is free");
}

/// A statement that was prepared in one transaction may not exist in the next: it is prepared again.
#[test]
fn a_statement_is_prepared_in_each_transaction_that_uses_it() {
    let mut rig = Rig::one_server("");
    let (client, server) = behind_pooler(&mut rig, &[]);
    rig.told(client);
    rig.says(client, |w| {
        w.parse(b"s", b"select 1", &[0, 0]);
        w.sync();
    });
    rig.serves(server, "SELECT 1");
    for _ in 0..2 {
        rig.says(client, |w| {
            w.bind_text(b"s", &[]);
            w.execute();
            w.sync();
        });
        let told = rig.serves(server, "SELECT 1");
        let words: Vec<_> = told.iter().map(|l| l.split(' ').next().unwrap()).collect();
        assert_eq!(words, ["Close", "Parse", "Bind", "Execute", "Sync"], "{told:?}");
    }
}

/// The unnamed statement, too, may be another client's in the next transaction.
#[test]
fn the_unnamed_statement_is_prepared_in_each_transaction_that_uses_it() {
    let mut rig = Rig::one_server("");
    let (client, server) = behind_pooler(&mut rig, &[]);
    rig.told(client);
    rig.says(client, |w| {
        w.parse(b"", b"select 1", &[0, 0]);
        w.sync();
    });
    rig.serves(server, "SELECT 1");
    rig.says(client, |w| {
        w.bind_text(b"", &[]);
        w.execute();
        w.sync();
    });
    let told = rig.serves(server, "SELECT 1");
    assert_eq!(told[0], "Parse  select 1", "{told:?}");
}

/// The settings that every pooler keeps follow the client. Any other setting would reach other clients of the pooler
/// below.
#[test]
fn startup_parameters_that_poolers_do_not_keep_are_refused() {
    let mut rig = Rig::one_server("");
    let (client, server) = behind_pooler(&mut rig, &[("DateStyle", "German"), ("search_path", "secret")]);
    assert_eq!(rig.told(server), [] as [&str; 0]);
    let told = rig.told(client);
    assert_eq!(told, ["Error 22023 unsupported startup parameter: search_path=secret"]);
    let next = rig.client_begins(&[("user", "u"), ("database", "db"), ("DateStyle", "German")]);
    let told = rig.serves(server, "SELECT 1");
    assert!(
        told.iter().any(|l| l.starts_with("Bind")),
        "DateStyle is made: {told:?}"
    );
    assert!(rig.told(next).ends_with(&["ReadyForQuery I".into()]));
}

/// Guards against a stack that grows with the number of waiting clients.
#[test]
fn thousands_of_clients_that_wait_may_be_refused_by_one_server() {
    let mut rig = Rig::one_server("max_client_conn = 20000");
    let wanted = [("user", "u"), ("database", "db"), ("search_path", "secret")];
    let (first, _) = asked(&mut rig, &wanted[2..], u32::MAX);
    let waiting: Vec<_> = (0..10_000).map(|_| rig.client_begins(&wanted)).collect();
    let (server, _) = rig
        .endpoints
        .iter()
        .next()
        .map(|(id, to)| (*id, to.clone()))
        .expect("one server");
    rig.tells_process_id(server, 77);
    for client in [&[first][..], &waiting].concat() {
        let told = rig.told(client);
        assert_eq!(told, ["Error 22023 unsupported startup parameter: search_path=secret"]);
    }
}

/// A client has a setting of its own when PostgreSQL is replaced by a pooler: it runs in its own session or not at all.
#[test]
fn a_session_that_a_pooler_cannot_keep_ends() {
    let mut rig = Rig::one_server("");
    let client = rig.client_begins(&[("user", "u"), ("database", "db"), ("search_path", "secret")]);
    let server = rig.connects.pop_front().unwrap();
    rig.server_logs_in(server);
    rig.serves(server, "SELECT 1");
    assert!(rig.told(client).ends_with(&["ReadyForQuery I".into()]));
    rig.server_dies(server);
    rig.says(client, |w| w.query(b"select 1"));
    let second = rig.connects.pop_front().expect("another server");
    lets_in(&mut rig, second, u32::MAX);
    rig.tells_process_id(second, 77);
    assert_eq!(
        rig.told(second),
        [] as [&str; 0],
        "neither the setting nor the statement"
    );
    let told = rig.told(client);
    assert_eq!(told, ["Error 55000 cannot restore the session's settings"]);
}

/// When the pooler is replaced by PostgreSQL, the next server shows it. Servers opened before serve no client any more.
#[test]
fn sessions_are_kept_again_when_the_server_is_postgresql_again() {
    let mut rig = Rig::new("default_pool_size = 2");
    let (_, below) = behind_pooler(&mut rig, &[]);
    rig.server_dies(below);
    let client = rig.client_begins(&[("user", "u"), ("database", "db")]);
    rig.says(client, |w| w.query(b"select 1"));
    let server = rig.connects.pop_front().expect("a new server");
    let id = process_id(server);
    lets_in(&mut rig, server, id);
    rig.tells_process_id(server, id);
    let told = rig.told(server);
    assert!(told.contains(&"Bind  pgweir_7".into()), "{told:?}");
    assert_eq!(logged(&rig, "the server is PostgreSQL itself"), 1);
    rig.client_leaves(client);
}

/// A console answers the question with an error. It gets only its client's commands.
#[test]
fn a_console_hears_its_client_s_commands_only() {
    let settings = "server_reset_query_always = 1\nserver_reset_query = DISCARD ALL";
    let mut rig = Rig::with("db = host=127.0.0.1 user=u connect_query='select 2'", settings);
    let parameters = [
        ("search_path", "a"),
        ("application_name", "b"),
        ("client_encoding", "LATIN1"),
    ];
    let (client, server) = asked(&mut rig, &parameters, u32::MAX);
    rig.says(server, |w| {
        w.error(&error("08P01", "invalid command"));
        w.ready_for_query(Idle);
    });
    assert!(rig.told(client).ends_with(&["ReadyForQuery I".into()]));
    for command in ["SHOW POOLS", "BEGIN"] {
        rig.says(client, |w| w.query(command.as_bytes()));
        assert_eq!(rig.told(server), [format!("Query {command}")]);
        rig.completes(server, "SHOW");
    }
    assert_eq!(rig.told(server), [] as [&str; 0]);
    assert_eq!(logged(&rig, "the console of a pooler"), 1);
}

/// With session_state = pgbouncer a server is asked only if its process id cannot be PostgreSQL's.
#[test]
fn only_suspicious_servers_are_asked_where_sessions_are_not_kept() {
    let mut rig = Rig::new("session_state = pgbouncer");
    let client = rig.client();
    rig.client_leaves(client);
    let mut rig = Rig::new("session_state = pgbouncer");
    let (_, server) = behind_pooler(&mut rig, &[]);
    assert_eq!(rig.told(server), [] as [&str; 0]);
}

/// A server that is being asked for its process id will soon serve the waiting client: no other is opened meanwhile.
#[test]
fn no_second_server_is_opened_while_the_first_says_what_it_is() {
    let mut rig = Rig::new("default_pool_size = 5");
    let (first, server) = behind_pooler(&mut rig, &[]);
    rig.told(first);
    rig.says(first, |w| w.query(b"begin; select 1"));
    let second = rig.client_begins(&[("user", "u"), ("database", "db")]);
    rig.says(second, |w| w.query(b"select 1"));
    let new = rig.connects.pop_front().expect("a server for the second client");
    lets_in(&mut rig, new, 4711);
    rig.server_dies(server);
    assert!(
        rig.connects.is_empty(),
        "one client waits, and one server is nearly there"
    );
    rig.tells_process_id(new, 78);
    assert_eq!(rig.told(new), ["Query select 1"]);
}

/// One more server is needed, and is let in: returns what it hears first.
fn next_hears(rig: &mut Rig, told_at_login: u32) -> Vec<String> {
    let client = rig.client_begins(&[("user", "u"), ("database", "db")]);
    rig.told(client);
    rig.query(client, "begin; select 1");
    let server = rig.connects.pop_front().expect("one more server");
    lets_in_unasked(rig, server, told_at_login);
    let told = rig.told(server);
    if told[0].contains("pg_backend_pid") {
        rig.tells_process_id(server, 77);
    }
    told
}

/// Guards against a query at the pooler below for each new connection, which takes one of its servers each time. Only what
/// could be PostgreSQL is asked.
#[test]
fn a_pooler_is_found_out_once() {
    let question = [format!("Query {NATURE_QUESTION}")];
    let rig = || {
        let mut rig = Rig::new("default_pool_size = 20");
        let (client, _) = behind_pooler(&mut rig, &[]);
        rig.told(client);
        rig.query(client, "begin; select 1");
        rig
    };
    let mut it = rig();
    for _ in 0..3 {
        assert_eq!(next_hears(&mut it, u32::MAX), ["Query begin; select 1"]);
    }
    assert_eq!(next_hears(&mut it, 4711), question, "it may be PostgreSQL now");
    assert_eq!(logged(&it, "the server is another pooler"), 1);

    let mut it = rig();
    let boss = it.console();
    it.query(boss, "RECONNECT");
    assert_eq!(next_hears(&mut it, u32::MAX), question, "after RECONNECT");
    assert_eq!(next_hears(&mut it, u32::MAX), ["Query begin; select 1"]);

    let mut it = rig();
    let client = it.client_begins(&[("user", "u"), ("database", "db")]);
    it.told(client);
    it.query(client, "select 1");
    let refused = it.connects.pop_front().expect("one more server");
    it.connect_fails(refused);
    it.wait(std::time::Duration::from_secs(1));
    let server = it.connects.pop_front().expect("another attempt");
    lets_in(&mut it, server, u32::MAX);

    let mut it = rig();
    it.reloads(configuration(
        "db = host=127.0.0.1 user=u dbname=other",
        "default_pool_size = 20",
    ));
    assert_eq!(next_hears(&mut it, u32::MAX), question, "another database there");
}

/// Guards against a log with two lines for each connection: the console of a pooler and one of its databases are both used.
#[test]
fn a_console_and_a_database_of_one_pooler_are_told_apart() {
    let databases = "db = host=127.0.0.1 user=u\nboard = host=127.0.0.1 user=u dbname=pgbouncer";
    let mut rig = Rig::with(databases, "");
    for round in 0..2 {
        for database in ["db", "board"] {
            let client = rig.client_begins(&[("user", "u"), ("database", database)]);
            rig.told(client);
            rig.query(client, "begin");
            rig.query(client, "select 1");
            let server = rig.connects.pop_front().expect("a server");
            lets_in_unasked(&mut rig, server, u32::MAX);
            match (round, database) {
                (0, "db") => rig.tells_process_id(server, 77),
                (0, _) => rig.says(server, |w| {
                    w.error(&error("08P01", "invalid command"));
                    w.ready_for_query(Idle);
                }),
                _ => assert!(!rig.told(server)[0].contains("pg_backend_pid")),
            }
        }
    }
    assert_eq!(logged(&rig, "the server is another pooler"), 1);
    assert_eq!(logged(&rig, "the console of a pooler"), 1);
}

/// Guards against a new connection for each command: a console knows no check query, and was closed instead.
#[test]
fn a_console_is_not_tested() {
    let mut rig = Rig::new("server_check_delay = 0\nserver_check_query = select 1");
    let (client, server) = asked(&mut rig, &[], u32::MAX);
    rig.says(server, |w| {
        w.error(&error("08P01", "invalid command"));
        w.ready_for_query(Idle);
    });
    rig.told(client);
    for _ in 0..3 {
        rig.wait(std::time::Duration::from_secs(60));
        rig.query(client, "SHOW POOLS");
        assert_eq!(rig.told(server), ["Query SHOW POOLS"]);
        rig.completes(server, "SHOW");
    }
    assert!(rig.connects.is_empty());
}
