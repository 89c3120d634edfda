//! Clients that prepare and bind one statement, and servers that answer them.

use crate::rig::{NO_TYPES, Rig};
use pgweir_core::{ClientId, ServerId};
use pgweir_wire::TransactionStatus::Idle;

pub const SELECT: &[u8] = b"select 1";
/// A client prepares `name` and its server confirms it.
pub fn prepares(rig: &mut Rig, client: ClientId, name: &[u8], text: &[u8]) {
    rig.says(client, |w| {
        w.parse(name, text, NO_TYPES);
        w.sync();
    });
    let server = rig.server_of(client).expect("linked");
    let asked = rig.told(server);
    let injected = asked.iter().filter(|l| l.starts_with("Close")).count();
    let parsed = asked.iter().any(|l| l.starts_with("Parse"));
    rig.says(server, |w| {
        (0..injected).for_each(|_| w.empty(b'3'));
        if parsed {
            w.empty(b'1');
        }
        w.ready_for_query(Idle);
    });
    assert_eq!(rig.told(client), ["ParseComplete", "ReadyForQuery I"]);
}

pub fn binds(rig: &mut Rig, client: ClientId, name: &[u8]) -> Option<ServerId> {
    rig.says(client, |w| {
        w.bind_text(name, &[Some(b"1")]);
        w.execute();
        w.sync();
    });
    rig.server_of(client)
}

/// The server is asked whether a plan can still be used, and says yes.
pub fn plan_is_good(rig: &mut Rig, server: ServerId) {
    assert_eq!(rig.told(server), ["Describe Spgweir_11", "Sync"]);
    rig.says(server, |w| {
        w.message(b't', |body| body.extend([0, 0]));
        w.empty(b'n');
        w.ready_for_query(Idle);
    });
}

pub fn one_row(rig: &mut Rig, server: ServerId) {
    rig.says(server, |w| {
        w.empty(b'2');
        w.data_row(1, [Some(&b"1"[..])]);
        w.command_complete("SELECT 1");
        w.ready_for_query(Idle);
    });
}

/// Two clients, two servers: `a` has prepared `s` on the first server and is linked to none.
pub fn prepared_elsewhere(settings: &str) -> (Rig, ClientId, ClientId, ServerId) {
    let mut rig = Rig::new(settings);
    let (a, b) = (rig.client(), rig.client());
    prepares(&mut rig, a, b"s", SELECT);
    rig.says(b, |w| w.query(b"select pg_sleep(9)"));
    let first = rig.server_of(b).unwrap();
    rig.told(first);
    (rig, a, b, first)
}
