//! Clients' statements under the names of internal ones.

use super::one_server::{one_server, prepares};
use crate::rig::{NOTHING, Rig};
use pgweir_core::ServerId;

/// A client with this work_mem logs in, and the only server is asked to set it; returns what it was sent.
fn logs_in_with(rig: &mut Rig, server: ServerId, work_mem: &str) -> Vec<String> {
    rig.client_begins(&[("user", "u"), ("database", "db"), ("work_mem", work_mem)]);
    rig.answers_all_about(server, NOTHING)
}

/// Guards against 26000 at the next use of an internal statement: it was held and had become doubtful, so that it was
/// prepared again under its name, and the client's statement of the same name stayed in the list of what is to be closed.
#[test]
fn internal_statement_prepared_again_in_place_of_a_clients_is_not_closed_with_it() {
    let (mut rig, a, b) = one_server();
    rig.says(a, |w| w.query(b"select 1"));
    let server = rig.server_of(a).unwrap();
    rig.serves(server, "SELECT 1");
    logs_in_with(&mut rig, server, "3MB");
    let name = rig.full_name("pgweir_1").to_string();
    prepares(&mut rig, a, name.as_bytes(), b"select 1");
    rig.says(a, |w| w.query(format!("execute \"{name}\"").as_bytes()));
    rig.answers_all_about(server, NOTHING);
    let told = logs_in_with(&mut rig, server, "5MB");
    let parse = told.iter().position(|line| line.starts_with("Parse pgweir_1 SELECT"));
    assert_eq!(told[parse.unwrap() - 1], "Close Spgweir_1");
    rig.says(b, |w| w.query(b"select 1"));
    assert_eq!(
        rig.answers_all_about(server, NOTHING),
        ["Bind  pgweir_1", "Execute", "Sync", "Query select 1"]
    );
}
