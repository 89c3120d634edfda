//! Statement pooling, session pooling, and the settings that clients take along in transaction pooling.

use crate::rig::{NOTHING, Rig};
use pgweir_wire::TransactionStatus::{Idle, InTransaction};

#[test]
fn a_client_gets_its_settings_on_a_server_that_another_client_has_changed() {
    let mut rig = Rig::new("");
    let (a, b) = (rig.client(), rig.client());
    rig.says(a, |w| w.query(b"set timezone = 'Asia/Tokyo'"));
    let server = rig.server_of(a).unwrap();
    rig.told(server);
    rig.says(server, |w| {
        w.command_complete("SET");
        w.parameter_status(b"TimeZone", b"Asia/Tokyo");
        w.ready_for_query(Idle);
    });
    rig.answers_all_about(server, NOTHING.with(&[("TimeZone", "Asia/Tokyo")]));
    rig.says(b, |w| w.query(b"select now()"));
    assert_eq!(rig.server_of(b), Some(server), "the pool has one server");
    assert_eq!(
        rig.told(server),
        [
            "Parse pgweir_1 SELECT pg_catalog.set_config($1, $2, false)",
            "Bind  pgweir_1",
            "Execute",
            "Sync"
        ],
        "nothing of the client's before the server has confirmed"
    );
    rig.says(server, |w| {
        w.empty(b'1');
        w.empty(b'2');
        w.data_row(1, [Some(&b"UTC"[..])]);
        w.command_complete("SELECT 1");
        w.parameter_status(b"TimeZone", b"UTC");
        w.ready_for_query(Idle);
    });
    assert_eq!(rig.told(server), ["Query select now()"]);
    rig.completes(server, "SELECT 1");
    assert_eq!(
        rig.told(b),
        ["CommandComplete SELECT 1", "ReadyForQuery I"],
        "the restoration is not the client's to see"
    );
}

#[test]
fn statement_pooling_refuses_transaction_blocks() {
    let mut rig = Rig::new("pool_mode = statement");
    let client = rig.client();
    rig.says(client, |w| w.query(b"begin"));
    let server = rig.server_of(client).unwrap();
    rig.told(server);
    rig.says(server, |w| {
        w.command_complete("BEGIN");
        w.ready_for_query(InTransaction);
    });
    assert_eq!(
        rig.told(client).last().unwrap(),
        "Error 0A000 transaction blocks not allowed in statement pooling mode"
    );
    assert!(rig.closed.contains(&client.into()));
    assert_eq!(rig.told(server), ["Query ROLLBACK"]);
}

#[test]
fn session_pooling_keeps_the_server_and_resets_it_afterwards() {
    let mut rig = Rig::new("pool_mode = session");
    let client = rig.client();
    rig.says(client, |w| w.query(b"select 1"));
    let server = rig.server_of(client).unwrap();
    rig.completes(server, "SELECT 1");
    assert_eq!(rig.server_of(client), Some(server));
    rig.told(server);
    rig.says(client, |w| w.terminate());
    assert_eq!(rig.told(server)[0], "Query DISCARD ALL");
}
