//! Names that come to mean other objects: a table that comes earlier in the search_path than the one that servers'
//! statements use. PostgreSQL does not notice that.

use crate::rig::{NO_TYPES, NOTHING, Rig, TEMPORARY};
use pgweir_core::{ClientId, ServerId};
use pgweir_wire::TransactionStatus::InTransaction;

const TEXT: &[u8] = b"insert into orders values (1)";
const ANEW: [&str; 2] = ["Close Spgweir_11", "Parse pgweir_11 insert into orders values (1)"];

/// A client of the only server that has prepared the statement.
fn one_server() -> (Rig, ServerId, ClientId) {
    let mut rig = Rig::one_server("");
    let a = rig.client();
    let told = parses(&mut rig, a, "s");
    assert_eq!(told[..told.len() - 1], ANEW[1..]);
    let b = rig.client();
    rig.says(b, |w| w.query(b"select 1"));
    let server = rig.server_of(b).expect("linked");
    rig.serves(server, "SELECT 1");
    (rig, server, a)
}

/// A client prepares the statement; returns what its server is told.
fn parses(rig: &mut Rig, client: ClientId, name: &str) -> Vec<String> {
    rig.says(client, |w| {
        w.parse(name.as_bytes(), TEXT, NO_TYPES);
        w.sync();
    });
    let server = rig.server_of(client).or_else(|| rig.servers_log_in().first().copied());
    rig.answers_all_about(server.expect("linked"), NOTHING)
}

fn does(rig: &mut Rig, server: ServerId, client: ClientId, text: &str) {
    rig.says(client, |w| w.query(text.as_bytes()));
    let temporary = text.contains("temp");
    rig.answers_all_about(server, if temporary { TEMPORARY } else { NOTHING });
}

fn uses(rig: &mut Rig, server: ServerId, client: ClientId, name: &str) -> Vec<String> {
    rig.says(client, |w| {
        w.bind_text(name.as_bytes(), &[]);
        w.execute();
        w.sync();
    });
    rig.answers_all_about(server, NOTHING)
}

/// Guards against rows in the wrong table: a copy from before the DDL answers no Parse, and a client that prepared the
/// statement after it does not use such a copy.
#[test]
fn a_parse_behind_ddl_goes_to_the_server() {
    for text in [
        "create table tenant.orders (a int)",
        "alter table other.orders set schema tenant",
        "alter table tenant.old rename to orders",
        "create view tenant.orders as select 1",
        "create table tenant.orders as select 1 as a",
        "begin; create table tenant.orders (a int); commit",
        "do $$begin create table tenant.orders (a int); end$$",
        "create function f(int) returns int language sql as 'select 1'",
    ] {
        let (mut rig, server, a) = one_server();
        let (b, c) = (rig.client(), rig.client());
        does(&mut rig, server, a, text);
        let told = parses(&mut rig, b, "t");
        assert!(told.windows(2).any(|two| two == ANEW), "{text}: {told:?}");
        if told.iter().any(|line| line.starts_with("Bind  pgweir_6")) {
            // While the catalog is not up to date, a Parse may run code.
            continue;
        }
        // A third client's Parse is answered by the pooler.
        let told = parses(&mut rig, c, "u");
        assert!(
            !told.iter().any(|line| line.starts_with("Parse pgweir_11 ")),
            "{text}: {told:?}"
        );
    }
}

#[test]
fn what_changes_no_names_leaves_copies_as_they_are() {
    for text in [
        "create statistics s on a, b from orders",
        "alter table orders add column b int",
        "drop table if exists elsewhere",
        "analyze orders",
        "insert into other select * from orders",
    ] {
        let (mut rig, server, a) = one_server();
        let b = rig.client();
        does(&mut rig, server, a, text);
        let told = parses(&mut rig, b, "t");
        assert!(
            !told.iter().any(|line| line.starts_with("Parse pgweir_11 ")),
            "{text}: {told:?}"
        );
    }
}

/// The copies of other servers are older than the client's Parse. Clients that prepared before the DDL go on with what
/// there is.
#[test]
fn copies_on_other_servers_are_prepared_again_once() {
    let mut rig = Rig::new("default_pool_size = 2");
    let (a, b) = (rig.client(), rig.client());
    parses(&mut rig, a, "s");
    // The first server is taken, so that the second one gets a copy.
    rig.says(b, |w| w.query(b"select pg_sleep(9)"));
    let first = rig.server_of(b).expect("linked");
    rig.told(first);
    rig.says(a, |w| {
        w.bind_text(b"s", &[]);
        w.execute();
        w.sync();
    });
    let second = rig.servers_log_in()[0];
    assert_ne!(first, second);
    rig.answers_all_about(second, NOTHING);
    rig.completes(first, "SELECT 1");
    // DDL, and a new Parse, on one of them.
    does(&mut rig, first, b, "create table tenant.orders (a int)");
    rig.answers_all_about(second, NOTHING);
    let on_other = |rig: &mut Rig, client: ClientId, holder: ClientId, name: &str| {
        let by = rig.server_of(holder).expect("it holds a server");
        rig.says(client, |w| {
            w.bind_text(name.as_bytes(), &[]);
            w.execute();
            w.sync();
        });
        let server = rig.server_of(client).expect("linked");
        assert_ne!(by, server);
        (server, rig.answers_all_about(server, NOTHING))
    };
    rig.says(b, |w| {
        w.parse(b"t", TEXT, NO_TYPES);
        w.sync();
    });
    let parsed_on = rig.server_of(b).expect("linked");
    let told = rig.answers_all_about(parsed_on, NOTHING);
    assert!(told.iter().any(|line| line == ANEW[1]), "{told:?}");
    // A client holds that server.
    let c = rig.client();
    rig.says(c, |w| w.query(b"begin; select 1"));
    let mut held = rig.server_of(c).expect("linked");
    if held != parsed_on {
        // The other one is free then.
        held = parsed_on;
    }
    let taken = rig.server_of(c).expect("linked");
    rig.told(taken);
    rig.says(taken, |w| {
        w.command_complete("SELECT 1");
        w.ready_for_query(InTransaction);
    });
    if taken == held {
        let (_, told) = on_other(&mut rig, b, c, "t");
        assert_eq!(told[..2], ANEW);
        let (_, told) = on_other(&mut rig, b, c, "t");
        assert_eq!(told, ["Bind  pgweir_11", "Execute", "Sync"], "once");
        let (_, told) = on_other(&mut rig, a, c, "s");
        assert_eq!(told, ["Bind  pgweir_11", "Execute", "Sync"]);
    } else {
        unreachable!("the server that was used last is given out first");
    }
}

/// What a client prepares in its transaction with DDL names objects that other clients do not see yet, and that may be
/// rolled back.
#[test]
fn a_parse_in_a_transaction_with_ddl_is_not_shared() {
    let (mut rig, server, a) = one_server();
    let b = rig.client();
    rig.says(a, |w| w.query(b"begin; create table tenant.orders (a int)"));
    rig.told(server);
    rig.says(server, |w| {
        w.command_complete("CREATE TABLE");
        w.ready_for_query(InTransaction);
    });
    rig.says(a, |w| {
        w.parse(b"t", TEXT, NO_TYPES);
        w.sync();
    });
    let told = rig.told(server);
    assert!(told[0].starts_with("Parse pgweir_12 "), "{told:?}");
    rig.says(server, |w| {
        w.empty(b'1');
        w.ready_for_query(InTransaction);
    });
    rig.says(a, |w| w.query(b"rollback"));
    rig.answers_all_about(server, NOTHING);
    let told = parses(&mut rig, b, "u");
    assert!(told.windows(2).any(|two| two == ANEW), "{told:?}");
}

/// Guards against the end of sharing for applications that make tables all the time.
#[test]
fn temporary_tables_and_tables_of_an_import_cost_few_parses() {
    const ROUNDS: usize = 20;
    for (text, parses_most) in [
        ("create temp table x (a int) on commit drop", 1),
        ("create table x as select 1", ROUNDS),
    ] {
        let (mut rig, server, a) = one_server();
        let users: Vec<ClientId> = (0..3).map(|_| rig.client()).collect();
        for &user in &users {
            parses(&mut rig, user, "t");
        }
        let mut parsed_for_uses = 0;
        let mut parsed_for_parses = 0;
        for round in 0..ROUNDS {
            rig.says(a, |w| w.query(text.as_bytes()));
            rig.answers_all_about(server, NOTHING);
            let is_parse = |line: &&String| line.starts_with("Parse pgweir_11 ");
            for &user in &users {
                parsed_for_uses += uses(&mut rig, server, user, "t").iter().filter(is_parse).count();
            }
            // New connections prepare the statement for themselves.
            for name in ["n", "m"] {
                let new = rig.client();
                let name = format!("{name}{round}");
                parsed_for_parses += parses(&mut rig, new, &name).iter().filter(is_parse).count();
                rig.client_leaves(new);
            }
        }
        assert!(
            parsed_for_uses <= 1,
            "{text}: {parsed_for_uses} of {}",
            ROUNDS * users.len()
        );
        assert!(
            parsed_for_parses <= parses_most,
            "{text}: {parsed_for_parses} of {}",
            2 * ROUNDS
        );
    }
}
