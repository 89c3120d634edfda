//! What keeps a server linked, and which time limit ends that: conversations in virtual time.

use crate::rig::Rig;
use pgweir_core::ClientId;
use pgweir_wire::TransactionStatus::Idle;
use pgweir_wire::{HEADER_BYTES, Writer};
use std::time::Duration;

/// All three limits on how long a client may keep a server.
const LIMITS: &str = "query_timeout = 2\ntransaction_timeout = 2\nidle_transaction_timeout = 2";

fn bytes(write: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(&mut Writer::new(&mut bytes));
    bytes
}

/// A Query whose text is this long.
fn long_query(text_bytes: usize) -> Vec<u8> {
    let text = format!("select '{}'", "x".repeat(text_bytes));
    bytes(|w| w.query(text.as_bytes()))
}

/// The error with which a client was closed.
fn ending(rig: &mut Rig, client: ClientId) -> String {
    assert!(rig.is_closed(client), "it is still connected");
    rig.told(client).pop().expect("an error")
}

#[test]
fn half_a_message_takes_no_server() {
    let mut rig = Rig::new(LIMITS);
    let client = rig.client();
    for message in [
        bytes(|w| w.query(b"select 1")),
        long_query(60_000),
        bytes(|w| w.parse(b"", b"select 1", &[0, 0])),
        bytes(|w| w.parse(b"s", "x".repeat(900_000).as_bytes(), &[0, 0])),
        bytes(|w| w.describe(b'S', b"a")),
        bytes(|w| w.message(b'F', |to| to.extend_from_slice(&[0; 100]))),
    ] {
        for cut in [1, HEADER_BYTES, message.len() / 2, message.len() - 1] {
            let other = rig.client();
            rig.comes(other, &message[..cut]);
            assert_eq!(rig.server_of(other), None, "{} bytes of {}", cut, message.len());
            rig.client_leaves(other);
        }
    }
    let query = bytes(|w| w.query(b"select 1"));
    rig.comes(client, &query[..7]);
    rig.comes(client, &query[7..]);
    let server = rig.server_of(client).expect("it is whole");
    assert_eq!(rig.told(server), ["Query select 1"]);
}

#[test]
fn a_header_that_promises_megabytes_takes_no_server_before_much_of_it_has_come() {
    let mut rig = Rig::new(LIMITS);
    let client = rig.client();
    let query = long_query(4_000_000);
    rig.comes(client, &query[..60_000]);
    assert_eq!(rig.server_of(client), None);
    rig.comes(client, &query[60_000..70_000]);
    assert!(rig.server_of(client).is_some(), "it streams");
}

#[test]
fn each_limit_ends_a_long_message_whose_rest_does_not_come() {
    for (limit, words) in [
        ("query_timeout", "Error 57014 query timeout"),
        ("transaction_timeout", "Error 25P04 transaction timeout"),
    ] {
        let mut rig = Rig::new(&format!("{limit} = 2"));
        let client = rig.client();
        rig.comes(client, &long_query(4_000_000)[..100_000]);
        let server = rig.server_of(client).expect("it streams");
        rig.wait(Duration::from_millis(1900));
        assert!(!rig.is_closed(client));
        rig.wait(Duration::from_millis(300));
        assert_eq!(ending(&mut rig, client), words);
        assert!(rig.closed.contains(&server.into()), "it got half a message");
    }
}

#[test]
fn the_log_does_not_say_that_a_server_is_closed_which_is_kept() {
    for (setting, lines) in [("", 1), ("\nlog_disconnections = 0", 0)] {
        let mut rig = Rig::new(&format!("query_timeout = 2{setting}"));
        let client = rig.client();
        rig.says(client, |w| w.query(b"select 1"));
        let server = rig.server_of(client).expect("linked");
        rig.wait(Duration::from_millis(2300));
        assert!(rig.is_closed(client) && !rig.is_closed(server));
        let is_line = |text: &str| {
            text.contains("closing because: query timeout (age=") && text.ends_with("s); kept if it can be cleaned")
        };
        let told = rig.log.iter().filter(|(_, text)| is_line(text)).count();
        assert_eq!(told, lines, "{:?}", rig.log);
    }
}

#[test]
fn a_segment_without_sync_is_idle_in_a_transaction_once_it_is_answered() {
    let mut rig = Rig::new("idle_transaction_timeout = 2");
    let client = rig.client();
    rig.says(client, |w| {
        w.parse(b"", b"select 1", &[0, 0]);
        w.empty(b'H');
    });
    let server = rig.server_of(client).expect("linked");
    rig.wait(Duration::from_secs(3));
    assert!(!rig.is_closed(client), "the server is at work");
    rig.says(server, |w| w.empty(b'1'));
    rig.wait(Duration::from_millis(1500));
    rig.says(client, |w| {
        w.describe(b'S', b"");
        w.empty(b'H');
    });
    rig.says(server, |w| w.empty(b'n'));
    rig.wait(Duration::from_millis(1900));
    assert!(!rig.is_closed(client), "it has just worked");
    rig.wait(Duration::from_millis(400));
    assert_eq!(ending(&mut rig, client), "Error 25P03 idle transaction timeout");
}

#[test]
fn a_failed_segment_whose_sync_does_not_come_is_idle_in_a_transaction() {
    for (limit, words) in [
        ("idle_transaction_timeout", "Error 25P03 idle transaction timeout"),
        ("transaction_timeout", "Error 25P04 transaction timeout"),
    ] {
        let mut rig = Rig::new(&format!("{limit} = 2"));
        let client = rig.client();
        rig.says(client, |w| {
            w.parse(b"", b"slect 1", &[0, 0]);
            w.empty(b'H');
        });
        let server = rig.server_of(client).expect("linked");
        rig.says(server, |w| w.error(&crate::rig::error("42601", "syntax error")));
        rig.wait(Duration::from_millis(2300));
        assert_eq!(ending(&mut rig, client), words);
    }
}

#[test]
fn the_time_of_a_query_does_not_begin_before_its_client_got_the_server() {
    let mut rig = Rig::new("query_timeout = 2");
    let client = rig.client_begins(&[("user", "u"), ("database", "db"), ("TimeZone", "Asia/Tokyo")]);
    let server = rig.servers_log_in()[0];
    rig.told(server);
    rig.says(server, |w| {
        for message in [b'1', b'2'] {
            w.empty(message);
        }
        w.parameter_status(b"TimeZone", b"Asia/Tokyo");
        w.command_complete("SELECT 1");
        w.ready_for_query(Idle);
    });
    rig.told(client);
    let other = rig.client();
    // The server has long been idle; settings are restored on it first, and its answer is late.
    rig.wait(Duration::from_secs(30));
    rig.says(other, |w| w.query(b"select 1"));
    assert!(rig.server_of(other).is_some());
    rig.wait(Duration::from_millis(500));
    assert!(!rig.is_closed(other), "it has waited for half a second");
    rig.wait(Duration::from_secs(2));
    assert_eq!(ending(&mut rig, other), "Error 57014 query timeout");
}

#[test]
fn a_login_that_waits_for_what_a_server_makes_of_its_settings_is_under_client_login_timeout() {
    let mut rig = Rig::new("client_login_timeout = 3");
    let client = rig.client_begins(&[("user", "u"), ("database", "db"), ("work_mem", "1MB")]);
    rig.servers_log_in();
    assert!(rig.server_of(client).is_some(), "the server is asked");
    rig.wait(Duration::from_secs(4));
    assert_eq!(ending(&mut rig, client), "Error 57014 client_login_timeout");
}

/// Answers a restoration and the Query after it.
fn settings_made(rig: &mut Rig, server: pgweir_core::ServerId) {
    let mut answer = Vec::new();
    let mut w = Writer::new(&mut answer);
    for message in rig.told(server) {
        match message.split_once(' ').map_or(&*message, |(name, _)| name) {
            "Parse" => w.empty(b'1'),
            "Bind" => w.empty(b'2'),
            "Close" => w.empty(b'3'),
            "Execute" => w.command_complete("SELECT 1"),
            "Sync" => w.ready_for_query(Idle),
            "Query" => {
                w.command_complete("SELECT 1");
                w.ready_for_query(Idle);
            }
            _ => panic!("{message} makes no setting"),
        }
    }
    rig.comes(server, &answer);
}

#[test]
fn a_server_does_not_lie_idle_with_its_clients_idle_session_timeout() {
    let mut rig = Rig::new("default_pool_size = 1");
    let parameters = [("user", "u"), ("database", "db"), ("idle_session_timeout", "2s")];
    let client = rig.client_begins(&parameters);
    let server = rig.servers_log_in()[0];
    settings_made(&mut rig, server);
    assert_eq!(
        rig.told(server),
        ["Query RESET idle_session_timeout"],
        "it had the setting"
    );
    let other = rig.client_begins(&[("user", "u"), ("database", "db")]);
    rig.says(other, |w| w.query(b"select 1"));
    assert_eq!(rig.server_of(other), None, "the server has not confirmed it");
    rig.completes(server, "RESET");
    assert_eq!(rig.told(server), ["Query select 1"]);
    rig.completes(server, "SELECT 1");
    assert_eq!(rig.told(client).last().unwrap(), "ReadyForQuery I");
    rig.wait(Duration::from_secs(3));
    assert_eq!(
        ending(&mut rig, client),
        "Error 57P05 terminating connection due to idle-session timeout"
    );
    assert!(!rig.is_closed(other));
}

#[test]
fn a_client_whose_server_ends_before_anything_reached_it_goes_to_another_once() {
    let mut rig = Rig::new("");
    let client = rig.client_begins(&[("user", "u"), ("database", "db"), ("work_mem", "1MB")]);
    let first = rig.servers_log_in()[0];
    settings_made(&mut rig, first);
    let other = rig.client();
    rig.says(other, |w| w.query(b"select 1"));
    while rig.bytes_written(first) > 0 {
        settings_made(&mut rig, first);
    }
    assert_eq!(rig.server_of(other), None, "it is done");
    rig.told(client);
    rig.says(client, |w| w.query(b"select 2"));
    assert_eq!(rig.server_of(client), Some(first));
    rig.says(first, |w| {
        w.error(&crate::rig::fatal(
            "57P05",
            "terminating connection due to idle-session timeout",
        ))
    });
    assert!(
        !rig.is_closed(client) && rig.told(client).is_empty(),
        "it has done nothing"
    );
    let second = rig.servers_log_in()[0];
    settings_made(&mut rig, second);
    assert_eq!(rig.told(second), ["Query select 2"]);
    rig.completes(second, "SELECT 1");
    assert_eq!(rig.told(client), ["CommandComplete SELECT 1", "ReadyForQuery I"]);
}

#[test]
fn a_client_whose_settings_end_servers_is_not_given_one_after_another() {
    let mut rig = Rig::new("");
    let client = rig.client_begins(&[("user", "u"), ("database", "db"), ("work_mem", "1MB")]);
    let first = rig.servers_log_in()[0];
    settings_made(&mut rig, first);
    rig.server_dies(first);
    rig.told(client);
    rig.says(client, |w| w.query(b"select 2"));
    for _ in 0..2 {
        let server = rig.servers_log_in()[0];
        assert!(!rig.is_closed(client));
        rig.server_dies(server);
    }
    assert!(ending(&mut rig, client).starts_with("Error 08006"));
}

/// Guards against work that grows with the square of a message that comes byte by byte.
#[test]
fn the_beginning_of_a_long_message_is_looked_at_once() {
    let parse = bytes(|w| w.parse(b"s", "x".repeat(4_000_000).as_bytes(), &[0, 0]));
    for (message, needed) in [(&parse, 1024 * 1024), (&long_query(4_000_000), 64 * 1024)] {
        let mut rig = Rig::new("");
        let client = rig.client();
        rig.comes(client, &message[..1000]);
        assert_eq!(rig.pooler.needs_bytes(client.into()), needed);
        rig.comes(client, &message[1000..needed]);
        assert!(rig.server_of(client).is_some(), "it streams");
        assert_eq!(rig.pooler.needs_bytes(client.into()), 0);
    }
}

/// Guards against a pool that loses the servers of min_pool_size, and against one that is kept for ever because its
/// database names its user.
#[test]
fn pool_idle_timeout_begins_when_the_last_server_is_gone() {
    let cleaned = |rig: &Rig| {
        rig.log
            .iter()
            .any(|(_, line)| line.contains("cleaning up idle pool for user u"))
    };
    for (min_pool_size, stays) in [(0, false), (1, true)] {
        let settings = format!("pool_idle_timeout = 5\nserver_idle_timeout = 3\nmin_pool_size = {min_pool_size}");
        let mut rig = Rig::new(&settings);
        let client = rig.client();
        rig.query(client, "select 1");
        let server = rig.server_of(client).expect("linked");
        rig.completes(server, "SELECT 1");
        rig.client_leaves(client);
        rig.wait(Duration::from_secs(7));
        assert_eq!(rig.is_closed(server), !stays, "min_pool_size = {min_pool_size}");
        assert!(!cleaned(&rig), "it had a server until then");
        rig.wait(Duration::from_secs(60));
        assert_eq!((rig.is_closed(server), cleaned(&rig)), (!stays, !stays));
    }
}
