//! Prepared statements on shared servers: one conversation for each way in which other poolers got it wrong.

mod rig;

use pgweir_core::{ClientId, ServerId};
use pgweir_wire::TransactionStatus::{Failed, Idle, InTransaction};
use rig::{Rig, error};

const SELECT: &[u8] = b"select 1";
const NO_TYPES: &[u8] = &[0, 0];

/// A client prepares `name` and its server confirms it.
fn prepares(rig: &mut Rig, client: ClientId, name: &[u8], text: &[u8]) {
    rig.says(client, |w| {
        w.parse(name, text, NO_TYPES);
        w.sync();
    });
    let server = rig.server_of(client).expect("linked");
    let asked = rig.told(server);
    let injected = asked.iter().filter(|l| l.starts_with("Close")).count();
    let parsed = asked.iter().any(|l| l.starts_with("Parse"));
    rig.says(server, |w| {
        (0..injected).for_each(|_| w.empty(b'3'));
        if parsed {
            w.empty(b'1');
        }
        w.ready_for_query(Idle);
    });
    assert_eq!(rig.told(client), ["ParseComplete", "ReadyForQuery I"]);
}

fn binds(rig: &mut Rig, client: ClientId, name: &[u8]) -> Option<ServerId> {
    rig.says(client, |w| {
        w.bind_text(name, &[Some(b"1")]);
        w.execute();
        w.sync();
    });
    rig.server_of(client)
}

/// The server is asked whether a plan can still be used, and says yes.
fn plan_is_good(rig: &mut Rig, server: ServerId) {
    assert_eq!(rig.told(server), ["Describe Spgweir_10", "Sync"]);
    rig.says(server, |w| {
        w.message(b't', |body| body.extend([0, 0]));
        w.empty(b'n');
        w.ready_for_query(Idle);
    });
}

fn one_row(rig: &mut Rig, server: ServerId) {
    rig.says(server, |w| {
        w.empty(b'2');
        w.data_row(1, [Some(&b"1"[..])]);
        w.command_complete("SELECT 1");
        w.ready_for_query(Idle);
    });
}

/// Two clients, two servers: `a` has prepared `s` on the first server and is linked to none.
fn prepared_elsewhere(settings: &str) -> (Rig, ClientId, ClientId, ServerId) {
    let mut rig = Rig::new(settings);
    let (a, b) = (rig.client(), rig.client());
    prepares(&mut rig, a, b"s", SELECT);
    rig.says(b, |w| w.query(b"select pg_sleep(9)"));
    let first = rig.server_of(b).unwrap();
    rig.told(first);
    (rig, a, b, first)
}

#[test]
fn bind_on_another_server_is_preceded_by_a_parse_the_client_does_not_see() {
    let (mut rig, a, _, first) = prepared_elsewhere("");
    assert_eq!(binds(&mut rig, a, b"s"), None, "the only server is busy");
    let second = rig.servers_log_in()[0];
    assert_ne!(first, second);
    assert_eq!(
        rig.told(second),
        ["Parse pgweir_10 select 1", "Bind  pgweir_10", "Execute", "Sync"]
    );
    rig.says(second, |w| w.empty(b'1'));
    one_row(&mut rig, second);
    assert_eq!(
        rig.told(a),
        ["BindComplete", "DataRow", "CommandComplete SELECT 1", "ReadyForQuery I"]
    );
}

#[test]
fn an_injected_parse_that_fails_is_the_clients_error_and_leaves_no_trace() {
    let (mut rig, a, ..) = prepared_elsewhere("");
    binds(&mut rig, a, b"s");
    let server = rig.servers_log_in()[0];
    rig.told(server);
    rig.says(server, |w| {
        w.error(&error("42P01", "relation does not exist"));
        w.ready_for_query(Idle);
    });
    assert_eq!(rig.told(a), ["Error 42P01 relation does not exist", "ReadyForQuery I"]);
    assert_eq!(binds(&mut rig, a, b"s"), Some(server));
    assert_eq!(
        rig.told(server)[0],
        "Parse pgweir_10 select 1",
        "the server does not hold it after all"
    );
}

#[test]
fn same_text_of_another_client_is_answered_by_the_pooler_in_its_turn() {
    let mut rig = Rig::new("");
    let (a, b) = (rig.client(), rig.client());
    prepares(&mut rig, a, b"s", SELECT);
    rig.says(b, |w| {
        w.parse(b"other_name", SELECT, NO_TYPES);
        w.describe(b'S', b"other_name");
        w.bind_text(b"other_name", &[Some(b"1")]);
        w.execute();
        w.sync();
    });
    let server = rig.server_of(b).unwrap();
    assert!(rig.told(b).is_empty(), "nothing before Flush or Sync is answered");
    plan_is_good(&mut rig, server);
    assert_eq!(
        rig.told(server),
        ["Describe Spgweir_10", "Bind  pgweir_10", "Execute", "Sync"]
    );
    rig.says(server, |w| {
        w.message(b't', |body| body.extend([0, 0]));
        w.empty(b'n');
    });
    one_row(&mut rig, server);
    let told = rig.told(b);
    assert_eq!(told[..4], ["ParseComplete", "t?", "NoData", "BindComplete"]);
}

#[test]
fn flush_gets_the_answers_that_need_no_server() {
    let mut rig = Rig::new("");
    let (a, b) = (rig.client(), rig.client());
    prepares(&mut rig, a, b"s", SELECT);
    rig.says(b, |w| {
        w.parse(b"t", SELECT, NO_TYPES);
        w.empty(b'H');
    });
    assert_eq!(rig.told(b), ["ParseComplete"]);
}

#[test]
fn an_error_in_a_pipeline_takes_the_unsent_answers_and_new_names_along() {
    let mut rig = Rig::new("");
    let (a, b) = (rig.client(), rig.client());
    prepares(&mut rig, a, b"s", SELECT);
    rig.says(b, |w| {
        w.parse(b"bad", b"selec", NO_TYPES);
        w.parse(b"t", SELECT, NO_TYPES);
        w.sync();
    });
    let server = rig.server_of(b).unwrap();
    rig.told(server);
    rig.says(server, |w| {
        w.error(&error("42601", "syntax error"));
        w.ready_for_query(Idle);
    });
    assert_eq!(
        rig.told(b),
        ["Error 42601 syntax error", "ReadyForQuery I"],
        "no ParseComplete for t"
    );
    binds(&mut rig, b, b"t");
    assert_eq!(
        rig.told(server)[0],
        "Bind  t",
        "t does not exist: the server says so with the client's own name"
    );
}

#[test]
fn a_client_that_disconnects_between_parse_and_sync_poisons_nothing() {
    let mut rig = Rig::new("");
    let a = rig.client();
    rig.says(a, |w| w.parse(b"s", b"selec", NO_TYPES));
    let server = rig.server_of(a).unwrap();
    rig.client_leaves(a);
    rig.told(server);
    rig.says(server, |w| {
        w.error(&error("42601", "syntax error"));
        w.ready_for_query(Idle);
    });
    rig.cancel_arrives(server);
    let b = rig.client();
    rig.says(b, |w| {
        w.parse(b"s", b"selec", NO_TYPES);
        w.sync();
    });
    assert_eq!(rig.server_of(b), Some(server));
    assert!(
        rig.told(server)[0].starts_with("Parse"),
        "the failed statement is not held"
    );
}

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
        .position(|l| l == "Close Spgweir_10")
        .expect("the first is evicted");
    assert_eq!(asked[close + 1], "Parse pgweir_13 select 4");
    assert!(asked.iter().position(|l| l == "Bind  pgweir_10").unwrap() < close);
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
        ["Close Spgweir_11", "Parse pgweir_10 select 1", "Bind  pgweir_10"],
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
    rig.completes(server, "DISCARD ALL");
    rig.told(server);
    binds(&mut rig, b, b"s");
    assert_eq!(
        rig.told(server)[..2],
        ["Parse pgweir_10 select 1", "Bind  pgweir_10"],
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
    assert_eq!(rig.told(server)[..2], ["Parse pgweir_10 select 1", "Bind  pgweir_10"]);
    rig.says(server, |w| w.empty(b'1'));
    one_row(&mut rig, server);
    rig.told(a);
    binds(&mut rig, a, b"s");
    assert_eq!(rig.told(server)[0], "Bind  pgweir_10");
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
    assert_eq!(rig.told(server)[0], "Bind  pgweir_10");
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
        "Describe Spgweir_10",
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
fn a_duplicate_name_gets_the_servers_verdict_with_the_clients_own_name() {
    let mut rig = Rig::new("");
    let a = rig.client();
    prepares(&mut rig, a, b"s", SELECT);
    rig.says(a, |w| {
        w.parse(b"s", b"select 2", NO_TYPES);
        w.sync();
    });
    let server = rig.server_of(a).unwrap();
    let taken = "Parse pgweir_b ";
    assert_eq!(
        rig.told(server),
        ["Close Spgweir_b", taken, "Parse pgweir_b select 2", "Sync"],
        "whatever has become of what its own statement reads"
    );
    let refusal = rig.error_about("42P05", "prepared statement \"pgweir_b\" already exists");
    rig.says(server, |w| {
        w.empty(b'3');
        w.empty(b'1');
        w.error(&refusal);
        w.ready_for_query(Idle);
    });
    assert_eq!(rig.told(a)[0], "Error 42P05 prepared statement \"s\" already exists");
    binds(&mut rig, a, b"s");
    assert_eq!(rig.told(server)[0], "Bind  pgweir_10", "it means what it meant");
}

#[test]
fn the_unnamed_statement_survives_sync_and_moves_with_its_client() {
    let mut rig = Rig::new("");
    let (a, b) = (rig.client(), rig.client());
    rig.says(a, |w| {
        w.parse(b"", SELECT, NO_TYPES);
        w.sync();
    });
    let server = rig.server_of(a).unwrap();
    rig.says(server, |w| {
        w.empty(b'1');
        w.ready_for_query(Idle);
    });
    rig.says(b, |w| {
        w.query(b"select 'this destroys the unnamed statement of the server'")
    });
    rig.completes(server, "SELECT 1");
    rig.told(server);
    rig.told(a);
    binds(&mut rig, a, b"");
    assert_eq!(
        rig.told(server),
        ["Parse  select 1", "Bind", "Execute", "Sync"].map(|l| l.replace("Bind", "Bind  "))
    );
}

#[test]
fn nobody_binds_the_unnamed_statement_of_another() {
    let mut rig = Rig::new("");
    let (a, b) = (rig.client(), rig.client());
    rig.says(a, |w| {
        w.parse(b"", SELECT, NO_TYPES);
        w.sync();
    });
    let server = rig.server_of(a).unwrap();
    rig.says(server, |w| {
        w.empty(b'1');
        w.ready_for_query(Idle);
    });
    rig.told(server);
    binds(&mut rig, b, b"");
    assert_eq!(
        rig.told(server)[0],
        "Close S",
        "b has none, so the server must have none"
    );
}

#[test]
fn statements_parsed_under_other_settings_are_others() {
    let mut rig = Rig::new("");
    let (a, b) = (rig.client(), rig.client());
    prepares(&mut rig, a, b"s", b"select '01/02/2003'::date");
    rig.says(b, |w| w.query(b"set datestyle = 'ISO, DMY'"));
    let server = rig.server_of(b).unwrap();
    rig.told(server);
    rig.says(server, |w| {
        w.command_complete("SET");
        w.parameter_status(b"DateStyle", b"ISO, DMY");
        w.ready_for_query(Idle);
    });
    rig.says(b, |w| {
        w.parse(b"s", b"select '01/02/2003'::date", NO_TYPES);
        w.sync();
    });
    assert_eq!(
        rig.told(server)[0],
        "Parse pgweir_11 select '01/02/2003'::date",
        "recording E12"
    );
}

#[test]
fn close_needs_no_server_and_does_not_drop_the_statement() {
    let mut rig = Rig::new("");
    let a = rig.client();
    prepares(&mut rig, a, b"s", SELECT);
    rig.says(a, |w| {
        w.close(b'S', b"s");
        w.sync();
    });
    assert_eq!(rig.told(a), ["CloseComplete", "ReadyForQuery I"]);
    assert_eq!(rig.server_of(a), None);
    prepares(&mut rig, a, b"s", SELECT);
}

#[test]
fn portal_suspended_keeps_the_transaction_where_it_is() {
    let mut rig = Rig::new("");
    let a = rig.client();
    rig.says(a, |w| w.query(b"begin; select 1"));
    let server = rig.server_of(a).unwrap();
    rig.says(server, |w| {
        w.command_complete("SELECT 1");
        w.ready_for_query(InTransaction);
    });
    rig.says(a, |w| {
        w.parse(b"", b"select generate_series(1,5)", NO_TYPES);
        w.bind_text(b"", &[]);
        w.message(b'E', |b| b.extend([0, 0, 0, 0, 2]));
        w.sync();
    });
    rig.says(server, |w| {
        w.empty(b'1');
        w.empty(b'2');
        w.data_row(1, [Some(&b"1"[..])]);
        w.empty(b's');
        w.ready_for_query(InTransaction);
    });
    assert_eq!(rig.server_of(a), Some(server));
}

#[test]
fn what_a_failed_segment_would_have_prepared_does_not_exist_for_the_next() {
    let mut rig = Rig::new("");
    let a = rig.client();
    rig.says(a, |w| {
        w.parse(b"", b"selec", NO_TYPES);
        w.parse(b"b", b"select 2", NO_TYPES);
        w.sync();
        w.bind_text(b"b", &[]);
        w.execute();
        w.sync();
    });
    let server = rig.server_of(a).unwrap();
    rig.told(server);
    rig.says(server, |w| {
        w.error(&error("42601", "syntax error"));
        w.ready_for_query(Idle);
    });
    let server = rig.server_of(a).unwrap();
    assert_eq!(rig.told(server)[0], "Bind  b", "the server says 26000");
}

#[test]
fn discard_all_through_the_extended_protocol_ends_names_when_it_is_executed() {
    let mut rig = Rig::new("");
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
        rig.told(server)
            .contains(&"Parse pgweir_12 select 'another'".to_string()),
        "no duplicate: s is gone by then"
    );
}

#[test]
fn a_plan_the_server_cannot_use_any_more_is_not_given_to_the_next_parse() {
    let mut rig = Rig::new("");
    let a = rig.client();
    prepares(&mut rig, a, b"s", SELECT);
    let server = binds(&mut rig, a, b"s").unwrap();
    rig.told(server);
    rig.says(server, |w| {
        w.error(&error("0A000", "cached plan must not change result type"));
        w.ready_for_query(Idle);
    });
    rig.told(a);
    rig.says(a, |w| {
        w.close(b'S', b"s");
        w.parse(b"s", SELECT, NO_TYPES);
        w.sync();
    });
    assert_eq!(
        rig.told(server),
        ["Close Spgweir_10", "Parse pgweir_10 select 1", "Sync"]
    );
}

#[test]
fn errors_name_statements_as_the_client_does() {
    let mut rig = Rig::new("");
    let a = rig.client();
    prepares(&mut rig, a, b"mine", SELECT);
    let server = binds(&mut rig, a, b"mine").unwrap();
    let refusal = rig.error_about(
        "08P01",
        "bind message supplies 1 parameters, but prepared statement \"pgweir_10\" requires 2",
    );
    rig.says(server, |w| {
        w.error(&refusal);
        w.ready_for_query(Idle);
    });
    let said = "Error 08P01 bind message supplies 1 parameters, but prepared statement \"mine\" requires 2";
    assert_eq!(rig.told(a), [said, "ReadyForQuery I"]);
}

#[test]
fn a_statement_is_prepared_again_under_the_settings_it_was_parsed_under() {
    let (mut rig, a, _, first) = prepared_elsewhere("default_pool_size = 2");
    rig.says(a, |w| w.query(b"set datestyle = 'ISO, DMY'"));
    let second = rig.servers_log_in()[0];
    assert_ne!(first, second);
    rig.told(second);
    rig.says(second, |w| {
        w.command_complete("SET");
        w.parameter_status(b"DateStyle", b"ISO, DMY");
        w.ready_for_query(Idle);
    });
    binds(&mut rig, a, b"s");
    let asked = rig.told(second);
    let parse = asked.iter().position(|l| l == "Parse pgweir_11 select 1").unwrap();
    let in_internal_portal = |statement: &str| {
        let bind = format!("Bind pgweir_portal {statement}");
        [bind, "Execute".into(), "Close Ppgweir_portal".into()]
    };
    assert_eq!(asked[parse - 3..parse], in_internal_portal("pgweir_e"), "recording E12");
    assert_eq!(asked[parse + 3..parse + 6], in_internal_portal("pgweir_f"));
    assert_eq!(asked[parse + 6..parse + 8], ["Sync", "Bind  pgweir_11"]);
}

/// Guards against constants with another meaning: DDL makes PostgreSQL read them again under the settings of one
/// client, and other clients share the result.
#[test]
fn a_statement_that_is_used_under_other_settings_is_shared_no_longer() {
    let settings = [
        ("DateStyle", "ISO, DMY", "Bind  pgweir_11"),
        ("application_name", "x", "Bind  pgweir_10"),
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
        binds(&mut rig, a, b"s");
        let told = rig.told(server);
        assert!(told.iter().any(|l| l == bound), "{name}: {told:?}");
    }
}

/// A message must wait although a COPY is in the pipeline: the server either sends CopyInResponse and swallows the Sync
/// before it, or sends ReadyForQuery.
#[test]
fn a_message_behind_a_copy_is_held_back_until_what_it_means_is_certain() {
    let mut rig = Rig::new("");
    let a = rig.client();
    rig.says(a, |w| {
        w.parse(b"", b"copy t from stdin", NO_TYPES);
        w.bind_text(b"", &[]);
        w.execute();
        w.sync();
        w.copy_fail("enough");
        w.parse(b"s", SELECT, NO_TYPES);
        w.sync();
    });
    let server = rig.server_of(a).unwrap();
    assert_eq!(
        rig.told(server),
        ["Parse  copy t from stdin", "Bind", "Execute", "Sync", "CopyFail"].map(|l| l.replace("Bind", "Bind  "))
    );
    rig.says(server, |w| {
        w.empty(b'1');
        w.empty(b'2');
        w.message(b'G', |b| b.extend([0, 0, 0]));
    });
    let asked = rig.told(server);
    assert!(
        asked[0].starts_with("Parse pgweir_") && asked[1] == "Sync",
        "the Sync belonged to the copy, so nothing stands between: {asked:?}"
    );
    rig.says(server, |w| {
        w.error(&error("57014", "COPY from stdin failed: enough"));
        w.ready_for_query(Idle);
    });
    rig.told(a);
    binds(&mut rig, a, b"s");
    assert_eq!(rig.told(server)[0], "Bind  s", "its Parse was ignored with the rest");
}

/// Only the tag in the reply shows which statements are left, so the next message waits for it.
#[test]
fn deallocate_all_among_other_statements_holds_back_what_uses_statements() {
    let mut rig = Rig::new("");
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
    assert_eq!(
        rig.told(server),
        ["Parse pgweir_11 select 2", "Sync"],
        "no duplicate: s is gone"
    );
}

#[test]
fn what_a_parse_of_ours_cannot_do_in_a_failed_transaction_costs_the_client_nothing() {
    let mut rig = Rig::new("");
    let a = rig.client();
    rig.says(a, |w| {
        w.parse(b"", SELECT, NO_TYPES);
        w.sync();
    });
    let server = rig.server_of(a).unwrap();
    rig.says(server, |w| {
        w.empty(b'1');
        w.ready_for_query(Idle);
    });
    let b = rig.client();
    rig.says(b, |w| {
        w.query(b"select 'this destroys the unnamed statement of the server'")
    });
    rig.completes(server, "SELECT 1");
    rig.says(a, |w| {
        w.message(b'F', |b| b.extend([0; 4]));
        w.sync();
    });
    rig.says(server, |w| w.ready_for_query(Failed));
    rig.says(server, |w| w.ready_for_query(Failed));
    rig.told(server);
    for _ in 0..2 {
        binds(&mut rig, a, b"");
        assert_eq!(
            rig.told(server)[0],
            "Parse  select 1",
            "the statement is still the client's"
        );
        rig.says(server, |w| {
            w.error(&error("25P02", "current transaction is aborted"));
            w.ready_for_query(Failed);
        });
    }
}

#[test]
fn an_answer_of_ours_comes_before_what_the_server_reports_at_the_end_of_the_segment() {
    let mut rig = Rig::new("");
    let a = rig.client();
    prepares(&mut rig, a, b"s", SELECT);
    rig.says(a, |w| {
        w.parse(b"", b"set application_name = 'x'", NO_TYPES);
        w.bind_text(b"", &[]);
        w.execute();
        w.close(b'S', b"s");
        w.sync();
    });
    let server = rig.server_of(a).unwrap();
    rig.says(server, |w| {
        w.empty(b'1');
        w.empty(b'2');
        w.command_complete("SET");
        w.parameter_status(b"application_name", b"x");
        w.ready_for_query(Idle);
    });
    let told = rig.told(a);
    assert_eq!(told[2..4], ["CommandComplete SET", "CloseComplete"], "{told:?}");
    assert!(told[4].starts_with("ParameterStatus application_name"), "{told:?}");
}

/// Then its data and its end are ignored: they must not delay later answers.
#[test]
fn the_end_of_a_copy_that_was_none_is_answered_by_nothing() {
    let mut rig = Rig::new("");
    let a = rig.client();
    rig.says(a, |w| {
        w.parse(b"", b"", NO_TYPES);
        w.bind_text(b"", &[]);
        w.execute();
        w.empty(b'c');
        w.parse(b"c", SELECT, NO_TYPES);
        w.describe(b'S', b"nosuch");
        w.sync();
    });
    let server = rig.server_of(a).unwrap();
    rig.says(server, |w| {
        w.empty(b'1');
        w.empty(b'2');
        w.empty(b'I');
        w.empty(b'1');
        w.error(&error("26000", "prepared statement \"nosuch\" does not exist"));
        w.ready_for_query(Idle);
    });
    rig.told(server);
    binds(&mut rig, a, b"c");
    assert_eq!(
        rig.told(server)[0],
        "Describe Spgweir_11",
        "c was made before the error, in a transaction that came to nothing"
    );
}

#[test]
fn a_parse_under_other_settings_is_a_segment_of_its_own_whose_error_is_the_clients() {
    let (mut rig, a, _, first) = prepared_elsewhere("default_pool_size = 2");
    rig.says(a, |w| w.query(b"set datestyle = 'ISO, DMY'"));
    let second = rig.servers_log_in()[0];
    assert_ne!(first, second);
    rig.says(second, |w| {
        w.command_complete("SET");
        w.parameter_status(b"DateStyle", b"ISO, DMY");
        w.ready_for_query(Idle);
    });
    rig.told(a);
    rig.told(second);
    binds(&mut rig, a, b"s");
    let asked = rig.told(second);
    let own = asked.iter().position(|l| l == "Sync").unwrap();
    assert_eq!(
        asked[own + 1..],
        ["Bind  pgweir_11", "Execute", "Sync"],
        "the client's segment holds nothing of ours"
    );
    let refusal = rig.error_about("26000", "prepared statement \"pgweir_11\" does not exist");
    rig.says(second, |w| {
        w.empty(b'1');
        w.empty(b'2');
        w.command_complete("SELECT 1");
        w.empty(b'3');
        w.error(&error("42P01", "relation \"t\" does not exist"));
        w.ready_for_query(Idle);
        w.error(&refusal);
        w.ready_for_query(Idle);
    });
    assert_eq!(
        rig.told(a),
        ["Error 42P01 relation \"t\" does not exist", "ReadyForQuery I"]
    );
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
        .position(|m| m.0 == b'P' && text(m).starts_with("pgweir_10"))
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

/// PostgreSQL crashes when a FETCH that was prepared beside a cursor is described without it: no client gets another
/// client's statement.
#[test]
fn a_fetch_is_prepared_by_each_client() {
    let mut rig = Rig::new("");
    let (a, b) = (rig.client(), rig.client());
    let mut parses = Vec::new();
    for client in [a, b] {
        rig.says(client, |w| {
            w.parse(b"s", b"fetch 1 from c", &[0, 0]);
            w.sync();
        });
        let server = rig.server_of(client).unwrap();
        let told = rig.told(server);
        parses.extend(told.into_iter().filter(|m| m.contains("fetch 1 from c")));
        rig.says(server, |w| {
            w.empty(b'1');
            w.ready_for_query(Idle);
        });
    }
    assert_eq!(parses.len(), 2, "{parses:?}");
    assert_ne!(parses[0], parses[1]);
}
