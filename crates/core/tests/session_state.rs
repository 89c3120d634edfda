//! Probes, pins and RESET: conversations in virtual time, each naming what it guards against.

mod rig;

use pgweir_core::{ClientId, ServerId};
use pgweir_wire::TransactionStatus::{self, Failed, Idle, InTransaction};
use pgweir_wire::Writer;
use rig::{Rig, error};
use std::time::Duration;

/// The answer of a server to a probe.
#[derive(Clone, Copy, Default)]
struct Session {
    temporary: bool,
    /// There is a schema for temporary objects, as on every server that has had some.
    schema: bool,
    locks: bool,
    settings: &'static [(&'static str, &'static str)],
}

const NOTHING: Session = Session {
    temporary: false,
    schema: false,
    locks: false,
    settings: &[],
};

const LOCKED: Session = Session { locks: true, ..NOTHING };
const TEMPORARY: Session = Session {
    temporary: true,
    schema: true,
    ..NOTHING
};

/// The last temporary object has been dropped.
const EMPTIED: Session = Session {
    schema: true,
    ..NOTHING
};

fn full(more: &str) -> Rig {
    Rig::new(&format!("session_state = full\ndefault_pool_size = 1\n{more}"))
}

/// The server answers a Query; returns what it was sent before.
fn answers_to_query(rig: &mut Rig, server: ServerId, fails: bool, status: TransactionStatus) -> Vec<String> {
    let told = rig.told(server);
    rig.says(server, |w| {
        if fails {
            w.error(&error("22012", "division by zero"));
        } else {
            w.command_complete("DONE");
        }
        w.ready_for_query(status);
    });
    told
}

/// The server answers everything that it was sent; returns that.
fn answers(rig: &mut Rig, server: ServerId, session: Session) -> Vec<String> {
    let told = rig.told(server);
    let mut bound = "";
    for line in &told {
        match line.split_once(' ').unwrap_or((line, "")) {
            ("Parse", _) => rig.says(server, |w| w.empty(b'1')),
            ("Bind", statement) => {
                bound = statement;
                rig.says(server, |w| w.empty(b'2'));
            }
            ("Close", _) => rig.says(server, |w| w.empty(b'3')),
            ("Execute", _) => rig.says(server, |w| {
                if bound.ends_with("pgweir_6") {
                    let bit = |held: bool| Some(if held { &b"t"[..] } else { b"f" });
                    let row = [
                        bit(session.temporary),
                        bit(session.locks),
                        bit(false),
                        bit(false),
                        bit(false),
                        bit(session.schema),
                    ];
                    w.data_row(row.len(), row);
                } else if bound.ends_with("pgweir_7") {
                    for (name, value) in session.settings {
                        w.data_row(2, [Some(name.as_bytes()), Some(value.as_bytes())]);
                    }
                } else if bound.contains("pgweir_") {
                    w.data_row(1, [Some(&b""[..])]);
                }
                w.command_complete("SELECT 1");
            }),
            ("Sync", _) => rig.says(server, |w| w.ready_for_query(Idle)),
            ("Query", _) => rig.completes(server, "DONE"),
            ("Terminate", _) => {}
            (other, _) => panic!("nobody answers {other}"),
        }
    }
    told
}

/// The server answers until it is sent nothing more.
fn answers_all(rig: &mut Rig, server: ServerId, session: Session) -> Vec<String> {
    let mut all = Vec::new();
    loop {
        let told = answers(rig, server, session);
        if told.is_empty() {
            return all;
        }
        all.extend(told);
    }
}

/// A client sends a Query, and its server answers it.
fn does(rig: &mut Rig, client: ClientId, text: &str) -> ServerId {
    rig.says(client, |w| w.query(text.as_bytes()));
    let server = rig.server_of(client).expect("linked");
    assert_eq!(rig.told(server).last(), Some(&format!("Query {text}")));
    rig.completes(server, "DONE");
    server
}

/// A server is cleaned after its client has left.
fn is_discarded(rig: &mut Rig, server: ServerId) {
    assert_eq!(rig.told(server), ["Query DISCARD ALL", QUESTION]);
    rig.completes(server, "DISCARD ALL");
    rig.says(server, |w| {
        w.data_row(1, [Some(&b"t"[..])]);
        w.command_complete("SELECT 1");
        w.ready_for_query(Idle);
    });
}

/// The question after DISCARD ALL.
const QUESTION: &str = "Query SELECT pg_catalog.pg_my_temp_schema() OPERATOR(pg_catalog.<>) 0";

/// Whether these messages contain a probe of pins.
fn probes(told: &[String]) -> bool {
    told.iter()
        .any(|line| line.starts_with("Bind") && line.ends_with("pgweir_6"))
}

#[test]
fn only_what_may_outlive_its_transaction_is_probed_and_behind_the_clients_ready_for_query() {
    let mut rig = full("");
    let client = rig.client();
    let server = does(&mut rig, client, "select 1");
    assert_eq!(rig.told(server), Vec::<String>::new());
    assert_eq!(rig.server_of(client), None, "released at once");
    let server = does(&mut rig, client, "create temp table t (a int)");
    assert_eq!(
        rig.told(client).last().map(String::as_str),
        Some("ReadyForQuery I"),
        "the client does not wait for the probe"
    );
    assert_eq!(rig.server_of(client), Some(server), "not before it is answered");
    assert!(probes(&answers(&mut rig, server, TEMPORARY)));
    assert_eq!(rig.server_of(client), Some(server), "pinned");
    assert_eq!(
        rig.told(client),
        Vec::<String>::new(),
        "nothing of the answer is the client's"
    );
}

#[test]
fn a_query_behind_a_probe_goes_to_the_same_server_without_waiting() {
    let mut rig = full("");
    let client = rig.client();
    let server = does(&mut rig, client, "create temp table t (a int)");
    rig.says(client, |w| w.query(b"select 2"));
    let told = answers(&mut rig, server, TEMPORARY);
    assert!(probes(&told));
    assert_eq!(told.last().map(String::as_str), Some("Query select 2"));
}

/// A message that is dropped begins before a probe is answered and ends afterwards: its end frees the server.
#[test]
fn a_client_in_the_midst_of_a_dropped_message_does_not_keep_its_server() {
    let mut rig = full("");
    let client = rig.client();
    let server = does(&mut rig, client, "create temp table t (a int)");
    let mut data = Vec::new();
    Writer::new(&mut data).message(b'd', |b| b.extend(*b"for a copy that has failed"));
    rig.comes(client, &data[..12]);
    assert!(probes(&answers(&mut rig, server, NOTHING)));
    assert_eq!(rig.server_of(client), Some(server), "until the message has ended");
    rig.comes(client, &data[12..]);
    assert_eq!(rig.server_of(client), None);
}

/// Guards against a statement that is parsed under one search_path and shared under another. The settings must be
/// known, whether the SET has been answered but not probed, or not even answered, and whatever the client has prepared
/// before.
#[test]
fn a_parse_behind_a_set_waits_until_it_is_known_what_it_is_parsed_under() {
    const TENANT: Session = Session {
        settings: &[("search_path", "tenant")],
        ..NOTHING
    };
    for at_once in [false, true] {
        let mut rig = full("");
        let (setter, other) = (rig.client(), rig.client());
        let parses = |rig: &mut Rig, client: ClientId| {
            rig.says(client, |w| {
                w.parse(b"s", b"select name from who", &[0, 0]);
                w.sync();
            });
        };
        let server = if at_once {
            rig.says(setter, |w| w.query(b"set search_path = tenant"));
            parses(&mut rig, setter);
            let server = rig.server_of(setter).expect("linked");
            assert_eq!(rig.told(server), ["Query set search_path = tenant"]);
            rig.completes(server, "SET");
            server
        } else {
            let server = does(&mut rig, setter, "set search_path = tenant");
            parses(&mut rig, setter);
            server
        };
        let asked = answers(&mut rig, server, TENANT);
        assert!(
            asked.iter().any(|l| l.ends_with("pgweir_7")) && !asked.iter().any(|l| l.ends_with("from who")),
            "{asked:?}"
        );
        assert_eq!(
            answers_all(&mut rig, server, TENANT),
            ["Parse pgweir_10 select name from who", "Sync"]
        );
        assert_eq!(
            rig.told(setter)[2..],
            ["ParseComplete", "ReadyForQuery I"],
            "at_once: {at_once}"
        );
        parses(&mut rig, other);
        let asked = answers_all(&mut rig, server, NOTHING);
        assert!(
            asked.contains(&"Parse pgweir_11 select name from who".into()),
            "the server must say whether it can be parsed there: {asked:?}"
        );
    }
}

/// Guards against constants read under the wrong TimeZone. A server's first temporary object changes its search path,
/// and PostgreSQL analyses older statements again, under the settings of the client that uses them next.
#[test]
fn statements_from_before_a_servers_first_temporary_object_are_prepared_again() {
    let mut rig = full("");
    let (a, b) = (rig.client(), rig.client());
    rig.says(a, |w| {
        w.parse(b"z", b"select timestamptz '2020-01-01 00:00'", &[0, 0]);
        w.sync();
    });
    let server = rig.server_of(a).expect("linked");
    answers_all(&mut rig, server, NOTHING);
    let uses = |rig: &mut Rig| {
        rig.says(a, |w| {
            w.bind_text(b"z", &[]);
            w.execute();
            w.sync();
        });
        answers_all(rig, server, NOTHING)
    };
    let prepared_again = [
        "Close Spgweir_10",
        "Parse pgweir_10 select timestamptz '2020-01-01 00:00'",
        "Bind  pgweir_10",
        "Execute",
        "Sync",
    ];
    let bound = &prepared_again[2..];
    assert_eq!(uses(&mut rig), bound);
    does(&mut rig, b, "create temp table t (a int)");
    answers_all(&mut rig, server, TEMPORARY);
    does(&mut rig, b, "drop table t");
    answers_all(&mut rig, server, EMPTIED);
    assert_eq!(uses(&mut rig), prepared_again);
    // The server keeps the schema.
    does(&mut rig, b, "create temp table t (a int); drop table t");
    answers_all(&mut rig, server, EMPTIED);
    assert_eq!(uses(&mut rig), bound);
}

#[test]
fn a_query_behind_an_unseen_reset_waits_until_the_startup_values_are_made_again() {
    let mut rig = full("");
    let client = client_with_startup_value(&mut rig);
    // Only the probe shows what code has done.
    let server = does(&mut rig, client, "do $$begin reset all; end$$");
    rig.says(client, |w| w.query(b"select 2"));
    let told = answers(&mut rig, server, NOTHING);
    assert!(
        probes(&told) || told.iter().any(|l| l.ends_with("pgweir_7")),
        "{told:?}"
    );
    assert!(
        !told.contains(&"Query select 2".into()),
        "its work_mem is not what it must be"
    );
    let told = answers_all(&mut rig, server, NOTHING);
    let query = told
        .iter()
        .position(|line| line == "Query select 2")
        .expect("sent by now");
    let set = told.iter().position(|line| line.ends_with("pgweir_1"));
    assert!(set.is_some_and(|set| set < query), "{told:?}");
}

/// A server whose last client has made transactions deferrable by default, and a client with other settings.
fn deferrable_server(rig: &mut Rig) -> (ServerId, ClientId) {
    let (a, b) = (rig.client(), rig.client());
    rig.says(a, |w| w.query(b"set default_transaction_deferrable = on"));
    let server = rig.server_of(a).expect("linked");
    let deferrable = Session {
        settings: &[("default_transaction_deferrable", "on")],
        ..NOTHING
    };
    answers_all(rig, server, deferrable);
    (server, b)
}

/// Guards against settings that were lost without an error: an internal Parse took a snapshot, after which PostgreSQL
/// refuses `BEGIN .. NOT DEFERRABLE`.
#[test]
fn nothing_comes_before_the_begin_of_restored_settings() {
    let mut rig = full("");
    let (server, b) = deferrable_server(&mut rig);
    rig.says(b, |w| w.query(b"select 1"));
    let told = answers_all(&mut rig, server, NOTHING);
    let begin = "Parse pgweir_4 BEGIN TRANSACTION ISOLATION LEVEL READ COMMITTED NOT DEFERRABLE";
    assert_eq!(told[..3], [begin, "Bind  pgweir_4", "Execute"]);
    assert!(told.iter().any(|line| line.starts_with("Parse pgweir_1 ")), "{told:?}");
    assert_eq!(told.last().unwrap(), "Query select 1");
}

/// The same for DISCARD SEQUENCES.
#[test]
fn nothing_comes_before_the_begin_of_discarded_sequences() {
    let mut rig = full("");
    let asks = rig.client();
    let server = does(&mut rig, asks, "select lastval()");
    answers_all(&mut rig, server, NOTHING);
    rig.client_leaves(asks);
    answers_all(&mut rig, server, NOTHING);
    let (server, b) = deferrable_server(&mut rig);
    rig.says(b, |w| w.query(b"select 1"));
    let told = answers_all(&mut rig, server, NOTHING);
    assert!(told[0].starts_with("Parse pgweir_4 BEGIN"), "{told:?}");
    assert!(
        told.iter().any(|line| line == "Bind pgweir_portal pgweir_c"),
        "{told:?}"
    );
    assert_eq!(told.iter().filter(|line| *line == "Bind  pgweir_4").count(), 1);
}

#[test]
fn a_begin_of_restored_settings_that_is_refused_costs_the_server() {
    let mut rig = full("");
    let (server, b) = deferrable_server(&mut rig);
    rig.says(b, |w| w.query(b"select 1"));
    rig.told(server);
    rig.says(server, |w| {
        w.empty(b'1');
        w.empty(b'2');
        w.error(&error("25001", "must be called before any query"));
        w.ready_for_query(Idle);
    });
    assert!(rig.closed.contains(&server.into()));
    rig.servers_log_in();
    let other = rig.server_of(b).expect("it goes on elsewhere");
    assert_eq!(rig.told(other), ["Query select 1"]);
}

#[test]
fn a_try_lock_that_failed_does_not_pin() {
    let mut rig = full("");
    let client = rig.client();
    let server = does(&mut rig, client, "select pg_try_advisory_lock(1)");
    answers(&mut rig, server, NOTHING);
    assert_eq!(rig.server_of(client), None);
    let server = does(&mut rig, client, "select pg_try_advisory_lock(1)");
    answers(&mut rig, server, LOCKED);
    assert_eq!(rig.server_of(client), Some(server));
}

#[test]
fn the_end_of_the_last_temporary_object_unpins() {
    let mut rig = full("");
    let client = rig.client();
    let server = does(&mut rig, client, "create temp table t (a int)");
    answers(&mut rig, server, TEMPORARY);
    does(&mut rig, client, "select 1");
    assert_eq!(rig.told(server), Vec::<String>::new(), "an ordinary query ends nothing");
    does(&mut rig, client, "drop table t");
    assert!(probes(&answers(&mut rig, server, NOTHING)));
    assert_eq!(rig.server_of(client), None);
}

#[test]
fn a_client_that_leaves_under_a_probe_leaves_nothing_behind() {
    let mut rig = full("");
    let (client, next) = (rig.client(), rig.client());
    let server = does(&mut rig, client, "create temp table t (a int)");
    rig.says(next, |w| w.query(b"select 1"));
    rig.client_leaves(client);
    let told = answers(&mut rig, server, TEMPORARY);
    assert!(probes(&told));
    assert_eq!(rig.server_of(next), None, "not before it is cleaned");
    is_discarded(&mut rig, server);
    assert_eq!(rig.server_of(next), Some(server));
    assert_eq!(rig.told(server).last().map(String::as_str), Some("Query select 1"));
}

#[test]
fn a_pinned_client_that_leaves_has_its_server_discarded_before_anyone_gets_it() {
    let mut rig = full("");
    let (client, next) = (rig.client(), rig.client());
    let server = does(&mut rig, client, "select pg_advisory_lock(1)");
    answers(&mut rig, server, LOCKED);
    rig.says(next, |w| w.query(b"select 1"));
    rig.client_leaves(client);
    assert_eq!(rig.server_of(next), None);
    is_discarded(&mut rig, server);
    assert_eq!(rig.server_of(next), Some(server));
}

#[test]
fn a_probe_that_fails_is_asked_again_and_the_client_hears_nothing() {
    let mut rig = full("");
    let client = rig.client();
    let server = does(&mut rig, client, "create temp table t (a int)");
    rig.told(client);
    // Guards against an error of the internal Parse before the probe that is taken for the client's.
    probe_fails(&mut rig, server);
    assert_eq!(rig.told(client), Vec::<String>::new());
    answers(&mut rig, server, NOTHING);
    assert_eq!(rig.server_of(client), None);
    assert!(!rig.closed.contains(&server.into()));
}

/// Guards against state that is lost, or that other clients notice, because the server could not report it.
#[test]
fn a_client_whose_session_cannot_be_told_keeps_its_server_which_nobody_gets_after_it() {
    let mut rig = full("");
    let client = rig.client();
    let server = does(&mut rig, client, "create temp table t (a int)");
    for _ in 0..3 {
        probe_fails(&mut rig, server);
    }
    assert_eq!(rig.server_of(client), Some(server));
    rig.told(client);
    rig.says(client, |w| w.query(b"select 1"));
    assert_eq!(rig.told(server), ["Query select 1"]);
    rig.completes(server, "SELECT 1");
    assert_eq!(rig.server_of(client), Some(server));
    rig.client_leaves(client);
    assert!(rig.closed.contains(&server.into()), "what it looks like is not known");
}

/// A server refuses a probe, whose statements are prepared again.
fn probe_fails(rig: &mut Rig, server: ServerId) {
    let told = rig.told(server);
    let prepares = |line: &String| line.starts_with("Parse pgweir_6") || line.starts_with("Parse pgweir_7");
    assert!(told.iter().any(prepares), "{told:?}");
    rig.says(server, |w| {
        w.error(&error("XX000", "out of order"));
        w.ready_for_query(Idle);
    });
}

#[test]
fn a_server_that_dies_under_a_probe_takes_its_client_along() {
    let mut rig = full("");
    let client = rig.client();
    let server = does(&mut rig, client, "create temp table t (a int)");
    rig.told(client);
    rig.server_dies(server);
    assert!(rig.closed.contains(&client.into()), "its table is gone");
    assert!(rig.told(client).iter().any(|line| line.starts_with("Error")));
}

#[test]
fn pin_idle_timeout_ends_who_holds_a_pin_and_does_nothing() {
    let mut rig = full("pin_idle_timeout = 10");
    let client = rig.client();
    let server = does(&mut rig, client, "select pg_advisory_lock(1)");
    answers(&mut rig, server, LOCKED);
    rig.told(client);
    rig.wait(Duration::from_secs(9));
    assert!(!rig.closed.contains(&client.into()));
    rig.wait(Duration::from_secs(3));
    assert_eq!(rig.told(client), ["Error 57P05 pin_idle_timeout"]);
    assert_eq!(rig.told(server), ["Query DISCARD ALL", QUESTION]);
}

/// Guards against startup settings that were tried, and remembered for all clients, under the role of the server's last
/// client.
#[test]
fn startup_settings_are_judged_on_a_server_as_it_is_after_its_login() {
    let mut rig = full("");
    let a = rig.client();
    let server = does(&mut rig, a, "set role bob");
    answers_all(
        &mut rig,
        server,
        Session {
            settings: &[("role", "bob")],
            ..NOTHING
        },
    );
    let binds = |told: &[String]| told.iter().filter(|line| *line == "Bind  pgweir_1").count();
    let refused = rig.client_begins(&[("user", "u"), ("database", "db"), ("work_mem", "much")]);
    assert_eq!(binds(&answers(&mut rig, server, NOTHING)), 1, "RESET ROLE");
    assert_eq!(
        binds(&rig.told(server)),
        1,
        "and what is judged, when the server has reported what that came to"
    );
    rig.says(server, |w| {
        w.empty(b'2');
        w.error(&error("22023", "invalid value for parameter \"work_mem\": \"much\""));
        w.ready_for_query(Idle);
    });
    assert!(rig.told(refused).last().unwrap().starts_with("Error 22023"));
    let accepted = client_begins_with_work_mem(&mut rig);
    assert_eq!(binds(&answers_all(&mut rig, server, NOTHING)), 1, "the role is gone");
    assert!(rig.told(accepted).ends_with(&["ReadyForQuery I".into()]));
    rig.says(a, |w| w.query(b"select 1"));
    assert_eq!(
        binds(&answers_all(&mut rig, server, NOTHING)),
        2,
        "work_mem, and the role again"
    );
}

/// Guards against a login that is refused because the server's user has a default time limit, and another session holds
/// a lock.
#[test]
fn a_time_limit_does_not_judge_startup_settings() {
    let mut rig = full("");
    let other = rig.client();
    let server = does(&mut rig, other, "select 1");
    answers_all(&mut rig, server, NOTHING);
    let client = client_begins_with_work_mem(&mut rig);
    assert!(rig.told(server).contains(&"Bind  pgweir_1".to_string()));
    rig.says(server, |w| {
        w.empty(b'1');
        w.empty(b'2');
        w.error(&error("55P03", "canceling statement due to lock timeout"));
        w.ready_for_query(Idle);
    });
    assert_eq!(rig.told(client), [""; 0], "it goes on waiting");
    answers_all(&mut rig, server, NOTHING);
    assert!(rig.told(client).ends_with(&["ReadyForQuery I".into()]));
}

fn client_begins_with_work_mem(rig: &mut Rig) -> ClientId {
    rig.client_begins(&[("user", "u"), ("database", "db"), ("work_mem", "8MB")])
}

fn client_with_startup_value(rig: &mut Rig) -> ClientId {
    let client = client_begins_with_work_mem(rig);
    let server = rig.connects.pop_front().expect("a server for the login");
    rig.server_logs_in(server);
    answers_all(rig, server, NOTHING);
    rig.told(client);
    client
}

#[test]
fn reset_returns_to_the_startup_value_and_one_ready_for_query_is_told() {
    let mut rig = full("");
    let client = client_with_startup_value(&mut rig);
    rig.says(client, |w| {
        w.query(b"reset all");
        w.query(b"select 1");
    });
    let server = rig.server_of(client).unwrap();
    let made = Session {
        settings: &[("work_mem", "8192")],
        ..NOTHING
    };
    let told = answers(&mut rig, server, made);
    assert_eq!(told.last().map(String::as_str), Some("Query reset all"));
    let told = answers(&mut rig, server, made);
    assert_eq!(
        told.last().map(String::as_str),
        Some("Sync"),
        "what follows waits: {told:?}"
    );
    assert!(
        told.iter().any(|line| line.starts_with("Bind pgweir_portal ")),
        "{told:?}"
    );
    assert_eq!(rig.told(client), ["CommandComplete DONE", "ReadyForQuery I"]);
    assert!(answers_all(&mut rig, server, made).contains(&"Query select 1".to_string()));
}

/// A client whose startup packet names a role and work_mem, and that has given up the role.
fn client_without_its_startup_role(rig: &mut Rig) -> (ClientId, ServerId) {
    let client = rig.client_begins(&[("user", "u"), ("database", "db"), ("work_mem", "8MB"), ("role", "bob")]);
    let server = rig.connects.pop_front().expect("a server for the login");
    rig.server_logs_in(server);
    answers_all(rig, server, NOTHING);
    rig.told(client);
    rig.says(client, |w| w.query(b"set role none"));
    answers_all(rig, server, WITHOUT_ROLE);
    (client, server)
}

const WITHOUT_ROLE: Session = Session {
    settings: &[("work_mem", "8192"), ("role", "none")],
    ..NOTHING
};

/// Guards against SET ROLE NONE that is taken for RESET ROLE, if the startup packet names a role.
#[test]
fn who_gives_up_the_role_of_its_startup_packet_does_not_get_it_back() {
    let mut rig = full("");
    let (client, server) = client_without_its_startup_role(&mut rig);
    rig.says(client, |w| w.query(b"select 1"));
    assert_eq!(answers(&mut rig, server, WITHOUT_ROLE), ["Query select 1"]);
    rig.says(client, |w| w.query(b"reset role"));
    let told = answers_all(&mut rig, server, WITHOUT_ROLE);
    let makes = |line: &&String| line.starts_with("Bind pgweir_portal ");
    assert_eq!(told.iter().filter(makes).count(), 1, "{told:?}");
}

/// Guards against the role of the startup packet for a client that has given it up: after the last of the failed probes,
/// the pooler forgot what they were about, and took the next answer for that to a RESET ROLE.
#[test]
fn who_gave_up_its_role_before_failed_probes_does_not_get_it_back_after_them() {
    let mut rig = full("");
    let client = rig.client_begins(&[("user", "u"), ("database", "db"), ("role", "bob")]);
    let server = rig.connects.pop_front().expect("a server for the login");
    rig.server_logs_in(server);
    answers_all(&mut rig, server, NOTHING);
    rig.says(client, |w| w.query(b"select 0"));
    answers_all(&mut rig, server, NOTHING);
    rig.told(client);
    rig.says(client, |w| w.query(b"set role none"));
    rig.told(server);
    rig.completes(server, "SET");
    for _ in 0..3 {
        probe_fails(&mut rig, server);
    }
    assert_eq!(rig.told(server), [""; 0], "asked no more, for now");
    rig.says(client, |w| w.query(b"select 1"));
    assert_eq!(answers_all(&mut rig, server, NOTHING), ["Query select 1"]);
    rig.says(client, |w| w.query(b"set work_mem = '1MB'"));
    let told = answers_all(
        &mut rig,
        server,
        Session {
            settings: &[("work_mem", "1024"), ("role", "none")],
            ..NOTHING
        },
    );
    assert!(told.contains(&"Bind  pgweir_7".to_string()), "asked again: {told:?}");
    assert!(
        !told.contains(&"Bind  pgweir_1".to_string()),
        "no role is set: {told:?}"
    );
}

/// Guards against setting the role of the startup packet again behind RESET ALL, which does not change the role.
#[test]
fn reset_all_leaves_the_role() {
    let mut rig = full("");
    let (client, server) = client_without_its_startup_role(&mut rig);
    rig.says(client, |w| w.query(b"reset all"));
    let told = answers_all(&mut rig, server, WITHOUT_ROLE);
    let makes = |line: &&String| line.starts_with("Bind pgweir_portal ");
    assert_eq!(told.iter().filter(makes).count(), 1, "work_mem alone: {told:?}");
    rig.says(client, |w| w.query(b"discard all"));
    let told = answers_all(&mut rig, server, WITHOUT_ROLE);
    assert_eq!(told.iter().filter(makes).count(), 2, "the role, too: {told:?}");
}

/// Guards against reporting the server's startup value to the client, and against a client's setting that is overlooked
/// because the client has set it to the server's startup value.
#[test]
fn a_reset_among_other_statements_returns_to_the_startup_value_if_it_was_not_undone() {
    for (error, status) in [(false, Idle), (true, Idle), (false, InTransaction)] {
        let mut rig = full("deferred_begin = 0");
        let client = client_with_startup_value(&mut rig);
        if status == InTransaction {
            does(&mut rig, client, "begin");
        }
        rig.says(client, |w| w.query(b"select 1; reset work_mem"));
        rig.says(client, |w| w.query(b"select 2"));
        let server = rig.server_of(client).unwrap();
        let told = answers_to_query(&mut rig, server, error, status);
        assert_eq!(told.last().map(String::as_str), Some("Query select 1; reset work_mem"));
        let made = Session {
            settings: if error { &[] } else { &[("work_mem", "8192")] },
            ..NOTHING
        };
        let told = answers_all(&mut rig, server, made);
        let makes = told.iter().any(|line| line.starts_with("Bind pgweir_portal "));
        assert_eq!(makes, !error, "{told:?}");
        assert!(told.iter().any(|line| line == "Query select 2"), "{told:?}");
    }
}

/// Guards against a session with the server's startup value, because a DEALLOCATE ALL that was not answered yet had
/// ended the internal statement.
#[test]
fn startup_values_are_made_behind_an_unanswered_deallocate_all() {
    for mode in ["transaction", "session"] {
        let mut rig = full(&format!("pool_mode = {mode}"));
        let client = client_with_startup_value(&mut rig);
        rig.says(client, |w| {
            w.query(b"select 1; deallocate all");
            w.query(b"reset all");
        });
        let server = rig.server_of(client).unwrap();
        let mut told = rig.told(server);
        rig.says(server, |w| {
            w.command_complete("SELECT 1");
            w.command_complete("DEALLOCATE ALL");
            w.ready_for_query(Idle);
            w.command_complete("RESET");
            w.ready_for_query(Idle);
        });
        told.extend(rig.told(server));
        let behind = told
            .iter()
            .position(|line| line.starts_with("Query reset all"))
            .unwrap();
        let uses = |line: &String| line.starts_with("Bind pgweir_portal ");
        let used = told.iter().position(uses).unwrap();
        let parsed = told[behind..used].iter().any(|line| line.contains("set_config"));
        assert!(parsed, "{mode}: {told:?}");
    }
}

/// Guards against the error of internal statements, which a failed transaction refuses, being sent to the client.
#[test]
fn a_reset_in_a_failed_transaction_has_one_error() {
    let mut rig = full("deferred_begin = 0");
    let client = client_with_startup_value(&mut rig);
    rig.says(client, |w| w.query(b"begin"));
    let server = rig.server_of(client).unwrap();
    rig.says(server, |w| {
        w.command_complete("BEGIN");
        w.ready_for_query(InTransaction);
    });
    rig.says(client, |w| w.query(b"selec"));
    let refuse = |rig: &mut Rig| {
        rig.says(server, |w| {
            w.error(&error("25P02", "current transaction is aborted"));
            w.ready_for_query(Failed);
        });
    };
    refuse(&mut rig);
    rig.told(client);
    rig.says(client, |w| w.query(b"reset all"));
    refuse(&mut rig);
    assert_eq!(
        rig.told(client),
        ["Error 25P02 current transaction is aborted", "ReadyForQuery E"]
    );
}

/// Guards against a server that stays with its client until the client sends its next message, because a Sync among the
/// data of a COPY was taken for the last request.
#[test]
fn a_copy_whose_end_was_sent_before_it_began_gives_the_server_back() {
    let mut rig = full("");
    let client = rig.client();
    rig.says(client, |w| {
        w.parse(b"", b"copy t from stdin", &[0, 0]);
        w.bind_text(b"", &[]);
        w.execute();
        w.sync();
        w.message(b'd', |b| b.extend(*b"1\n"));
        w.empty(b'c');
        w.sync();
    });
    let server = rig.server_of(client).unwrap();
    rig.says(server, |w| {
        w.empty(b'1');
        w.empty(b'2');
        w.message(b'G', |b| b.extend([0, 0, 0]));
        w.command_complete("COPY 1");
        w.ready_for_query(Idle);
    });
    assert_eq!(rig.server_of(client), None);
}

/// Guards against an internal Bind that destroys the unnamed portal, which the client executes twice.
#[test]
fn startup_values_are_made_in_a_portal_of_their_own() {
    let mut rig = full("");
    let client = client_with_startup_value(&mut rig);
    rig.says(client, |w| {
        w.parse(b"", b"reset all", &[0, 0]);
        w.bind_text(b"", &[]);
        w.execute();
        w.execute();
        w.sync();
    });
    let server = rig.server_of(client).unwrap();
    let told = rig.told(server);
    let binds: Vec<&String> = told.iter().filter(|line| line.starts_with("Bind")).collect();
    assert!(
        binds.iter().any(|line| line.starts_with("Bind pgweir_portal ")),
        "{told:?}"
    );
    assert!(!binds.contains(&&"Bind  pgweir_1".to_string()), "{told:?}");
}

/// Guards against the use of an internal statement that the client's DISCARD ALL has ended with all others.
#[test]
fn discard_all_in_session_pooling_ends_internal_statements_too() {
    let mut rig = full("pool_mode = session");
    let client = client_with_startup_value(&mut rig);
    rig.says(client, |w| w.query(b"discard all"));
    let server = rig.server_of(client).unwrap();
    let told = answers_all(&mut rig, server, NOTHING);
    let at = |start: &str| told.iter().position(|line| line.starts_with(start));
    let parse = at("Parse pgweir_1 SELECT pg_catalog.set_config");
    assert!(parse > at("Query discard all"), "{told:?}");
}

/// Guards against a RESET in the extended protocol that leaves the client with the pool's value.
#[test]
fn a_reset_by_execute_in_session_pooling_returns_to_the_startup_value() {
    let mut rig = full("pool_mode = session");
    let client = client_with_startup_value(&mut rig);
    let server_is_told = |rig: &mut Rig| {
        let server = rig.server_of(client).unwrap();
        answers_all(rig, server, NOTHING)
    };
    let made = |told: &[String]| told.iter().any(|line| line.starts_with("Bind pgweir_portal "));
    rig.says(client, |w| {
        w.parse(b"r", b"reset work_mem", &[0, 0]);
        w.parse(b"n", b"select 1", &[0, 0]);
        w.sync();
    });
    server_is_told(&mut rig);
    let uses = |rig: &mut Rig, name: &[u8]| {
        rig.says(client, |w| {
            w.bind_text(name, &[]);
            w.execute();
            w.sync();
        });
        server_is_told(rig)
    };
    let told = uses(&mut rig, b"r");
    assert!(made(&told), "{told:?}");
    assert_eq!(
        told.last().map(String::as_str),
        Some("Sync"),
        "before the ReadyForQuery, so that nothing of it is reported"
    );
    let told = uses(&mut rig, b"n");
    assert!(!made(&told), "{told:?}");
    // The name now means something else.
    rig.says(client, |w| {
        w.close(b'S', b"r");
        w.parse(b"r", b"select 2", &[0, 0]);
        w.sync();
    });
    server_is_told(&mut rig);
    let told = uses(&mut rig, b"r");
    assert!(!made(&told), "{told:?}");
}

/// Guards against settings that are sent in the midst of a COPY, because the portal's name once meant a RESET: the
/// server takes them for broken data and ends the connection.
#[test]
fn a_portal_that_is_bound_anew_resets_nothing() {
    for mode in ["transaction", "session"] {
        let mut rig = full(&format!("pool_mode = {mode}"));
        let client = client_with_startup_value(&mut rig);
        rig.says(client, |w| {
            w.parse(b"r", b"reset work_mem", &[0, 0]);
            w.parse(b"c", b"copy t from stdin", &[0, 0]);
            w.bind_portal(b"p", b"r", &[]);
            w.close(b'P', b"p");
            w.bind_portal(b"p", b"c", &[]);
            w.execute_portal(b"p");
            w.sync();
        });
        let server = rig.server_of(client).expect("linked");
        let told = rig.told(server);
        assert!(
            !told.iter().any(|line| line.starts_with("Bind pgweir_portal")),
            "{mode}: {told:?}"
        );
    }
}

/// Guards against an internal statement that is prepared while the server holds it, so that the startup value is lost:
/// a portal was bound to a DEALLOCATE ALL, and then to a statement that deallocates nothing.
#[test]
fn a_portal_that_is_bound_anew_deallocates_nothing() {
    let mut rig = full("pool_mode = session");
    let client = client_with_startup_value(&mut rig);
    for text in [&b"deallocate all"[..], b"select 1"] {
        rig.says(client, |w| {
            w.parse(b"", text, &[0, 0]);
            w.bind_text(b"", &[]);
            if text == b"select 1" {
                w.execute();
            }
            w.sync();
        });
        let server = rig.server_of(client).unwrap();
        answers_all(&mut rig, server, NOTHING);
    }
    rig.says(client, |w| w.query(b"reset work_mem"));
    let server = rig.server_of(client).unwrap();
    let told = answers_all(&mut rig, server, NOTHING);
    assert!(
        told.iter().any(|line| line.starts_with("Bind pgweir_portal")),
        "{told:?}"
    );
    if let Some(parse) = told.iter().position(|line| line.starts_with("Parse")) {
        assert!(told[parse - 1].starts_with("Close"), "{told:?}");
    }
}

/// Guards against a lost startup value: a DEALLOCATE ALL before the RESET failed, so the internal statement still
/// existed when it was prepared.
#[test]
fn startup_values_are_made_behind_a_deallocate_all_that_fails() {
    let mut rig = full("pool_mode = session");
    let client = client_with_startup_value(&mut rig);
    rig.says(client, |w| {
        w.parse(b"", b"deallocate all", &[0, 0]);
        w.bind_text(b"", &[]);
        w.execute();
        w.sync();
        w.query(b"reset work_mem");
    });
    let server = rig.server_of(client).unwrap();
    rig.told(server);
    rig.says(server, |w| {
        w.empty(b'1');
        w.empty(b'2');
        w.error(&error("57014", "canceling statement due to user request"));
        w.ready_for_query(Idle);
        w.command_complete("RESET");
        w.ready_for_query(Idle);
    });
    let told = answers_all(&mut rig, server, NOTHING);
    assert!(
        told.iter().any(|line| line.starts_with("Bind pgweir_portal")),
        "{told:?}"
    );
    let set_config = |line: &String| line.starts_with("Parse") && line.contains("set_config");
    if let Some(parse) = told.iter().position(set_config) {
        assert!(told[parse - 1].starts_with("Close"), "{told:?}");
    }
}

/// Guards against the use of an internal statement that an Execute of DEALLOCATE ALL has ended with the client's.
#[test]
fn deallocate_all_by_execute_in_session_pooling_ends_internal_statements_too() {
    let mut rig = full("pool_mode = session");
    let client = client_with_startup_value(&mut rig);
    for text in [&b"deallocate all"[..], b"reset work_mem"] {
        rig.says(client, |w| {
            w.parse(b"", text, &[0, 0]);
            w.bind_text(b"", &[]);
            w.execute();
            w.sync();
        });
    }
    let server = rig.server_of(client).unwrap();
    let told = answers_all(&mut rig, server, NOTHING);
    let at = |start: &str| told.iter().position(|line| line.starts_with(start));
    assert!(at("Parse pgweir_b SELECT pg_catalog.set_config").is_some(), "{told:?}");
    assert!(
        at("Parse pgweir_b SELECT pg_catalog.set_config") < at("Bind pgweir_portal pgweir_b"),
        "{told:?}"
    );
}

/// Guards against a client in session pooling that runs without its startup values: a cancel of its DISCARD ALL has hit
/// the set_config calls behind it, in the client's segment.
#[test]
fn startup_values_behind_a_discard_all_survive_a_cancel() {
    let mut rig = full("pool_mode = session");
    let client = client_with_startup_value(&mut rig);
    rig.says(client, |w| {
        w.parse(b"", b"discard all", &[0, 0]);
        w.bind_text(b"", &[]);
        w.execute();
        w.sync();
    });
    let server = rig.server_of(client).unwrap();
    let told = rig.told(server);
    assert!(
        told.iter().any(|line| line.starts_with("Bind pgweir_portal ")),
        "{told:?}"
    );
    rig.says(server, |w| {
        w.empty(b'1');
        w.empty(b'2');
        w.command_complete("DISCARD ALL");
        w.error(&error("57014", "canceling statement due to user request"));
        w.ready_for_query(Idle);
    });
    let heard = rig.told(client);
    assert!(
        heard.last().unwrap().starts_with("Error 57014"),
        "not ready yet: {heard:?}"
    );
    rig.says(client, |w| w.query(b"select 1"));
    let told = answers(&mut rig, server, NOTHING);
    let binds = |told: &[String]| told.iter().any(|line| line.starts_with("Bind pgweir_portal "));
    assert!(binds(&told) && told.last().unwrap() == "Sync", "{told:?}");
    assert_eq!(rig.told(client), ["ReadyForQuery I"]);
    assert_eq!(answers(&mut rig, server, NOTHING), ["Query select 1"]);
    // A later segment that fails does not undo them.
    rig.told(client);
    rig.says(client, |w| {
        w.bind_text(b"no such statement", &[]);
        w.sync();
    });
    rig.told(server);
    rig.says(server, |w| {
        w.error(&error("26000", "no such statement"));
        w.ready_for_query(Idle);
    });
    assert_eq!(rig.told(client).last().unwrap(), "ReadyForQuery I");
}
