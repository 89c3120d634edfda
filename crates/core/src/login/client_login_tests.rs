//! Logins without a pooler: the test plays the client, auth_file and auth_query.

use super::*;
use crate::base::pool_id::PoolKind;
use pgweir_auth::{
    AuthRequest, ClientAuthMethod, ClientAuthNonces, ClientAuthRules, Credential, MockKey, MockSecret, Password,
    ServerAuth, ServerStep,
};
use pgweir_wire::Writer;

/// A low number, so that tests take milliseconds; no test depends on it.
const ITERATIONS: u32 = 3;

/// The verifier of the password `right`, with that number of iterations.
const VERIFIER: &str = "SCRAM-SHA-256$3:YSBzYWx0IG9mIHNpeHRlZQ==$uv4FURYXX5SynB7aBLmD7BU4NE7hRKtR3EI4n4KIPog=:IdlePhcPiJp0HgqtTrIEDdtHAWYHRnXtO5C4hKFWy7Y=";

/// Where a user's secret comes from.
#[derive(Debug, Clone, Copy)]
enum From {
    AuthFile,
    AuthQuery,
}

struct Rig {
    login: Login,
    keys: ScramKeyCache,
}

impl Rig {
    fn new() -> Rig {
        let wishes = Wishes {
            user: "alice".into(),
            database: "db".into(),
            settings: Vec::new(),
            kind: PoolKind::Clients,
        };
        Rig {
            login: Login::new(wishes, ProtocolVersion::V3_0),
            keys: ScramKeyCache::new(4),
        }
    }

    fn begin(&mut self, method: ClientAuthMethod, source: SecretSource) -> LoginStep {
        let nonces = ClientAuthNonces {
            md5_salt: [1, 2, 3, 4],
            scram: [7; 18],
        };
        let rules = ClientAuthRules {
            mock_key: MockKey::new([42; 32]),
            mock_secret: MockSecret::Scram,
            scram_iterations: ITERATIONS,
            plain_secrets: false,
        };
        self.login
            .begin(ClientAuth::new(method, b"alice", nonces, rules), source)
    }

    /// Begins a login whose user has this stored secret; returns the first question or the outcome.
    fn begin_with(&mut self, method: ClientAuthMethod, from: From, secret: Option<&str>) -> LoginStep {
        match from {
            From::AuthFile => {
                let secret = secret.map(|s| Secret::parse(s.as_bytes()).unwrap());
                self.begin(method, SecretSource::Known(secret))
            }
            From::AuthQuery => {
                assert_eq!(self.begin(method, SecretSource::AuthQuery), LoginStep::LookUp);
                if let Some(secret) = secret {
                    self.login.handle_lookup_message(&row(&["alice", secret]));
                }
                self.login.lookup_over().expect("it has been looking up")
            }
        }
    }

    /// The client sends this message, which must be read completely.
    fn says(&mut self, message: &[u8]) -> LoginStep {
        let (bytes, step) = self.login.handle_bytes(message, &mut self.keys);
        assert_eq!(bytes, message.len(), "{step:?}");
        match step {
            LoginStep::Derive(derivation) => {
                let step = self.login.keys_derived(derivation.derive(), &mut self.keys);
                step.expect("it has waited for them")
            }
            step => step,
        }
    }
}

fn message(write: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(&mut Writer::new(&mut bytes));
    bytes
}

fn row(values: &[&str]) -> Vec<u8> {
    message(|w| w.data_row(values.len(), values.iter().map(|v| Some(v.as_bytes()))))
}

/// What a client of this method is asked, and how its login ends.
fn converse(rig: &mut Rig, mut step: LoginStep, password: &str) -> (Vec<&'static str>, LoginStep) {
    let mut client = ServerAuth::new(b"alice", Credential::Password(Password::from(password)), [9; 18]);
    let mut cache = ScramKeyCache::new(4);
    let mut asked = Vec::new();
    while let LoginStep::Ask(request) = step {
        asked.push(request.name());
        let Ok(ServerStep::Send(payload)) = client.handle_message(&request.payload(), &mut cache) else {
            panic!("the client has no answer to {request:?}");
        };
        step = rig.says(&message(|w| w.password(&payload)));
    }
    (asked, step)
}

/// What the client itself learns of the outcome.
fn told(step: &LoginStep) -> &'static str {
    match step {
        LoginStep::Refuse(refused) => refused.told,
        LoginStep::Accept(_) => "welcome",
        other => panic!("no end: {other:?}"),
    }
}

#[test]
fn unknown_users_hear_what_known_ones_hear() {
    use ClientAuthMethod::{Md5, Plain, ScramSha256};
    for method in [Plain, Md5, ScramSha256] {
        for from in [From::AuthFile, From::AuthQuery] {
            let mut known = Rig::new();
            let step = known.begin_with(method, from, Some(VERIFIER));
            let (asked_of_known, end) = converse(&mut known, step, "wrong");
            let mut unknown = Rig::new();
            let step = unknown.begin_with(method, from, None);
            let (asked_of_unknown, end_of_unknown) = converse(&mut unknown, step, "wrong");
            assert_eq!(asked_of_known, asked_of_unknown, "{method:?} {from:?}");
            assert_eq!(told(&end), told(&end_of_unknown), "{method:?} {from:?}");
            assert!(!unknown.login.reads() && !known.login.reads());
        }
    }
}

#[test]
fn unknown_users_get_in_where_nothing_is_asked_only_under_any() {
    for from in [From::AuthFile, From::AuthQuery] {
        let end = Rig::new().begin_with(ClientAuthMethod::Trust, from, None);
        assert_eq!(told(&end), "\"trust\" authentication failed");
        let end = Rig::new().begin_with(ClientAuthMethod::Trust, from, Some("secret"));
        assert_eq!(told(&end), "welcome");
    }
    let end = Rig::new().begin_with(ClientAuthMethod::Any, From::AuthFile, None);
    assert_eq!(told(&end), "welcome");
}

#[test]
fn the_right_password_is_accepted_and_what_closes_the_exchange_is_kept() {
    for (method, closes) in [
        (ClientAuthMethod::Plain, false),
        (ClientAuthMethod::Md5, false),
        (ClientAuthMethod::ScramSha256, true),
    ] {
        let mut rig = Rig::new();
        let step = rig.begin_with(method, From::AuthFile, Some("right"));
        let (_, end) = converse(&mut rig, step, "right");
        assert_eq!(told(&end), "welcome", "{method:?}");
        assert_eq!(rig.login.take_closing().is_some(), closes, "{method:?}");
    }
}

#[test]
fn what_auth_query_found_is_kept_for_logging_in_to_servers() {
    let mut rig = Rig::new();
    rig.begin_with(ClientAuthMethod::Plain, From::AuthQuery, Some("secret"));
    assert_eq!(rig.login.found(), Some(&Secret::Plain(Password::from("secret"))));
}

#[test]
fn scram_messages_at_the_wrong_moment_end_the_login() {
    let final_without_first = message(|w| w.password(b"c=biws,r=x,p=AAAA"));
    let mut rig = Rig::new();
    rig.begin_with(ClientAuthMethod::ScramSha256, From::AuthFile, Some("right"));
    assert_eq!(told(&rig.says(&final_without_first)), "SASL authentication failed");
    assert_eq!(
        rig.login.handle_bytes(&final_without_first, &mut rig.keys),
        (0, LoginStep::Wait),
        "nothing is heard behind the end"
    );

    let initial = message(|w| w.password(b"SCRAM-SHA-256\0\0\0\0\x0dn,,n=,r=nonce"));
    let mut rig = Rig::new();
    rig.begin_with(ClientAuthMethod::ScramSha256, From::AuthFile, Some("right"));
    assert!(matches!(
        rig.says(&initial),
        LoginStep::Ask(AuthRequest::SaslContinue(_))
    ));
    assert_eq!(told(&rig.says(&initial)), "SASL authentication failed");
}

#[test]
fn nothing_is_read_while_the_secret_is_looked_up() {
    let mut rig = Rig::new();
    rig.begin(ClientAuthMethod::Plain, SecretSource::AuthQuery);
    assert!(!rig.login.reads() && rig.login.awaits_auth_query());
    let early = message(|w| w.password(b"right\0"));
    assert_eq!(rig.login.handle_bytes(&early, &mut rig.keys), (0, LoginStep::Wait));
    rig.login.handle_lookup_message(&row(&["alice", "right"]));
    rig.login.lookup_over();
    assert_eq!(told(&rig.says(&early)), "welcome");
}

#[test]
fn a_message_is_taken_when_it_is_whole() {
    let answer = message(|w| w.password(b"right\0"));
    let mut rig = Rig::new();
    rig.begin_with(ClientAuthMethod::Plain, From::AuthFile, Some("right"));
    for cut in 0..answer.len() {
        let got = rig.login.handle_bytes(&answer[..cut], &mut rig.keys);
        assert_eq!(got, (0, LoginStep::Wait), "{cut} bytes");
    }
    let mut more = answer.clone();
    more.extend_from_slice(b"the session begins");
    let (bytes, step) = rig.login.handle_bytes(&more, &mut rig.keys);
    assert_eq!((bytes, told(&step)), (answer.len(), "welcome"));
}

#[test]
fn a_password_that_is_too_long_is_refused_by_its_length_alone() {
    let header = |message_bytes: u32| {
        let mut header = vec![b'p'];
        header.extend_from_slice(&(message_bytes - 1).to_be_bytes());
        header
    };
    let mut rig = Rig::new();
    rig.begin_with(ClientAuthMethod::Plain, From::AuthFile, Some("right"));
    let longest = header(LOGIN_MESSAGE_BYTES_MAX);
    assert_eq!(rig.login.handle_bytes(&longest, &mut rig.keys), (0, LoginStep::Wait));
    let step = rig.says(&header(LOGIN_MESSAGE_BYTES_MAX + 1));
    let expected = Rejection::no_answer(*b"p\0\0\0\0");
    assert_eq!(step, LoginStep::Reject(expected));
}

#[test]
fn only_a_password_or_a_good_bye_answers_a_question() {
    let mut rig = Rig::new();
    rig.begin_with(ClientAuthMethod::Plain, From::AuthFile, Some("right"));
    let expected = Rejection::no_answer(*b"Q\0\0\0\0");
    assert_eq!(
        rig.says(&message(|w| w.query(b"select 1"))),
        LoginStep::Reject(expected)
    );
    assert_eq!(rig.says(&message(|w| w.terminate())), LoginStep::Leave);
}

#[test]
fn a_lookup_that_fails_does_not_show() {
    let mut rig = Rig::new();
    rig.begin(ClientAuthMethod::ScramSha256, SecretSource::AuthQuery);
    let step = rig.login.lookup_failed().expect("it was looking up");
    let (asked, end) = converse(&mut rig, step, "right");
    assert_eq!(asked, ["AuthenticationSASL", "AuthenticationSASLContinue"]);
    assert_eq!(told(&end), "SASL authentication failed");
}

#[test]
fn an_answer_behind_the_end_of_a_lookup_is_not_believed() {
    let mut rig = Rig::new();
    rig.begin(ClientAuthMethod::Plain, SecretSource::AuthQuery);
    rig.login.lookup_failed();
    rig.login.handle_lookup_message(&row(&["alice", "right"]));
    assert_eq!(rig.login.lookup_over(), None);
    assert_eq!(rig.login.lookup_failed(), None);
    let step = rig.says(&message(|w| w.password(b"right\0")));
    assert_eq!(told(&step), "password authentication failed");
}

#[test]
fn the_first_row_about_the_user_counts() {
    let mut rig = Rig::new();
    rig.begin(ClientAuthMethod::Plain, SecretSource::AuthQuery);
    rig.login
        .handle_lookup_message(&message(|w| w.command_complete("SELECT 3")));
    rig.login.handle_lookup_message(&row(&["mallory", "m"]));
    rig.login.handle_lookup_message(&row(&["alice", "right"]));
    rig.login.handle_lookup_message(&row(&["alice", "wrong"]));
    rig.login.lookup_over();
    assert_eq!(told(&rig.says(&message(|w| w.password(b"right\0")))), "welcome");
}

/// Guards against derivations on the event loop, which take milliseconds: only a password that was right before is
/// checked there. Whether the user exists makes no difference.
#[test]
fn keys_are_derived_elsewhere_until_they_are_known() {
    let password = |text: &[u8]| message(|w| w.password(text));
    let mut rig = Rig::new();
    for (secret, given, end) in [
        (Some(VERIFIER), &b"wrong\0"[..], "password authentication failed"),
        (None, b"right\0", "password authentication failed"),
        (Some(VERIFIER), b"right\0", "welcome"),
    ] {
        let keys = rig.keys;
        rig = Rig { keys, ..Rig::new() };
        rig.begin_with(ClientAuthMethod::Plain, From::AuthFile, secret);
        let (_, step) = rig.login.handle_bytes(&password(given), &mut rig.keys);
        let LoginStep::Derive(derivation) = step else {
            panic!("{step:?}")
        };
        assert!(!rig.login.reads(), "it waits");
        assert_eq!(
            rig.login.keys_being_derived(),
            Some(derivation.clone()),
            "a take-over asks again"
        );
        assert_eq!(rig.keys.len(), 0, "guesses are not kept");
        let step = rig.login.keys_derived(derivation.derive(), &mut rig.keys);
        assert_eq!(told(&step.unwrap()), end);
        assert_eq!(rig.login.keys_derived(derivation.derive(), &mut rig.keys), None, "once");
    }
    let keys = rig.keys;
    let mut rig = Rig { keys, ..Rig::new() };
    rig.begin_with(ClientAuthMethod::Plain, From::AuthFile, Some(VERIFIER));
    let (_, step) = rig.login.handle_bytes(&password(b"right\0"), &mut rig.keys);
    assert_eq!(told(&step), "welcome", "its keys are known");
}
