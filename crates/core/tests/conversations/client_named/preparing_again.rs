//! Client-named statements that are made again in front of a transaction, some of which cannot be.

use super::one_server::{Scripted, asks, one_server, prepares, runs, with_one_gone};

/// Guards against a transaction that fails because of a statement that it does not use: the table is gone.
#[test]
fn what_is_perhaps_not_used_fails_no_transaction() {
    for text in [
        "do $$begin end$$",
        "call p()",
        "table pg_prepared_statements",
        // Columns have the names of statements.
        "update x set s = t; prepare u as select 1",
    ] {
        let (mut rig, a, server) = with_one_gone();
        let mut postgres = Scripted::new();
        rig.says(a, |w| w.query(b"begin isolation level serializable"));
        postgres.answers(&mut rig, server);
        assert_eq!(rig.told(a), ["CommandComplete BEGIN", "ReadyForQuery T"]);
        rig.says(a, |w| w.query(text.as_bytes()));
        let told = postgres.answers(&mut rig, server);
        let verb = text.split(' ').next().unwrap().to_uppercase();
        assert_eq!(
            rig.told(a),
            [&format!("CommandComplete {verb}"), "ReadyForQuery T"],
            "{told:?}"
        );
        let at = [
            runs(&told, "SAVEPOINT pgweir_savepoint"),
            runs(&told, "prepare s as select * from gone"),
            runs(&told, "ROLLBACK TO pgweir_savepoint"),
            runs(&told, "RELEASE pgweir_savepoint"),
            runs(&told, "prepare t as select 1"),
            told.iter().position(|l| *l == format!("Query {text}")).unwrap(),
        ];
        assert!(at.is_sorted(), "{told:?}");
        rig.says(a, |w| w.query(b"commit"));
        postgres.answers(&mut rig, server);
        assert_eq!(rig.told(a), ["CommandComplete COMMIT", "ReadyForQuery I"]);
    }
}

/// Guards against a message that waits for the answers to its own lending, is looked at again, and lends again, for
/// ever: behind a SET, the first use of a statement with constants waits for the answers to earlier segments.
#[test]
fn a_statement_behind_a_set_is_bound_though_a_name_cannot_be_lent() {
    let (mut rig, a, b) = one_server();
    asks(&mut rig, a, "prepare s as select * from gone", "PREPARE");
    prepares(&mut rig, a, b"u", b"select f('1')");
    asks(&mut rig, b, "discard all", "DISCARD ALL");
    rig.says(a, |w| w.query(b"select 1"));
    let server = rig.server_of(a).unwrap();
    let mut postgres = Scripted::new();
    postgres.answers(&mut rig, server);
    for text in [&b"begin"[..], b"set xmloption to document"] {
        rig.says(a, |w| w.query(text));
        postgres.answers(&mut rig, server);
    }
    rig.told(a);
    rig.says(a, |w| {
        w.bind_text(b"u", &[]);
        w.execute();
        w.sync();
    });
    let mut told = Vec::new();
    for _ in 0..5 {
        for line in rig.told(server) {
            postgres.answer(&mut rig, server, &line);
            told.push(line);
        }
    }
    assert!(runs(&told, "prepare s as select * from gone") < told.len());
    assert_eq!(
        rig.told(a),
        ["BindComplete", "CommandComplete SELECT", "ReadyForQuery T"],
        "{told:?}"
    );
}

/// The same after a deferred BEGIN.
#[test]
fn behind_a_deferred_begin_names_are_lent_when_it_is_answered() {
    let (mut rig, a, server) = with_one_gone();
    let mut postgres = Scripted::new();
    rig.says(a, |w| {
        w.query(b"begin");
        w.query(b"do $$begin end$$");
    });
    let told = postgres.answers(&mut rig, server);
    let synced = told.iter().position(|l| l == "Sync").unwrap();
    assert!(synced < runs(&told, "SAVEPOINT pgweir_savepoint"), "{told:?}");
    assert!(runs(&told, "prepare t as select 1") < told.len() - 1, "{told:?}");
    assert_eq!(told.last().unwrap(), "Query do $$begin end$$");
    let heard = rig.told(a);
    assert_eq!(
        heard,
        [
            "CommandComplete BEGIN",
            "ReadyForQuery T",
            "CommandComplete DO",
            "ReadyForQuery T"
        ]
    );
}

/// PREPARE takes a snapshot. Guards against 25001, and against a snapshot from before a lock.
#[test]
fn nothing_is_lent_in_front_of_what_needs_no_snapshot() {
    let (mut rig, a, server) = with_one_gone();
    let mut postgres = Scripted::new();
    // From now on any statement may run code.
    rig.says(a, |w| {
        w.query(b"create function f() returns int language plpgsql as 'begin return 1; end'")
    });
    postgres.answers(&mut rig, server);
    rig.says(a, |w| w.query(b"begin read write"));
    postgres.answers(&mut rig, server);
    for text in [
        "show transaction_isolation",
        "set transaction isolation level serializable",
        "lock u",
    ] {
        rig.says(a, |w| w.query(text.as_bytes()));
        assert_eq!(postgres.answers(&mut rig, server), [format!("Query {text}")]);
    }
}
