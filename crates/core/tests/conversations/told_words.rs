//! What clients hear and the log says, in PgBouncer's words, of messages that break the protocol or that are not allowed.

use crate::operating::orders::{commit, done, in_transaction, order};
use crate::rig::{Rig, configuration};
use pgweir_core::{Accepted, Address, ClientId};
use pgweir_wire::StartupPacket;
use std::time::Duration;

fn logged(rig: &Rig, words: &str) -> bool {
    rig.log.iter().any(|(_, line)| line.contains(words))
}

/// What a connection hears that sends these bytes first.
fn hears_at_first(bytes: &[u8]) -> (Vec<String>, Rig) {
    let mut rig = Rig::new("");
    let client = rig.silent_client();
    rig.comes(client, bytes);
    (rig.told(client), rig)
}

#[test]
fn a_first_packet_that_is_none() {
    for (bytes, expected) in [
        (&b"\0\0\0\x03abcdefgh"[..], "bad packet header: '00000003'"),
        (b"GET / HTTP/1.0\r\n\r\n", "bad packet header: '47455420'"),
        (
            b"\0\0\0\x10\0\x03\0\0user\0uuu",
            "invalid startup packet layout: expected terminator as last byte",
        ),
        (b"\0\0\0\x08\x04\xd2\x16\x2e", "bad cancel request"),
        (
            b"\0\0\0\x08\x04\xd2\x16\x2f!",
            "received unencrypted data after SSL request",
        ),
        (
            b"\0\0\0\x08\x04\xd2\x16\x30!",
            "received unencrypted data after GSSAPI encryption request",
        ),
    ] {
        let (told, rig) = hears_at_first(bytes);
        assert_eq!(told, [format!("Error 08P01 {expected}")]);
        assert!(
            logged(&rig, &format!("closing because: {expected} (age=")),
            "{:?}",
            rig.log
        );
    }
}

/// What a client hears that is asked for a password, and sends these bytes.
fn hears_instead_of_password(bytes: &[u8]) -> Vec<String> {
    let mut rig = Rig::with_users("\"u\" \"secret\"", "auth_type = plain");
    let client = rig.client_begins(&[("user", "u"), ("database", "db")]);
    rig.told(client);
    rig.comes(client, bytes);
    let told = rig.told(client);
    let words = told[0].trim_start_matches("Error 08P01 ");
    assert!(
        logged(&rig, &format!("closing because: {words} (age=")),
        "{:?}",
        rig.log
    );
    told
}

#[test]
fn a_message_instead_of_the_password() {
    let mut again = Vec::new();
    let parameters: [(&[u8], &[u8]); 1] = [(b"user", b"u")];
    StartupPacket::write_startup(&mut again, pgweir_wire::ProtocolVersion::V3_0, parameters);
    let mut request = Vec::new();
    StartupPacket::write_ssl_request(&mut request);
    for (bytes, expected) in [
        (&b"Q\0\0\0\x0dselect 1\0"[..], "bad packet"),
        (b"?\0\0\0\x04", "bad packet"),
        (b"p\0\0\0\x01abc", "bad packet header: '7000000001'"),
        (&again, "client re-sent startup pkt"),
        (&request, "bad packet"),
    ] {
        assert_eq!(hears_instead_of_password(bytes), [format!("Error 08P01 {expected}")]);
        // The same, however it arrives.
        let told = hears_instead_of_password(&bytes[..bytes.len().min(5)]);
        assert_eq!(told, [format!("Error 08P01 {expected}")]);
    }
}

#[test]
fn a_header_that_no_message_has() {
    let mut rig = Rig::new("");
    let client = rig.client();
    rig.comes(client, b"Q\0\0\0\x01");
    assert_eq!(rig.told(client), ["Error 08P01 bad packet header: '5100000001'"]);
}

#[test]
fn an_option_without_a_value() {
    let expected =
        "Error 42601 unsupported options startup parameter: only '-c config=val' and '--config=val' are allowed";
    for options in ["-c", "-c work_mem", "--work_mem"] {
        let mut rig = Rig::new("");
        let client = rig.client_begins(&[("user", "u"), ("database", "db"), ("options", options)]);
        let told = rig.told(client);
        assert!(told[0].starts_with(expected), "{told:?}");
    }
}

#[test]
fn disable_pqexec_is_logged() {
    let mut rig = Rig::new("disable_pqexec = 1");
    let client = rig.client();
    rig.query(client, "select 1");
    assert_eq!(rig.told(client), ["Error 08P01 PQexec disallowed"]);
    assert!(logged(&rig, "client used \"Query\" packet type"));
}

/// PgBouncer refuses a Query on its console, too, and knows no other way to ask: nobody can use it.
#[test]
fn disable_pqexec_leaves_the_console_alone() {
    let mut rig = Rig::new("disable_pqexec = 1");
    let boss = rig.console();
    rig.query(boss, "show version");
    let told = rig.told(boss);
    assert!(
        told.ends_with(&["CommandComplete SHOW".into(), "ReadyForQuery I".into()]),
        "{told:?}"
    );
}

#[test]
fn login_notify_message_also_greets_on_the_console() {
    let mut rig = Rig::new("login_notify_message = hello");
    let boss = rig.client_begins(&[("user", "u"), ("database", "pgbouncer")]);
    let tags: Vec<u8> = rig.hears(boss).iter().map(|(tag, _)| *tag).collect();
    assert!(tags.ends_with(b"KNZ"), "{tags:?}");
}

/// Two clients that have servers, the second one in a transaction; then RECONNECT.
fn reconnected(settings: &str) -> (Rig, [ClientId; 2]) {
    let mut rig = Rig::new(settings);
    let idle = rig.client();
    let (busy, server) = in_transaction(&mut rig);
    rig.query(idle, "select 1");
    rig.servers_log_in();
    let second = rig.server_of(idle).expect("linked");
    assert_ne!(server, second);
    rig.completes(second, "SELECT 1");
    rig.told(idle);
    let boss = rig.console();
    assert_eq!(order(&mut rig, boss, "reconnect"), done("RECONNECT"));
    rig.wait(Duration::from_secs(1));
    (rig, [idle, busy])
}

fn ends_transaction(rig: &mut Rig, client: ClientId) {
    commit(rig, client);
    rig.wait(Duration::from_secs(1));
}

const CHANGED: &str = "Error 57P01 database configuration changed";

/// With `server_fast_close` RECONNECT ends sessions as soon as they are in no transaction.
#[test]
fn server_fast_close_ends_sessions_between_their_transactions() {
    let (mut rig, [idle, busy]) = reconnected("pool_mode = session\nserver_fast_close = 1");
    assert_eq!(rig.told(idle), [CHANGED]);
    assert!(rig.is_closed(idle) && !rig.is_closed(busy));
    ends_transaction(&mut rig, busy);
    assert!(rig.told(busy).ends_with(&[CHANGED.into()]) && rig.is_closed(busy));
    assert!(logged(&rig, "closing because: database configuration changed") && !logged(&rig, "close_needed"));
}

#[test]
fn without_server_fast_close_sessions_keep_their_servers() {
    let (mut rig, [idle, busy]) = reconnected("pool_mode = session");
    let servers = [idle, busy].map(|client| rig.server_of(client).unwrap());
    ends_transaction(&mut rig, busy);
    assert_eq!(rig.told(idle), [""; 0]);
    assert!(!rig.is_closed(idle) && !rig.is_closed(busy) && servers.iter().all(|&server| !rig.is_closed(server)));
    assert!(!logged(&rig, "closing because"));
}

/// In transaction pooling a client between its transactions has no server, and hears nothing.
#[test]
fn server_fast_close_means_nothing_to_transaction_pooling() {
    for setting in ["server_fast_close = 1", "server_fast_close = 0"] {
        let (mut rig, [idle, busy]) = reconnected(setting);
        let server = rig.server_of(busy).unwrap();
        assert!(
            logged(&rig, "closing because: database configuration changed"),
            "the idle server"
        );
        ends_transaction(&mut rig, busy);
        assert!(
            logged(&rig, "closing because: close_needed") && rig.is_closed(server),
            "at its release"
        );
        assert!(!rig.is_closed(idle) && !rig.is_closed(busy));
    }
}

#[test]
fn a_client_of_a_unix_socket_is_known_by_its_process() {
    let mut rig = Rig::new("application_name_add_host = 1");
    let accepted = Accepted {
        peer: Address::Unix {
            port: 6432,
            pid: Some(77),
        },
        local: Address::Unix { port: 6432, pid: None },
        peer_uid: Some(1000),
    };
    rig.client_begins_at(accepted, &[("user", "u"), ("database", "db")]);
    rig.servers_log_in();
    assert!(logged(&rig, "db/u@unix(77):6432 login attempt: "), "{:?}", rig.log);
    let boss = rig.console();
    rig.query(boss, "show clients");
    let (_, row) = rig
        .hears(boss)
        .into_iter()
        .find(|(tag, _)| *tag == b'D')
        .expect("a row");
    let row = String::from_utf8_lossy(&row).into_owned();
    assert!(
        row.contains("unix") && row.contains("\x0277") && row.contains("app - unix(77@here):6432"),
        "{row}"
    );
}

#[test]
fn a_server_that_breaks_the_protocol() {
    for (bytes, line, reason) in [
        (
            &b"?\0\0\0\x04"[..],
            "unknown pkt from server: '?'",
            "unknown pkt from server",
        ),
        (b"R\0\0\0\x01", "bad pkt header: ", "bad pkt header"),
        (
            b"R\0\0\0\x08\0\0\0\0S\0\0\0\x07abc",
            "broken ParameterStatus packet: ",
            "broken ParameterStatus packet",
        ),
        (
            b"D\0\0\0\x04",
            "unknown pkt from server: 'D'",
            "unknown pkt from server",
        ),
    ] {
        let mut rig = Rig::new("");
        rig.client_begins(&[("user", "u"), ("database", "db")]);
        let server = rig.connects.pop_front().unwrap();
        rig.server_connects(server);
        rig.comes(server, bytes);
        assert!(logged(&rig, &format!("db/u@127.0.0.1:5432 {line}")), "{:?}", rig.log);
        assert!(
            logged(&rig, &format!("closing because: {reason} (age=")),
            "{:?}",
            rig.log
        );
    }
    let mut rig = Rig::new("");
    let client = rig.client();
    rig.query(client, "select 1");
    let server = rig.server_of(client).unwrap();
    rig.comes(server, b"?\0\0\0\x04");
    assert!(
        logged(&rig, "unknown pkt: '?'") && logged(&rig, "closing because: unknown pkt (age="),
        "{:?}",
        rig.log
    );
}

#[test]
fn a_database_that_changes_closes_idle_servers_with_its_words() {
    let mut rig = Rig::new("");
    rig.client();
    rig.reloads(configuration("db = host=127.0.0.9 user=u", ""));
    rig.wait(Duration::from_secs(1));
    assert!(
        logged(&rig, "closing because: database configuration changed"),
        "{:?}",
        rig.log
    );
}

#[test]
fn a_server_that_is_being_opened_when_its_database_changes() {
    let mut rig = Rig::new("");
    rig.client_begins(&[("user", "u"), ("database", "db")]);
    let server = rig.connects.pop_front().unwrap();
    rig.reloads(configuration("db = host=127.0.0.9 user=u", ""));
    rig.server_logs_in(server);
    rig.wait(Duration::from_secs(1));
    assert!(logged(&rig, "closing because: connect string changed"), "{:?}", rig.log);
}

#[test]
fn a_database_that_is_dropped() {
    let words = "dropping database 'db' as it does not exist anymore or inactive auto-database";
    let mut rig = Rig::new("");
    let client = rig.client();
    rig.reloads(configuration("other = host=127.0.0.9 user=u", ""));
    rig.wait(Duration::from_secs(2));
    assert!(rig.is_closed(client));
    assert_eq!(
        rig.log.iter().filter(|(_, line)| line == words).count(),
        1,
        "{:?}",
        rig.log
    );
    let mut rig = Rig::with(
        "* = host=127.0.0.1 user=u",
        "autodb_idle_timeout = 5\nserver_idle_timeout = 1",
    );
    let client = rig.client();
    rig.client_leaves(client);
    rig.wait(Duration::from_secs(30));
    assert_eq!(
        rig.log.iter().filter(|(_, line)| line == words).count(),
        1,
        "{:?}",
        rig.log
    );
}

#[test]
fn a_cancel_request_for_a_client_of_the_console_that_waits_for_nothing() {
    let mut rig = Rig::new("");
    let (_, key) = rig.console_with_key();
    rig.cancel_request(&key);
    assert!(
        logged(&rig, " admin cancel request for non-waiting client?"),
        "{:?}",
        rig.log
    );
}
