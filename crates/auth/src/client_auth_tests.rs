//! Conversations of clients with the pooler; [`ServerAuth`], the pooler's other side, plays the client.

use super::*;
use crate::password_message::SaslInitialResponse;
use crate::password_message::password_payload;
use crate::scram::server::{AwaitClientFirst, Offer};
use crate::scram::{KEY_BYTES, SALT_BYTES, ScramKeys, hmac, sha256};
use crate::scram::{SCRAM_SHA_256, SCRAM_SHA_256_PLUS};
use crate::server_auth::{Credential, ServerAuth, ServerStep};
use proptest::prelude::*;

#[path = "client_auth_changed_messages_tests.rs"]
mod changed_messages;
#[path = "client_auth_channel_binding_tests.rs"]
mod channel_binding;
#[path = "client_auth_faults_tests.rs"]
mod faults;
#[path = "client_auth_judged_by_others_tests.rs"]
mod judged_by_others;
#[path = "client_auth_strangers_tests.rs"]
mod strangers;

/// A low number, so that tests take milliseconds; no test depends on it.
const ITERATIONS: u32 = 3;

const NONCES: ClientAuthNonces = ClientAuthNonces {
    md5_salt: [1, 2, 3, 4],
    scram: [7; NONCE_RAW_BYTES],
};

fn rules(mock_secret: MockSecret) -> ClientAuthRules {
    ClientAuthRules {
        mock_key: MockKey::new([42; KEY_BYTES]),
        mock_secret,
        scram_iterations: ITERATIONS,
        plain_secrets: false,
    }
}

fn plain(password: &str) -> Secret {
    Secret::Plain(Password::from(password))
}

fn md5(password: &str) -> Secret {
    Secret::Md5(Md5Secret::derive(password.as_bytes(), b"alice"))
}

fn scram(password: &str) -> Secret {
    Secret::Scram(ScramVerifier::from(&ScramKeys::derive(
        password.as_bytes(),
        b"a salt of sixteen",
        ITERATIONS,
    )))
}

fn start(method: ClientAuthMethod, secret: Option<Secret>) -> (ClientAuth, ClientStep) {
    start_as("alice", method, secret, MockSecret::Scram)
}

fn start_as(
    user: &str,
    method: ClientAuthMethod,
    secret: Option<Secret>,
    mock_secret: MockSecret,
) -> (ClientAuth, ClientStep) {
    let mut auth = ClientAuth::new(method, user.as_bytes(), NONCES, rules(mock_secret));
    let step = auth.handle_secret(secret);
    (auth, step)
}

/// The next step after a message; keys are derived at once.
fn hears(auth: &mut ClientAuth, message: &[u8], cache: &mut ScramKeyCache) -> ClientStep {
    match auth.handle_message(message, cache) {
        ClientStep::Derive(derivation) => auth.handle_keys(derivation.derive(), cache),
        step => step,
    }
}

/// The messages, the pooler's first, until the end.
struct Conversation {
    ours: Vec<AuthRequest>,
    theirs: Vec<Vec<u8>>,
    verdict: ClientStep,
}

/// A whole login. `alter` may change each message of the client on its way.
fn converse(
    user: &str,
    method: ClientAuthMethod,
    secret: Option<Secret>,
    mock_secret: MockSecret,
    password: &str,
    mut alter: impl FnMut(usize, Vec<u8>) -> Vec<u8>,
) -> Conversation {
    let mut cache = ScramKeyCache::new(4);
    let mut client = ServerAuth::new(user.as_bytes(), Credential::Password(Password::from(password)), [9; 18]);
    let (mut auth, mut step) = start_as(user, method, secret, mock_secret);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    while let ClientStep::Ask(request) = step {
        let answer = match client.handle_message(&request.payload(), &mut cache) {
            Ok(ServerStep::Send(payload)) => payload,
            other => panic!("the client had an answer to {request:?} before it was altered: {other:?}"),
        };
        let sent = alter(theirs.len(), answer);
        step = hears(&mut auth, &sent, &mut cache);
        ours.push(request);
        theirs.push(sent);
    }
    if let ClientStep::Accepted(Accepted {
        closing: Some(closing), ..
    }) = &step
    {
        assert_eq!(
            client.handle_message(&closing.payload(), &mut cache),
            Ok(ServerStep::Wait)
        );
    }
    if matches!(step, ClientStep::Accepted(_)) {
        let ok = AuthRequest::Ok.payload();
        assert_eq!(client.handle_message(&ok, &mut cache), Ok(ServerStep::Authenticated));
    }
    Conversation {
        ours,
        theirs,
        verdict: step,
    }
}

fn login(method: ClientAuthMethod, secret: Option<Secret>, password: &str) -> ClientStep {
    converse("alice", method, secret, MockSecret::Scram, password, |_, message| {
        message
    })
    .verdict
}

fn assert_accepted(step: &ClientStep) -> &Accepted {
    match step {
        ClientStep::Accepted(accepted) => accepted,
        other => panic!("expected to be accepted, got {other:?}"),
    }
}

fn assert_refused(step: &ClientStep) -> &Refused {
    match step {
        ClientStep::Refused(refused) => refused,
        other => panic!("expected to be refused, got {other:?}"),
    }
}

const ASKING: [ClientAuthMethod; 3] = [
    ClientAuthMethod::Plain,
    ClientAuthMethod::Md5,
    ClientAuthMethod::ScramSha256,
];

#[test]
fn every_method_serves_every_secret_that_it_can() {
    for method in ASKING {
        for secret in [plain("sesame"), md5("sesame"), scram("sesame")] {
            let cannot = method == ClientAuthMethod::ScramSha256 && matches!(secret, Secret::Md5(_));
            let right = login(method, Some(secret.clone()), "sesame");
            let wrong = login(method, Some(secret), "sesames");
            if cannot {
                assert!(matches!(
                    assert_refused(&right).reason,
                    ClientAuthError::SecretCannotServe { .. }
                ));
            } else {
                assert_accepted(&right);
                assert_eq!(assert_refused(&wrong).reason, ClientAuthError::WrongPassword);
            }
        }
    }
}

#[test]
fn any_lets_everybody_in_and_trust_everybody_who_exists() {
    let accepted = ClientStep::Accepted(Accepted {
        closing: None,
        learned: Learned::Nothing,
    });
    assert_eq!(start(ClientAuthMethod::Any, None).1, accepted);
    assert_eq!(start(ClientAuthMethod::Any, Some(plain(""))).1, accepted);
    assert_eq!(start(ClientAuthMethod::Trust, Some(plain(""))).1, accepted);
    assert_eq!(start(ClientAuthMethod::Trust, Some(scram("sesame"))).1, accepted);
    let (_, step) = start(ClientAuthMethod::Trust, None);
    assert_eq!(
        assert_refused(&step),
        &Refused {
            reason: ClientAuthError::UnknownUser,
            told: "\"trust\" authentication failed"
        }
    );
}

#[test]
fn plain_teaches_us_the_password_and_scram_the_keys() {
    let step = login(ClientAuthMethod::Plain, Some(scram("sesame")), "sesame");
    assert_eq!(
        assert_accepted(&step).learned,
        Learned::Password(Password::from("sesame"))
    );

    let step = login(ClientAuthMethod::ScramSha256, Some(scram("sesame")), "sesame");
    let expected = ScramKeys::derive(b"sesame", b"a salt of sixteen", ITERATIONS);
    assert_eq!(assert_accepted(&step).learned, Learned::ScramKeys(expected));

    // The pooler has made this verifier, and no server has it: its keys cannot be used.
    let step = login(ClientAuthMethod::ScramSha256, Some(plain("sesame")), "sesame");
    assert_eq!(assert_accepted(&step).learned, Learned::Nothing);
    let step = login(ClientAuthMethod::Md5, Some(md5("sesame")), "sesame");
    assert_eq!(assert_accepted(&step).learned, Learned::Nothing);
}

/// A client that logs in by SCRAM: its proof is enough to log in to a server with the same verifier.
#[test]
fn keys_from_a_clients_proof_log_in_to_the_server() {
    let step = login(ClientAuthMethod::ScramSha256, Some(scram("sesame")), "sesame");
    let ClientStep::Accepted(Accepted {
        learned: Learned::ScramKeys(keys),
        ..
    }) = step
    else {
        panic!("{step:?}")
    };
    let mut cache = ScramKeyCache::new(0);
    let mut ours = ServerAuth::new(b"alice", Credential::ScramKeys(keys), [5; 18]);
    let (mut server, mut step) = start(ClientAuthMethod::ScramSha256, Some(scram("sesame")));
    while let ClientStep::Ask(request) = step {
        let Ok(ServerStep::Send(answer)) = ours.handle_message(&request.payload(), &mut cache) else {
            panic!()
        };
        step = server.handle_message(&answer, &mut cache);
    }
    let closing = assert_accepted(&step).closing.clone().unwrap();
    assert_eq!(
        ours.handle_message(&closing.payload(), &mut cache),
        Ok(ServerStep::Wait)
    );
}

#[test]
fn the_question_follows_method_and_secret() {
    let question = |method, secret| match start(method, secret).1 {
        ClientStep::Ask(request) => request.name(),
        other => panic!("{other:?}"),
    };
    use ClientAuthMethod::{Md5, Plain, ScramSha256};
    assert_eq!(question(Plain, Some(md5("x"))), "AuthenticationCleartextPassword");
    assert_eq!(question(Md5, Some(plain("x"))), "AuthenticationMD5Password");
    assert_eq!(question(Md5, Some(md5("x"))), "AuthenticationMD5Password");
    assert_eq!(
        question(Md5, Some(scram("x"))),
        "AuthenticationSASL",
        "as PgBouncer and PostgreSQL do"
    );
    assert_eq!(question(ScramSha256, Some(plain("x"))), "AuthenticationSASL");
    assert_eq!(
        question(ScramSha256, Some(md5("x"))),
        "AuthenticationSASL",
        "and it fails at the end"
    );
}

/// Hashes computed with another implementation (Python's hashlib).
#[test]
fn md5_answers_are_postgresqls() {
    let stored = Secret::parse(b"md51a1403cdf37da2c74e920c31477e3b20").unwrap();
    assert_eq!(stored, md5("sesame"));
    for secret in [stored, plain("sesame")] {
        let (mut auth, step) = start(ClientAuthMethod::Md5, Some(secret));
        assert_eq!(step, ClientStep::Ask(AuthRequest::Md5Password { salt: [1, 2, 3, 4] }));
        let step = hears(
            &mut auth,
            b"md55186f3b6a7e31b8fedc1a1ffcb0e3472\0",
            &mut ScramKeyCache::new(0),
        );
        assert_accepted(&step);
    }
}

#[test]
fn an_empty_password_lets_nobody_in() {
    for method in ASKING {
        for given in ["", "sesame"] {
            let reason = assert_refused(&login(method, Some(plain("")), given)).reason.clone();
            assert!(
                matches!(reason, ClientAuthError::NoPassword | ClientAuthError::EmptyPassword),
                "{reason:?}"
            );
        }
        // A client that computes an MD5 or SCRAM answer from nothing, against a stored hash of nothing.
        if method == ClientAuthMethod::Plain {
            assert_eq!(
                assert_refused(&login(method, Some(md5("")), "")).reason,
                ClientAuthError::EmptyPassword
            );
        }
    }
}

#[test]
fn long_passwords_work() {
    let long = "p".repeat(65_530);
    for (method, secret) in [
        (ClientAuthMethod::Plain, plain(&long)),
        (ClientAuthMethod::Plain, md5(&long)),
        (ClientAuthMethod::Plain, scram(&long)),
        (ClientAuthMethod::Md5, plain(&long)),
        (ClientAuthMethod::ScramSha256, plain(&long)),
    ] {
        assert_accepted(&login(method, Some(secret.clone()), &long));
        assert_refused(&login(method, Some(secret), &long[1..]));
    }
}

#[test]
fn a_client_may_leave_out_its_first_sasl_message() {
    let mut cache = ScramKeyCache::new(0);
    let (mut auth, _) = start(ClientAuthMethod::ScramSha256, Some(scram("sesame")));
    let step = hears(&mut auth, b"SCRAM-SHA-256\0\xff\xff\xff\xff", &mut cache);
    assert_eq!(
        step,
        ClientStep::Ask(AuthRequest::SaslContinue(vec![])),
        "an empty challenge, as PostgreSQL sends"
    );
    let step = hears(&mut auth, b"n,,n=,r=abc", &mut cache);
    assert!(matches!(step, ClientStep::Ask(AuthRequest::SaslContinue(first)) if first.starts_with(b"r=abc")));
}

#[test]
fn a_client_that_could_bind_to_a_channel_gets_in_without() {
    let keys = ScramKeys::derive(b"sesame", b"salt", ITERATIONS);
    let waiting = AwaitClientFirst::new(keys.salt.clone(), keys.iterations, b"SERVER".to_vec(), Offer::None);
    let (waiting, server_first) = waiting.read(b"y,,n=*,r=abc").unwrap();
    let without_proof = b"c=eSws,r=abcSERVER".as_slice();
    let auth_message = [b"n=*,r=abc".as_slice(), b",", &server_first, b",", without_proof];
    let signature = hmac(&sha256(&keys.client_key), &auth_message);
    let proof: Vec<u8> = keys
        .client_key
        .iter()
        .zip(signature)
        .map(|(key, byte)| key ^ byte)
        .collect();
    use base64::Engine as _;
    let proof = base64::engine::general_purpose::STANDARD.encode(proof);
    let last = [without_proof, b",p=", proof.as_bytes()].concat();
    let claim = waiting.read(&last).unwrap();
    assert!(claim.check(&ScramVerifier::from(&keys)).is_some());
}

#[test]
fn debug_output_shows_the_state_and_no_secret() {
    let (auth, step) = start(ClientAuthMethod::Plain, Some(plain("sesame")));
    let shown = format!("{auth:?} {step:?} {:?}", rules(MockSecret::Md5));
    assert!(
        shown.contains("AwaitCleartext") && !shown.contains("sesame") && !shown.contains("42"),
        "{shown}"
    );
    let accepted = login(ClientAuthMethod::Plain, Some(plain("sesame")), "sesame");
    assert!(!format!("{accepted:?}").contains("sesame"));
}
