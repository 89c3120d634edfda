//! Shared statements whose constants the server may have read again under settings of one client that are not known.

use super::one_statement::prepares;
use crate::rig::{NO_TYPES, NOTHING, Rig, error};
use pgweir_core::{ClientId, ServerId};
use pgweir_wire::TransactionStatus::{Idle, InTransaction};

const TEXT: &[u8] = b"insert into ev values ('2024-01-01 00:00'::timestamptz)";
const ANEW: &str = "Parse pgweir_11 insert into ev values ('2024-01-01 00:00'::timestamptz)";
const BOUND: [&str; 3] = ["Bind  pgweir_11", "Execute", "Sync"];

/// Two clients that have prepared the same statement on one server, in a database in which functions keep no plans.
fn shared() -> (Rig, ServerId, ClientId, ClientId) {
    let mut rig = Rig::one_server("");
    let (a, b) = (rig.client(), rig.client());
    prepares(&mut rig, a, b"s", TEXT);
    let server = rig.server_of(a).or_else(|| rig.server_of(b));
    rig.says(b, |w| {
        w.parse(b"s", TEXT, NO_TYPES);
        w.sync();
    });
    let server = server.or_else(|| rig.server_of(b)).expect("the only server");
    rig.answers_all_about(server, NOTHING);
    rig.told(b);
    (rig, server, a, b)
}

fn uses(rig: &mut Rig, client: ClientId) {
    rig.says(client, |w| {
        w.bind_text(b"s", &[]);
        w.execute();
        w.sync();
    });
}

/// The client runs a Query in a transaction block.
fn in_block(rig: &mut Rig, client: ClientId, server: ServerId, text: &str) {
    rig.says(client, |w| w.query(text.as_bytes()));
    assert_eq!(rig.told(server).last(), Some(&format!("Query {text}")));
    rig.says(server, |w| {
        w.command_complete("DONE");
        w.ready_for_query(InTransaction);
    });
}

/// The server executes a statement of the client's in its transaction block.
fn executes(rig: &mut Rig, server: ServerId) -> Vec<String> {
    let told = rig.told(server);
    rig.says(server, |w| {
        w.empty(b'2');
        w.command_complete("INSERT 0 1");
        w.ready_for_query(InTransaction);
    });
    told
}

/// What the server is told for the next use by this client.
fn next_use(rig: &mut Rig, server: ServerId, client: ClientId) -> Vec<String> {
    uses(rig, client);
    rig.answers_all_about(server, NOTHING)
}

fn is_prepared_again(told: &[String]) -> bool {
    told.first().is_some_and(|line| line == "Close Spgweir_11") && told.iter().any(|line| line == ANEW)
}

/// Guards against a row with another client's time zone: PostgreSQL analyses a statement again after DDL, under the
/// settings of whoever uses it next.
#[test]
fn a_statement_that_was_used_behind_set_local_is_prepared_again() {
    for (text, end) in [
        ("set local timezone = 'Asia/Tokyo'", "commit"),
        ("select set_config('array_nulls', 'off', true)", "rollback"),
    ] {
        let (mut rig, server, a, b) = shared();
        in_block(&mut rig, b, server, &format!("begin; {text}"));
        uses(&mut rig, b);
        executes(&mut rig, server);
        rig.says(b, |w| w.query(end.as_bytes()));
        rig.answers_all_about(server, NOTHING);
        let told = next_use(&mut rig, server, a);
        assert!(is_prepared_again(&told), "{text}: {told:?}");
        assert_eq!(next_use(&mut rig, server, b), BOUND, "{text}: once");
    }
}

#[test]
fn a_setting_that_constants_do_not_depend_on_prepares_nothing_again() {
    let (mut rig, server, a, b) = shared();
    in_block(&mut rig, b, server, "begin; set local work_mem = '1MB'");
    uses(&mut rig, b);
    executes(&mut rig, server);
    rig.says(b, |w| w.query(b"commit"));
    rig.answers_all_about(server, NOTHING);
    assert_eq!(next_use(&mut rig, server, a), BOUND);
}

/// What is not used while the setting is in doubt, and what only one client has, is not prepared again.
#[test]
fn a_statement_that_was_used_before_the_setting_is_not_prepared_again() {
    let (mut rig, server, a, b) = shared();
    uses(&mut rig, b);
    rig.answers_all_about(server, NOTHING);
    rig.told(b);
    prepares(&mut rig, b, b"other", b"select 1");
    in_block(&mut rig, b, server, "begin; set local timezone = 'Asia/Tokyo'");
    rig.says(b, |w| w.query(b"commit"));
    rig.answers_all_about(server, NOTHING);
    assert_eq!(next_use(&mut rig, server, a), BOUND);
}

/// Only the probe tells a setting that ParameterStatus does not report. Its answer may come after the next Bind.
#[test]
fn a_statement_that_was_used_before_a_probe_has_answered_is_prepared_again() {
    let (mut rig, server, a, b) = shared();
    rig.says(b, |w| w.query(b"set array_nulls = off"));
    rig.told(server);
    rig.completes(server, "SET");
    let probe = rig.told(server);
    assert!(probe.iter().any(|line| line == "Bind  pgweir_7"), "{probe:?}");
    uses(&mut rig, b);
    let session = NOTHING.with(&[("array_nulls", "off")]);
    rig.replies_about(server, &probe, session);
    rig.answers_all_about(server, session);
    uses(&mut rig, a);
    let told = rig.answers_all_about(server, NOTHING);
    let behind = told.iter().position(|line| line == "Close Spgweir_11");
    assert!(behind.is_some_and(|at| is_prepared_again(&told[at..])), "{told:?}");
}

/// Guards against a plan that was too old and counts as good, because the messages that should have replaced it were
/// not carried out.
#[test]
fn what_was_to_be_prepared_again_still_is_if_that_fails() {
    let (mut rig, server, a, b) = shared();
    in_block(&mut rig, b, server, "begin; set local timezone = 'Asia/Tokyo'");
    uses(&mut rig, b);
    executes(&mut rig, server);
    rig.says(b, |w| w.query(b"commit"));
    rig.answers_all_about(server, NOTHING);
    rig.says(b, |w| {
        w.bind_text(b"nosuch", &[]);
        w.bind_text(b"s", &[]);
        w.execute();
        w.sync();
    });
    let told = rig.told(server);
    assert!(told.iter().any(|line| line == ANEW), "{told:?}");
    rig.says(server, |w| {
        w.error(&error("26000", "prepared statement \"nosuch\" does not exist"));
        w.ready_for_query(Idle);
    });
    rig.answers_all_about(server, NOTHING);
    let told = next_use(&mut rig, server, a);
    assert!(is_prepared_again(&told), "{told:?}");
}
