//! Behind a server's FATAL message nothing is said to its client, whatever happens before the connection ends.

use crate::rig::{Rig, fatal};
use pgweir_core::{ClientId, ServerId};
use std::time::Duration;

/// The server answers what it was asked about settings.
fn confirms(rig: &mut Rig, server: ServerId, zone: &str) {
    let told = rig.told(server);
    rig.answers(server, &told, &[("TimeZone", zone)]);
}

fn dies(rig: &mut Rig, server: ServerId) {
    rig.says(server, |w| {
        w.error(&fatal("57P01", "terminating connection due to administrator command"))
    });
}

/// A client whose settings are being restored, and whose server has just sent its FATAL message.
fn hears_the_last_words(settings: &str) -> (Rig, ClientId, ServerId) {
    let mut rig = Rig::new(&format!("default_pool_size = 1\n{settings}"));
    let plain = rig.client();
    let client = rig.client_begins(&[("user", "u"), ("database", "db"), ("TimeZone", "Asia/Tokyo")]);
    let server = rig.server_of(client).expect("it tries the value");
    confirms(&mut rig, server, "Asia/Tokyo");
    rig.says(plain, |w| w.query(b"select 1"));
    confirms(&mut rig, server, "UTC");
    rig.completes(server, "SELECT 1");
    let key = rig.key_told(client);
    rig.told(client);
    rig.says(client, |w| w.query(b"select 1"));
    assert_eq!(rig.server_of(client), Some(server));
    // The first time, it goes to another server unnoticed.
    dies(&mut rig, server);
    let server = rig.servers_log_in()[0];
    assert_eq!(rig.server_of(client), Some(server));
    dies(&mut rig, server);
    assert_eq!(
        rig.told(client),
        ["Error 57P01 terminating connection due to administrator command"]
    );
    rig.cancel_request(&key);
    (rig, client, server)
}

#[test]
fn a_cancel_is_not_answered() {
    let (mut rig, client, server) = hears_the_last_words("");
    assert!(rig.told(client).is_empty());
    rig.server_dies(server);
    assert!(rig.told(client).is_empty());
    assert!(rig.closed.contains(&client.into()));
}

#[test]
fn a_time_limit_says_nothing() {
    let (mut rig, client, _) = hears_the_last_words("query_timeout = 5");
    rig.wait(Duration::from_secs(6));
    assert!(rig.told(client).is_empty());
    assert!(rig.closed.contains(&client.into()));
}

/// Guards against a client that waits for ever, because its server neither closes nor answers.
#[test]
fn a_server_that_does_not_close_is_closed() {
    let mut rig = Rig::new("");
    let client = rig.client();
    rig.says(client, |w| w.query(b"select 1"));
    let server = rig.server_of(client).expect("linked");
    dies(&mut rig, server);
    rig.says(server, |w| w.ready_for_query(pgweir_wire::TransactionStatus::Idle));
    rig.says(client, |w| w.query(b"select 2"));
    rig.wait(Duration::from_millis(900));
    assert!(
        !rig.is_closed(client),
        "the end of the connection comes from the server"
    );
    rig.wait(Duration::from_millis(400));
    assert!(rig.is_closed(client) && rig.is_closed(server));
}
