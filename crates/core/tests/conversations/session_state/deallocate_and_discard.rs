//! DEALLOCATE ALL, DISCARD ALL and RESET by EXECUTE, beside internal statements.

use super::session::client_with_startup_value;
use crate::rig::{NOTHING, Rig, error};
use pgweir_wire::TransactionStatus::Idle;

/// Guards against the use of an internal statement that the client's DISCARD ALL has ended with all others.
#[test]
fn discard_all_in_session_pooling_ends_internal_statements_too() {
    let mut rig = Rig::one_server("pool_mode = session");
    let client = client_with_startup_value(&mut rig);
    rig.says(client, |w| w.query(b"discard all"));
    let server = rig.server_of(client).unwrap();
    let told = rig.answers_all_about(server, NOTHING);
    let at = |start: &str| told.iter().position(|line| line.starts_with(start));
    let parse = at("Parse pgweir_1 SELECT pg_catalog.set_config");
    assert!(parse > at("Query discard all"), "{told:?}");
}

/// Guards against a RESET in the extended protocol that leaves the client with the pool's value.
#[test]
fn a_reset_by_execute_in_session_pooling_returns_to_the_startup_value() {
    let mut rig = Rig::one_server("pool_mode = session");
    let client = client_with_startup_value(&mut rig);
    let server_is_told = |rig: &mut Rig| {
        let server = rig.server_of(client).unwrap();
        rig.answers_all_about(server, NOTHING)
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

/// Guards against an internal statement that is prepared while the server holds it, so that the startup value is lost:
/// a portal was bound to a DEALLOCATE ALL, and then to a statement that deallocates nothing.
#[test]
fn a_portal_that_is_bound_anew_deallocates_nothing() {
    let mut rig = Rig::one_server("pool_mode = session");
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
        rig.answers_all_about(server, NOTHING);
    }
    rig.says(client, |w| w.query(b"reset work_mem"));
    let server = rig.server_of(client).unwrap();
    let told = rig.answers_all_about(server, NOTHING);
    assert!(
        told.iter().any(|line| line.starts_with("Bind pgweir_portal")),
        "{told:?}"
    );
    if let Some(parse) = told.iter().position(|line| line.starts_with("Parse")) {
        assert!(told[parse - 1].starts_with("Close"), "{told:?}");
    }
}

/// Guards against the use of an internal statement that an Execute of DEALLOCATE ALL has ended with the client's.
#[test]
fn deallocate_all_by_execute_in_session_pooling_ends_internal_statements_too() {
    let mut rig = Rig::one_server("pool_mode = session");
    let client = client_with_startup_value(&mut rig);
    for text in [&b"deallocate all"[..], b"reset work_mem"] {
        rig.says(client, |w| {
            w.parse(b"", text, &[0, 0]);
            let portal = &text[..1];
            w.bind_portal(portal, b"", &[]);
            w.execute_portal(portal);
            w.sync();
        });
    }
    let server = rig.server_of(client).unwrap();
    let told = rig.answers_all_about(server, NOTHING);
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
    let mut rig = Rig::one_server("pool_mode = session");
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
    let told = rig.answers_about(server, NOTHING);
    let binds = |told: &[String]| told.iter().any(|line| line.starts_with("Bind pgweir_portal "));
    assert!(binds(&told) && told.last().unwrap() == "Sync", "{told:?}");
    assert_eq!(rig.told(client), ["ReadyForQuery I"]);
    assert_eq!(rig.answers_about(server, NOTHING), ["Query select 1"]);
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

/// The same for a portal that is bound as the first of its segment: it is not forgotten with those of the transaction
/// before.
#[test]
fn a_portal_of_a_deallocate_that_comes_first_ends_the_name() {
    let mut rig = Rig::one_server("");
    let client = rig.client();
    rig.says(client, |w| {
        w.parse(b"d", b"deallocate s", &[0, 0]);
        w.parse(b"s", b"select 1", &[0, 0]);
        w.sync();
    });
    let server = rig.server_of(client).expect("linked");
    rig.serves(server, "");
    rig.says(client, |w| {
        w.bind_portal(b"", b"d", &[]);
        w.execute();
        w.sync();
    });
    let told = rig.answers_all_about(server, NOTHING);
    let closes = told.iter().position(|line| line == "Close Ss");
    let executes = told.iter().position(|line| line == "Execute");
    assert!(closes.is_some() && closes < executes, "{told:?}");
    rig.told(client);
    rig.says(client, |w| {
        w.parse(b"s", b"select 2", &[0, 0]);
        w.sync();
    });
    let told = rig.answers_all_about(server, NOTHING);
    assert!(told.iter().any(|line| line.ends_with("select 2")), "{told:?}");
}
