//! Tests of logins to servers.

use super::*;
use pgweir_auth::{Credential, Password};
use pgweir_wire::Writer;
use pgweir_wire::write::ErrorText;

struct Rig {
    login: ServerLogin,
    keys: ScramKeyCache,
}

impl Rig {
    fn new() -> Rig {
        Rig::that_wants(TargetSessionAttrs::Any)
    }

    fn that_wants(wanted: TargetSessionAttrs) -> Rig {
        let credential = Credential::Password(Password::from("right"));
        Rig {
            login: ServerLogin::new(ServerAuth::new(b"alice", credential, [9; 18]), wanted),
            keys: ScramKeyCache::new(4),
        }
    }

    /// What one message means.
    fn hears(&mut self, write: impl FnOnce(&mut Writer<'_>)) -> String {
        let mut bytes = Vec::new();
        write(&mut Writer::new(&mut bytes));
        let (taken, step) = self.login.handle_bytes(&bytes, &mut self.keys);
        assert_eq!(taken, bytes.len());
        format!("{step:?}")
    }
}

const OK: [u8; 4] = [0; 4];
const CLEARTEXT: [u8; 4] = [0, 0, 0, 3];

#[test]
fn a_server_asks_for_the_password_and_lets_us_in() {
    let mut rig = Rig::new();
    assert!(rig.hears(|w| w.authentication(&CLEARTEXT)).starts_with("Send"));
    assert_eq!(rig.hears(|w| w.authentication(&OK)), "Nothing");
    assert!(
        rig.hears(|w| w.parameter_status(b"a", b"b"))
            .starts_with("ParameterStatus")
    );
    assert!(
        rig.hears(|w| w.backend_key_data(7, &[1, 2, 3, 4]))
            .contains("process_id: 7")
    );
    assert_eq!(
        rig.hears(|w| w.ready_for_query(TransactionStatus::Idle)),
        "Welcome(None)"
    );
}

/// The outcome of a login to a server that reports these settings.
fn login(wanted: TargetSessionAttrs, reports: &[(&str, &str)]) -> (Rig, String) {
    let mut rig = Rig::that_wants(wanted);
    rig.hears(|w| w.authentication(&OK));
    for (name, value) in reports {
        rig.hears(|w| w.parameter_status(name.as_bytes(), value.as_bytes()));
    }
    let step = rig.hears(|w| w.ready_for_query(TransactionStatus::Idle));
    (rig, step)
}

#[test]
fn a_server_that_says_what_it_is_is_not_asked() {
    let standby = [("in_hot_standby", "on"), ("default_transaction_read_only", "off")];
    let (_, step) = login(TargetSessionAttrs::ReadWrite, &standby);
    assert_eq!(step, "Unwanted(\"session is read-only\")");
    let (_, step) = login(TargetSessionAttrs::Standby, &standby);
    assert_eq!(step, "Welcome(None)");
    let (_, step) = login(TargetSessionAttrs::PreferStandby, &[("in_hot_standby", "off")]);
    assert_eq!(step, "Welcome(Some(\"server is not in hot standby mode\"))");
}

/// The bytes would be handled as long as they come, and no time limit would get its turn.
#[test]
fn a_server_that_never_gets_ready_is_given_up() {
    for text in ["x".repeat(10), "x".repeat(60_000)] {
        let mut rig = Rig::new();
        rig.hears(|w| w.authentication(&OK));
        let mut bytes = 0;
        let heard = (1..10_000).find(|_| {
            bytes += text.len();
            let step = rig.hears(|w| w.parameter_status(b"a", text.as_bytes()));
            step.contains("bytes before it is ready")
        });
        let messages = heard.expect("it is given up");
        assert!(messages == LOGIN_MESSAGES_MAX || bytes > LOGIN_BYTES_MAX as usize);
    }
}

/// PostgreSQL 13 and older, and poolers.
#[test]
fn a_server_that_does_not_say_is_asked_once() {
    for (answer, expected) in [
        (["f", "off"], "Welcome(None)"),
        (["f", "on"], "Unwanted(\"session is read-only\")"),
        (["t", "on"], "Unwanted(\"session is read-only\")"),
    ] {
        let (mut rig, step) = login(TargetSessionAttrs::ReadWrite, &[]);
        assert!(
            step.starts_with("Ask(\"SELECT pg_catalog.pg_is_in_recovery()"),
            "{step}"
        );
        rig.hears(|w| w.data_row(2, answer.map(|value| Some(value.as_bytes()))));
        assert_eq!(rig.hears(|w| w.command_complete("SELECT 1")), "Nothing");
        let step = rig.hears(|w| w.ready_for_query(TransactionStatus::Idle));
        assert_eq!(step, expected);
    }
    let (mut rig, _) = login(TargetSessionAttrs::ReadWrite, &[]);
    let step = rig.hears(|w| w.ready_for_query(TransactionStatus::Idle));
    assert!(step.starts_with("Unwanted"), "no answer: {step}");
    let (mut rig, _) = login(TargetSessionAttrs::Any, &[]);
    let step = rig.hears(|w| w.data_row(1, [Some(&b"f"[..])]));
    assert!(step.starts_with("Misbehaves"), "an answer to no question: {step}");
}

#[test]
fn ready_for_query_before_authentication_ok_is_no_welcome() {
    let mut rig = Rig::new();
    let step = rig.hears(|w| w.ready_for_query(TransactionStatus::Idle));
    assert_eq!(step, "Misbehaves(\"unknown pkt from server: 'Z'\")");
}

#[test]
fn a_welcome_is_outside_a_transaction() {
    let mut rig = Rig::new();
    rig.hears(|w| w.authentication(&OK));
    let step = rig.hears(|w| w.ready_for_query(TransactionStatus::InTransaction));
    assert!(step.starts_with("Misbehaves"), "{step}");
}

#[test]
fn we_give_up_where_the_server_asks_out_of_turn() {
    let mut rig = Rig::new();
    rig.hears(|w| w.authentication(&OK));
    let step = rig.hears(|w| w.authentication(&CLEARTEXT));
    assert!(step.starts_with("GiveUp") && step.contains("28000"), "{step}");
}

#[test]
fn a_full_server_is_only_a_matter_of_time_and_a_wrong_password_is_not() {
    for (sqlstate, temporary) in [("53300", true), ("57P03", true), ("28P01", false), ("3D000", false)] {
        let error = ErrorText {
            severity: "FATAL",
            sqlstate,
            message: "no",
            detail: "",
            hint: "",
        };
        let step = Rig::new().hears(|w| w.error(&error));
        assert!(step.contains(&format!("temporary: {temporary}")), "{step}");
        assert!(step.contains("severity: \"FATAL\""), "{step}");
    }
}

#[test]
fn a_message_is_taken_when_it_is_whole_and_never_when_it_is_too_long() {
    let mut rig = Rig::new();
    let mut ok = Vec::new();
    Writer::new(&mut ok).authentication(&OK);
    for cut in 0..ok.len() {
        let (taken, step) = rig.login.handle_bytes(&ok[..cut], &mut rig.keys);
        assert!(
            taken == 0 && matches!(step, ServerLoginStep::NeedBytes),
            "{cut} {step:?}"
        );
    }
    let mut long = vec![b'S'];
    long.extend_from_slice(&LOGIN_MESSAGE_BYTES_MAX.to_be_bytes());
    let (_, step) = rig.login.handle_bytes(&long, &mut rig.keys);
    assert!(matches!(step, ServerLoginStep::Misbehaves(_)), "{step:?}");
}

/// What a login to a server with this credential comes to when the server asks so.
fn given_up(credential: Credential, asks: &[u8]) -> String {
    let mut rig = Rig::new();
    rig.login = ServerLogin::new(ServerAuth::new(b"alice", credential, [9; 18]), TargetSessionAttrs::Any);
    rig.hears(|w| w.authentication(asks))
}

#[test]
fn the_reasons_begin_with_pgbouncers_words() {
    let other = given_up(Credential::Password(Password::from("right")), b"\0\0\0\x0aOTHER\0\0");
    let words = "none of the server's SASL authentication mechanisms are supported: ";
    assert!(other.contains(&format!("server login failed: {words}")), "{other}");
    for (asks, method) in [
        (&b"\0\0\0\x0aSCRAM-SHA-256\0\0"[..], "SCRAM"),
        (b"\0\0\0\x05salt", "MD5"),
    ] {
        let step = given_up(Credential::Nothing, asks);
        assert!(step.contains("server login failed: wrong password type: "), "{step}");
        let log = format!("cannot do {method} authentication: wrong password type: ");
        assert!(step.contains(&log), "{step}");
    }
}
