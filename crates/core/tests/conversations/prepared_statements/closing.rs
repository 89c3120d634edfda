//! How statements end: eviction, DEALLOCATE, DISCARD ALL.

use super::one_statement::{SELECT, binds, one_row, prepares};
use crate::rig::{NO_TYPES, NOTHING, Rig, error};
use pgweir_wire::TransactionStatus::{Failed, Idle};

#[test]
fn eviction_inside_a_batch_closes_behind_the_bind() {
    let mut rig = Rig::new("max_prepared_statements = 3");
    let a = rig.client();
    rig.says(a, |w| {
        for (name, text) in [
            (b"a", b"select 1"),
            (b"b", b"select 2"),
            (b"c", b"select 3"),
            (b"d", b"select 4"),
        ] {
            w.parse(name, text, NO_TYPES);
            w.bind_text(name, &[]);
            w.execute();
        }
        w.sync();
    });
    let server = rig.server_of(a).unwrap();
    let asked = rig.told(server);
    let close = asked
        .iter()
        .position(|l| l == "Close Spgweir_11")
        .expect("the first is evicted");
    assert_eq!(asked[close + 1], "Parse pgweir_14 select 4");
    assert!(asked.iter().position(|l| l == "Bind  pgweir_11").unwrap() < close);
    rig.says(server, |w| {
        for n in 0..4 {
            if n == 3 {
                w.empty(b'3');
            }
            w.empty(b'1');
            w.empty(b'2');
            w.command_complete("SELECT 1");
        }
        w.ready_for_query(Idle);
    });
    assert!(!rig.told(a).contains(&"CloseComplete".to_string()));
    assert_eq!(binds(&mut rig, a, b"a"), Some(server));
    let asked = rig.told(server);
    assert_eq!(
        asked[..3],
        ["Close Spgweir_12", "Parse pgweir_11 select 1", "Bind  pgweir_11"],
        "prepared again unseen"
    );
}

#[test]
fn deallocate_all_is_scoped_to_its_client() {
    let mut rig = Rig::new("");
    let (a, b) = (rig.client(), rig.client());
    prepares(&mut rig, a, b"s", SELECT);
    prepares(&mut rig, b, b"s", SELECT);
    rig.says(a, |w| w.query(b"DISCARD ALL"));
    let server = rig.server_of(a).unwrap();
    rig.told(server);
    rig.completes(server, "DISCARD ALL");
    rig.answers_all_about(server, NOTHING);
    binds(&mut rig, b, b"s");
    assert_eq!(
        rig.told(server)[..2],
        ["Parse pgweir_11 select 1", "Bind  pgweir_11"],
        "b's statement is made again"
    );
    rig.says(server, |w| w.empty(b'1'));
    one_row(&mut rig, server);
    binds(&mut rig, a, b"s");
    assert_eq!(rig.told(server)[0], "Bind  s", "a's is gone");
}

#[test]
fn deallocate_all_in_a_pipeline_spares_what_is_parsed_behind_it() {
    let mut rig = Rig::new("");
    let a = rig.client();
    prepares(&mut rig, a, b"s", SELECT);
    rig.says(a, |w| {
        w.query(b"deallocate all");
        w.parse(b"s", SELECT, NO_TYPES);
        w.bind_text(b"s", &[Some(b"1")]);
        w.execute();
        w.sync();
    });
    let server = rig.server_of(a).unwrap();
    assert_eq!(
        rig.told(server),
        ["Query deallocate all"],
        "what s means is not known before this has succeeded"
    );
    rig.completes(server, "DEALLOCATE ALL");
    assert_eq!(rig.told(server)[..2], ["Parse pgweir_11 select 1", "Bind  pgweir_11"]);
    rig.says(server, |w| w.empty(b'1'));
    one_row(&mut rig, server);
    rig.told(a);
    binds(&mut rig, a, b"s");
    assert_eq!(rig.told(server)[0], "Bind  pgweir_11");
}

#[test]
fn a_deallocate_all_that_fails_takes_nothing_away() {
    let mut rig = Rig::new("");
    let a = rig.client();
    prepares(&mut rig, a, b"s", SELECT);
    rig.says(a, |w| w.query(b"begin; select 1/0"));
    let server = rig.server_of(a).unwrap();
    rig.says(server, |w| {
        w.error(&error("22012", "division by zero"));
        w.ready_for_query(Failed);
    });
    rig.says(a, |w| w.query(b"deallocate all"));
    rig.says(server, |w| {
        w.error(&error("25P02", "current transaction is aborted"));
        w.ready_for_query(Failed);
    });
    rig.told(server);
    binds(&mut rig, a, b"s");
    assert_eq!(rig.told(server)[0], "Bind  pgweir_11");
}

#[test]
fn deallocate_of_a_protocol_level_name_ends_that_name_only() {
    let mut rig = Rig::new("");
    let (a, b) = (rig.client(), rig.client());
    prepares(&mut rig, a, b"s", SELECT);
    prepares(&mut rig, b, b"s", SELECT);
    rig.says(a, |w| w.query(b"DEALLOCATE s"));
    let server = rig.server_of(a).unwrap();
    let asked = rig.told(server);
    assert_eq!(asked.last().unwrap(), "Query DEALLOCATE s");
    rig.says(server, |w| {
        w.empty(b'3');
        w.empty(b'1');
        w.ready_for_query(Idle);
    });
    rig.completes(server, "DEALLOCATE");
    assert_eq!(rig.told(a), ["CommandComplete DEALLOCATE", "ReadyForQuery I"]);
    binds(&mut rig, b, b"s");
    assert_eq!(
        rig.told(server)[0],
        "Describe Spgweir_11",
        "b still has it, and so has the server, since before b asked for it"
    );
}

/// Guards against a Query without an answer: a server that ignores it sends ReadyForQuery for the Sync only.
#[test]
fn a_cancel_in_front_of_deallocate_does_not_take_the_query_along() {
    let mut rig = Rig::new("");
    let a = rig.client();
    prepares(&mut rig, a, b"s", SELECT);
    rig.says(a, |w| {
        w.query(b"DEALLOCATE s");
        w.sync();
    });
    let server = rig.server_of(a).unwrap();
    assert_eq!(
        rig.told(server),
        ["Close Ss", "Parse s ", "Sync", "Query DEALLOCATE s", "Sync"]
    );
    rig.says(server, |w| {
        w.empty(b'3');
        w.error(&error("57014", "canceling statement due to user request"));
        w.ready_for_query(Idle);
        w.error(&error("26000", "prepared statement \"s\" does not exist"));
        w.ready_for_query(Idle);
        w.ready_for_query(Idle);
    });
    assert_eq!(
        rig.told(a),
        [
            "Error 57014 canceling statement due to user request",
            "ReadyForQuery I",
            "ReadyForQuery I"
        ]
    );
}

#[test]
fn discard_all_through_the_extended_protocol_ends_names_when_it_is_executed() {
    for (settings, parse) in [
        ("", "Parse s select 'another'"),
        ("session_state = pgbouncer", "Parse pgweir_13 select 'another'"),
    ] {
        let mut rig = Rig::new(settings);
        let a = rig.client();
        prepares(&mut rig, a, b"s", SELECT);
        rig.says(a, |w| {
            w.parse(b"", b"DISCARD ALL", NO_TYPES);
            w.bind_text(b"", &[]);
            w.execute();
            w.parse(b"s", b"select 'another'", NO_TYPES);
            w.sync();
        });
        let server = rig.server_of(a).unwrap();
        assert!(
            rig.told(server).contains(&parse.to_string()),
            "no duplicate: s is gone by then"
        );
    }
}

/// Only the tag in the reply shows which statements are left, so the next message waits for it.
#[test]
fn deallocate_all_among_other_statements_holds_back_what_uses_statements() {
    // Where sessions are kept, a Parse has the client's name until a probe has answered.
    for (settings, parse) in [
        ("", "Parse s select 2"),
        ("session_state = pgbouncer", "Parse pgweir_12 select 2"),
    ] {
        let mut rig = Rig::new(settings);
        let a = rig.client();
        prepares(&mut rig, a, b"s", SELECT);
        rig.says(a, |w| {
            w.query(b"select 1; deallocate all");
            w.parse(b"s", b"select 2", NO_TYPES);
            w.sync();
        });
        let server = rig.server_of(a).unwrap();
        assert_eq!(rig.told(server), ["Query select 1; deallocate all"]);
        rig.says(server, |w| {
            w.command_complete("SELECT 1");
            w.command_complete("DEALLOCATE ALL");
            w.ready_for_query(Idle);
        });
        let told = rig.told(server);
        let own = told.len() - 2;
        assert_eq!(told[own..], [parse, "Sync"], "no duplicate: s is gone");
        // If the commit had failed, there would have been no tag: the name may belong to code.
        let is_doubted = told[..own] == ["Close Spgweir_12"];
        assert_eq!(is_doubted, settings == "session_state = pgbouncer", "{told:?}");
    }
}

/// Guards against 42P05 for the next client: the server held no statement, so a PREPARE under a name that could be
/// internal was not noticed.
#[test]
fn a_name_that_could_be_internal_is_closed_before_it_is_used() {
    for (text, closes) in [
        ("prepare \"pgweir_12_x\" as select 1", true),
        ("do $$begin execute 'prepare \"pgweir_12_x\" as select 1'; end$$", true),
        ("prepare mine as select 1", false),
        ("select 1", false),
    ] {
        let mut rig = Rig::new("session_state = pgbouncer\ndefault_pool_size = 1");
        let (a, b) = (rig.client(), rig.client());
        rig.query(a, text);
        let server = rig.server_of(a).unwrap();
        rig.completes(server, "PREPARE");
        rig.told(server);
        rig.says(b, |w| {
            w.parse(b"s", SELECT, NO_TYPES);
            w.sync();
        });
        let told = rig.told(server);
        assert_eq!(told[0].starts_with("Close Spgweir_"), closes, "{text}: {told:?}");
    }
}

/// The server answers the last statement of a Query only when it has committed. If that fails, the DEALLOCATE ALL stays
/// in effect, and no command tag tells of it: other clients' statements are prepared again.
#[test]
fn deallocate_all_takes_nothing_from_others_if_the_commit_behind_it_fails() {
    for settings in ["", "session_state = pgbouncer"] {
        let mut rig = Rig::new(settings);
        let (a, b) = (rig.client(), rig.client());
        prepares(&mut rig, b, b"s", SELECT);
        rig.says(a, |w| w.query(b"insert into t values (1), (1); deallocate all"));
        let server = rig.server_of(a).unwrap();
        rig.told(server);
        rig.says(server, |w| {
            w.command_complete("INSERT 0 2");
            w.error(&error("23505", "duplicate key value violates unique constraint"));
            w.ready_for_query(Idle);
        });
        rig.answers_all_about(server, NOTHING);
        assert_eq!(binds(&mut rig, b, b"s"), Some(server), "{settings}");
        let told = rig.told(server);
        let again = ["Close Spgweir_11", "Parse pgweir_11 select 1", "Bind  pgweir_11"];
        assert_eq!(told[told.len() - 5..][..3], again, "{settings}: {told:?}");
    }
}
