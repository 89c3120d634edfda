//! Cancel requests of several processes on one port: which of them are passed on, to whom, and how many.

use crate::rig::{Rig, configuration};
use pgweir_core::ClientId;
use pgweir_wire::backend::data_row;
use pgweir_wire::{CancelKey, ProtocolVersion, StartupPacket};
use std::time::Duration;

const DATABASES: &str = "db = host=127.0.0.1 user=u";

/// Process 1, which knows processes 2 and 3.
const PEERS: &str = "peer_id = 1\ncancel_wait_timeout = 5\n[peers]\n2 = host=10.0.0.2 pool_size=2\n3 = host=10.0.0.3";

fn rig() -> Rig {
    Rig::with(DATABASES, PEERS)
}

/// A key that process `peer` may have given to one of its clients.
fn key_of(peer: u8, hops: u8) -> CancelKey {
    CancelKey::read(&[5, peer, 0, 9, 1, 2, 3, 0xf0 | hops]).unwrap()
}

/// The rows of SHOW PEER_POOLS.
fn peer_pools(rig: &mut Rig) -> Vec<String> {
    let id = rig.client_begins(&[("user", "boss"), ("database", "pgbouncer")]);
    rig.told(id);
    rig.says(id, |w| w.query(b"show peer_pools"));
    let heard = rig.hears(id).into_iter().filter(|(tag, _)| *tag == b'D');
    let text = |value: Option<&[u8]>| String::from_utf8(value.unwrap_or_default().to_vec()).unwrap();
    let row = |body: Vec<u8>| data_row(&body).unwrap().into_iter().map(text).collect::<Vec<_>>();
    let rows = heard.map(|(_, body)| row(body).join("|")).collect();
    rig.client_leaves(id);
    rows
}

#[test]
fn a_request_for_a_client_of_a_peer_is_passed_on_to_it() {
    let mut rig = rig();
    let asked = rig.cancel_request(&key_of(2, 3));
    assert_eq!(Vec::from(rig.passed_on.clone()), [(2, asked, key_of(2, 2))]);
    assert!(!rig.is_closed(asked), "the peer has not answered yet");
    rig.passed_on_ends(2, asked);
    assert!(rig.is_closed(asked));
}

#[test]
fn our_own_clients_are_told_keys_that_name_us_and_can_use_them_after_any_way_round() {
    let mut rig = rig();
    let (client, key) = rig.client_with_key();
    let bytes = key.process_id.to_be_bytes();
    assert_eq!((bytes[1], bytes[2], key.secret.len()), (1, 0, 4));
    assert_eq!(key.secret[3] & 3, 3, "all hops are left");
    for hops in 0..=3 {
        rig.says(client, |w| w.query(b"select pg_sleep(9)"));
        let mut passed = key.clone();
        passed.secret[3] = key.secret[3] & !3 | hops;
        rig.cancel_request(&passed);
        let (server, _) = rig.cancels.pop_front().expect("a cancel for the server");
        rig.completes(server, "SELECT 1");
        rig.cancel_arrives(server);
    }
    assert!(rig.passed_on.is_empty());
}

/// The secrets of two clients with the same process id tell them apart; a wrong secret belongs to neither.
#[test]
fn a_guessed_key_of_our_own_cancels_nothing_and_goes_nowhere() {
    let mut rig = rig();
    let (client, key) = rig.client_with_key();
    rig.says(client, |w| w.query(b"select pg_sleep(9)"));
    let mut guessed = key.clone();
    guessed.secret[0] ^= 1;
    let asked = rig.cancel_request(&guessed);
    assert!(rig.is_closed(asked));
    assert!(rig.cancels.is_empty() && rig.passed_on.is_empty());
}

#[test]
fn a_request_that_goes_in_circles_ends() {
    let mut rig = rig();
    let asked = rig.cancel_request(&key_of(2, 0));
    assert!(rig.is_closed(asked) && rig.passed_on.is_empty());
}

#[test]
fn a_request_for_an_unknown_peer_ends() {
    let mut rig = rig();
    let asked = rig.cancel_request(&key_of(9, 3));
    assert!(rig.is_closed(asked) && rig.passed_on.is_empty());
}

#[test]
fn without_a_peer_id_nothing_is_passed_on() {
    let mut rig = Rig::with(DATABASES, "[peers]\n2 = host=10.0.0.2");
    let asked = rig.cancel_request(&key_of(2, 3));
    assert!(rig.is_closed(asked) && rig.passed_on.is_empty());
}

/// A flood for a peer that does not answer: at most pool_size requests at a time. Requests are dropped when they have
/// waited too long or their connection has left.
#[test]
fn a_flood_for_one_peer_is_held_back_and_hinders_no_other() {
    let mut rig = rig();
    let asked: Vec<ClientId> = (0..6).map(|_| rig.cancel_request(&key_of(2, 3))).collect();
    assert_eq!(rig.passed_on.len(), 2, "the peer's pool_size");
    let other = rig.cancel_request(&key_of(3, 3));
    assert_eq!(rig.passed_on.back().map(|(peer, by, _)| (*peer, *by)), Some((3, other)));
    assert_eq!(peer_pools(&mut rig), ["2|2|4|2|0", "3|1|0|1|0"]);

    rig.client_leaves(asked[2]);
    rig.passed_on_ends(2, asked[0]);
    let next = rig.passed_on.back().map(|(_, by, _)| *by);
    assert_eq!(next, Some(asked[3]), "who has left is passed over");

    rig.wait(Duration::from_secs(6));
    assert!(asked[3..].iter().all(|id| rig.is_closed(*id)), "cancel_wait_timeout");
    assert_eq!(peer_pools(&mut rig), ["2|2|0|2|0", "3|1|0|1|0"]);
    let passed_on = rig.passed_on.len();
    rig.passed_on_ends(2, asked[1]);
    assert_eq!(
        rig.passed_on.len(),
        passed_on,
        "nothing is passed on for those that are gone"
    );
}

#[test]
fn a_reload_changes_the_peers() {
    let mut rig = rig();
    let (client, key) = rig.client_with_key();
    let asked: Vec<ClientId> = (0..3).map(|_| rig.cancel_request(&key_of(2, 3))).collect();
    // Process 2 is removed, this process becomes 7, and process 4 is added.
    rig.reloads(configuration(DATABASES, "peer_id = 7\n[peers]\n4 = host=10.0.0.4"));
    assert!(rig.is_closed(asked[2]), "its peer is not there any more");
    assert!(!rig.is_closed(asked[0]), "this one is on its way");
    rig.passed_on_ends(2, asked[0]);
    rig.passed_on_ends(2, asked[1]);
    assert!(peer_pools(&mut rig).is_empty());
    rig.cancel_request(&key_of(4, 3));
    assert_eq!(rig.passed_on.back().map(|(peer, ..)| *peer), Some(4));

    // A client that connected before the RELOAD can still cancel.
    rig.says(client, |w| w.query(b"select pg_sleep(9)"));
    rig.cancel_request(&key);
    assert_eq!(rig.cancels.len(), 1);
}

#[test]
fn only_a_process_with_peers_tells_short_keys_under_protocol_3_2() {
    for (settings, bytes) in [("", 32), (PEERS, 4)] {
        let mut rig = Rig::with(DATABASES, settings);
        let id = rig.silent_client();
        let mut packet = Vec::new();
        let parameters = [(&b"user"[..], &b"u"[..]), (b"database", b"db")];
        StartupPacket::write_startup(&mut packet, ProtocolVersion::V3_2, parameters);
        rig.comes(id, &packet);
        rig.servers_log_in();
        let key = rig.key_told(id);
        assert_eq!(key.secret.len(), bytes);
        rig.told(id);
        rig.says(id, |w| w.query(b"select pg_sleep(9)"));
        rig.cancel_request(&key);
        assert_eq!(rig.cancels.len(), 1);
    }
}
