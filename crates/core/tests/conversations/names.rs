//! Host names of servers whose addresses change.

use crate::rig::Rig;
use pgweir_core::{DnsFacts, DnsHost, Time};
use std::net::IpAddr;

/// The servers of these tests are at 127.0.0.1.
fn looked_up(rig: &mut Rig, name: &str, gone: &[&str]) {
    let gone: Vec<IpAddr> = gone.iter().map(|address| address.parse().unwrap()).collect();
    let facts = DnsFacts {
        hosts: vec![DnsHost {
            name: name.into(),
            until: Time(rig.now.0 + 9_500_000),
            addresses: vec!["127.0.0.7".parse().unwrap(), "::1".parse().unwrap()],
        }],
        ..DnsFacts::default()
    };
    rig.pooler.handle_names(rig.now, facts, name, &gone);
    rig.settle(&[]);
}

#[test]
fn servers_at_addresses_that_a_name_has_no_longer_are_replaced_when_they_are_free() {
    let mut rig = Rig::with("db = host=db.test user=u", "");
    let (busy, idle) = (rig.client(), rig.client());
    for client in [busy, idle] {
        rig.says(client, |w| w.query(b"select 1"));
    }
    rig.servers_log_in();
    let servers = [busy, idle].map(|client| rig.server_of(client).unwrap());
    rig.completes(servers[1], "SELECT 1");
    let is_closed = |rig: &Rig| servers.map(|server| rig.closed.contains(&server.into()));

    looked_up(&mut rig, "other.test", &["127.0.0.1"]);
    looked_up(&mut rig, "db.test", &["127.0.0.2"]);
    assert_eq!(is_closed(&rig), [false, false], "another name, another address");
    looked_up(&mut rig, "db.test", &["127.0.0.2", "127.0.0.1"]);
    assert_eq!(is_closed(&rig), [false, true]);
    rig.completes(servers[0], "SELECT 1");
    assert_eq!(is_closed(&rig), [true, true]);
    assert!(rig.log.iter().any(|(_, line)| line.contains("obsolete connection")));
}

#[test]
fn the_console_shows_what_is_known_of_names() {
    let mut rig = Rig::with("db = host=db.test user=u", "");
    looked_up(&mut rig, "db.test", &[]);
    let boss = rig.client_begins(&[("user", "boss"), ("database", "pgbouncer")]);
    rig.told(boss);
    rig.says(boss, |w| w.query(b"show dns_hosts"));
    let rows: Vec<Vec<u8>> = rig
        .hears(boss)
        .into_iter()
        .filter(|(t, _)| *t == b'D')
        .map(|(_, b)| b)
        .collect();
    let row = pgweir_wire::backend::data_row(&rows[0]).unwrap();
    assert_eq!(row, [Some(&b"db.test"[..]), Some(b"9"), Some(b"127.0.0.7,::1")]);
}
