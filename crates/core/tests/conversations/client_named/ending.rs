//! DEALLOCATE ends client-named statements.

use super::one_server::{asks, one_server, prepares};
use crate::rig::error;
use pgweir_wire::TransactionStatus::{Idle, InTransaction};

/// Guards against names that come back although they were never made, because an Execute of DEALLOCATE ALL fails.
#[test]
fn deallocate_all_in_a_pipeline_waits_for_the_parse_in_front_of_it() {
    let (mut rig, a, _) = one_server();
    asks(&mut rig, a, "begin isolation level serializable", "BEGIN");
    rig.says(a, |w| {
        w.parse(b"", b"deallocate all", &[0, 0]);
        w.bind_text(b"", &[]);
        w.sync();
    });
    let server = rig.server_of(a).unwrap();
    rig.told(server);
    rig.says(server, |w| {
        w.empty(b'1');
        w.empty(b'2');
        w.ready_for_query(InTransaction);
    });
    rig.says(a, |w| {
        w.parse(b"b", b"selec", &[0, 0]);
        w.sync();
        w.execute();
        w.sync();
    });
    let told = rig.told(server);
    assert!(
        told[0].ends_with("selec") && told[1] == "Sync" && told.len() == 2,
        "{told:?}"
    );
    rig.says(server, |w| {
        w.error(&error("42601", "syntax error"));
        w.ready_for_query(pgweir_wire::TransactionStatus::Failed);
    });
    assert_eq!(rig.told(server), ["Execute", "Sync"]);
    rig.says(server, |w| {
        w.error(&error("25P02", "aborted"));
        w.ready_for_query(pgweir_wire::TransactionStatus::Failed);
    });
    rig.told(a);
    asks(&mut rig, a, "rollback", "ROLLBACK");
    rig.told(a);
    rig.says(a, |w| {
        w.parse(b"b", b"select 1", &[0, 0]);
        w.sync();
    });
    let told = rig.told(server);
    assert!(
        told.iter().any(|l| l.ends_with("select 1")),
        "the name is free: {told:?}"
    );
}

#[test]
fn deallocate_among_other_statements_ends_the_name() {
    let (mut rig, a, _) = one_server();
    prepares(&mut rig, a, b"s", b"select 1");
    prepares(&mut rig, a, b"t", b"select 2");
    rig.says(a, |w| w.query(b"select 1; deallocate s; deallocate t"));
    let server = rig.server_of(a).unwrap();
    rig.told(server);
    rig.says(server, |w| {
        for _ in 0..2 {
            w.empty(b'3');
            w.empty(b'1');
            w.ready_for_query(Idle);
        }
        w.command_complete("SELECT 1");
        w.command_complete("DEALLOCATE");
        w.error(&error("57014", "canceled"));
        w.ready_for_query(Idle);
    });
    rig.told(server);
    for (name, bound) in [(b"s", "Bind  s"), (b"t", "Bind  pgweir_12")] {
        rig.says(a, |w| w.bind_text(name, &[]));
        let server = rig.server_of(a).unwrap();
        let told = rig.told(server);
        assert_eq!(told.last().unwrap(), bound, "{told:?}");
        rig.says(a, |w| w.sync());
    }
}
