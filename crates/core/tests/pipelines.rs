//! What clients pipeline, and the pooler's own messages among it.

mod rig;

use pgweir_wire::TransactionStatus::{Idle, InTransaction};
use rig::Rig;

const NO_TYPES: &[u8] = &[0, 0];

fn has(told: &[String], begin: &str) -> bool {
    told.iter().any(|line| line.starts_with(begin))
}

/// Guards against a Sync of the pooler's own that commits what PostgreSQL 18 leaves open behind a Query between an Execute
/// and its Sync: the client's statement stays although what follows in its pipeline fails.
#[test]
fn nothing_of_ours_ends_the_block_that_a_query_in_a_pipeline_leaves_open() {
    let mut rig = Rig::new("default_pool_size = 2");
    let (a, b) = (rig.client(), rig.client());
    rig.says(a, |w| {
        w.parse(b"s", b"select 1", NO_TYPES);
        w.sync();
    });
    let first = rig.server_of(a).unwrap();
    rig.says(first, |w| {
        w.empty(b'1');
        w.ready_for_query(Idle);
    });
    rig.says(b, |w| w.query(b"select pg_sleep(60)"));
    // Another server, which does not hold the statement, under settings that it was not parsed under.
    rig.says(a, |w| w.query(b"set datestyle = 'ISO, DMY'"));
    let second = rig.servers_log_in()[0];
    assert_ne!(first, second);
    rig.says(second, |w| {
        w.command_complete("SET");
        w.parameter_status(b"DateStyle", b"ISO, DMY");
        w.ready_for_query(Idle);
    });
    rig.told(second);
    rig.says(a, |w| {
        w.parse(b"", b"insert into t values (1)", NO_TYPES);
        w.bind_text(b"", &[]);
        w.execute();
        w.query(b"select 2");
    });
    rig.says(second, |w| {
        w.empty(b'1');
        w.empty(b'2');
        w.command_complete("INSERT 0 1");
        w.command_complete("SELECT 1");
        w.ready_for_query(InTransaction);
    });
    rig.told(second);
    rig.says(a, |w| {
        w.bind_text(b"s", &[Some(b"1")]);
        w.execute();
    });
    let told = rig.told(second);
    assert!(has(&told, "Parse"), "it is prepared again: {told:?}");
    assert!(!has(&told, "Sync"), "{told:?}");
}
