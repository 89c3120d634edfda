//! Servers that send what PostgreSQL never sends.

use crate::rig::Rig;
use pgweir_core::ServerId;

fn sends_half_a_parameter_status(rig: &mut Rig, server: ServerId) {
    rig.says(server, |w| w.message(b'S', |body| body.extend(b"DateStyle\0")));
    assert!(rig.is_closed(server));
}

#[test]
fn a_parameter_status_that_cannot_be_read_is_not_passed_on() {
    let mut rig = Rig::new("");
    let client = rig.client();
    rig.told(client);
    rig.says(client, |w| w.query(b"select 1"));
    let server = rig.server_of(client).expect("linked");
    sends_half_a_parameter_status(&mut rig, server);
    assert_eq!(
        rig.told(client),
        ["Error 08006 server closed the connection unexpectedly"]
    );
}

#[test]
fn a_server_that_sends_such_a_parameter_status_at_its_login_is_not_used() {
    let mut rig = Rig::new("");
    rig.client_begins(&[("user", "u"), ("database", "db")]);
    let server = rig.connects.pop_front().expect("its values are asked for");
    rig.server_connects(server);
    rig.says(server, |w| w.authentication(&0u32.to_be_bytes()));
    sends_half_a_parameter_status(&mut rig, server);
}
