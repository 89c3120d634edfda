//! RESET returns to the startup value of its client.

use super::session::{answers_to_query, client_with_startup_value, does, probes};
use crate::rig::{NOTHING, Rig, Session, error};
use pgweir_wire::TransactionStatus::{Failed, Idle, InTransaction};

#[test]
fn a_query_behind_an_unseen_reset_waits_until_the_startup_values_are_made_again() {
    let mut rig = Rig::one_server("");
    let client = client_with_startup_value(&mut rig);
    // Only the probe shows what code has done.
    let server = does(&mut rig, client, "do $$begin reset all; end$$");
    rig.says(client, |w| w.query(b"select 2"));
    let told = rig.answers_about(server, NOTHING);
    assert!(
        probes(&told) || told.iter().any(|l| l.ends_with("pgweir_7")),
        "{told:?}"
    );
    assert!(
        !told.contains(&"Query select 2".into()),
        "its work_mem is not what it must be"
    );
    let told = rig.answers_all_about(server, NOTHING);
    let query = told
        .iter()
        .position(|line| line == "Query select 2")
        .expect("sent by now");
    let set = told.iter().position(|line| line.ends_with("pgweir_1"));
    assert!(set.is_some_and(|set| set < query), "{told:?}");
}

#[test]
fn reset_returns_to_the_startup_value_and_one_ready_for_query_is_told() {
    let mut rig = Rig::one_server("");
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
    let told = rig.answers_about(server, made);
    assert_eq!(told.last().map(String::as_str), Some("Query reset all"));
    let told = rig.answers_about(server, made);
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
    assert!(
        rig.answers_all_about(server, made)
            .contains(&"Query select 1".to_string())
    );
}

/// Guards against reporting the server's startup value to the client, and against a client's setting that is overlooked
/// because the client has set it to the server's startup value.
#[test]
fn a_reset_among_other_statements_returns_to_the_startup_value_if_it_was_not_undone() {
    for (error, status) in [(false, Idle), (true, Idle), (false, InTransaction)] {
        let mut rig = Rig::one_server("deferred_begin = 0");
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
        let told = rig.answers_all_about(server, made);
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
        let mut rig = Rig::one_server(&format!("pool_mode = {mode}"));
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
    let mut rig = Rig::one_server("deferred_begin = 0");
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
    let mut rig = Rig::one_server("");
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
    let mut rig = Rig::one_server("");
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

/// Guards against a client whose startup values are lost by a RESET: the pooler took its name for another statement's,
/// whose Parse the server had ignored.
#[test]
fn an_ignored_parse_or_close_changes_no_meaning() {
    for closes in [false, true] {
        let mut rig = Rig::one_server("pool_mode = session");
        let client = client_with_startup_value(&mut rig);
        rig.says(client, |w| {
            w.parse(b"r", b"reset work_mem", &[0, 0]);
            w.sync();
        });
        let server = rig.server_of(client).expect("linked");
        rig.says(server, |w| {
            w.empty(b'1');
            w.ready_for_query(Idle);
        });
        rig.says(client, |w| {
            w.bind_text(b"nothing", &[]);
            match closes {
                true => w.close(b'S', b"r"),
                false => w.parse(b"r", b"select 1", &[0, 0]),
            }
            w.sync();
        });
        rig.says(server, |w| {
            w.error(&error("26000", "no such statement"));
            w.ready_for_query(Idle);
        });
        rig.told(server);
        rig.says(client, |w| {
            w.bind_text(b"r", &[]);
            w.execute();
            w.sync();
        });
        let told = rig.told(server);
        let makes = told.iter().any(|line| line.starts_with("Bind pgweir_portal"));
        assert!(makes, "closes {closes}: {told:?}");
    }
}

/// Guards against settings that are sent in the midst of a COPY, because the portal's name once meant a RESET: the
/// server takes them for broken data and ends the connection.
#[test]
fn a_portal_that_is_bound_anew_resets_nothing() {
    for mode in ["transaction", "session"] {
        let mut rig = Rig::one_server(&format!("pool_mode = {mode}"));
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

/// Guards against a lost startup value: a Bind of another portal ended the record of the RESET.
#[test]
fn a_reset_is_known_behind_a_bind_of_another_portal() {
    let mut rig = Rig::one_server("");
    let client = client_with_startup_value(&mut rig);
    rig.says(client, |w| {
        w.parse(b"r", b"reset work_mem", &[0, 0]);
        w.parse(b"s", b"set app.a = 'b'", &[0, 0]);
        w.bind_portal(b"p", b"r", &[]);
        w.bind_portal(b"q", b"s", &[]);
        w.execute_portal(b"p");
        w.execute_portal(b"q");
        w.sync();
    });
    let server = rig.server_of(client).expect("linked");
    let told = rig.told(server);
    assert!(
        told.iter().any(|line| line.starts_with("Bind pgweir_portal")),
        "{told:?}"
    );
}

/// A portal `p` of a RESET, or none, and a Bind of `p` to the other statement that the server refuses. The client has
/// gone back to a savepoint. Returns whether the startup value is set behind an Execute of `p`.
fn resets_after_a_refused_bind(had_reset: bool) -> bool {
    let mut rig = Rig::one_server("");
    let client = client_with_startup_value(&mut rig);
    let server_of = |rig: &Rig| rig.server_of(client).expect("linked");
    rig.says(client, |w| w.query(b"begin; select 1"));
    let server = server_of(&rig);
    let completes = |rig: &mut Rig, tag: &str| {
        rig.says(server, |w| {
            w.command_complete(tag);
            w.ready_for_query(InTransaction);
        });
    };
    completes(&mut rig, "SELECT 1");
    let (first, second): (&[u8], &[u8]) = if had_reset { (b"r", b"s") } else { (b"s", b"r") };
    rig.says(client, |w| {
        w.parse(b"r", b"reset work_mem", &[0, 0]);
        w.parse(b"s", b"select 1", &[0, 0]);
        w.bind_portal(b"p", first, &[]);
        w.sync();
    });
    rig.says(server, |w| {
        w.empty(b'1');
        w.empty(b'1');
        w.empty(b'2');
        w.ready_for_query(InTransaction);
    });
    rig.says(client, |w| w.query(b"savepoint a"));
    completes(&mut rig, "SAVEPOINT");
    rig.says(client, |w| {
        w.bind_portal(b"p", second, &[]);
        w.sync();
    });
    rig.says(server, |w| {
        w.error(&error("42P03", "cursor \"p\" already exists"));
        w.ready_for_query(Failed);
    });
    rig.says(client, |w| w.query(b"rollback to a"));
    completes(&mut rig, "ROLLBACK");
    rig.told(server);
    rig.says(client, |w| {
        w.execute_portal(b"p");
        w.sync();
    });
    let told = rig.told(server);
    assert_eq!(told[0], "Execute", "{told:?}");
    told.iter().any(|line| line.starts_with("Bind pgweir_portal"))
}

#[test]
fn a_bind_that_the_server_refuses_leaves_the_portal_as_it_was() {
    assert!(resets_after_a_refused_bind(true));
    assert!(!resets_after_a_refused_bind(false));
}

/// Guards against a startup value that is set over the client's SET: a cursor has the name of a portal that ended with
/// its transaction.
#[test]
fn a_portal_of_a_reset_ends_with_its_transaction() {
    let mut rig = Rig::one_server("");
    let client = client_with_startup_value(&mut rig);
    rig.says(client, |w| {
        w.parse(b"r", b"reset work_mem", &[0, 0]);
        w.bind_portal(b"p", b"r", &[]);
        w.sync();
    });
    let server = rig.server_of(client).expect("linked");
    rig.answers_all_about(server, NOTHING);
    rig.says(client, |w| w.query(b"begin; declare p cursor for select 1"));
    rig.answers_about(server, NOTHING);
    assert_eq!(rig.told(server), ["Query begin; declare p cursor for select 1"]);
    rig.says(server, |w| {
        w.command_complete("DECLARE CURSOR");
        w.ready_for_query(InTransaction);
    });
    rig.told(server);
    rig.says(client, |w| {
        w.execute_portal(b"p");
        w.sync();
    });
    assert_eq!(rig.told(server), ["Execute", "Sync"]);
}

/// Two portals of RESETs may be open at one time.
#[test]
fn each_portal_of_a_reset_is_known() {
    let mut rig = Rig::one_server("");
    let client = client_with_startup_value(&mut rig);
    rig.says(client, |w| {
        w.parse(b"r", b"reset work_mem", &[0, 0]);
        w.parse(b"d", b"reset datestyle", &[0, 0]);
        w.bind_portal(b"p", b"r", &[]);
        w.bind_portal(b"q", b"d", &[]);
        w.execute_portal(b"p");
        w.sync();
    });
    let server = rig.server_of(client).expect("linked");
    let told = rig.told(server);
    assert!(
        told.iter().any(|line| line.starts_with("Bind pgweir_portal")),
        "{told:?}"
    );
}

/// Guards against a lost startup value: a DEALLOCATE ALL before the RESET failed, so the internal statement still
/// existed when it was prepared.
#[test]
fn startup_values_are_made_behind_a_deallocate_all_that_fails() {
    let mut rig = Rig::one_server("pool_mode = session");
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
    let told = rig.answers_all_about(server, NOTHING);
    assert!(
        told.iter().any(|line| line.starts_with("Bind pgweir_portal")),
        "{told:?}"
    );
    let set_config = |line: &String| line.starts_with("Parse") && line.contains("set_config");
    if let Some(parse) = told.iter().position(set_config) {
        assert!(told[parse - 1].starts_with("Close"), "{told:?}");
    }
}
