//! Who is served next, and who is refused early: conversations in virtual time.

use crate::rig::Rig;
use pgweir_core::{ClientId, ServerId};
use pgweir_wire::TransactionStatus::{Idle, InTransaction};
use std::collections::BTreeMap;
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

/// A pool of one server, whose clients are of users a, b and c.
fn one_server(settings: &str) -> Rig {
    let users = "\"a\" \"\"\n\"b\" \"\"\n\"c\" \"\"\n\"u\" \"\"";
    Rig::with_users(
        users,
        &format!("default_pool_size = 1\nmax_client_conn = 1000\n{settings}"),
    )
}

/// A client that has logged in.
fn login(rig: &mut Rig, user: &str, application: &str) -> ClientId {
    let parameters = [("user", user), ("database", "db"), ("application_name", application)];
    let id = rig.client_begins(&parameters);
    rig.servers_log_in();
    assert!(rig.told(id).ends_with(&["ReadyForQuery I".into()]));
    id
}

/// Saturates one server: whoever is served asks again at once.
struct Load {
    rig: Rig,
    server: ServerId,
    /// How long each client's transactions take.
    times: BTreeMap<ClientId, Duration>,
    used: BTreeMap<ClientId, Duration>,
    order: Vec<ClientId>,
}

impl Load {
    fn new(mut rig: Rig, clients: &[(ClientId, Duration)]) -> Self {
        for (client, _) in clients {
            rig.query(*client, "select 1");
        }
        let server = clients.iter().find_map(|(client, _)| rig.server_of(*client)).unwrap();
        let mut load = Load {
            rig,
            server,
            times: clients.iter().copied().collect(),
            used: BTreeMap::new(),
            order: Vec::new(),
        };
        load.restores();
        load
    }

    fn running(&self) -> ClientId {
        let linked = |id: &&ClientId| self.rig.server_of(**id) == Some(self.server);
        *self.times.keys().find(linked).expect("somebody is served")
    }

    /// Ends the transaction that runs; its client does not ask again.
    fn ends(&mut self) -> ClientId {
        let client = self.running();
        let time = self.times[&client];
        self.rig.wait(time);
        *self.used.entry(client).or_default() += time;
        self.order.push(client);
        self.rig.completes(self.server, "SELECT 1");
        self.rig.told(client);
        self.restores();
        client
    }

    /// The server confirms the settings of its next client, if they differ.
    fn restores(&mut self) {
        let told = self.rig.told(self.server);
        self.rig.replies(self.server, &told, None, |w, _| {
            w.data_row(1, [Some(&b""[..])]);
            w.command_complete("SELECT 1");
        });
        self.rig.told(self.server);
    }

    fn runs(&mut self, transactions: usize) {
        for _ in 0..transactions {
            let client = self.ends();
            self.rig.query(client, "select 1");
        }
    }

    fn used_ms(&self, client: ClientId) -> u128 {
        self.used.get(&client).map_or(0, Duration::as_millis)
    }
}

#[test]
fn who_asks_now_and_then_does_not_wait_behind_those_who_always_ask() {
    let mut rig = one_server("");
    let crowd: Vec<_> = (0..100).map(|_| (login(&mut rig, "a", ""), MS)).collect();
    let calm = login(&mut rig, "a", "");
    let mut load = Load::new(rig, &crowd);
    load.times.insert(calm, MS);
    load.runs(250);
    // A new connection has no advantage.
    load.rig.query(calm, "select 'calm'");
    while load.running() != calm {
        load.runs(1);
    }
    load.ends();
    for _ in 0..20 {
        load.runs(50);
        load.rig.query(calm, "select 'calm'");
        // Only what runs already stands before it.
        load.runs(1);
        assert_eq!(load.ends(), calm);
    }
    // First come, first served: behind a hundred.
    let off = configuration_of("fair_by = off");
    load.rig.reloads(off);
    load.rig.query(calm, "select 'calm'");
    load.runs(99);
    assert_ne!(load.running(), calm);
    load.runs(1);
    assert_eq!(load.running(), calm);
}

fn configuration_of(settings: &str) -> pgweir_config::Config {
    let users = "\"a\" \"\"\n\"b\" \"\"\n\"c\" \"\"\n\"u\" \"\"";
    let settings = format!("default_pool_size = 1\n{settings}");
    crate::rig::configuration_with_users("db = host=127.0.0.1 user=u", &settings, users)
}

#[test]
fn clients_get_equal_time_whatever_the_length_of_their_transactions() {
    let mut rig = one_server("");
    let short: Vec<_> = (0..3).map(|_| (login(&mut rig, "a", ""), MS)).collect();
    let long: Vec<_> = (0..3).map(|_| (login(&mut rig, "a", ""), MS * 20)).collect();
    let mut load = Load::new(rig, &[&short[..], &long].concat());
    load.runs(2000);
    let used: Vec<_> = short.iter().chain(&long).map(|(id, _)| load.used_ms(*id)).collect();
    let (least, most) = (used.iter().min().unwrap(), used.iter().max().unwrap());
    assert!(most - least <= 40, "{used:?}");
}

#[test]
fn server_time_goes_by_the_weights_of_users() {
    for by in ["user", "application", "client"] {
        let weights = "[users]\na = weight=1\nb = weight=3";
        let mut rig = one_server(&format!("fair_by = {by}\n{weights}"));
        let a: Vec<_> = (0..5).map(|_| (login(&mut rig, "a", ""), MS * 2)).collect();
        let b: Vec<_> = (0..5).map(|_| (login(&mut rig, "b", ""), MS * 3)).collect();
        let mut load = Load::new(rig, &[&a[..], &b].concat());
        load.runs(2000);
        let sum = |of: &[(ClientId, Duration)]| of.iter().map(|(id, _)| load.used_ms(*id)).sum::<u128>();
        let (a, b) = (sum(&a), sum(&b));
        assert!((b * 100).abs_diff(a * 300) < a * 15, "{by}: {a} ms and {b} ms");
    }
}

#[test]
fn groups_share_by_user_and_application() {
    // Nine clients of one group beside one of another: the shares of the nine, in percent.
    for (by, one, share) in [
        ("client", ("b", "y"), 88..93),
        ("application", ("a", "y"), 48..53),
        ("application", ("b", "x"), 48..53),
        ("user", ("a", "x"), 88..93),
        ("user", ("a", "y"), 88..93),
        ("user", ("b", "x"), 48..53),
        ("off", ("b", "y"), 88..93),
    ] {
        let mut rig = one_server(&format!("fair_by = {by}"));
        let mut clients: Vec<_> = (0..9).map(|_| (login(&mut rig, "a", "x"), MS)).collect();
        let alone = login(&mut rig, one.0, one.1);
        clients.push((alone, MS));
        let mut load = Load::new(rig, &clients);
        load.runs(1000);
        let nine = 100 - load.used_ms(alone) / 10;
        assert!(share.contains(&nine), "{by} {one:?}: {nine} %");
    }
}

#[test]
fn a_new_connection_does_not_escape_what_its_user_owes() {
    let mut rig = one_server("fair_by = user");
    let (a, b) = (login(&mut rig, "a", ""), login(&mut rig, "b", ""));
    let other = login(&mut rig, "b", "");
    let mut load = Load::new(rig, &[(a, MS * 10), (b, MS), (other, MS)]);
    load.runs(100);
    // It vanishes amid its transaction, and others of its user come. All its time counts.
    while load.running() != a {
        load.runs(1);
    }
    load.rig.wait(MS * 50);
    load.rig.client_leaves(a);
    let server = load.server;
    let drained = load.rig.cancels.pop_front().map(|(server, _)| server);
    assert_eq!(drained, Some(server));
    load.rig.cancel_arrives(server);
    load.rig.told(server);
    load.rig.says(server, |w| {
        w.error(&crate::rig::error("57014", "canceling statement due to user request"));
        w.ready_for_query(Idle);
    });
    let again = login(&mut load.rig, "a", "");
    load.times.insert(again, MS);
    load.rig.query(again, "select 1");
    load.order.clear();
    load.runs(40);
    assert!(!load.order.contains(&again), "b may use 50 ms first");
    load.runs(40);
    assert!(load.order.contains(&again));
}

#[test]
fn a_long_transaction_counts_while_it_runs() {
    let users = "\"a\" \"\"\n\"b\" \"\"\n\"u\" \"\"";
    let mut rig = Rig::with_users(users, "default_pool_size = 2\nfair_by = user");
    let [long, other] = [login(&mut rig, "a", ""), login(&mut rig, "a", "")];
    let b = [login(&mut rig, "b", ""), login(&mut rig, "b", "")];
    rig.query(long, "select 'long'");
    rig.query(b[0], "select 1");
    rig.servers_log_in();
    let server = rig.server_of(b[0]).expect("the second server");
    // All users have waited, so that their time counts from now on.
    rig.query(other, "select 1");
    rig.query(b[1], "select 1");
    rig.wait(MS * 500);
    rig.completes(server, "SELECT 1");
    // Both have used half a second: whoever came first.
    assert_eq!(rig.server_of(other), Some(server));
    rig.query(b[0], "select 1");
    rig.wait(MS * 300);
    rig.completes(server, "SELECT 1");
    for n in [1, 0, 1, 0] {
        assert_eq!(rig.server_of(b[n]), Some(server), "a has used two servers at once");
        rig.query(other, "select 1");
        rig.wait(MS * 10);
        rig.completes(server, "SELECT 1");
        rig.query(b[n], "select 1");
    }
}

#[test]
fn commit_and_rollback_do_not_wait() {
    let mut rig = one_server("");
    let clients = [login(&mut rig, "a", ""), login(&mut rig, "a", "")];
    rig.query(clients[0], "update t set x = 1");
    let server = rig.server_of(clients[0]).unwrap();
    rig.says(server, |w| {
        w.command_complete("UPDATE 1");
        w.ready_for_query(InTransaction);
    });
    rig.query(clients[1], "select 1");
    rig.wait(MS * 1000);
    rig.told(server);
    rig.query(clients[0], "commit");
    assert_eq!(rig.told(server), ["Query commit"]);
}

#[test]
fn a_reload_changes_the_order_and_loses_nobody() {
    let mut rig = one_server("fair_by = off");
    let all: Vec<_> = ["a", "a", "a", "b"].map(|user| (login(&mut rig, user, ""), MS)).into();
    let mut load = Load::new(rig, &all);
    for (n, by) in ["user", "client", "application", "off", "user"].into_iter().enumerate() {
        load.rig.reloads(configuration_of(&format!("fair_by = {by}")));
        load.order.clear();
        load.runs(40);
        let of_b = load.order.iter().filter(|id| **id == all[3].0).count();
        let expected = if matches!(by, "user" | "application") {
            18..23
        } else {
            9..12
        };
        assert!(expected.contains(&of_b), "{n}: {by}: {of_b} of 40");
    }
    // A client leaves the queue, and the others go on.
    load.rig
        .client_leaves(load.times.keys().copied().find(|id| *id != load.running()).unwrap());
    load.runs(1);
}
