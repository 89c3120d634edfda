//! Flights that take long: who is sent behind them, and what the pool learns of their class. Here, classes count as
//! short only if they have been.

use super::crowd::{cancelled, login};
use crate::console::tables::{console, query};
use crate::rig::{Rig, fatal};
use pgweir_core::{ClientId, ServerId};
use std::time::Duration;

const SHORT: Duration = Duration::from_micros(40);
const LATE: Duration = Duration::from_micros(1_100);
const LONG: Duration = Duration::from_millis(50);

/// The text whose class is taught; the constant does not matter.
const TEXT: &str = "select 1";

fn client(rig: &mut Rig) -> ClientId {
    let id = login(rig);
    rig.told(id);
    id
}

fn count(rig: &mut Rig, boss: ClientId, name: &str) -> String {
    let (_, rows) = query(rig, boss, "SHOW STATE_STATS");
    let row = rows.iter().find(|row| row[0].as_deref() == Some(name)).unwrap();
    row[1].clone().unwrap()
}

/// Time passes, too short for a round of the timers.
fn takes(rig: &mut Rig, time: Duration) {
    rig.now = rig.now + time;
}

/// Clients wait for the only server and run the text there so often; then the server is idle.
fn teach(rig: &mut Rig, runs: usize) -> ServerId {
    let pair = [rig.client(), rig.client()];
    rig.query(pair[0], TEXT);
    let server = rig.server_of(pair[0]).expect("the only server that is free");
    for run in 1..=runs {
        rig.query(pair[run % 2], TEXT);
        takes(rig, SHORT);
        rig.completes(server, "SELECT 1");
    }
    takes(rig, SHORT);
    rig.completes(server, "SELECT 1");
    rig.told(server);
    server
}

/// A client has the server, and others wait for it with flights. Then the first one is ready. Returns the clients that
/// have waited, and how many of them were sent to the server.
fn wait_together(rig: &mut Rig, server: ServerId, clients: usize) -> (Vec<ClientId>, usize) {
    let first = client(rig);
    rig.query(first, TEXT);
    assert_eq!(rig.server_of(first), Some(server));
    rig.told(server);
    let waiting: Vec<_> = (0..clients).map(|_| client(rig)).collect();
    waiting.iter().for_each(|id| rig.query(*id, TEXT));
    rig.completes(server, "SELECT 1");
    let sent = rig.told(server).len();
    (waiting, sent)
}

/// The server answers all flights.
fn all_end(rig: &mut Rig, server: ServerId, flights: usize) {
    for _ in 0..flights {
        takes(rig, SHORT);
        rig.completes(server, "SELECT 1");
    }
}

/// Whether two clients are sent to the server together. Then it is idle again.
fn are_sent_together(rig: &mut Rig, server: ServerId) -> bool {
    let (_, sent) = wait_together(rig, server, 2);
    all_end(rig, server, 2);
    rig.told(server);
    sent == 2
}

#[test]
fn nobody_is_sent_behind_a_flight_that_is_late() {
    let mut rig = Rig::new("default_pool_size = 1\npipeline_depth = 8");
    let boss = console(&mut rig);
    let server = teach(&mut rig, 40);
    let (_, sent) = wait_together(&mut rig, server, 2);
    assert_eq!(sent, 2);
    let (more, late) = (client(&mut rig), client(&mut rig));
    rig.query(more, TEXT);
    assert_eq!(rig.told(server).len(), 1, "it is not late yet");
    takes(&mut rig, LATE);
    rig.query(late, TEXT);
    assert!(rig.told(server).is_empty());
    assert_eq!(count(&mut rig, boss, "flights_late"), "0");
    takes(&mut rig, LATE);
    rig.completes(server, "SELECT 1");
    assert_eq!(rig.told(server).len(), 1, "now it boards");
    assert_eq!(count(&mut rig, boss, "flights_late"), "2", "two have waited behind it");
    all_end(&mut rig, server, 3);
    assert_eq!(count(&mut rig, boss, "flights_late"), "2");
    assert!(are_sent_together(&mut rig, server), "once is no reason");
}

/// Guards against a statement that waits for a lock, with clients behind it on every server of the pool.
#[test]
fn while_a_flight_hangs_its_class_shares_no_other_server() {
    let mut rig = Rig::new("default_pool_size = 2\npipeline_depth = 8");
    let boss = console(&mut rig);
    let busy = rig.client();
    rig.query(busy, "begin; select 'busy'");
    let other = rig.server_of(busy).unwrap();
    let pair = [client(&mut rig), client(&mut rig)];
    rig.query(pair[0], TEXT);
    rig.servers_log_in();
    let server = rig.server_of(pair[0]).expect("the second server");
    rig.completes(server, "SELECT 1");
    teach(&mut rig, 40);
    let (hang, sent) = wait_together(&mut rig, server, 3);
    assert_eq!(sent, 3);
    rig.client_leaves(hang[1]);
    rig.completes(other, "SELECT 1");
    rig.told(other);
    rig.wait(Duration::from_millis(130));
    assert_eq!(
        count(&mut rig, boss, "flights_late"),
        "1",
        "it still hangs, and one waits"
    );
    let (_, sent) = wait_together(&mut rig, other, 2);
    assert_eq!(sent, 1);
    all_end(&mut rig, other, 2);
    all_end(&mut rig, server, 3);
    assert_eq!(count(&mut rig, boss, "flights_late"), "1", "they are counted once");
}

/// Guards against a statement that waits for locks, is always cancelled by its client, and still counts as short.
#[test]
fn a_flight_that_its_client_cancels_late_was_long() {
    let mut rig = Rig::new("default_pool_size = 1\npipeline_depth = 8");
    let server = teach(&mut rig, 40);
    let (a, key) = {
        let id = login(&mut rig);
        (id, rig.key_told(id))
    };
    rig.told(a);
    let first = client(&mut rig);
    rig.query(first, TEXT);
    rig.query(a, TEXT);
    rig.completes(server, "SELECT 1");
    takes(&mut rig, LONG);
    rig.cancel_request(&key);
    rig.says(server, cancelled);
    rig.cancel_arrives(server);
    rig.told(server);
    assert!(!are_sent_together(&mut rig, server));
}

/// Guards against a statement that hangs, whose clients lose patience, and that so becomes known to be short.
#[test]
fn a_flight_whose_client_leaves_soon_was_not_short() {
    let mut rig = Rig::new("default_pool_size = 1\npipeline_depth = 8");
    let server = teach(&mut rig, 0);
    for _ in 0..40 {
        let (hangs, _) = wait_together(&mut rig, server, 1);
        takes(&mut rig, SHORT);
        rig.client_leaves(hangs[0]);
        rig.says(server, cancelled);
        rig.cancel_arrives(server);
    }
    assert!(!are_sent_together(&mut rig, server));
}

#[test]
fn a_flight_whose_server_is_lost_counts_too() {
    let mut rig = Rig::new("default_pool_size = 1\npipeline_depth = 8");
    let boss = console(&mut rig);
    let server = teach(&mut rig, 40);
    let (lost, sent) = wait_together(&mut rig, server, 3);
    assert_eq!(sent, 3);
    takes(&mut rig, LONG);
    rig.says(server, |w| {
        w.error(&fatal("57P01", "terminating connection due to administrator command"))
    });
    rig.server_dies(server);
    assert_eq!(count(&mut rig, boss, "flights_late"), "2");
    lost[1..].iter().for_each(|id| rig.client_leaves(*id));
    let up = rig.servers_log_in()[0];
    rig.told(up);
    assert!(!are_sent_together(&mut rig, up));
}

#[test]
fn the_log_says_how_many_flights_were_outstanding() {
    let mut rig = Rig::new("default_pool_size = 1\npipeline_depth = 8\nlink = adversarial\nstats_period = 1");
    let server = teach(&mut rig, 1);
    wait_together(&mut rig, server, 3);
    rig.wait(Duration::from_secs(2));
    let logged = |rig: &Rig, begin: &str, end: &str| {
        let mut lines = rig.log.iter().map(|(_, text)| text);
        lines.any(|text| text.contains(begin) && text.ends_with(end))
    };
    assert!(logged(&rig, "stats: ", " us, 3 flights outstanding"), "{:?}", rig.log);
    rig.server_dies(server);
    let begin = "closing because: server conn crashed?";
    assert!(logged(&rig, begin, ", 3 flights outstanding)"), "{:?}", rig.log);
}
