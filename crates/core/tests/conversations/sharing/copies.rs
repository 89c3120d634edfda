//! COPY: which messages belong to it, and what becomes of a Sync among its data.

use crate::rig::{Rig, error};
use pgweir_wire::TransactionStatus::Idle;

#[test]
fn messages_of_a_copy_that_cannot_be_do_not_reach_the_server() {
    let mut rig = Rig::new("");
    let client = rig.client();
    rig.says(client, |w| {
        w.parse(b"", b"select 1", &[0, 0]);
        w.message(b'd', |b| b.extend(b"data"));
        w.message(b'c', |b| b.extend([0; 300]));
        w.sync();
    });
    let server = rig.server_of(client).unwrap();
    assert_eq!(rig.told(server), ["Parse  select 1", "Sync"]);
}

/// In COPY FROM STDIN a Sync is swallowed, but not if the COPY had failed by then: the server may owe one ReadyForQuery
/// or two.
#[test]
fn a_sync_among_the_data_of_a_copy_that_fails_costs_the_server_and_nobody_else() {
    for leaves in [true, false] {
        let mut rig = Rig::new("");
        let client = rig.client();
        rig.says(client, |w| {
            w.parse(b"", b"copy t from stdin", &[0, 0]);
            w.bind_text(b"", &[]);
            w.execute();
            w.message(b'd', |b| b.extend(*b"bad\n"));
            w.sync();
        });
        let server = rig.server_of(client).unwrap();
        if leaves {
            rig.client_leaves(client);
        } else {
            rig.says(client, |w| {
                w.empty(b'c');
                w.sync();
            });
        }
        rig.says(server, |w| {
            w.empty(b'1');
            w.empty(b'2');
            w.message(b'G', |b| b.extend([0, 0, 0]));
            w.error(&error("22P02", "invalid input syntax"));
            w.ready_for_query(Idle);
        });
        assert!(rig.closed.contains(&server.into()), "client leaves: {leaves}");
    }
}

/// The server reads CopyFail after everything before it, so the Sync there was swallowed: one ReadyForQuery is owed.
#[test]
fn a_sync_among_the_data_of_a_copy_that_its_client_ends_is_no_trouble_to_the_client() {
    let mut rig = Rig::new("");
    let client = rig.client();
    rig.says(client, |w| {
        w.parse(b"", b"copy t from stdin", &[0, 0]);
        w.bind_text(b"", &[]);
        w.execute();
    });
    let server = rig.server_of(client).unwrap();
    rig.says(server, |w| {
        w.empty(b'1');
        w.empty(b'2');
        w.message(b'G', |b| b.extend([0, 0, 0]));
    });
    rig.says(client, |w| {
        w.message(b'd', |b| b.extend(*b"1\n"));
        w.sync();
        w.copy_fail("enough");
        w.sync();
    });
    rig.told(client);
    rig.says(server, |w| {
        w.error(&error("57014", "COPY from stdin failed: enough"));
        w.ready_for_query(Idle);
    });
    assert_eq!(
        rig.told(client),
        ["Error 57014 COPY from stdin failed: enough", "ReadyForQuery I"]
    );
    assert!(!rig.closed.contains(&client.into()));
    assert!(
        rig.closed.contains(&server.into()),
        "a cancel looks the same, so nobody else gets the server"
    );
}
