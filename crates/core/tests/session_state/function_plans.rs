//! Plans that functions keep, with constants that were read under other settings.

use crate::rig::{NOTHING, Rig};
use pgweir_core::{ClientId, ServerId};
use pgweir_wire::TransactionStatus::Idle;

const OBJECTS: [[&str; 4]; 2] = [["r", "16400", "dated", "0"], ["r", "16401", "zoned", "0"]];
const DATED: &str = "begin return '01/02/2024'::date; end";
const UNDATED: &str = "begin return now(); end";

/// Two clients of one server, in a database with a function of this source, and with one that sets the time zone.
fn two_clients(source: &str) -> (Rig, ServerId, ClientId, ClientId) {
    let mut rig = Rig::one_server("");
    rig.catalogs_are_empty = false;
    let a = rig.client_begins(&[("user", "u"), ("database", "db")]);
    let server = rig.servers_log_in()[0];
    let zoned = "begin set local timezone = utc; end";
    rig.tells_catalog(server, &OBJECTS, &[["16400", "p", source], ["16401", "p", zoned]]);
    rig.told(a);
    let b = rig.client_begins(&[("user", "u"), ("database", "db")]);
    rig.told(b);
    (rig, server, a, b)
}

const BY_EXECUTE: [&str; 3] = ["Parse pgweir_d DISCARD PLANS", "Bind  pgweir_d", "Execute"];

/// Whether these messages contain DISCARD PLANS in a segment.
fn discards(told: &[String]) -> bool {
    told.windows(3).any(|part| part == BY_EXECUTE)
}

fn sets_date_style(rig: &mut Rig, client: ClientId) -> Vec<String> {
    rig.says(client, |w| w.query(b"set datestyle = 'ISO, DMY'"));
    let server = rig.server_of(client).expect("linked");
    rig.told(server);
    rig.says(server, |w| {
        w.command_complete("SET");
        w.parameter_status(b"DateStyle", b"ISO, DMY");
        w.ready_for_query(Idle);
    });
    let session = NOTHING.with(&[("DateStyle", "ISO, DMY")]);
    rig.answers_all_about(server, session)
}

#[test]
fn plans_are_discarded_when_a_setting_has_changed_and_when_it_is_restored() {
    let (mut rig, server, a, b) = two_clients(DATED);
    let probe = sets_date_style(&mut rig, a);
    assert!(discards(&probe), "what others have called must not be kept: {probe:?}");
    rig.says(b, |w| w.query(b"select dated()"));
    let told = rig.answers_all_about(server, NOTHING);
    let executes = told.iter().filter(|line| *line == "Execute").count();
    assert!(
        told.iter().any(|line| line == "Bind  pgweir_d") && executes == 2,
        "{told:?}"
    );
    assert_eq!(
        told[told.len() - 2..],
        ["Sync", "Query select dated()"],
        "confirmed first"
    );
}

#[test]
fn a_setting_that_constants_do_not_depend_on_discards_nothing() {
    let (mut rig, server, a, b) = two_clients(DATED);
    rig.says(a, |w| w.query(b"set work_mem = '1MB'"));
    rig.answers_all_about(server, NOTHING.with(&[("work_mem", "1MB")]));
    rig.says(b, |w| w.query(b"select dated()"));
    let told = rig.answers_all_about(server, NOTHING);
    assert!(
        told.iter().any(|line| line.contains("set_config")),
        "restored: {told:?}"
    );
    assert!(!told.iter().any(|line| line.contains("DISCARD PLANS")), "{told:?}");
}

#[test]
fn nothing_is_discarded_where_no_function_has_constants() {
    let (mut rig, server, a, b) = two_clients(UNDATED);
    let probe = sets_date_style(&mut rig, a);
    rig.says(b, |w| w.query(b"select dated()"));
    let told = rig.answers_all_about(server, NOTHING);
    assert!(
        told.iter().any(|line| line.contains("set_config")),
        "restored: {told:?}"
    );
    assert!(!probe.iter().chain(&told).any(|line| line.contains("DISCARD PLANS")));
    rig.completes(server, "SELECT 1");
    rig.says(b, |w| w.query(b"begin; set local timezone = utc; commit"));
    let told = rig.answers_all_about(server, NOTHING);
    assert!(!told.iter().any(|line| line.contains("DISCARD PLANS")), "{told:?}");
}

/// Guards against plans that were made under SET LOCAL, of which nothing is left when the next client gets the server.
#[test]
fn plans_are_discarded_after_a_setting_of_one_transaction() {
    for text in [
        "begin; set local timezone = utc; select dated(); commit",
        "select set_config('TimeZone', 'utc', true), dated()",
    ] {
        let (mut rig, server, a, b) = two_clients(DATED);
        rig.says(a, |w| w.query(text.as_bytes()));
        let told = rig.answers_all_about(server, NOTHING);
        let by_query = told.iter().any(|line| line == "Query DISCARD PLANS");
        assert!(by_query || discards(&told), "{text}: {told:?}");
        rig.says(b, |w| w.query(b"select dated()"));
        assert_eq!(rig.told(server), ["Query select dated()"], "it has the same settings");
    }
}

#[test]
fn plans_are_discarded_after_a_function_that_sets() {
    let (mut rig, server, a, _) = two_clients(DATED);
    rig.says(a, |w| w.query(b"select zoned()"));
    let told = rig.answers_all_about(server, NOTHING);
    assert!(
        told.iter().any(|line| line == "Query DISCARD PLANS") || discards(&told),
        "{told:?}"
    );
}

/// Guards against constants of a prepared statement that the server reads again, under the settings of the client that
/// uses it after DISCARD PLANS.
#[test]
fn statements_are_prepared_again_after_plans_were_discarded() {
    let (mut rig, server, a, _) = two_clients(DATED);
    rig.says(a, |w| {
        w.parse(b"s", b"select '01/02/2024'::date", &[0, 0]);
        w.sync();
    });
    rig.answers_all_about(server, NOTHING);
    rig.says(a, |w| w.query(b"begin; set local timezone = utc; commit"));
    rig.answers_all_about(server, NOTHING);
    rig.says(a, |w| {
        w.bind_text(b"s", &[]);
        w.execute();
        w.sync();
    });
    let told = rig.told(server);
    assert!(
        told[0].starts_with("Close S") && told[1].starts_with("Parse "),
        "{told:?}"
    );
}
