//! Statements and the settings under which they were parsed.

use super::one_statement::{SELECT, binds, prepared_elsewhere, prepares};
use crate::rig;
use crate::rig::{NO_TYPES, NOTHING, Rig};
use pgweir_core::ServerId;
use pgweir_wire::TransactionStatus::{Failed, Idle, InTransaction};

/// The server carries out a client's SET, and then whatever it is asked.
fn sets(rig: &mut Rig, server: ServerId, name: &str, value: &str) {
    rig.told(server);
    rig.says(server, |w| {
        w.command_complete("SET");
        w.parameter_status(name.as_bytes(), value.as_bytes());
        w.ready_for_query(Idle);
    });
    rig.answers_all_about(server, NOTHING.with(&[(name, value)]));
}

#[test]
fn statements_parsed_under_other_settings_are_others() {
    let mut rig = Rig::new("");
    let (a, b) = (rig.client(), rig.client());
    prepares(&mut rig, a, b"s", b"select '01/02/2003'::date");
    rig.says(b, |w| w.query(b"set datestyle = 'ISO, DMY'"));
    let server = rig.server_of(b).unwrap();
    sets(&mut rig, server, "DateStyle", "ISO, DMY");
    rig.says(b, |w| {
        w.parse(b"s", b"select '01/02/2003'::date", NO_TYPES);
        w.sync();
    });
    assert_eq!(
        rig.told(server)[0],
        "Parse pgweir_12 select '01/02/2003'::date",
        "recording E12"
    );
}

#[test]
fn a_statement_is_prepared_again_under_the_settings_it_was_parsed_under() {
    let (mut rig, a, _, first) = prepared_elsewhere("default_pool_size = 2");
    rig.says(a, |w| w.query(b"set datestyle = 'ISO, DMY'"));
    let second = rig.servers_log_in()[0];
    assert_ne!(first, second);
    sets(&mut rig, second, "DateStyle", "ISO, DMY");
    binds(&mut rig, a, b"s");
    let asked = rig.told(second);
    let parse = asked.iter().position(|l| l == "Parse pgweir_12 select 1").unwrap();
    let in_internal_portal = |statement: &str| {
        let bind = format!("Bind pgweir_portal {statement}");
        [bind, "Execute".into(), "Close Ppgweir_portal".into()]
    };
    assert_eq!(asked[parse - 3..parse], in_internal_portal("pgweir_e"), "recording E12");
    assert_eq!(asked[parse + 1..parse + 4], in_internal_portal("pgweir_f"));
    assert_eq!(asked[parse + 4..parse + 6], ["Sync", "Bind  pgweir_12"]);
}

/// Guards against 25P02 for a client that has seen no error: a cancel may hit the settings that are set back behind the
/// Parse. The statement is there, so that the Bind is not refused with 26000.
#[test]
fn an_error_behind_the_parse_is_the_error_of_the_bind() {
    let (mut rig, a, _, _) = prepared_elsewhere("default_pool_size = 2");
    rig.says(a, |w| w.query(b"set datestyle = 'ISO, DMY'"));
    let second = rig.servers_log_in()[0];
    sets(&mut rig, second, "DateStyle", "ISO, DMY");
    rig.says(a, |w| w.query(b"begin isolation level serializable"));
    assert_eq!(rig.told(second), ["Query begin isolation level serializable"]);
    rig.says(second, |w| {
        w.command_complete("BEGIN");
        w.ready_for_query(InTransaction);
    });
    rig.told(a);
    binds(&mut rig, a, b"s");
    let asked = rig.told(second);
    let parse = asked.iter().position(|l| l == "Parse pgweir_12 select 1").unwrap();
    rig.replies(second, &asked[..parse + 2], None, |w, _| w.command_complete("SELECT 1"));
    rig.says(second, |w| {
        w.error(&rig::error("57014", "canceling statement due to user request"));
        w.ready_for_query(Failed);
        w.error(&rig::error("25P02", "current transaction is aborted"));
        w.ready_for_query(Failed);
    });
    let heard = rig.told(a);
    assert_eq!(
        heard,
        ["Error 57014 canceling statement due to user request", "ReadyForQuery E"]
    );
}

/// Guards against constants with another meaning: DDL makes PostgreSQL read them again under the settings of one
/// client, and other clients share the result.
#[test]
fn a_statement_that_is_used_under_other_settings_is_shared_no_longer() {
    let settings = [
        ("DateStyle", "ISO, DMY", "Bind  pgweir_12"),
        ("application_name", "x", "Bind  pgweir_11"),
    ];
    for (name, value, bound) in settings {
        let mut rig = Rig::new("");
        let (a, b) = (rig.client(), rig.client());
        prepares(&mut rig, a, b"s", SELECT);
        prepares(&mut rig, b, b"s", SELECT);
        rig.says(a, |w| w.query(format!("set {name} = '{value}'").as_bytes()));
        let server = rig.server_of(a).unwrap();
        rig.told(server);
        rig.says(server, |w| {
            w.command_complete("SET");
            w.parameter_status(name.as_bytes(), value.as_bytes());
            w.ready_for_query(Idle);
        });
        if name == "DateStyle" {
            // Constants are read under it, so the next message waits for what has been set.
            rig.answers_about(server, NOTHING.with(&[(name, value)]));
        }
        binds(&mut rig, a, b"s");
        let told = rig.told(server);
        assert!(told.iter().any(|l| l == bound), "{name}: {told:?}");
    }
}

/// Settings that the client has set in this segment are reported only at its end: the server itself must keep them.
#[test]
fn a_parse_behind_a_set_of_the_same_segment_gives_back_what_was_set() {
    let (mut rig, a, _, _) = prepared_elsewhere("default_pool_size = 2");
    rig.says(a, |w| {
        w.parse(b"", b"set datestyle = 'ISO, DMY'", NO_TYPES);
        w.bind_text(b"", &[]);
        w.execute();
        w.bind_text(b"s", &[Some(b"1")]);
        w.execute();
        w.sync();
    });
    let second = rig.servers_log_in()[0];
    let asked = rig.hears(second);
    let text = |m: &(u8, Vec<u8>)| rig::without_secrets(&String::from_utf8_lossy(&m.1));
    let parse = asked
        .iter()
        .position(|m| m.0 == b'P' && text(m).starts_with("pgweir_11"))
        .unwrap();
    let binds = |part: &[(u8, Vec<u8>)], what: &str| {
        let ours = |m: &&(u8, Vec<u8>)| m.0 == b'B' && text(m).contains(what);
        part.iter().filter(ours).count()
    };
    assert!(binds(&asked[..parse], "pgweir_portal") > 0, "{asked:?}");
    assert_eq!(
        binds(&asked[..parse], "pgweir_kept.DateStyle"),
        1,
        "it is kept although it was not known to differ"
    );
    assert_eq!(
        binds(&asked[parse..], "pgweir_kept.DateStyle"),
        1,
        "and given back behind the Parse"
    );
}

/// A failed transaction refuses what does not end it, and it refuses the settings under which the text was parsed.
#[test]
fn a_failed_transaction_refuses_a_statement_that_it_would_read_otherwise() {
    let aborted = "Error 25P02 current transaction is aborted, commands ignored until end of transaction block";
    let again = "Error 0A000 the statement cannot be prepared again in a failed transaction block";
    for (text, describes, refused) in [
        (&b"select 'a\\b'"[..], false, aborted),
        (b"select 'a\\b'", true, aborted),
        (b"rollback to \"\\\"", false, again),
    ] {
        let mut rig = Rig::new("default_pool_size = 2");
        let (a, b) = (rig.client(), rig.client());
        prepares(&mut rig, a, b"s", text);
        rig.says(b, |w| w.query(b"select pg_sleep(9)"));
        let first = rig.server_of(b).unwrap();
        rig.says(a, |w| w.query(b"set standard_conforming_strings = off"));
        let second = rig.servers_log_in()[0];
        assert_ne!(first, second);
        sets(&mut rig, second, "standard_conforming_strings", "off");
        rig.says(a, |w| w.query(b"begin; select 1/0"));
        assert_eq!(rig.told(second), ["Query begin; select 1/0"]);
        rig.says(second, |w| {
            w.command_complete("BEGIN");
            w.error(&rig::error("22012", "division by zero"));
            w.ready_for_query(Failed);
        });
        rig.told(a);
        rig.says(a, |w| {
            match describes {
                true => w.describe(b'S', b"s"),
                false => w.bind_text(b"s", &[]),
            }
            w.sync();
        });
        assert_eq!(rig.told(second), ["Bind  pgweir_nowhere", "Sync"]);
        rig.says(second, |w| {
            w.error(&rig::error(
                "26000",
                "prepared statement \"pgweir_nowhere\" does not exist",
            ));
            w.ready_for_query(Failed);
        });
        assert_eq!(rig.told(a), [refused, "ReadyForQuery E"]);
    }
}
