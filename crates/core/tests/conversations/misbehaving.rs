//! Servers that send what PostgreSQL never sends.

use crate::rig::Rig;
use pgweir_core::ServerId;
use pgweir_wire::TransactionStatus::{Idle, InTransaction};

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

fn sends_error(rig: &mut Rig, server: ServerId, body: &[u8]) {
    rig.says(server, |w| w.message(b'E', |to| to.extend_from_slice(body)));
}

/// Guards against an ErrorResponse without SQLSTATE or message for a client: drivers read both.
#[test]
fn a_login_that_is_refused_without_a_reason_has_an_error_with_all_fields() {
    for (body, told) in [
        (&b"\0"[..], "Error 08001 the server gives no reason"),
        (b"SFATAL\0\0", "Error 08001 the server gives no reason"),
        (b"SFATAL\0Mno\0\0", "Error 08001 no"),
        (b"SFATAL\0C1\0Mno\0\0", "Error 08001 no"),
        (b"C28000\0\0", "Error 28000 the server gives no reason"),
        (b"SFATAL\0C28000\0Mno", "Error 28000 the server gives no reason"),
    ] {
        let mut rig = Rig::new("");
        let client = rig.client_begins(&[("user", "u"), ("database", "db")]);
        let server = rig.connects.pop_front().expect("its values are asked for");
        rig.server_connects(server);
        sends_error(&mut rig, server, body);
        rig.server_dies(server);
        assert_eq!(rig.told(client).last().map(String::as_str), Some(told));
        assert!(rig.is_closed(client));
    }
}

/// As above, for an error about a startup parameter.
#[test]
fn a_startup_parameter_that_is_refused_without_a_reason_has_an_error_with_all_fields() {
    let mut rig = Rig::new("");
    rig.client();
    let client = rig.client_begins(&[("user", "u"), ("database", "db"), ("work_mem", "much")]);
    rig.servers_log_in();
    let server = rig.server_of(client).expect("it tries the value");
    rig.told(server);
    rig.says(server, |w| w.empty(b'1'));
    sends_error(&mut rig, server, b"SERROR\0\0");
    rig.says(server, |w| w.ready_for_query(Idle));
    let refused = "Error 22023 the server refuses a startup parameter, and gives no reason";
    assert_eq!(rig.told(client), [refused]);
}

/// Guards against a pooler that loses its place in the conversation where an error does not say what it is.
#[test]
fn an_error_without_fields_is_an_error() {
    let mut rig = Rig::one_server("");
    let client = rig.client();
    for body in [&b"\0"[..], b"Mno\0\0", b"SERROR\0\0"] {
        rig.says(client, |w| w.query(b"select 1"));
        let server = rig.server_of(client).expect("linked");
        sends_error(&mut rig, server, body);
        assert_eq!(rig.hears(client), [(b'E', body.to_vec())], "it is passed on unchanged");
        rig.says(server, |w| w.ready_for_query(Idle));
        assert_eq!(rig.told(client), ["ReadyForQuery I"]);
        assert!(rig.server_of(client).is_none() && !rig.is_closed(server));
    }
}

#[test]
fn a_last_word_without_fields_ends_both_connections() {
    for (body, is_linked) in [
        (&b"SFATAL\0\0"[..], true),
        (b"\0", true),
        (b"SFATAL\0\0", false),
        (b"\0", false),
    ] {
        let mut rig = Rig::one_server("");
        let client = rig.client();
        rig.says(client, |w| w.query(b"select 1"));
        let server = rig.server_of(client).expect("linked");
        if !is_linked {
            rig.completes(server, "SELECT 1");
            rig.told(client);
        }
        sends_error(&mut rig, server, body);
        rig.server_dies(server);
        assert_eq!(rig.is_closed(client), is_linked);
        assert!(rig.is_closed(server));
        if !is_linked {
            rig.says(client, |w| w.query(b"select 2"));
            assert_eq!(rig.servers_log_in().len(), 1, "the client goes on with another server");
        }
    }
}

const TOO_LONG: &str = "Error 08P01 bad pkt header: message is too long";

fn row(rig: &mut Rig, server: ServerId, bytes: usize) {
    rig.says(server, |w| w.message(b'D', |body| body.extend(vec![b'x'; bytes - 5])));
}

/// Guards against a limit for the messages of clients alone: PgBouncer's is for both directions.
#[test]
fn a_message_of_a_server_is_as_long_as_the_limit_allows() {
    for (tag, begin) in [
        (b'D', "x"),
        (b'E', "SERROR\0C22000\0M"),
        (b'N', "SNOTICE\0C00000\0M"),
        (b'A', "pid.name\0"),
        (b'S', "name\0"),
    ] {
        let mut message = [&[tag, 0, 0, 3, 232], begin.as_bytes()].concat();
        message.resize(if tag == b'E' || tag == b'N' { 999 } else { 1000 }, b'x');
        message.resize(1001, 0);
        for arrived in [5, message.len()] {
            let mut rig = Rig::one_server("max_packet_size = 1000");
            let (client, other) = (rig.client(), rig.client());
            rig.query(client, "select 1");
            let server = rig.server_of(client).expect("linked");
            row(&mut rig, server, 1000);
            assert_eq!(rig.told(client), ["DataRow"], "so long it may be");
            rig.comes(server, &message[..arrived]);
            assert_eq!(rig.told(client), [TOO_LONG], "{}", char::from(tag));
            assert!(rig.is_closed(client) && !rig.is_closed(server), "{}", char::from(tag));
            rig.query(other, "select 2");
            rig.told(server);
            rig.comes(server, &message[arrived..]);
            rig.cancel_arrives(server);
            rig.completes(server, "SELECT 1");
            assert_eq!(rig.server_of(other), Some(server), "{}", char::from(tag));
            if tag != b'S' {
                assert_eq!(rig.told(other), [""; 0], "nothing of it reaches another client");
            }
        }
    }
}

/// Guards against a limit for the pooler's own questions: with it, no catalog with a long function could be read.
#[test]
fn what_the_pooler_asks_for_itself_may_be_longer() {
    let mut rig = Rig::new("max_packet_size = 100\nserver_check_query = select 'long'\nserver_check_delay = 0");
    let client = rig.client();
    rig.query(client, "select 1");
    let server = rig.server_of(client).expect("linked");
    rig.completes(server, "SELECT 1");
    rig.told(client);
    rig.told(server);
    rig.wait(std::time::Duration::from_secs(1));
    rig.query(client, "select 2");
    assert_eq!(rig.told(server), ["Query select 'long'"]);
    row(&mut rig, server, 500);
    rig.completes(server, "SELECT 1");
    assert_eq!(rig.told(server), ["Query select 2"]);
}

/// Guards against messages at which PostgreSQL closes the connection: the server would be lost.
#[test]
fn a_message_that_is_too_long_for_its_kind_costs_no_server() {
    for tag in *b"CDEHSXcf" {
        for (length, in_block) in [(10_000u32, false), (10_001, false), (10_001, true)] {
            let mut rig = Rig::one_server("");
            let client = rig.client();
            rig.query(client, "select 1");
            let server = rig.server_of(client).expect("linked");
            rig.completes(server, "SELECT 1");
            if in_block {
                rig.query(client, "begin; select 2");
                rig.says(server, |w| {
                    w.command_complete("BEGIN");
                    w.ready_for_query(InTransaction);
                });
                rig.says(client, |w| w.execute());
            }
            rig.told(client);
            rig.told(server);
            let mut message = [&[tag][..], &length.to_be_bytes()].concat();
            message.resize(1 + length as usize, b'x');
            rig.comes(client, &message);
            let told = rig.told(client).join(" ");
            let is_refused = told.contains("Error 08P01 bad packet header");
            assert_eq!(is_refused, length > 10_000, "{} {in_block}: {told}", char::from(tag));
            assert!(!rig.is_closed(server), "{}", char::from(tag));
        }
    }
}
