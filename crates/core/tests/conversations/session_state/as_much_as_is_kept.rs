//! A client with as many settings, and as much text in them, as the pooler keeps for one: what they cost it and others.

use crate::rig::{NOTHING, Rig, Session};
use pgweir_core::{ClientId, ServerId};

/// Custom settings that are kept at most, less one; together they have almost 1 MiB, which is kept at most.
const COUNT: usize = 255;
const VALUE_BYTES: usize = 4000;

/// The bytes in front of the values: names, headers, a Bind and an Execute for each setting.
const OVERHEAD: usize = 128 * COUNT;

fn settings(of: &str) -> Vec<(String, String)> {
    let value = |n: usize| format!("{n}{}", of.repeat(VALUE_BYTES))[..VALUE_BYTES].to_string();
    (0..COUNT).map(|n| (format!("app.s{n}"), value(n))).collect()
}

/// The server that serves a Query of this client, and the bytes that it was sent for it. The session is as given.
fn asks(rig: &mut Rig, client: ClientId, text: &str, settings: &[(String, String)]) -> (ServerId, usize) {
    let pairs: Vec<_> = settings.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
    let session = NOTHING.with(&pairs);
    rig.says(client, |w| w.query(text.as_bytes()));
    let server = rig.server_of(client).expect("a server");
    let bytes = answers_all(rig, server, session);
    assert!(
        rig.told(client).iter().any(|l| l.starts_with("CommandComplete")),
        "{text}"
    );
    (server, bytes)
}

fn answers_all(rig: &mut Rig, server: ServerId, session: Session<'_>) -> usize {
    let mut bytes = 0;
    while rig.bytes_written(server) > 0 {
        bytes += rig.bytes_written(server);
        rig.answers_about(server, session.with(session.settings));
    }
    bytes
}

/// Guards against work that grows with the square of a session: each of 200 settings cost all of them.
#[test]
fn a_client_with_as_much_as_is_kept_costs_what_it_has_and_others_nothing() {
    let mut rig = Rig::one_server("");
    let (big, plain) = (rig.client(), rig.client());
    let own = settings("x");
    let kept: usize = own.iter().map(|(n, v)| n.len() + v.len()).sum();
    asks(&mut rig, big, "set app.s0 = 'x'", &own);
    let (server, bytes) = asks(&mut rig, big, "select 1", &own);
    assert!(bytes < 100, "the server has its settings: {bytes}");
    let (_, bytes) = asks(&mut rig, plain, "select 2", &[]);
    assert!(bytes < OVERHEAD, "others do not pay for its values: {bytes}");
    let (_, bytes) = asks(&mut rig, plain, "select 3", &[]);
    assert!(bytes < 100, "nor twice: {bytes}");
    let (again, bytes) = asks(&mut rig, big, "select 4", &own);
    assert_eq!(server, again);
    assert!(bytes > kept, "all of it is restored: {bytes}");
    assert!(bytes < kept + OVERHEAD, "and once: {bytes}");
    assert!(rig.closed.is_empty());
}

/// Others wait for one restoration at most, and only if there is no other server.
#[test]
fn others_are_served_while_as_much_as_is_kept_is_restored() {
    let mut rig = Rig::new("default_pool_size = 2");
    let (big, plain) = (rig.client(), rig.client());
    let own = settings("x");
    asks(&mut rig, big, "set app.s0 = 'x'", &own);
    asks(&mut rig, plain, "select 2", &[]);
    rig.says(big, |w| w.query(b"select 1"));
    let restored = rig.server_of(big).expect("linked");
    assert!(rig.bytes_written(restored) > COUNT * VALUE_BYTES);
    rig.says(plain, |w| w.query(b"select 3"));
    let other = rig.servers_log_in()[0];
    assert_eq!(rig.server_of(plain), Some(other));
    rig.completes(other, "SELECT 1");
    assert_eq!(rig.told(plain), ["CommandComplete SELECT 1", "ReadyForQuery I"]);
    assert_eq!(rig.told(big), [""; 0], "its settings are still being restored");
}
