//! The limit begins again at 8 when PostgreSQL was restarted, or when its address leads to another one.

use super::{LIMIT, auto, crowd, linked, show, works};
use crate::rig::{Rig, fatal};
use pgweir_core::{ClientId, DnsFacts, ServerId};
use std::time::Duration;

const RESTARTED: &str = "server restarted or replaced";

/// More clients than servers may work, and a limit that has grown.
fn grown_in(mut rig: Rig) -> (Rig, Vec<ClientId>) {
    let mut clients = crowd(&mut rig, 60);
    works(&mut rig, &clients, |_| {});
    assert!(settled(&mut rig) >= 51);
    clients.extend(crowd(&mut rig, 40));
    assert!(linked(&rig, &clients).len() < clients.len(), "some wait");
    (rig, clients)
}

fn grown() -> (Rig, Vec<ClientId>) {
    grown_in(auto(""))
}

fn settled(rig: &mut Rig) -> usize {
    show(rig, "settled").parse().unwrap()
}

/// The servers that have logged in and have not ended.
fn servers(rig: &Rig) -> Vec<ServerId> {
    let is_up = |server: &&ServerId| !rig.is_closed(**server) && !rig.connects.contains(server);
    let mut up: Vec<ServerId> = rig.endpoints.keys().filter(is_up).copied().collect();
    up.sort_by_key(|server| server.0.index);
    up
}

fn says_fatal(rig: &mut Rig, server: ServerId) {
    let goodbye = fatal("57P01", "terminating connection due to administrator command");
    rig.says(server, |w| w.error(&goodbye));
}

/// All clients leave, and their servers become idle.
fn all_leave(rig: &mut Rig, clients: Vec<ClientId>) {
    for client in clients {
        rig.client_leaves(client);
    }
    for server in servers(rig) {
        rig.cancel_arrives(server);
        rig.completes(server, "SELECT 1");
    }
    let idle = show(rig, "idle").parse::<usize>().unwrap();
    assert_eq!(idle, servers(rig).len());
}

/// How often the limit began again, by SHOW SIZING STEPS.
fn restarts(rig: &mut Rig) -> usize {
    let console = rig.console();
    rig.query(console, "show sizing steps");
    let rows: Vec<_> = rig.hears(console).into_iter().filter(|(tag, _)| *tag == b'D').collect();
    let reasons = rows
        .iter()
        .map(|(_, row)| pgweir_wire::backend::data_row(row).unwrap()[4].unwrap().to_vec());
    let count = reasons.filter(|reason| reason == RESTARTED.as_bytes()).count();
    rig.client_leaves(console);
    count
}

/// The limit has begun again, once, and both the log and the console say so.
fn has_begun_again(rig: &mut Rig) {
    assert_eq!(settled(rig), LIMIT);
    assert_eq!(show(rig, "reason"), RESTARTED);
    assert_eq!(restarts(rig), 1);
    let told = |line: &str| line.contains("8 servers may work at once instead of") && line.ends_with(RESTARTED);
    assert_eq!(rig.log.iter().filter(|(_, line)| told(line)).count(), 1);
}

#[test]
fn all_servers_say_that_they_end() {
    let (mut rig, clients) = grown();
    for server in servers(&rig) {
        says_fatal(&mut rig, server);
        rig.server_dies(server);
    }
    has_begun_again(&mut rig);
    rig.servers_log_in();
    assert!(!rig.is_closed(clients[99]), "it waited, and waits for the next server");
    let working = show(&mut rig, "working").parse::<usize>().unwrap();
    assert!((1..=LIMIT).contains(&working), "{working}");
}

#[test]
fn idle_servers_say_that_they_end() {
    let (mut rig, clients) = grown();
    all_leave(&mut rig, clients);
    for server in servers(&rig) {
        says_fatal(&mut rig, server);
    }
    assert!(servers(&rig).is_empty());
    has_begun_again(&mut rig);
}

#[test]
fn all_connections_break() {
    let (mut rig, _) = grown();
    for server in servers(&rig) {
        rig.server_dies(server);
    }
    has_begun_again(&mut rig);
}

#[test]
fn all_servers_break_the_protocol() {
    let (mut rig, _) = grown();
    for server in servers(&rig) {
        rig.comes(server, b"?\0\0\0\x04");
    }
    assert!(servers(&rig).is_empty());
    has_begun_again(&mut rig);
}

/// Guards against a client that is faster: it hears the FATAL and leaves before its server has closed the connection.
#[test]
fn clients_leave_as_soon_as_they_hear_that_their_servers_end() {
    let (mut rig, clients) = grown();
    for server in servers(&rig) {
        says_fatal(&mut rig, server);
    }
    for client in clients {
        if !rig.is_closed(client) {
            rig.client_leaves(client);
        }
    }
    assert!(servers(&rig).is_empty());
    has_begun_again(&mut rig);
}

/// The new PostgreSQL may be a smaller one.
#[test]
fn the_next_server_says_again_what_it_allows() {
    let (mut rig, _) = grown();
    for server in servers(&rig) {
        rig.server_dies(server);
    }
    let next = rig.connects.pop_front().unwrap();
    rig.server_connects(next);
    rig.says(next, |w| {
        w.authentication(&0u32.to_be_bytes());
        w.backend_key_data(crate::rig::process_id(next), b"key!");
        w.ready_for_query(pgweir_wire::TransactionStatus::Idle);
    });
    rig.tells_process_id(next, crate::rig::process_id(next));
    let asked = rig.told(next);
    assert!(asked[0].contains("max_connections"), "{asked:?}");
    rig.tells_process_id(next, 5);
    assert_eq!((show(&mut rig, "servers_max"), settled(&mut rig)), ("5".into(), 5));
}

#[test]
fn a_name_leads_to_another_address() {
    let databases = "db = host=db.test user=u\nother = host=db.test user=v";
    let (mut rig, clients) = grown_in(Rig::with(databases, "default_pool_size = auto"));
    // The limit begins again once for both pools.
    let other = rig.client_begins(&[("user", "v"), ("database", "other")]);
    rig.servers_log_in();
    rig.query(other, "select 1");
    let before = servers(&rig);
    let gone = |rig: &mut Rig, address: &str| {
        let gone = [address.parse().unwrap()];
        rig.pooler.handle_names(rig.now, DnsFacts::default(), "db.test", &gone);
        rig.settle(&[]);
    };
    gone(&mut rig, "127.0.0.2");
    assert!(settled(&mut rig) >= 51, "no server was there");
    gone(&mut rig, "127.0.0.1");
    assert!(!linked(&rig, &clients).is_empty(), "they are served to the end");
    has_begun_again(&mut rig);
    for server in before {
        rig.server_dies(server);
    }
    assert_eq!(restarts(&mut rig), 1, "the old ones end");
}

#[test]
fn reconnect_replaces_all_servers() {
    let (mut rig, _) = grown();
    let console = rig.console();
    rig.query(console, "reconnect");
    has_begun_again(&mut rig);
}

/// `pg_terminate_backend()` for a single server.
#[test]
fn one_server_of_many_ends() {
    let (mut rig, _) = grown();
    let one = servers(&rig)[0];
    says_fatal(&mut rig, one);
    rig.server_dies(one);
    assert!(settled(&mut rig) >= 51);
    assert_eq!(restarts(&mut rig), 0);
}

#[test]
fn the_pooler_closes_idle_servers() {
    let (mut rig, clients) = grown();
    all_leave(&mut rig, clients);
    rig.wait(Duration::from_secs(700));
    assert!(servers(&rig).is_empty(), "server_idle_timeout");
    assert!(settled(&mut rig) >= 51);
    assert_eq!(restarts(&mut rig), 0);
}

/// A server that cannot be opened was never there.
#[test]
fn servers_that_cannot_be_opened_end_nothing() {
    let (mut rig, clients) = grown();
    all_leave(&mut rig, clients);
    rig.wait(Duration::from_secs(700));
    let client = rig.client_begins(&[("user", "u"), ("database", "db")]);
    rig.query(client, "select 1");
    let next = rig.connects.pop_front().unwrap();
    rig.connect_fails(next);
    assert!(settled(&mut rig) >= 51);
}
