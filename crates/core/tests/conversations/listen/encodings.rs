//! A listener has only encodings to which PostgreSQL can convert every text of the database.

use super::servers::Servers;
use pgweir_core::{ClientId, ServerId};
use std::time::Duration;

/// A client with this encoding listens in a database with this encoding, and had time to get a listener.
fn listens(s: &mut Servers, client_encoding: &str, server_encoding: &str) -> (ClientId, ServerId) {
    let client = s.rig.client_begins(&[("user", "u"), ("database", "db")]);
    let server = s.rig.connects.pop_front().expect("a server for the login");
    let encodings = [
        ("client_encoding", client_encoding),
        ("server_encoding", server_encoding),
    ];
    s.rig.server_logs_in_with(server, &encodings);
    s.rig.told(client);
    s.rig.query(client, "listen a");
    s.answer(server);
    assert_eq!(s.heard(client), ["C", "Z"]);
    s.rig.wait(Duration::from_millis(200));
    s.answer(server);
    (client, server)
}

/// Guards against notifications lost by others: PostgreSQL ends a connection whose encoding lacks characters of a
/// payload, and a listener serves many clients.
#[test]
fn who_may_be_sent_what_its_encoding_lacks_listens_by_its_own_server() {
    for (client_encoding, server_encoding) in [("LATIN1", "UTF8"), ("UTF8", "WIN1252"), ("UTF8", "SQL_ASCII")] {
        let mut s = Servers::new();
        let (client, server) = listens(&mut s, client_encoding, server_encoding);
        assert!(s.rig.connects.is_empty(), "{client_encoding} has no listener");
        assert_eq!(s.rig.server_of(client), Some(server));
        s.notifies(server, "a", "1");
        assert_eq!(s.heard(client), ["1"]);
    }
}

#[test]
fn who_can_be_sent_everything_gets_a_listener() {
    for (client_encoding, server_encoding) in [("UTF8", "UTF8"), ("SQL_ASCII", "UTF8"), ("UTF8", "LATIN1")] {
        let mut s = Servers::new();
        listens(&mut s, client_encoding, server_encoding);
        assert_eq!(s.rig.servers_log_in().len(), 1, "{client_encoding} has a listener");
    }
}
