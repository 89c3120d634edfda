//! Who gets a place or a server of a pool, when, and for how long.

use crate::rig::Rig;
use pgweir_core::{ClientId, ServerId};
use std::time::Duration;

#[test]
fn waiting_clients_are_served_in_order() {
    let mut rig = Rig::new("default_pool_size = 1");
    let clients: Vec<_> = (0..4).map(|_| rig.client()).collect();
    for &client in &clients {
        rig.says(client, |w| w.query(b"select 1"));
    }
    let server = rig.server_of(clients[0]).unwrap();
    for &client in &clients {
        assert_eq!(rig.server_of(client), Some(server));
        rig.completes(server, "SELECT 1");
    }
}

#[test]
fn query_wait_timeout_ends_the_wait_and_a_notice_comes_before() {
    let mut rig = Rig::new("default_pool_size = 1\nquery_wait_timeout = 7\nquery_wait_notify = 5");
    let busy = rig.client();
    rig.says(busy, |w| w.query(b"select pg_sleep(99)"));
    let client = rig.client();
    rig.says(client, |w| w.query(b"select 1"));
    rig.wait(Duration::from_secs(6));
    assert_eq!(rig.told(client).len(), 1, "the NOTICE");
    rig.wait(Duration::from_secs(2));
    assert_eq!(rig.told(client), ["Error 57014 query_wait_timeout"]);
    assert!(rig.closed.contains(&client.into()));
}

#[test]
fn the_pool_never_grows_beyond_its_size_and_the_reserve_comes_late() {
    let mut rig = Rig::new("default_pool_size = 2\nreserve_pool_size = 1\nreserve_pool_timeout = 3");
    let clients: Vec<_> = (0..5).map(|_| rig.client()).collect();
    for &client in &clients {
        rig.says(client, |w| w.query(b"select pg_sleep(99)"));
    }
    rig.servers_log_in();
    let linked = |rig: &Rig| clients.iter().filter(|&&c| rig.server_of(c).is_some()).count();
    assert_eq!(linked(&rig), 2);
    rig.wait(Duration::from_secs(4));
    rig.servers_log_in();
    assert_eq!(linked(&rig), 3);
    rig.wait(Duration::from_secs(9));
    assert!(rig.connects.is_empty());
}

#[test]
fn a_limit_holds_over_pools_and_an_idle_server_makes_way() {
    let databases = "one = host=127.0.0.1 user=u\ntwo = host=127.0.0.1 user=u";
    let mut rig = Rig::with(databases, "max_user_connections = 1");
    let enter = |rig: &mut Rig, database: &str| {
        let id = rig.client_begins(&[("user", "u"), ("database", database)]);
        rig.servers_log_in();
        id
    };
    let one = enter(&mut rig, "one");
    rig.says(one, |w| w.query(b"select pg_sleep(9)"));
    let server = rig.server_of(one).unwrap();
    let two = enter(&mut rig, "two");
    assert!(rig.told(two).is_empty(), "user u may have one connection");
    rig.told(server);
    rig.completes(server, "SELECT 1");
    assert_eq!(rig.told(server), ["Terminate"], "evicted at once");
    assert!(rig.connects.is_empty(), "it counts until PostgreSQL has closed its end");
    rig.server_dies(server);
    rig.servers_log_in();
    assert!(rig.told(two).contains(&"ReadyForQuery I".to_string()));
}

/// Clients of a database whose host does not answer, and a client of another database of the same user.
fn beside_a_silent_host(limit: usize) -> (Rig, Vec<ServerId>, ClientId) {
    let databases = "deaf = host=127.0.0.1 user=u\ntwo = host=127.0.0.1 user=u";
    let mut rig = Rig::with(databases, &format!("max_user_connections = {limit}"));
    let enter = |rig: &mut Rig, database: &str| rig.client_begins(&[("user", "u"), ("database", database)]);
    for _ in 0..10 {
        enter(&mut rig, "deaf");
    }
    let silent: Vec<ServerId> = rig.connects.drain(..).collect();
    assert_eq!(silent.len(), limit);
    let two = enter(&mut rig, "two");
    (rig, silent, two)
}

/// Guards against a database that nobody could use because the host of another one did not answer: attempts to connect
/// to that host had taken all places. PgBouncer makes one attempt at a time.
#[test]
fn a_silent_host_keeps_one_place_of_a_limit_that_pools_share() {
    let (mut rig, silent, two) = beside_a_silent_host(4);
    rig.wait(Duration::from_millis(900));
    assert!(rig.connects.is_empty(), "they may be answered yet");
    rig.wait(Duration::from_millis(300));
    rig.servers_log_in();
    assert!(rig.told(two).contains(&"ReadyForQuery I".to_string()));
    let open = |rig: &Rig| silent.iter().filter(|id| !rig.is_closed(**id)).count();
    assert_eq!(open(&rig), 3, "one has made way");
    rig.wait(Duration::from_secs(9));
    assert!(
        rig.connects.is_empty(),
        "no further attempt takes the place of the server"
    );
    assert_eq!(open(&rig), 3);
    rig.query(two, "select 1");
    assert!(rig.server_of(two).is_some());
}

/// Guards against clients that lost their idle servers to a pool for which nobody waits.
#[test]
fn no_idle_server_makes_way_for_min_pool_size() {
    let databases = "cold = host=127.0.0.1 user=u\nwarm = host=127.0.0.1 user=u min_pool_size=2";
    let mut rig = Rig::with(databases, "max_user_connections = 2");
    let enter = |rig: &mut Rig, database: &str| {
        let id = rig.client_begins(&[("user", "u"), ("database", database)]);
        rig.servers_log_in();
        id
    };
    let cold = enter(&mut rig, "cold");
    enter(&mut rig, "warm");
    rig.query(cold, "select 1");
    let server = rig.server_of(cold).expect("it is idle");
    rig.told(server);
    rig.completes(server, "SELECT 1");
    rig.wait(Duration::from_secs(2));
    assert_eq!(rig.told(server), [""; 0], "it is not evicted");
    assert!(rig.connects.is_empty());
}

#[test]
fn the_only_attempt_of_a_pool_keeps_its_place() {
    let (mut rig, silent, two) = beside_a_silent_host(1);
    rig.wait(Duration::from_secs(9));
    assert!(!rig.is_closed(silent[0]) && rig.connects.is_empty());
    rig.server_logs_in(silent[0]);
    assert!(rig.told(two).is_empty(), "user u may have one connection");
}

#[test]
fn a_server_whose_lifetime_ends_while_it_logs_in_is_counted_once() {
    let mut rig = Rig::new("server_lifetime = 1\ndefault_pool_size = 1");
    let client = rig.client_begins(&[("user", "u"), ("database", "db")]);
    let server = rig.connects.pop_front().unwrap();
    rig.wait(Duration::from_secs(5));
    rig.server_logs_in(server);
    rig.wait(Duration::from_secs(1));
    assert!(rig.closed.contains(&server.into()));
    assert!(rig.told(client).contains(&"ReadyForQuery I".to_string()));
    rig.says(client, |w| w.query(b"select 1"));
    assert_eq!(rig.servers_log_in().len(), 1, "the pool still opens servers");
}

/// Guards against a pool whose servers, opened together, end together, so that all clients wait for logins.
#[test]
fn servers_that_were_opened_at_one_moment_end_at_many() {
    let mut rig = Rig::new("server_lifetime = 1000\nserver_idle_timeout = 0");
    let clients: Vec<_> = (0..10).map(|_| rig.client()).collect();
    for &client in &clients {
        rig.says(client, |w| w.query(b"select 1"));
    }
    rig.servers_log_in();
    let servers: Vec<_> = clients.iter().map(|&client| rig.server_of(client).unwrap()).collect();
    for &server in &servers {
        rig.completes(server, "SELECT 1");
    }
    let open = |rig: &Rig| servers.iter().filter(|&&server| !rig.is_closed(server)).count();
    rig.wait(Duration::from_secs(799));
    assert_eq!(open(&rig), 10, "a lifetime is at most a fifth shorter");
    let mut counts = vec![10];
    for _ in 0..21 {
        rig.wait(Duration::from_secs(10));
        counts.push(open(&rig));
    }
    assert_eq!(open(&rig), 0);
    let at_once = counts.windows(2).map(|pair| pair[0] - pair[1]).max();
    assert!(at_once < Some(5), "{counts:?}");
}

#[test]
fn a_lifetime_of_zero_uses_each_server_once() {
    let mut rig = Rig::new("server_lifetime = 0");
    let client = rig.client();
    for _ in 0..3 {
        rig.says(client, |w| w.query(b"select 1"));
        rig.servers_log_in();
        let server = rig.server_of(client).expect("a server serves before it goes");
        rig.completes(server, "SELECT 1");
        assert!(rig.closed.contains(&server.into()));
    }
}

/// The only server that the limit of two pools allows works for a client of database `one`.
pub fn server_at_limit() -> (Rig, ServerId) {
    let databases = "one = host=127.0.0.1 user=u\ntwo = host=127.0.0.1 user=u";
    let mut rig = Rig::with(databases, "max_user_connections = 1");
    let one = rig.client_begins(&[("user", "u"), ("database", "one")]);
    rig.servers_log_in();
    rig.says(one, |w| w.query(b"select pg_sleep(9)"));
    let server = rig.server_of(one).unwrap();
    (rig, server)
}

#[test]
fn a_place_under_a_shared_limit_goes_to_the_pool_that_waited_longest() {
    let (mut rig, server) = server_at_limit();
    let two = rig.client_begins(&[("user", "u"), ("database", "two")]);
    rig.wait(Duration::from_secs(2));
    // The pool that holds the server has a waiting client, too, but one that came later.
    let three = rig.client_begins(&[("user", "u"), ("database", "one")]);
    rig.says(three, |w| w.query(b"select 1"));
    rig.completes(server, "SELECT 1");
    rig.server_dies(server);
    rig.servers_log_in();
    assert!(rig.told(two).contains(&"ReadyForQuery I".to_string()));
}

/// Completes what the servers of these clients do, and lets the clients send the next query at once.
fn turn(rig: &mut Rig, clients: &[ClientId]) {
    for &client in clients {
        let Some(server) = rig.server_of(client) else { continue };
        rig.told(server);
        rig.completes(server, "SELECT 1");
        if rig.told(server).iter().any(|told| told == "Terminate") {
            rig.server_dies(server);
        }
        rig.servers_log_in();
        rig.query(client, "select 1");
    }
}

/// The database `small` may have so many connections; users `u` and `v` have the pools, `u` also one of `big`.
fn with_small_database(connections: u32) -> Rig {
    let databases = format!("big = host=127.0.0.1\nsmall = host=127.0.0.1 max_db_connections={connections}");
    let settings = "query_wait_timeout = 0\nmax_user_connections = 9";
    Rig::with_databases_and_users(&databases, settings, "\"u\" \"\"\n\"v\" \"\"\n")
}

fn enter(rig: &mut Rig, user: &str, database: &str) -> ClientId {
    let id = rig.client_begins(&[("user", user), ("database", database)]);
    rig.servers_log_in();
    id
}

/// Guards against waiting for ever behind clients of another pool that never leave a server idle, while a pool had to
/// close servers that does not count for the limit.
#[test]
fn only_a_pool_under_the_same_limit_makes_way() {
    let mut rig = with_small_database(1);
    let elsewhere = [enter(&mut rig, "u", "big"), enter(&mut rig, "u", "big")];
    for client in elsewhere {
        rig.query(client, "select pg_sleep(99)");
        rig.servers_log_in();
    }
    let busy = [enter(&mut rig, "v", "small"), enter(&mut rig, "v", "small")];
    for client in busy {
        rig.query(client, "select 1");
    }
    let starved = enter(&mut rig, "u", "small");
    for _ in 0..30 {
        rig.wait(Duration::from_millis(100));
        turn(&mut rig, &busy);
    }
    assert!(rig.told(starved).contains(&"ReadyForQuery I".to_string()));
    for client in elsewhere {
        let server = rig.server_of(client).expect("it works on");
        rig.completes(server, "SELECT 1");
        assert!(!rig.is_closed(server) && !rig.told(server).contains(&"Terminate".to_string()));
    }
}

/// Guards against waiting for ever for the one server that a client keeps, while another server is free a thousand times.
#[test]
fn a_server_that_is_kept_for_long_is_not_the_one_that_makes_way() {
    let mut rig = with_small_database(2);
    let keeps = enter(&mut rig, "v", "small");
    rig.query(keeps, "select pg_sleep(99)");
    rig.wait(Duration::from_secs(1));
    let busy = [enter(&mut rig, "v", "small"), enter(&mut rig, "v", "small")];
    for client in busy {
        rig.query(client, "select 1");
        rig.servers_log_in();
    }
    let starved = enter(&mut rig, "u", "small");
    for _ in 0..30 {
        rig.wait(Duration::from_millis(100));
        turn(&mut rig, &busy);
    }
    assert!(rig.told(starved).contains(&"ReadyForQuery I".to_string()));
    assert!(rig.server_of(keeps).is_some_and(|server| !rig.is_closed(server)));
}

/// Guards against pools that end each other's servers while these log in, so that neither serves a client.
#[test]
fn a_server_makes_no_way_before_it_has_served_a_client() {
    let mut rig = with_small_database(1);
    let busy = enter(&mut rig, "v", "small");
    rig.query(busy, "select pg_sleep(9)");
    let first = rig.server_of(busy).expect("linked");
    let waiting = [enter(&mut rig, "u", "small"), enter(&mut rig, "v", "small")];
    rig.query(waiting[1], "select 1");
    rig.wait(Duration::from_secs(9));
    rig.completes(first, "SELECT 1");
    rig.server_dies(first);
    let mut served = [false; 2];
    for _ in 0..20 {
        let server = rig.connects.pop_front().expect("somebody gets the place");
        // As long as a login may take.
        rig.wait(Duration::from_millis(300));
        if !rig.told(server).contains(&"Terminate".to_string()) {
            rig.server_logs_in(server);
        }
        for (client, served) in waiting.into_iter().zip(&mut served) {
            *served |= !rig.told(client).is_empty();
            if let Some(server) = rig.server_of(client) {
                rig.completes(server, "SELECT 1");
                *served = true;
            }
        }
        if served == [true; 2] {
            return;
        }
        rig.wait(Duration::from_millis(100));
        rig.server_dies(server);
    }
    panic!("u, v are served: {served:?}");
}

#[test]
fn a_client_that_never_logs_in_is_closed() {
    let mut rig = Rig::new("client_login_timeout = 2");
    let silent = rig.silent_client();
    rig.wait(Duration::from_secs(1));
    assert!(!rig.closed.contains(&silent.into()));
    rig.wait(Duration::from_secs(2));
    assert!(rig.closed.contains(&silent.into()));
}

/// Two clients, and two servers that must be checked before a client gets them; the pool allows no more.
fn with_two_stale_servers() -> (Rig, [ClientId; 2], [ServerId; 2]) {
    let mut rig = Rig::new("server_check_query = select 1\nserver_check_delay = 1\nmax_db_connections = 2");
    let clients = [rig.client(), rig.client()];
    for client in clients {
        rig.says(client, |w| w.query(b"select 'first'"));
        rig.servers_log_in();
    }
    let servers = clients.map(|client| rig.server_of(client).expect("linked"));
    assert_ne!(servers[0], servers[1], "both are opened");
    for server in servers {
        rig.completes(server, "SELECT 1");
        rig.told(server);
    }
    rig.wait(Duration::from_secs(2));
    (rig, clients, servers)
}

/// Guards against a client that waits for ever beside an idle server, because the server that was checked first was
/// given to another client and then lost.
#[test]
fn nobody_waits_while_a_server_lies_idle() {
    let (mut rig, clients, servers) = with_two_stale_servers();
    for client in clients {
        rig.says(client, |w| w.query(b"select 'second'"));
    }
    for server in servers {
        assert_eq!(rig.told(server), ["Query select 1"], "both servers are tested");
        rig.completes(server, "SELECT 1");
        assert_eq!(rig.told(server), ["Query select 'second'"]);
    }
}

/// The same if the server that is being checked turns out to be lost.
#[test]
fn an_idle_server_takes_the_place_of_one_that_fails_its_test() {
    let (mut rig, [one, _], servers) = with_two_stale_servers();
    rig.says(one, |w| w.query(b"select 'second'"));
    let (tested, idle): (Vec<_>, Vec<_>) = servers.into_iter().partition(|server| !rig.told(*server).is_empty());
    rig.server_dies(tested[0]);
    assert_eq!(rig.told(idle[0]), ["Query select 1"], "it is tested instead");
    rig.completes(idle[0], "SELECT 1");
    rig.tells_catalog(idle[0], &[], &[]);
    assert_eq!(rig.told(idle[0]), ["Query select 'second'"]);
}
