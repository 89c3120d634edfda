//! Statements that code may have replaced or deallocated are prepared again.

use super::one_table::{binds, shared};
use crate::rig::NOTHING;
use pgweir_wire::TransactionStatus::Idle;

/// Guards against 26000 with an internal name, and against another statement under that name: no command tag shows what
/// dynamic SQL in a DO block does. A client's replacement may describe itself like the original.
#[test]
fn statements_that_code_may_have_replaced_are_prepared_again_before_their_next_use() {
    let (mut rig, a, b, server) = shared();
    rig.says(a, |w| w.query(b"do $$begin execute 'deallocate all'; end$$"));
    rig.answers_all_about(server, NOTHING);
    rig.told(a);
    for client in [a, b] {
        binds(&mut rig, client);
        let asked = rig.serves(server, "SELECT 1");
        let anew: &[&str] = if client == a {
            &["Close Spgweir_11", "Parse pgweir_11 select * from t"]
        } else {
            &[]
        };
        assert_eq!(asked[..asked.len() - 3], *anew, "once");
        assert_eq!(
            rig.told(client),
            ["BindComplete", "CommandComplete SELECT 1", "ReadyForQuery I"]
        );
    }
}

#[test]
fn statements_that_a_function_has_deallocated_unseen_are_prepared_again_for_the_next_use() {
    let (mut rig, a, _, server) = shared();
    binds(&mut rig, a);
    rig.told(server);
    let refusal = rig.error_about("26000", "prepared statement \"pgweir_11\" does not exist");
    rig.says(server, |w| {
        w.error(&refusal);
        w.ready_for_query(Idle);
    });
    assert_eq!(
        rig.told(a)[0],
        "Error 26000 prepared statement \"s\" does not exist",
        "in the client's words"
    );
    binds(&mut rig, a);
    assert_eq!(
        rig.serves(server, "SELECT 1")[..2],
        ["Close Spgweir_11", "Parse pgweir_11 select * from t"]
    );
}
