//! What DISCARD ALL leaves on a server.

use super::temporary::{answers, asks, does, pool_of};
use crate::rig::{NOTHING, Rig, TEMPORARY};
use pgweir_core::ServerId;
use pgweir_wire::TransactionStatus::Idle;

/// Guards against a schema that is not known, because the client left before a probe.
#[test]
fn what_discard_all_leaves_is_asked() {
    for remains in [false, true] {
        let mut rig = pool_of(1);
        let (client, other) = (rig.client(), rig.client());
        let server = does(
            &mut rig,
            client,
            "select pg_advisory_lock(1); do $$begin end$$",
            TEMPORARY,
        );
        rig.client_leaves(client);
        rig.is_told_to_discard(server);
        told_what_remains(&mut rig, server, remains);
        asks(&mut rig, other, "select pg_my_temp_schema()");
        // Only the pin showed that there were temporary objects.
        assert!(rig.is_closed(server));
    }
}

fn told_what_remains(rig: &mut Rig, server: ServerId, schema: bool) {
    rig.completes(server, "DISCARD ALL");
    rig.says(server, |w| {
        w.data_row(1, [Some(if schema { &b"t"[..] } else { b"f" })]);
        w.command_complete("SELECT 1");
        w.ready_for_query(Idle);
    });
}

#[test]
fn in_session_pooling_a_server_with_traces_serves_nobody_else() {
    for (text, schema, closed) in [
        ("select 1", false, false),
        ("select f()", true, true),
        ("select setseed(0.5)", false, true),
        ("load 'x'", false, true),
        (
            "select pg_create_physical_replication_slot('s', false, true)",
            false,
            true,
        ),
        ("prepare q as select 1", false, false),
    ] {
        for parsed in [false, true] {
            let mut rig = Rig::new("pool_mode = session\ndefault_pool_size = 1");
            let client = rig.client();
            let server = if parsed {
                rig.says(client, |w| {
                    w.parse(b"", text.as_bytes(), &[0, 0]);
                    w.bind_text(b"", &[]);
                    w.execute();
                    w.sync();
                });
                let server = rig.server_of(client).expect("linked");
                answers(&mut rig, server, NOTHING);
                server
            } else {
                does(&mut rig, client, text, NOTHING)
            };
            rig.client_leaves(client);
            if closed && !schema {
                let told = rig.told(server);
                assert!(rig.is_closed(server), "{text}: {told:?}");
                continue;
            }
            rig.is_told_to_discard_and(server, " FROM pg_catalog.pg_stat_force_next_flush()");
            told_what_remains(&mut rig, server, schema);
            assert_eq!(rig.is_closed(server), closed, "{text}");
        }
    }
}
