//! Plans that functions keep, with constants that were read under other settings.

use crate::rig::{EMPTIED, NO_TYPES, NOTHING, Rig, TEMPORARY, error};
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

/// Whether these messages contain DISCARD PLANS, before the question for the settings if there is one. It is no part of
/// that segment, which may fail.
fn discards(told: &[String]) -> bool {
    let asks = told.iter().position(|line| line.starts_with("Bind"));
    let discards = told.iter().position(|line| line == "Query DISCARD PLANS");
    discards.is_some_and(|at| asks.is_none_or(|asks| at < asks))
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
        assert!(discards(&told), "{text}: {told:?}");
        rig.says(b, |w| w.query(b"select dated()"));
        assert_eq!(rig.told(server), ["Query select dated()"], "it has the same settings");
    }
}

/// Guards against constants of a statement that only the server knows, which DISCARD PLANS made the server read again under
/// settings that the client had changed since.
#[test]
fn plans_stay_while_only_the_server_knows_a_statement_of_the_client() {
    let (mut rig, server, a, b) = two_clients(DATED);
    let text = b"prepare x as select '01/02/2003'::date; set datestyle = 'ISO, DMY'";
    rig.says(a, |w| w.query(text));
    rig.told(server);
    rig.says(server, |w| {
        w.command_complete("PREPARE");
        w.command_complete("SET");
        w.parameter_status(b"DateStyle", b"ISO, DMY");
        w.ready_for_query(Idle);
    });
    let probe = rig.answers_about(server, NOTHING.with(&[("DateStyle", "ISO, DMY")]));
    let discard = "Query DISCARD PLANS".to_string();
    assert!(
        probe.iter().any(|line| line == "Bind  pgweir_6") && !probe.contains(&discard),
        "{probe:?}"
    );
    assert_eq!(
        rig.told(server),
        ["Query DISCARD PLANS"],
        "before another client gets the server"
    );
    rig.completes(server, "DISCARD PLANS");
    rig.says(b, |w| w.query(b"select dated()"));
    assert_eq!(rig.server_of(b), Some(server));
}

/// A cancel of the client's may hit DISCARD PLANS.
#[test]
fn plans_that_were_not_discarded_are_discarded_before_another_client_gets_the_server() {
    let (mut rig, server, a, b) = two_clients(DATED);
    rig.says(a, |w| w.query(b"select set_config('TimeZone', 'utc', true), dated()"));
    rig.told(server);
    rig.completes(server, "SELECT 1");
    let told = rig.told(server);
    assert!(discards(&told), "{told:?}");
    rig.says(server, |w| {
        w.error(&error("57014", "canceling statement due to user request"));
        w.ready_for_query(Idle);
    });
    rig.replies_about(server, &told, NOTHING);
    rig.says(b, |w| w.query(b"select dated()"));
    let told = rig.answers_all_about(server, NOTHING);
    let discarded = told.iter().position(|line| line == "Query DISCARD PLANS");
    let asked = told.iter().position(|line| line == "Query select dated()");
    assert!(discarded.is_some() && discarded < asked, "{told:?}");
}

#[test]
fn plans_are_discarded_after_a_function_that_sets() {
    let (mut rig, server, a, _) = two_clients(DATED);
    rig.says(a, |w| w.query(b"select zoned()"));
    let told = rig.answers_all_about(server, NOTHING);
    assert!(discards(&told), "{told:?}");
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

/// Where DISCARD PLANS is executed among these messages.
fn executed(told: &[String]) -> Option<usize> {
    told.iter()
        .position(|line| line.starts_with("Bind") && line.contains("pgweir_d"))
}

/// Guards against plans of functions in which names mean what they meant before another client's DDL.
#[test]
fn plans_are_discarded_before_the_next_client_after_ddl() {
    for (text, moves) in [
        ("create table t (a int)", true),
        ("alter table t alter a type text", true),
        ("insert into t values (1)", false),
    ] {
        let (mut rig, server, a, b) = two_clients(UNDATED);
        rig.says(a, |w| w.query(text.as_bytes()));
        rig.answers_all_about(server, NOTHING);
        rig.says(b, |w| w.query(b"select 1"));
        let told = rig.answers_all_about(server, NOTHING);
        let at = executed(&told);
        assert_eq!(at.is_some(), moves, "{text}: {told:?}");
        let query = told.iter().position(|line| line == "Query select 1");
        assert!(query.is_some() && at < query, "{text}: {told:?}");
        rig.says(a, |w| w.query(b"select 1"));
        let told = rig.answers_all_about(server, NOTHING);
        assert!(executed(&told).is_none(), "{text}: once for each change: {told:?}");
    }
}

/// Guards against plans of functions that do not find their client's temporary table.
#[test]
fn plans_are_discarded_before_a_temporary_table_if_its_schema_is_there() {
    let (mut rig, server, a, b) = two_clients(UNDATED);
    let makes = b"create temp table t (a int)";
    rig.says(a, |w| w.query(makes));
    let told = rig.answers_all_about(server, TEMPORARY);
    assert!(executed(&told).is_none(), "PostgreSQL plans again by itself: {told:?}");
    rig.says(a, |w| w.query(b"drop table t"));
    rig.answers_all_about(server, EMPTIED);
    rig.says(b, |w| w.query(b"select 1"));
    let told = rig.answers_all_about(server, EMPTIED);
    assert!(executed(&told).is_some(), "it may have had other columns: {told:?}");
    rig.says(b, |w| w.query(makes));
    let told = rig.answers_all_about(server, TEMPORARY);
    let query = told.iter().position(|line| line.starts_with("Query create temp"));
    assert!(executed(&told).is_some_and(|at| Some(at) < query), "{told:?}");
    rig.says(b, |w| w.query(b"create temp table u (a int)"));
    let told = rig.answers_all_about(server, TEMPORARY);
    assert!(executed(&told).is_none(), "it has one already: {told:?}");
}

/// The client prepares a statement about a temporary table that is gone afterwards.
fn prepares_gone(rig: &mut Rig, server: ServerId, client: ClientId) {
    let texts = [
        ("create temp table gone (a int)", TEMPORARY),
        ("prepare lost as select * from gone", TEMPORARY),
        ("drop table gone", EMPTIED),
    ];
    for (text, session) in texts {
        rig.says(client, |w| w.query(text.as_bytes()));
        rig.answers_all_about(server, session);
    }
}

/// The server answers what it is told, but the table is gone. Returns how often it was told to prepare the statement.
fn prepares_no_more(rig: &mut Rig, server: ServerId) -> usize {
    let told = rig.told(server);
    let Some(parse) = told
        .iter()
        .position(|l| l.starts_with("Parse") && l.contains("from gone"))
    else {
        rig.replies_about(server, &told, EMPTIED);
        return 0;
    };
    // A Bind comes before the Execute that fails.
    rig.replies_about(server, &told[..parse + 2], EMPTIED);
    let sync = parse + told[parse..].iter().position(|l| l == "Sync").unwrap();
    rig.says(server, |w| {
        w.error(&error("42P01", "relation \"gone\" does not exist"));
        w.ready_for_query(Idle);
    });
    rig.replies_about(server, &told[sync + 1..], EMPTIED);
    1
}

/// Guards against a client that waits for ever. Its code may use a name that cannot be prepared again, and needs DISCARD
/// PLANS in front. If the name came first, the discard would wait for the answer about the name, and then the message
/// would be looked at again, and the name be sent again.
#[test]
fn a_message_that_waits_does_not_lend_a_name_without_end() {
    let (mut rig, server, a, _) = two_clients(UNDATED);
    prepares_gone(&mut rig, server, a);
    // The statement of a Parse behind a SET exists only on its server, where code may have replaced it.
    rig.says(a, |w| {
        w.parse(b"", b"reset all", NO_TYPES);
        w.bind_text(b"", &[]);
        w.execute();
        w.parse(b"p", b"do $$ begin null; end $$", NO_TYPES);
        w.bind_text(b"p", &[]);
        w.execute();
        w.sync();
    });
    rig.answers_all_about(server, EMPTIED);
    rig.says(a, |w| w.query(b"deallocate lost"));
    rig.answers_all_about(server, EMPTIED);
    prepares_gone(&mut rig, server, a);
    rig.told(a);
    rig.says(a, |w| {
        w.bind_text(b"p", &[]);
        w.execute();
        w.sync();
    });
    let lent: usize = (0..10).map(|_| prepares_no_more(&mut rig, server)).sum();
    assert_eq!(lent, 1, "behind DISCARD PLANS");
    let heard = rig.told(a);
    assert!(heard.iter().any(|l| l.starts_with("ReadyForQuery")), "{heard:?}");
}

/// Guards against a client that waits for ever: each look at its Bind doubted the server's statements, because a statement
/// that was lent for it may run code, and so each look prepared its statement again, and waited.
#[test]
fn a_message_is_sent_though_its_looks_doubt_its_statement() {
    let (mut rig, server, a, _) = two_clients("begin execute 'drop table ' || x; end");
    rig.says(a, |w| {
        w.parse(b"inner", b"select dated()", NO_TYPES);
        w.parse(b"outer", b"create table t as execute inner", NO_TYPES);
        w.describe(b'S', b"outer");
        w.sync();
    });
    rig.answers_all_about(server, NOTHING);
    for _ in 0..3 {
        rig.told(a);
        rig.says(a, |w| {
            w.bind_text(b"outer", &[]);
            w.execute();
            w.sync();
        });
        let server = rig.server_of(a).expect("linked");
        let told = rig.answers_all_about(server, NOTHING);
        let heard = rig.told(a);
        assert_eq!(heard.first().map(|l| &**l), Some("BindComplete"), "{told:?}");
        assert_eq!(heard.last().map(|l| &**l), Some("ReadyForQuery I"), "{told:?}");
    }
}

/// Guards against plans that seem to be new: a message that may commit definitions is looked at again when no flights are
/// in its way, and what it then ran seemed to have made no plans.
#[test]
fn what_runs_behind_a_discard_may_make_plans() {
    let (mut rig, server, a, b) = two_clients(UNDATED);
    let makes = b"create temp table t (a int)";
    rig.says(b, |w| w.query(makes));
    rig.answers_all_about(server, TEMPORARY);
    rig.says(b, |w| w.query(b"drop table t"));
    rig.answers_all_about(server, EMPTIED);
    rig.says(a, |w| w.query(b"select dated()"));
    rig.answers_all_about(server, EMPTIED);
    rig.says(a, |w| {
        w.message(b'F', |body| {
            body.extend(16400_u32.to_be_bytes());
            body.extend([0; 6]);
        });
    });
    let mut all = Vec::new();
    loop {
        let told = rig.told(server);
        all.extend(told.clone());
        if told.iter().any(|line| line == "F?") {
            break;
        }
        assert!(!told.is_empty(), "{all:?}");
        rig.replies_about(server, &told, EMPTIED);
    }
    assert!(executed(&all).is_some(), "{all:?}");
    rig.says(server, |w| {
        w.message(b'V', |body| body.extend((-1_i32).to_be_bytes()));
        w.ready_for_query(Idle);
    });
    rig.answers_all_about(server, EMPTIED);
    rig.says(a, |w| w.query(makes));
    let told = rig.answers_all_about(server, TEMPORARY);
    let query = told.iter().position(|line| line.starts_with("Query create temp"));
    assert!(executed(&told).is_some_and(|at| Some(at) < query), "{told:?}");
}
