//! Several hosts for one database: which of them get connections, and what a fail-over means for clients.

use crate::rig::{Rig, error, fatal};
use pgweir_core::{ClientId, DnsFacts, DnsHost, Endpoint, ServerId, Time};
use std::collections::BTreeMap;
use std::time::Duration;

/// The state of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Host {
    /// Connections are refused.
    Down,
    /// Connection attempts get no answer.
    Silent,
    Primary,
    Standby,
    /// A primary with `default_transaction_read_only`.
    Frozen,
}

/// The hosts, by name.
struct Hosts(BTreeMap<&'static str, Host>);

impl Hosts {
    fn set(&mut self, name: &'static str, host: Host) {
        self.0.insert(name, host);
    }

    /// Opens or refuses every connection that the pooler has asked for. Returns the hosts.
    fn answer(&self, rig: &mut Rig) -> Vec<String> {
        let mut tried = Vec::new();
        while let Some(id) = rig.connects.pop_front() {
            if rig.closed.contains(&id.into()) {
                continue;
            }
            let name = host_of(rig, id);
            let host = self.0[name.as_str()];
            tried.push(name);
            let on = |yes: bool| if yes { "on" } else { "off" };
            match host {
                Host::Down => rig.connect_fails(id),
                Host::Silent => {}
                Host::Primary | Host::Standby | Host::Frozen => rig.server_logs_in_with(
                    id,
                    &[
                        ("in_hot_standby", on(host == Host::Standby)),
                        ("default_transaction_read_only", on(host == Host::Frozen)),
                    ],
                ),
            }
        }
        tried
    }

    /// Does so for this long.
    fn answer_for(&self, rig: &mut Rig, seconds: u64) -> Vec<String> {
        let mut tried = self.answer(rig);
        for _ in 0..seconds * 10 {
            rig.wait(Duration::from_millis(100));
            tried.extend(self.answer(rig));
        }
        tried
    }
}

fn host_of(rig: &Rig, server: ServerId) -> String {
    match &rig.endpoints[&server] {
        Endpoint::Tcp { host, .. } => host.clone(),
        Endpoint::Unix { path, .. } => path.clone(),
    }
}

fn rig(entry: &str, hosts: [Host; 2]) -> (Rig, Hosts) {
    let rig = Rig::with(&format!("db = host=a,b user=u {entry}"), "default_pool_size = 4");
    (rig, Hosts(BTreeMap::from([("a", hosts[0]), ("b", hosts[1])])))
}

fn begins(rig: &mut Rig) -> ClientId {
    rig.client_begins(&[("user", "u"), ("database", "db")])
}

/// A client sends a Query and gets its answer; returns the host.
fn asks(rig: &mut Rig, hosts: &Hosts, client: ClientId) -> String {
    rig.says(client, |w| w.query(b"select 1"));
    hosts.answer(rig);
    let server = rig.server_of(client).expect("a server");
    rig.completes(server, "SELECT 1");
    rig.told(client);
    host_of(rig, server)
}

/// All servers of a host end with the last message of a PostgreSQL that is shut down.
fn host_dies(rig: &mut Rig, name: &str) {
    let ids: Vec<ServerId> = rig.endpoints.keys().copied().collect();
    for id in ids {
        if host_of(rig, id) == name && !rig.closed.contains(&id.into()) {
            rig.says(id, |w| {
                w.error(&fatal("57P01", "terminating connection due to administrator command"));
            });
            if !rig.closed.contains(&id.into()) {
                rig.server_dies(id);
            }
        }
    }
}

#[test]
fn only_the_wanted_host_serves() {
    for (attrs, hosts, serves) in [
        ("read-write", [Host::Standby, Host::Primary], "b"),
        ("read-write", [Host::Frozen, Host::Primary], "b"),
        ("primary", [Host::Standby, Host::Frozen], "b"),
        ("standby", [Host::Primary, Host::Standby], "b"),
        ("read-only", [Host::Primary, Host::Frozen], "b"),
        ("prefer-standby", [Host::Primary, Host::Standby], "b"),
        ("prefer-standby", [Host::Primary, Host::Down], "a"),
        ("any", [Host::Down, Host::Primary], "b"),
    ] {
        for balance in ["round-robin", "disable"] {
            let entry = format!("target_session_attrs={attrs} load_balance_hosts={balance}");
            let (mut rig, hosts) = rig(&entry, hosts);
            let clients: Vec<ClientId> = (0..3).map(|_| begins(&mut rig)).collect();
            hosts.answer(&mut rig);
            for &client in &clients {
                rig.told(client);
                rig.says(client, |w| w.query(b"select 1"));
            }
            hosts.answer(&mut rig);
            for client in clients {
                let server = rig.server_of(client).unwrap_or_else(|| panic!("{entry}: no server"));
                assert_eq!(host_of(&rig, server), serves, "{entry}");
            }
        }
    }
}

/// A standby that comes back replaces the primary, which served only because there was no standby.
#[test]
fn a_second_choice_gives_way() {
    let (mut rig, mut hosts) = rig("target_session_attrs=prefer-standby", [Host::Primary, Host::Down]);
    let client = begins(&mut rig);
    hosts.answer(&mut rig);
    rig.told(client);
    rig.says(client, |w| w.query(b"select 1"));
    hosts.answer(&mut rig);
    let server = rig.server_of(client).unwrap();
    assert_eq!(host_of(&rig, server), "a");
    hosts.set("b", Host::Standby);
    rig.wait(Duration::from_secs(2));
    let other = begins(&mut rig);
    hosts.answer(&mut rig);
    rig.told(other);
    assert_eq!(asks(&mut rig, &hosts, other), "b");
    assert!(!rig.closed.contains(&server.into()), "it is at work");
    rig.completes(server, "SELECT 1");
    assert!(rig.closed.contains(&server.into()));
}

/// The return of a standby is noticed even if no client needs one more server, in a pool that is full, too.
#[test]
fn a_second_choice_gives_way_without_new_clients() {
    for size in [1, 4] {
        let entry = format!("target_session_attrs=prefer-standby pool_size={size}");
        let (mut rig, mut hosts) = rig(&entry, [Host::Primary, Host::Down]);
        let client = begins(&mut rig);
        hosts.answer(&mut rig);
        assert_eq!(asks(&mut rig, &hosts, client), "a");
        let tried = hosts.answer_for(&mut rig, 60);
        let at_b = tried.iter().filter(|host| *host == "b").count();
        assert!((2..=4).contains(&at_b), "every server_login_retry: {tried:?}");
        hosts.set("b", Host::Standby);
        hosts.answer_for(&mut rig, 17);
        assert_eq!(asks(&mut rig, &hosts, client), "b", "pool_size = {size}");
        assert_eq!(hosts.answer_for(&mut rig, 60), [""; 0], "nothing better is sought");
    }
}

/// A host that has failed is attempted at once after RECONNECT.
#[test]
fn reconnect_forgets_failures() {
    let (mut rig, mut hosts) = rig("target_session_attrs=prefer-standby", [Host::Primary, Host::Down]);
    let client = begins(&mut rig);
    hosts.answer(&mut rig);
    assert_eq!(asks(&mut rig, &hosts, client), "a");
    hosts.set("b", Host::Standby);
    let boss = rig.client_begins(&[("user", "boss"), ("database", "pgbouncer")]);
    rig.says(boss, |w| w.query(b"RECONNECT"));
    assert_eq!(asks(&mut rig, &hosts, client), "b");
}

/// An attack: no host fits. No statement reaches a server of the wrong kind, and clients that log in are told why.
#[test]
fn where_no_host_fits_nobody_is_served() {
    let (mut rig, hosts) = rig("target_session_attrs=read-write", [Host::Standby, Host::Frozen]);
    let client = begins(&mut rig);
    hosts.answer(&mut rig);
    let told = rig.told(client);
    assert!(
        told.iter().any(|line| line.contains("session is read-only")),
        "{told:?}"
    );
    assert!(rig.closed.contains(&client.into()));
}

/// Guards against an error that hides what matters: the primary is starting, and the other host is only a standby.
#[test]
fn clients_are_told_what_tells_most_of_all_hosts() {
    const STARTING: &str = "Error 57P03 the database system is starting up";
    for primary in ["a", "b"] {
        let (mut rig, _) = rig("target_session_attrs=read-write", [Host::Primary; 2]);
        let client = begins(&mut rig);
        let mut tried = 0;
        while let Some(id) = rig.connects.pop_front() {
            tried += 1;
            if host_of(&rig, id) == primary {
                rig.server_connects(id);
                rig.says(id, |w| w.error(&fatal("57P03", "the database system is starting up")));
            } else {
                rig.server_logs_in_with(id, &[("in_hot_standby", "on")]);
            }
        }
        assert_eq!(tried, 2);
        assert_eq!(rig.told(client).last().map(String::as_str), Some(STARTING), "{primary}");
    }
}

#[test]
fn a_fail_over_needs_nothing_but_a_new_primary() {
    let (mut rig, mut hosts) = rig("target_session_attrs=read-write", [Host::Primary, Host::Standby]);
    let client = begins(&mut rig);
    hosts.answer(&mut rig);
    assert_eq!(asks(&mut rig, &hosts, client), "a");

    hosts.set("a", Host::Down);
    host_dies(&mut rig, "a");
    assert!(rig.told(client).is_empty(), "an idle client does not notice");
    rig.says(client, |w| w.query(b"insert into t values (1)"));
    let tried = hosts.answer_for(&mut rig, 5);
    assert!(tried.contains(&"a".into()) && tried.contains(&"b".into()), "{tried:?}");
    assert!(tried.len() <= 2 * 9, "each host is tried once a second: {tried:?}");
    assert_eq!(rig.server_of(client), None, "it waits");

    hosts.set("b", Host::Primary);
    hosts.answer_for(&mut rig, 1);
    let server = rig.server_of(client).expect("the new primary, within a second");
    assert_eq!(host_of(&rig, server), "b");
    rig.completes(server, "INSERT 0 1");
    assert!(rig.told(client).contains(&"CommandComplete INSERT 0 1".into()));

    // The old primary comes back as a standby: it is not used.
    hosts.set("a", Host::Standby);
    for _ in 0..3 {
        let more = begins(&mut rig);
        hosts.answer_for(&mut rig, 1);
        rig.told(more);
        assert_eq!(asks(&mut rig, &hosts, more), "b");
    }
}

/// Guards against a long fail-over: a host that swallows packets delays clients by at most a second.
#[test]
fn a_silent_host_does_not_delay_the_fail_over() {
    let (mut rig, mut hosts) = rig("load_balance_hosts=disable", [Host::Primary, Host::Primary]);
    let client = begins(&mut rig);
    hosts.answer(&mut rig);
    assert_eq!(asks(&mut rig, &hosts, client), "a");
    hosts.set("a", Host::Silent);
    host_dies(&mut rig, "a");
    rig.says(client, |w| w.query(b"select 1"));
    hosts.answer_for(&mut rig, 2);
    let server = rig.server_of(client).expect("a server of the other host");
    assert_eq!(host_of(&rig, server), "b");
}

#[test]
fn a_dead_host_is_used_again_when_it_is_back() {
    let (mut rig, mut hosts) = rig("", [Host::Down, Host::Primary]);
    let clients: Vec<ClientId> = (0..4).map(|_| begins(&mut rig)).collect();
    hosts.answer_for(&mut rig, 1);
    for &client in &clients {
        rig.told(client);
        rig.says(client, |w| w.query(b"select pg_sleep(9)"));
    }
    hosts.answer_for(&mut rig, 2);
    let count = |rig: &Rig, name: &str| {
        let servers = clients.iter().filter_map(|client| rig.server_of(*client));
        servers.filter(|server| host_of(rig, *server) == name).count()
    };
    assert_eq!((count(&rig, "a"), count(&rig, "b")), (0, 4));
    hosts.set("a", Host::Primary);
    for &client in &clients {
        let server = rig.server_of(client).unwrap();
        rig.completes(server, "SELECT 1");
        rig.server_dies(server);
        rig.told(client);
    }
    rig.wait(Duration::from_secs(2));
    for &client in &clients {
        rig.says(client, |w| w.query(b"select pg_sleep(9)"));
    }
    hosts.answer(&mut rig);
    assert_eq!((count(&rig, "a"), count(&rig, "b")), (1, 3), "one connection tries it");
    let other = clients
        .iter()
        .find_map(|client| rig.server_of(*client).filter(|s| host_of(&rig, *s) == "b"));
    rig.server_dies(other.unwrap());
    let more = begins(&mut rig);
    hosts.answer(&mut rig);
    rig.told(more);
    rig.says(more, |w| w.query(b"select 1"));
    hosts.answer(&mut rig);
    assert_eq!(host_of(&rig, rig.server_of(more).unwrap()), "a");
}

/// A primary is made read-only while it runs: its servers report 25006, and none of them serves any longer.
#[test]
fn servers_that_turn_read_only_are_replaced() {
    let (mut rig, mut hosts) = rig("target_session_attrs=read-write", [Host::Primary, Host::Standby]);
    let clients = [begins(&mut rig), begins(&mut rig)];
    hosts.answer(&mut rig);
    for &client in &clients {
        rig.told(client);
        rig.says(client, |w| w.query(b"insert into t values (1)"));
    }
    hosts.answer(&mut rig);
    let servers = clients.map(|client| rig.server_of(client).unwrap());
    hosts.set("a", Host::Frozen);
    rig.completes(servers[1], "INSERT 0 1");
    let refused = "cannot execute INSERT in a read-only transaction";
    rig.says(servers[0], |w| {
        w.error(&error("25006", refused));
        w.parameter_status(b"default_transaction_read_only", b"on");
        w.ready_for_query(pgweir_wire::TransactionStatus::Idle);
    });
    assert!(rig.closed.contains(&servers[0].into()), "it is looked at");
    let told = rig.told(clients[0]);
    assert_eq!(told, [&format!("Error 25006 {refused}"), "ReadyForQuery I"]);

    // When clients send their next queries, the new connection shows that the host has changed.
    for &client in &clients {
        rig.says(client, |w| w.query(b"insert into t values (1)"));
    }
    let server = rig.server_of(clients[0]).or(rig.server_of(clients[1])).unwrap();
    assert_eq!(server, servers[1], "one client has the other server");
    hosts.answer_for(&mut rig, 1);
    rig.completes(server, "INSERT 0 1");
    assert!(rig.closed.contains(&server.into()), "it serves no longer");
    hosts.set("b", Host::Primary);
    hosts.answer_for(&mut rig, 2);
    for client in clients {
        if let Some(server) = rig.server_of(client) {
            assert_eq!(host_of(&rig, server), "b");
            rig.completes(server, "INSERT 0 1");
        }
        assert!(
            rig.told(client).contains(&"CommandComplete INSERT 0 1".into()),
            "it is not read-only itself"
        );
    }
}

/// An attack: a client asks for read-only transactions and writes in them. Other clients must not lose their servers by
/// it.
#[test]
fn errors_of_a_clients_own_making_replace_one_server_a_second() {
    let (mut rig, hosts) = rig("target_session_attrs=primary", [Host::Primary, Host::Down]);
    let client = begins(&mut rig);
    hosts.answer(&mut rig);
    rig.told(client);
    for _ in 0..50 {
        rig.says(client, |w| w.query(b"begin read only; delete from t"));
        hosts.answer(&mut rig);
        let server = rig.server_of(client).unwrap();
        rig.says(server, |w| {
            w.error(&error("25006", "cannot execute DELETE in a read-only transaction"));
            w.ready_for_query(pgweir_wire::TransactionStatus::Idle);
        });
        rig.told(client);
    }
    let at_a = rig.endpoints.keys().filter(|id| host_of(&rig, **id) == "a").count();
    assert!(at_a <= 3, "{at_a} servers");
}

#[test]
fn a_promoted_standby_serves_no_readers() {
    let (mut rig, mut hosts) = rig("target_session_attrs=standby", [Host::Standby, Host::Standby]);
    let client = begins(&mut rig);
    hosts.answer(&mut rig);
    let host = asks(&mut rig, &hosts, client);
    assert_eq!(host, "a");
    rig.says(client, |w| w.query(b"select 1"));
    let server = rig.server_of(client).unwrap();
    hosts.set("a", Host::Primary);
    rig.says(server, |w| {
        w.command_complete("SELECT 1");
        w.parameter_status(b"in_hot_standby", b"off");
        w.ready_for_query(pgweir_wire::TransactionStatus::Idle);
    });
    assert!(rig.closed.contains(&server.into()));
    rig.told(client);
    assert_eq!(asks(&mut rig, &hosts, client), "b");
}

/// Guards against a host that swallows packets, with attempts that take all places of the pool: clients waited for
/// server_connect_timeout while the other host was alive.
#[test]
fn a_silent_host_does_not_keep_a_full_pool_from_the_other_host() {
    for (balance, size, clients) in [
        ("disable", 1, 1),
        ("disable", 4, 4),
        ("round-robin", 1, 3),
        ("disable", 20, 20),
    ] {
        let entry = format!("load_balance_hosts={balance} pool_size={size}");
        let (mut rig, hosts) = rig(&entry, [Host::Silent, Host::Primary]);
        let all: Vec<ClientId> = (0..clients).map(|_| begins(&mut rig)).collect();
        hosts.answer_for(&mut rig, 2);
        for client in &all {
            rig.query(*client, "select 1");
        }
        hosts.answer_for(&mut rig, 2);
        for client in &all {
            let server = rig.server_of(*client).unwrap_or_else(|| panic!("{entry}: no server"));
            assert_eq!(host_of(&rig, server), "b", "{entry}");
            rig.completes(server, "SELECT 1");
        }
    }
}

/// The limit on a database's connections is as good as the size of a pool.
#[test]
fn a_silent_host_does_not_use_up_max_db_connections() {
    let (mut rig, hosts) = rig(
        "load_balance_hosts=disable max_db_connections=2",
        [Host::Silent, Host::Primary],
    );
    let clients = [begins(&mut rig), begins(&mut rig), begins(&mut rig)];
    for _ in 0..60 {
        hosts.answer_for(&mut rig, 0);
        rig.wait(Duration::from_millis(100));
        let open = rig.endpoints.keys().filter(|id| !rig.is_closed(**id)).count();
        assert!(open <= 2, "{open} servers");
    }
    assert_eq!(asks(&mut rig, &hosts, clients[0]), "b");
}

/// An attack: no host answers. Few attempts are given up, and fewer with time.
#[test]
fn silent_hosts_are_not_connected_to_in_a_storm() {
    let (mut rig, hosts) = rig("pool_size=4", [Host::Silent, Host::Silent]);
    let clients: Vec<ClientId> = (0..8).map(|_| begins(&mut rig)).collect();
    let tried = hosts.answer_for(&mut rig, 14);
    assert!(tried.len() <= 16, "{} attempts", tried.len());
    assert!(tried.iter().any(|host| host == "a") && tried.iter().any(|host| host == "b"));
    assert!(!rig.is_closed(clients[0]));
}

/// A host that takes three seconds to log in is not given up again and again for one that is dead.
#[test]
fn a_slow_host_serves_if_the_other_one_is_dead() {
    let (mut rig, mut hosts) = rig("load_balance_hosts=disable pool_size=1", [Host::Silent, Host::Silent]);
    let client = begins(&mut rig);
    let mut begun = BTreeMap::new();
    while hosts.0["a"] == Host::Silent {
        rig.wait(Duration::from_millis(100));
        for id in rig.connects.clone() {
            let since = *begun.entry(id).or_insert(rig.now);
            let logs_in = host_of(&rig, id) == "a" && rig.now - since >= Duration::from_secs(3);
            if logs_in && !rig.is_closed(id) {
                hosts.set("a", Host::Primary);
                hosts.answer(&mut rig);
            }
        }
        assert!(begun.len() < 5, "no attempt lasts for three seconds");
    }
    rig.told(client);
    assert_eq!(asks(&mut rig, &hosts, client), "a");
}

/// Guards against a dead server that is tried every second although nobody asks for it. Clients that come find it at
/// once when it is back.
#[test]
fn min_pool_size_waits_for_server_login_retry_after_a_failure() {
    for (entry, hosts) in [
        ("min_pool_size=2", [Host::Down; 2]),
        ("min_pool_size=1", [Host::Standby; 2]),
    ] {
        let entry = format!("{entry} target_session_attrs=primary");
        let (mut rig, mut all) = rig(&entry, hosts);
        let tried = all.answer_for(&mut rig, 61);
        assert!((8..=12).contains(&tried.len()), "each host, every 15 s: {tried:?}");

        all.set("a", Host::Primary);
        let client = begins(&mut rig);
        all.answer_for(&mut rig, 1);
        assert_eq!(asks(&mut rig, &all, client), "a", "a client finds it");
        let (mut rig, mut all) = self::rig(&entry, hosts);
        all.answer_for(&mut rig, 61);
        all.set("a", Host::Primary);
        assert!(
            all.answer_for(&mut rig, 16).contains(&"a".into()),
            "it is found without a client"
        );
        assert_eq!(all.answer_for(&mut rig, 60).len(), 0, "and the pool is filled");
    }
}

/// While another host serves, a dead one does not keep the pool from being filled.
#[test]
fn min_pool_size_does_not_wait_for_a_dead_host_beside_one_that_serves() {
    let (mut rig, hosts) = rig("min_pool_size=4", [Host::Down, Host::Primary]);
    let tried = hosts.answer_for(&mut rig, 5);
    assert_eq!(tried.iter().filter(|host| *host == "b").count(), 4, "{tried:?}");
}

/// The servers that a name with two addresses leads to log in, in turn; the first address is a standby's. Returns the
/// addresses.
fn name_answers(rig: &mut Rig) -> Vec<u8> {
    let mut reached = Vec::new();
    while let Some(id) = rig.connects.pop_front() {
        let last = 1 + u8::from(rig.endpoints.len().is_multiple_of(2));
        rig.server_connects_at(id, [10, 0, 0, last]);
        rig.server_welcomes(id, &[("in_hot_standby", if last == 1 { "on" } else { "off" })]);
        reached.push(last);
    }
    reached
}

/// Guards against a login that fails because the first address of a name is a standby's, and against servers that are
/// replaced because another address of their host is.
#[test]
fn each_address_of_a_name_may_be_the_wanted_host() {
    let names = DnsFacts {
        hosts: vec![DnsHost {
            name: "pair".into(),
            until: Time(u64::MAX),
            addresses: vec![[10, 0, 0, 1].into(), [10, 0, 0, 2].into()],
        }],
        ..DnsFacts::default()
    };
    for (target, served_at) in [("primary", Some(2)), ("standby", Some(1)), ("read-only", Some(1))] {
        let mut rig = Rig::with(&format!("db = host=pair user=u target_session_attrs={target}"), "");
        rig.pooler.handle_names(rig.now, names.clone(), "pair", &[]);
        let clients = [begins(&mut rig), begins(&mut rig), begins(&mut rig)];
        for _ in 0..2 {
            let last = name_answers(&mut rig).last().copied();
            assert!(last.is_none() || last == served_at, "{target}");
            for client in clients {
                assert!(!rig.is_closed(client), "{target}: {:?}", rig.told(client));
                rig.told(client);
                rig.query(client, "begin; select 1");
            }
        }
        let mut served: Vec<ServerId> = clients.iter().filter_map(|c| rig.server_of(*c)).collect();
        served.dedup();
        assert_eq!(served.len(), 3, "{target}");
        for (client, server) in clients.iter().zip(served) {
            rig.completes(server, "SELECT 1");
            rig.query(*client, "commit");
            rig.completes(server, "COMMIT");
            assert!(!rig.is_closed(server), "{target}: it is at the right address");
        }
    }
}

/// If no address is of the wanted kind, the client is told so after each was tried.
#[test]
fn a_name_whose_addresses_are_all_unwanted_fails() {
    let mut rig = Rig::with("db = host=pair user=u target_session_attrs=primary", "");
    let addresses = vec![[10, 0, 0, 1].into(), [10, 0, 0, 2].into()];
    let (name, until) = ("pair".into(), Time(u64::MAX));
    let hosts = vec![DnsHost { name, until, addresses }];
    let names = DnsFacts {
        hosts,
        ..DnsFacts::default()
    };
    rig.pooler.handle_names(rig.now, names, "pair", &[]);
    for turns in [true, false] {
        let client = begins(&mut rig);
        let mut tried = 0;
        while let Some(id) = rig.connects.pop_front() {
            tried += 1;
            let last = if turns { 1 + tried % 2 } else { 1 };
            rig.server_connects_at(id, [10, 0, 0, last]);
            rig.server_welcomes(id, &[("in_hot_standby", "on")]);
        }
        assert!(if turns { tried == 2 } else { tried <= 6 }, "{tried}");
        let told = rig.told(client);
        assert!(
            rig.is_closed(client) && told[0].contains("server is in hot standby mode"),
            "{told:?}"
        );
        rig.wait(Duration::from_secs(100));
    }
}
