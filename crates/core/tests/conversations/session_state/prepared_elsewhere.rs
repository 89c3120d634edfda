//! Statements that were parsed in front of, or behind, a change of the session.

use super::session::does;
use crate::rig::{EMPTIED, NOTHING, Rig, Session, TEMPORARY};
use pgweir_core::ClientId;

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
        let mut rig = Rig::one_server("");
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
        let asked = rig.answers_about(server, TENANT);
        assert!(
            asked.iter().any(|l| l.ends_with("pgweir_7")) && !asked.iter().any(|l| l.ends_with("from who")),
            "{asked:?}"
        );
        assert_eq!(
            rig.answers_all_about(server, TENANT),
            ["Parse pgweir_11 select name from who", "Sync"]
        );
        assert_eq!(
            rig.told(setter)[2..],
            ["ParseComplete", "ReadyForQuery I"],
            "at_once: {at_once}"
        );
        parses(&mut rig, other);
        let asked = rig.answers_all_about(server, NOTHING);
        assert!(
            asked.contains(&"Parse pgweir_12 select name from who".into()),
            "the server must say whether it can be parsed there: {asked:?}"
        );
    }
}

/// Guards against constants read under the wrong TimeZone. A server's first temporary object changes its search path,
/// and PostgreSQL analyses older statements again, under the settings of the client that uses them next.
#[test]
fn statements_from_before_a_servers_first_temporary_object_are_prepared_again() {
    let mut rig = Rig::one_server("");
    let (a, b) = (rig.client(), rig.client());
    rig.says(a, |w| {
        w.parse(b"z", b"select timestamptz '2020-01-01 00:00'", &[0, 0]);
        w.sync();
    });
    let server = rig.server_of(a).expect("linked");
    rig.answers_all_about(server, NOTHING);
    let uses = |rig: &mut Rig| {
        rig.says(a, |w| {
            w.bind_text(b"z", &[]);
            w.execute();
            w.sync();
        });
        rig.answers_all_about(server, NOTHING)
    };
    let prepared_again = [
        "Close Spgweir_11",
        "Parse pgweir_11 select timestamptz '2020-01-01 00:00'",
        "Bind  pgweir_11",
        "Execute",
        "Sync",
    ];
    let bound = &prepared_again[2..];
    assert_eq!(uses(&mut rig), bound);
    does(&mut rig, b, "create temp table t (a int)");
    rig.answers_all_about(server, TEMPORARY);
    does(&mut rig, b, "drop table t");
    rig.answers_all_about(server, EMPTIED);
    assert_eq!(uses(&mut rig), prepared_again);
    // The server keeps the schema.
    does(&mut rig, b, "create temp table t (a int); drop table t");
    rig.answers_all_about(server, EMPTIED);
    assert_eq!(uses(&mut rig), bound);
}
