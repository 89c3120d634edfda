//! Statements that were prepared behind a SET in the same transaction: their server alone has them as their client has
//! prepared them.

use crate::rig::{NO_TYPES, NOTHING, Rig};
use pgweir_core::{ClientId, ServerId};
use pgweir_wire::TransactionStatus::InTransaction;

const TEXT: &[u8] = b"select '01/02/2024'::date";

/// The client runs a text in a transaction block.
fn in_block(rig: &mut Rig, client: ClientId, text: &str) -> ServerId {
    rig.says(client, |w| w.query(text.as_bytes()));
    let server = rig.server_of(client).expect("linked");
    assert_eq!(rig.told(server).last(), Some(&format!("Query {text}")));
    rig.says(server, |w| {
        w.command_complete("DONE");
        w.ready_for_query(InTransaction);
    });
    server
}

/// The client runs a text; returns what the server is sent.
fn runs(rig: &mut Rig, client: ClientId, server: ServerId, text: &str) -> Vec<String> {
    rig.says(client, |w| w.query(text.as_bytes()));
    rig.answers_all_about(server, NOTHING)
}

/// A client that has prepared and described `s` behind SET LOCAL. Its transaction has ended.
fn prepared_behind_set() -> (Rig, ClientId, ServerId) {
    let mut rig = Rig::one_server("");
    let a = rig.client();
    let server = in_block(&mut rig, a, "begin; set local datestyle = 'sql, dmy'");
    rig.says(a, |w| {
        w.parse(b"s", TEXT, NO_TYPES);
        w.describe(b'S', b"s");
        w.sync();
    });
    assert_eq!(rig.told(server).len(), 3);
    rig.says(server, |w| {
        w.empty(b'1');
        w.message(b't', |body| body.extend([0, 0]));
        w.empty(b'n');
        w.ready_for_query(InTransaction);
    });
    runs(&mut rig, a, server, "commit");
    rig.told(a);
    (rig, a, server)
}

/// Guards against a client that never gets an answer: the server was asked again and again whether the plan is good, and
/// no answer counted, because code had run since the Parse.
#[test]
fn a_description_behind_code_comes() {
    let (mut rig, a, server) = prepared_behind_set();
    runs(&mut rig, a, server, "do $$begin end$$");
    rig.told(a);
    for _ in 0..3 {
        rig.says(a, |w| {
            w.describe(b'S', b"s");
            w.sync();
        });
        let told = rig.answers_all_about(server, NOTHING);
        assert_eq!(told.len(), 2, "{told:?}");
        assert_eq!(rig.told(a).last().unwrap(), "ReadyForQuery I");
    }
}
