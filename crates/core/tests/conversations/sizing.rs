//! Pools whose size is `auto`: who starts, who waits, and who is never held back.

mod bounds;
mod restarts;

use crate::rig::{NOTHING, Rig};
use pgweir_core::{ClientId, ServerId};
use pgweir_wire::TransactionStatus::{Idle, InTransaction};
use std::time::Duration;

/// The limit at the beginning.
const LIMIT: usize = 8;

fn auto(settings: &str) -> Rig {
    Rig::new(&format!("default_pool_size = auto\n{settings}"))
}

fn query(rig: &mut Rig, client: ClientId) {
    rig.says(client, |w| w.query(b"select pg_sleep(99)"));
}

/// So many clients, all of which have sent a query; servers log in as the pooler wants.
fn crowd(rig: &mut Rig, count: usize) -> Vec<ClientId> {
    let clients: Vec<_> = (0..count).map(|_| rig.client()).collect();
    for &client in &clients {
        query(rig, client);
    }
    rig.servers_log_in();
    clients
}

fn linked(rig: &Rig, clients: &[ClientId]) -> Vec<ServerId> {
    clients.iter().filter_map(|&client| rig.server_of(client)).collect()
}

/// A column of the first row of SHOW SIZING.
fn show(rig: &mut Rig, column: &str) -> String {
    let console = rig.client_begins(&[("user", "boss"), ("database", "pgbouncer")]);
    rig.told(console);
    rig.says(console, |w| w.query(b"show sizing"));
    let heard = rig.hears(console);
    let name = format!("{column}\0");
    let names = &heard[0].1;
    let before = names.windows(name.len()).position(|w| w == name.as_bytes());
    let before = &names[2..before.expect("a column of that name")];
    // Behind each name: its zero and 18 bytes.
    let at = before
        .split(|&byte| byte == 0)
        .filter(|part| part.iter().any(u8::is_ascii_lowercase))
        .count();
    let row = pgweir_wire::backend::data_row(&heard[1].1).unwrap();
    rig.client_leaves(console);
    String::from_utf8(row[at].unwrap().to_vec()).unwrap()
}

#[test]
fn no_more_servers_work_than_the_limit_says() {
    let mut rig = auto("");
    let clients = crowd(&mut rig, 20);
    assert_eq!(linked(&rig, &clients).len(), LIMIT);
    assert_eq!(show(&mut rig, "working"), LIMIT.to_string());
    assert_eq!(show(&mut rig, "waiting"), "12");
    let server = rig.server_of(clients[0]).unwrap();
    rig.completes(server, "SELECT 1");
    assert_eq!(rig.server_of(clients[0]), None);
    assert_eq!(rig.server_of(clients[LIMIT]), Some(server), "first come, first served");
    assert_eq!(linked(&rig, &clients).len(), LIMIT);
    assert!(rig.connects.is_empty());
}

/// A server that is idle in a transaction costs PostgreSQL nothing, and its client is never held back: no lock can wait for the
/// queue.
#[test]
fn who_is_idle_in_a_transaction_does_not_count_and_goes_on_at_once() {
    let mut rig = auto("deferred_begin = 0");
    let holders: Vec<_> = (0..30).map(|_| rig.client()).collect();
    for &client in &holders {
        rig.says(client, |w| w.query(b"begin"));
        rig.servers_log_in();
        let server = rig.server_of(client).expect("nobody else works");
        rig.says(server, |w| {
            w.command_complete("BEGIN");
            w.ready_for_query(InTransaction);
        });
    }
    assert_eq!(show(&mut rig, "working"), "0");
    assert_eq!(show(&mut rig, "held"), "30");
    let clients = crowd(&mut rig, 20);
    assert_eq!(linked(&rig, &clients).len(), LIMIT);
    rig.says(holders[0], |w| w.query(b"commit"));
    let server = rig.server_of(holders[0]).unwrap();
    assert_eq!(rig.told(server).last().unwrap(), "Query commit");
    assert_eq!(show(&mut rig, "working"), (LIMIT + 1).to_string());
    rig.says(server, |w| {
        w.command_complete("COMMIT");
        w.ready_for_query(Idle);
    });
    assert_eq!(linked(&rig, &clients).len(), LIMIT, "it was one too many");
    assert_eq!(show(&mut rig, "working"), LIMIT.to_string());
}

#[test]
fn a_statement_in_a_transaction_that_ends_makes_room() {
    let mut rig = auto("");
    let clients = crowd(&mut rig, 9);
    let waits = clients[LIMIT];
    assert_eq!(rig.server_of(waits), None);
    let server = rig.server_of(clients[0]).unwrap();
    rig.says(server, |w| {
        w.command_complete("BEGIN");
        w.ready_for_query(InTransaction);
    });
    rig.servers_log_in();
    assert!(rig.server_of(waits).is_some());
    assert_eq!(rig.server_of(clients[0]), Some(server));
}

#[test]
fn pools_of_one_host_share_the_limit() {
    let databases = "one = host=127.0.0.1 user=u\ntwo = host=127.0.0.1 user=u\nfar = host=127.0.0.2 user=u";
    let mut rig = Rig::with(databases, "default_pool_size = auto");
    let enter = |rig: &mut Rig, database: &str| {
        let id = rig.client_begins(&[("user", "u"), ("database", database)]);
        rig.servers_log_in();
        query(rig, id);
        rig.servers_log_in();
        id
    };
    let one: Vec<_> = (0..12).map(|_| enter(&mut rig, "one")).collect();
    let two: Vec<_> = (0..12).map(|_| enter(&mut rig, "two")).collect();
    let far: Vec<_> = (0..12).map(|_| enter(&mut rig, "far")).collect();
    assert_eq!((linked(&rig, &one).len(), linked(&rig, &two).len()), (LIMIT, 0));
    assert_eq!(linked(&rig, &far).len(), LIMIT, "another host");
    // Both wait: they take turns by the time that they have had.
    for _ in 0..8 {
        let server = linked(&rig, &one)[0];
        rig.wait(Duration::from_millis(1));
        rig.completes(server, "SELECT 1");
        rig.servers_log_in();
    }
    assert!(linked(&rig, &two).len() >= 4, "{}", linked(&rig, &two).len());
    assert_eq!(linked(&rig, &one).len() + linked(&rig, &two).len(), LIMIT);
}

#[test]
fn a_server_that_is_lost_no_longer_counts() {
    let mut rig = auto("");
    let clients = crowd(&mut rig, 20);
    for server in linked(&rig, &clients) {
        rig.server_dies(server);
    }
    rig.servers_log_in();
    assert_eq!(linked(&rig, &clients).len(), LIMIT);
    assert_eq!(show(&mut rig, "working"), LIMIT.to_string());
}

#[test]
fn clients_that_vanish_make_room() {
    let mut rig = auto("");
    let clients = crowd(&mut rig, 20);
    let servers = linked(&rig, &clients);
    rig.client_leaves(clients[0]);
    // Its query is cancelled first.
    assert_eq!(show(&mut rig, "working"), LIMIT.to_string());
    rig.says(servers[0], |w| {
        w.error(&crate::rig::error("57014", "canceling statement due to user request"));
        w.ready_for_query(Idle);
    });
    rig.cancel_arrives(servers[0]);
    assert_eq!(linked(&rig, &clients[1..]).len(), LIMIT);
    for &waits in &clients[9..] {
        rig.client_leaves(waits);
    }
    assert_eq!(show(&mut rig, "waiting"), "0");
}

#[test]
fn a_client_that_got_a_server_and_uses_it_not_counts_no_more() {
    let mut rig = auto("pool_mode = session");
    let clients: Vec<_> = (0..20).map(|_| rig.client()).collect();
    for &client in &clients {
        query(&mut rig, client);
    }
    let mut unanswered = clients.clone();
    for _ in 0..4 {
        rig.servers_log_in();
        unanswered.retain(|&client| {
            let server = rig.server_of(client);
            server.into_iter().for_each(|server| rig.completes(server, "SELECT 1"));
            server.is_none()
        });
        rig.wait(Duration::from_secs(1));
    }
    assert_eq!(
        linked(&rig, &clients).len(),
        20,
        "idle sessions hold servers, and do not work"
    );
    assert_eq!(show(&mut rig, "working"), "0");
}

/// A long query, a client that does not read its answer, a lock: whoever works on when others are done long ago.
#[test]
fn long_work_makes_nobody_wait_for_long() {
    let mut rig = auto("");
    let clients = crowd(&mut rig, 40);
    let first = linked(&rig, &clients);
    rig.wait(Duration::from_millis(2));
    rig.completes(first[0], "SELECT 1");
    // Only what is usual is known; the others work on.
    rig.wait(Duration::from_millis(400));
    rig.servers_log_in();
    let both = linked(&rig, &clients);
    assert_eq!(both.len(), 2 * LIMIT, "those that were at work before do not count");
    assert_eq!(show(&mut rig, "long"), LIMIT.to_string());
    for server in &first[1..] {
        rig.completes(*server, "SELECT 1");
    }
    assert_eq!(show(&mut rig, "long"), "1");
    assert_eq!(linked(&rig, &clients).len(), LIMIT + 1);
}

#[test]
fn the_host_never_gets_more_connections_than_pool_size_max() {
    let databases = "one = host=127.0.0.1 user=u\ntwo = host=127.0.0.1 user=u";
    let mut rig = Rig::with(databases, "default_pool_size = auto\npool_size_max = 3");
    let enter = |rig: &mut Rig, database: &str| {
        let id = rig.client_begins(&[("user", "u"), ("database", database)]);
        rig.servers_log_in();
        query(rig, id);
        rig.servers_log_in();
        id
    };
    let one: Vec<_> = (0..5).map(|_| enter(&mut rig, "one")).collect();
    let servers = linked(&rig, &one);
    assert_eq!(servers.len(), 3);
    let two = enter(&mut rig, "two");
    assert_eq!(rig.server_of(two), None);
    for client in &one[3..] {
        rig.client_leaves(*client);
    }
    // A server serves its pool for a while.
    rig.wait(Duration::from_millis(100));
    rig.completes(servers[0], "SELECT 1");
    // The idle server of the other pool ends before the new one is opened.
    assert!(rig.connects.is_empty());
    assert_eq!(rig.told(servers[0]).last().unwrap(), "Terminate");
    rig.server_dies(servers[0]);
    rig.servers_log_in();
    assert!(rig.server_of(two).is_some());
}

/// Each server that works is done after 10 ms, and its client asks again. Servers that were told to end do so. Returns how many
/// requests of each crowd were answered.
fn rounds<const CROWDS: usize>(rig: &mut Rig, crowds: [&[ClientId]; CROWDS], rounds: usize) -> [usize; CROWDS] {
    let mut answered = [0; CROWDS];
    for _ in 0..rounds {
        rig.wait(Duration::from_millis(10));
        for (crowd, answered) in crowds.into_iter().zip(&mut answered) {
            for &client in crowd {
                if let Some(server) = rig.server_of(client) {
                    let told = rig.answers_about(server, NOTHING);
                    if told.iter().any(|message| message.starts_with("Query")) {
                        rig.query(client, "select 1");
                        *answered += 1;
                    }
                }
            }
        }
        let working: Vec<ServerId> = crowds.iter().flat_map(|crowd| linked(rig, crowd)).collect();
        let servers: Vec<ServerId> = rig.endpoints.keys().copied().collect();
        for server in servers.into_iter().filter(|server| !working.contains(server)) {
            if rig.told(server).last().is_some_and(|message| message == "Terminate") {
                rig.server_dies(server);
            }
        }
        rig.servers_log_in();
    }
    answered
}

#[test]
fn pools_that_have_too_few_servers_for_all_of_them_take_turns() {
    let databases = "one = host=127.0.0.1 user=u\ntwo = host=127.0.0.1 user=u";
    // Nothing is asked about the sessions of servers.
    let settings = "default_pool_size = auto\npool_size_max = 1\nsession_state = pgbouncer";
    let mut rig = Rig::with(databases, settings);
    let mut crowd = |database: &str| -> Vec<ClientId> {
        let enter = |_| rig.client_begins(&[("user", "u"), ("database", database)]);
        let clients: Vec<_> = (0..4).map(enter).collect();
        for &client in &clients {
            rig.query(client, "select 1");
        }
        clients
    };
    let (one, two) = (crowd("one"), crowd("two"));
    rig.servers_log_in();
    let connected = |rig: &Rig| rig.endpoints.len();
    rounds(&mut rig, [&one, &two], 40);
    let before = connected(&rig);
    let [ones, twos] = rounds(&mut rig, [&one, &two], 200);
    assert!(ones >= 80 && twos >= 80, "{ones} and {twos}");
    let anew = connected(&rig) - before;
    assert!((10..=20).contains(&anew), "{anew} connections in 2 seconds");
    assert_eq!(
        show(&mut rig, "reason"),
        "",
        "the pooler has ended the servers: no restart"
    );
}

#[test]
fn a_reload_goes_from_auto_to_a_number_and_back() {
    let mut rig = auto("");
    let clients = crowd(&mut rig, 20);
    let database = "db = host=127.0.0.1 user=u";
    rig.reloads(crate::rig::configuration(database, "default_pool_size = 12"));
    rig.wait(Duration::from_secs(1));
    rig.servers_log_in();
    assert_eq!(linked(&rig, &clients).len(), 12);
    rig.reloads(crate::rig::configuration(database, "default_pool_size = auto"));
    assert_eq!(show(&mut rig, "working"), "12");
    let servers = linked(&rig, &clients);
    for &server in &servers[..4] {
        rig.completes(server, "SELECT 1");
    }
    assert_eq!(linked(&rig, &clients).len(), LIMIT, "nobody starts above the limit");
    rig.completes(servers[4], "SELECT 1");
    assert_eq!(linked(&rig, &clients).len(), LIMIT);
}

/// Ten seconds in which each query takes 20 ms, and each client sends the next one at once. `looks` after each 20 ms.
fn works(rig: &mut Rig, clients: &[ClientId], looks: impl Fn(&Rig)) {
    for _ in 0..500 {
        rig.wait(Duration::from_millis(20));
        for server in linked(rig, clients) {
            rig.completes(server, "SELECT 1");
        }
        for &client in clients {
            if !rig.told(client).is_empty() {
                query(rig, client);
            }
        }
        rig.servers_log_in();
        looks(rig);
    }
}

#[test]
fn hold_keeps_the_limit() {
    let mut rig = auto("sizing = hold");
    let clients = crowd(&mut rig, 60);
    works(&mut rig, &clients, |rig| assert!(linked(rig, &clients).len() <= LIMIT));
    assert_eq!(show(&mut rig, "sizing"), "hold");
    assert_eq!(show(&mut rig, "limit"), LIMIT.to_string());
}

/// Requests that wait for 20 ms each, whatever else runs: more servers do more.
#[test]
fn the_limit_grows_while_more_servers_do_more() {
    let mut rig = auto("");
    let clients = crowd(&mut rig, 60);
    works(&mut rig, &clients, |_| {});
    let limit: usize = show(&mut rig, "settled").parse().unwrap();
    assert!(limit >= 51, "{limit}");
}

/// Guards against a pool that waits behind another one for as long as its report has taken, or all pools behind reports.
#[test]
fn a_report_of_an_hour_costs_its_pool_nothing_later() {
    let databases = "one = host=127.0.0.1 user=u\ntwo = host=127.0.0.1 user=u";
    let mut rig = Rig::with(databases, "default_pool_size = auto\nsizing = hold");
    let enter = |rig: &mut Rig, database: &str| {
        let id = rig.client_begins(&[("user", "u"), ("database", database)]);
        rig.servers_log_in();
        id
    };
    let report = enter(&mut rig, "one");
    query(&mut rig, report);
    (0..360).for_each(|_| rig.wait(Duration::from_secs(10)));
    let server = rig.server_of(report).expect("it works");
    rig.completes(server, "SELECT 1");
    let pools = ["two", "one"].map(|database| -> Vec<_> { (0..20).map(|_| enter(&mut rig, database)).collect() });
    pools.iter().flatten().for_each(|&client| query(&mut rig, client));
    let mut served = [0, 0];
    for _ in 0..500 {
        rig.servers_log_in();
        rig.wait(Duration::from_millis(10));
        for (clients, served) in pools.iter().zip(&mut served) {
            for &client in clients {
                let Some(server) = rig.server_of(client) else { continue };
                rig.completes(server, "SELECT 1");
                *served += 1;
                query(&mut rig, client);
            }
        }
    }
    assert!(served[1] * 4 > served[0], "{served:?}");
}
