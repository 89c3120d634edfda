//! A Parse of the pooler on a server that does not know the statement yet, and the errors of it.

use super::one_statement::{SELECT, binds, one_row, prepared_elsewhere, prepares};
use crate::rig::{NO_TYPES, NOTHING, Rig, error};
use pgweir_wire::TransactionStatus::{Failed, Idle};

#[test]
fn bind_on_another_server_is_preceded_by_a_parse_the_client_does_not_see() {
    let (mut rig, a, _, first) = prepared_elsewhere("");
    assert_eq!(binds(&mut rig, a, b"s"), None, "the only server is busy");
    let second = rig.servers_log_in()[0];
    assert_ne!(first, second);
    assert_eq!(
        rig.told(second),
        ["Parse pgweir_11 select 1", "Bind  pgweir_11", "Execute", "Sync"]
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
        "Parse pgweir_11 select 1",
        "the server does not hold it after all"
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
    rig.told(server);
    rig.says(a, |w| {
        w.message(b'F', |b| b.extend([0; 4]));
        w.sync();
    });
    // Other clients' values of sequences are discarded before a function is called.
    let told = rig.told(server);
    rig.replies_about(server, &told, NOTHING);
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

#[test]
fn a_parse_under_other_settings_is_a_segment_of_its_own_whose_error_is_the_clients() {
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
    rig.told(a);
    rig.answers_all_about(second, NOTHING.with(&[("DateStyle", "ISO, DMY")]));
    binds(&mut rig, a, b"s");
    let asked = rig.told(second);
    let own = asked.iter().position(|l| l == "Sync").unwrap();
    assert_eq!(
        asked[own + 1..],
        ["Bind  pgweir_12", "Execute", "Sync"],
        "the client's segment holds nothing of ours"
    );
    let refusal = rig.error_about("26000", "prepared statement \"pgweir_12\" does not exist");
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
