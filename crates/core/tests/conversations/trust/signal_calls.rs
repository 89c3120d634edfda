//! pg_terminate_backend() and pg_cancel_backend() with the process id of a client.

use crate::rig::{Rig, error};
use pgweir_core::{ClientId, ServerId};
use pgweir_wire::TransactionStatus;

/// The answer to the question whether the client may call the function.
fn says_whether_it_may(rig: &mut Rig, server: ServerId, may: bool) {
    let told = rig.told(server);
    assert!(told.iter().any(|l| l.contains("has_function_privilege")), "{told:?}");
    let row = if may { b"t" } else { b"f" };
    rig.says(server, |w| {
        for request in &told {
            match request.split(' ').next() {
                Some("Parse") => w.empty(b'1'),
                Some("Close") => w.empty(b'3'),
                Some("Bind") => w.empty(b'2'),
                Some("Execute") => {
                    w.data_row(1, [Some(&row[..])]);
                    w.command_complete("SELECT 1");
                }
                Some("Sync") => w.ready_for_query(TransactionStatus::Idle),
                _ => {}
            }
        }
    });
}

/// A caller, its server, and a victim with its process id.
fn caller_and_victim() -> (Rig, ClientId, ServerId, ClientId, u32) {
    let mut rig = Rig::new("default_pool_size = 1");
    let victim = rig.client_begins(&[("user", "u"), ("database", "db")]);
    rig.servers_log_in();
    let process_id = rig.key_told(victim).process_id;
    let caller = rig.client_begins(&[("user", "u"), ("database", "db")]);
    rig.query(caller, "select 1");
    let server = rig.server_of(caller).expect("linked");
    rig.told(server);
    rig.completes(server, "SELECT 1");
    rig.told(caller);
    (rig, caller, server, victim, process_id)
}

/// Guards against carrying out a call that PostgreSQL would refuse, or that means another function.
#[test]
fn a_call_that_the_server_does_not_grant_goes_to_it_unchanged() {
    let (mut rig, caller, server, victim, process_id) = caller_and_victim();
    let text = format!("select pg_terminate_backend({process_id})");
    rig.query(caller, &text);
    assert!(!rig.is_closed(victim), "it is asked first");
    says_whether_it_may(&mut rig, server, false);
    assert_eq!(rig.told(server), [format!("Query {text}")]);
    assert!(!rig.is_closed(victim));
    rig.completes(server, "SELECT 1");
    rig.told(caller);
    // The next call is asked about again.
    rig.query(caller, &text);
    says_whether_it_may(&mut rig, server, true);
    assert!(rig.is_closed(victim));
    assert_eq!(rig.told(server), ["Query SELECT true AS pg_terminate_backend"]);
}

/// Guards against ending the client's segment by the question, and against an error that the client does not hear of.
#[test]
fn a_bind_waits_for_the_question_within_its_segment() {
    for fails in [false, true] {
        let (mut rig, caller, server, victim, process_id) = caller_and_victim();
        rig.says(caller, |w| {
            w.parse(b"", b"select pg_terminate_backend($1)", &[0, 0]);
            w.bind_text(b"", &[Some(process_id.to_string().as_bytes())]);
            w.execute_portal(b"");
            w.sync();
        });
        assert!(!rig.is_closed(victim), "it is asked first");
        if fails {
            rig.told(server);
            rig.says(server, |w| w.empty(b'1'));
            rig.says(server, |w| {
                w.error(&error("57014", "canceling statement due to statement timeout"))
            });
            assert_eq!(rig.told(server), ["Sync"]);
            rig.says(server, |w| w.ready_for_query(TransactionStatus::Idle));
            let told = rig.told(caller);
            assert!(told.iter().any(|l| l.contains("57014")), "{told:?}");
            assert!(!rig.is_closed(victim));
            continue;
        }
        says_whether_it_may(&mut rig, server, true);
        assert!(rig.is_closed(victim));
        let told = rig.told(server);
        assert!(told.iter().any(|l| l.contains("SELECT true AS")), "{told:?}");
        assert_eq!(told.last().map(String::as_str), Some("Sync"));
    }
}

/// Guards against a client that waits for ever.
#[test]
fn a_call_behind_a_deferred_begin_is_answered_whatever_becomes_of_the_begin() {
    for refused in [false, true] {
        let (mut rig, caller, server, victim, process_id) = caller_and_victim();
        rig.query(caller, "begin");
        rig.told(caller);
        rig.says(caller, |w| {
            w.parse(b"", b"select pg_terminate_backend($1)", &[0, 0]);
            w.bind_text(b"", &[Some(process_id.to_string().as_bytes())]);
            w.execute_portal(b"");
            w.sync();
        });
        let told = rig.told(server);
        assert_eq!(told.last().map(String::as_str), Some("Sync"), "{told:?}");
        rig.says(server, |w| {
            w.empty(b'1');
            if refused {
                w.error(&error("57014", "canceling statement due to user request"));
                w.ready_for_query(TransactionStatus::Idle);
                return;
            }
            w.empty(b'2');
            w.command_complete("BEGIN");
            w.empty(b'3');
            w.ready_for_query(TransactionStatus::InTransaction);
        });
        if refused {
            // It goes on in a transaction that fails.
            let told = rig.told(server);
            assert!(
                told.iter().any(|l| l.contains("the transaction has failed")),
                "{told:?}"
            );
            assert_eq!(told.last().map(String::as_str), Some("Sync"), "{told:?}");
            assert!(!rig.is_closed(victim));
            continue;
        }
        says_whether_it_may(&mut rig, server, true);
        assert!(rig.is_closed(victim));
    }
}

/// Guards against sending a call that the pooler must handle itself to a server, which does not know the process id.
#[test]
fn a_client_is_ended_by_the_process_id_it_was_told() {
    let mut rig = Rig::one_server("");
    let client = rig.client_begins(&[("user", "u"), ("database", "db")]);
    rig.servers_log_in();
    let process_id = rig.key_told(client).process_id;
    rig.told(client);
    rig.says(client, |w| w.query(b"select 1"));
    let server = rig.server_of(client).expect("linked");
    rig.completes(server, "SELECT 1");
    rig.told(server);
    rig.told(client);
    rig.says(client, |w| {
        w.query(format!("select pg_terminate_backend({process_id})").as_bytes())
    });
    says_whether_it_may(&mut rig, server, true);
    assert_eq!(rig.told(server), [""; 0]);
    assert!(rig.told(client)[0].contains("57P01"));
    assert!(rig.closed.contains(&client.into()));
}

/// A superuser of one PostgreSQL is nobody on another one, and users of one name are different people there.
#[test]
fn a_client_of_another_postgresql_has_no_process_id_here() {
    const DATABASES: &str = "db = host=127.0.0.1 user=u\nsame = host=127.0.0.1 user=u dbname=x\n\
                             port = host=127.0.0.1 user=u port=1\nmore = host=127.0.0.1,127.0.0.2 user=u\n\
                             host = host=127.0.0.2 user=u";
    for (database, user, may) in [
        ("same", "u", true),
        ("same", "other", true),
        ("port", "u", false),
        ("port", "other", false),
        ("more", "u", false),
        ("host", "other", false),
    ] {
        let mut rig = Rig::with(DATABASES, "auth_type = any");
        let victim = rig.client_begins(&[("user", user), ("database", database)]);
        rig.servers_log_in();
        let process_id = rig.key_told(victim).process_id;
        let caller = rig.client_begins(&[("user", "u"), ("database", "db")]);
        let server = rig.connects.pop_front().expect("a server is wanted");
        rig.server_logs_in_with(server, &[("is_superuser", "on")]);
        rig.told(caller);
        rig.says(caller, |w| {
            w.query(format!("select pg_terminate_backend({process_id})").as_bytes())
        });
        if may {
            says_whether_it_may(&mut rig, server, true);
        }
        assert_eq!(rig.is_closed(victim), may, "{database} {user}");
    }
}

/// Guards against a user whose entry gives it a weaker role on the server.
#[test]
fn a_client_signals_only_clients_with_its_role_on_the_server() {
    const DATABASES: &str = "weak = host=127.0.0.1 user=reader dbname=db\nstrong = host=127.0.0.1 user=owner dbname=db";
    for (database, may) in [("weak", true), ("strong", false)] {
        let mut rig = Rig::with_databases_and_users(DATABASES, "", "\"alice\" \"\"");
        let victim = rig.client_begins(&[("user", "alice"), ("database", database)]);
        rig.servers_log_in();
        let process_id = rig.key_told(victim).process_id;
        let caller = rig.client_begins(&[("user", "alice"), ("database", "weak")]);
        rig.servers_log_in();
        rig.told(caller);
        rig.query(caller, &format!("select pg_terminate_backend({process_id})"));
        if may {
            let server = rig.server_of(caller).expect("linked");
            says_whether_it_may(&mut rig, server, true);
        }
        assert_eq!(rig.is_closed(victim), may, "{database}");
    }
}
