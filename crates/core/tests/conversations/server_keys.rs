//! Logins to servers whose verifiers have many iterations: the driver derives the keys.

use crate::rig::Rig;
use pgweir_core::{ClientId, ServerId, Verification, Verified};

const MANY: u32 = 100_000;

/// A client waits for a server that has asked for a proof of so many iterations.
fn asked_for_proof(iterations: u32) -> (Rig, ClientId, ServerId) {
    let mut rig = Rig::with("db = host=127.0.0.1 user=u password=sesame", "");
    let client = rig.client_begins(&[("user", "u"), ("database", "db")]);
    let server = rig.connects.pop_front().expect("a server");
    rig.server_connects(server);
    rig.says(server, |w| w.authentication(b"\0\0\0\x0aSCRAM-SHA-256\0\0"));
    let told = String::from_utf8_lossy(&rig.raw(server)).into_owned();
    let nonce = told.split_once(",r=").expect("a nonce").1.to_owned();
    let challenge = format!("r={nonce}X,s=AA==,i={iterations}");
    rig.says(server, |w| {
        w.authentication(&[b"\0\0\0\x0b", challenge.as_bytes()].concat())
    });
    (rig, client, server)
}

fn has_sent_proof(rig: &mut Rig, server: ServerId) -> bool {
    String::from_utf8_lossy(&rig.raw(server)).contains(",p=")
}

#[test]
fn few_iterations_are_computed_at_once() {
    let (mut rig, _, server) = asked_for_proof(4096);
    assert!(rig.derivations.is_empty() && has_sent_proof(&mut rig, server));
}

#[test]
fn the_proof_follows_when_the_driver_has_derived_the_keys() {
    let (mut rig, _, server) = asked_for_proof(MANY);
    let (asker, question) = rig.derivations.pop_front().expect("a question");
    let Verification::Keys(derivation) = question else {
        panic!("{question:?}");
    };
    assert_eq!((asker, derivation.iterations), (server, MANY));
    assert!(!has_sent_proof(&mut rig, server));
    rig.derived(server, Verified::Keys(derivation.derive()));
    assert!(has_sent_proof(&mut rig, server));
    rig.derived(server, Verified::Keys(derivation.derive()));
    assert!(!has_sent_proof(&mut rig, server), "nobody waits for it");
}

#[test]
fn a_login_without_keys_fails_and_the_server_may_be_gone() {
    let (mut rig, client, server) = asked_for_proof(MANY);
    rig.derived(server, Verified::Wrong("the check ended in a panic".into()));
    assert!(rig.is_closed(server));
    rig.derived(server, Verified::Wrong("too late".into()));
    let told = rig.told(client).join("\n");
    assert!(
        told.contains("server login failed: the check ended in a panic"),
        "{told}"
    );
}
