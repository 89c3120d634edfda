//! Conversations of clients with us; the client's part is played by [`ServerAuth`], our own other side.

use proptest::prelude::*;

use super::*;
use crate::error::ScramFault;
use crate::password_message::password_payload;
use crate::scram::{KEY_BYTES, SALT_BYTES, hmac};
use crate::server_auth::{Credential, ServerAuth, ServerStep};

/// Few, so that tests take milliseconds; nothing here depends on the number.
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

/// What follows from a message, with the keys that somebody else derives.
fn hears(auth: &mut ClientAuth, message: &[u8], cache: &mut ScramKeyCache) -> ClientStep {
    match auth.handle_message(message, cache) {
        ClientStep::Derive(derivation) => auth.handle_keys(derivation.derive(), cache),
        step => step,
    }
}

/// What was said, us first, until the verdict.
struct Conversation {
    ours: Vec<AuthRequest>,
    theirs: Vec<Vec<u8>>,
    verdict: ClientStep,
}

/// A whole log-in. `alter` may change each message of the client before we get it.
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

    // A verifier that we made ourselves exists nowhere else: its keys are worth nothing.
    let step = login(ClientAuthMethod::ScramSha256, Some(plain("sesame")), "sesame");
    assert_eq!(assert_accepted(&step).learned, Learned::Nothing);
    let step = login(ClientAuthMethod::Md5, Some(md5("sesame")), "sesame");
    assert_eq!(assert_accepted(&step).learned, Learned::Nothing);
}

/// The whole way of a client that logs in by SCRAM: its proof opens the server that has the same verifier.
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
    let waiting = AwaitClientFirst::new(ScramVerifier::from(&keys), b"SERVER".to_vec(), Offer::None);
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
    assert!(waiting.read(&last).unwrap().is_some());
}

#[test]
fn faults_of_form_have_their_own_reason() {
    let mut cache = ScramKeyCache::new(0);
    let mut refuse = |messages: &[&[u8]]| {
        let (mut auth, mut step) = start(ClientAuthMethod::ScramSha256, Some(scram("sesame")));
        for message in messages {
            assert!(matches!(step, ClientStep::Ask(_)), "{step:?}");
            step = hears(&mut auth, message, &mut cache);
        }
        let refused = assert_refused(&step);
        assert_eq!(refused.told, "SASL authentication failed");
        refused.reason.clone()
    };
    let first = b"SCRAM-SHA-256\0\0\0\0\x0bn,,n=,r=abc".as_slice();
    let answer = |binding: &str, nonce: &str| {
        format!("c={binding},r={nonce},p=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=").into_bytes()
    };
    let nonce = "abcBwcHBwcHBwcHBwcHBwcHBwcH";
    assert_eq!(refuse(&[first, &answer("biws", nonce)]), ClientAuthError::WrongPassword);
    assert_eq!(
        refuse(&[first, &answer("eSws", nonce)]),
        ScramFault::ChannelBindingMismatch.into()
    );
    assert_eq!(
        refuse(&[first, &answer("biws", "abc")]),
        ScramFault::NonceMismatch.into()
    );
    assert_eq!(
        refuse(&[first, &answer("biws", &nonce[3..])]),
        ScramFault::NonceMismatch.into()
    );
    assert!(matches!(
        refuse(&[first, b""]),
        ClientAuthError::Scram(ScramFault::Length { .. })
    ));
    assert_eq!(
        refuse(&[b"SCRAM-SHA-256-PLUS\0\0\0\0\x0bn,,n=,r=abc"]),
        ClientAuthError::MechanismNotOffered {
            got: "SCRAM-SHA-256-PLUS".to_owned()
        }
    );
    assert!(matches!(
        refuse(&[b"sesame\0"]),
        ClientAuthError::MalformedSaslInitialResponse { .. }
    ));
}

#[test]
fn messages_out_of_turn_are_refused_and_end_it() {
    let mut cache = ScramKeyCache::new(0);
    let mut early = ClientAuth::new(ClientAuthMethod::Plain, b"alice", NONCES, rules(MockSecret::Scram));
    assert!(early.needs_secret());
    assert_eq!(
        assert_refused(&early.handle_message(b"sesame\0", &mut cache)).reason,
        ClientAuthError::NotAsked
    );
    assert_eq!(
        assert_refused(&early.handle_secret(Some(plain("sesame")))).reason,
        ClientAuthError::NotAsked
    );

    let (mut auth, _) = start(ClientAuthMethod::Plain, Some(plain("sesame")));
    assert_refused(&hears(&mut auth, b"guess\0", &mut cache));
    let second_try = hears(&mut auth, b"sesame\0", &mut cache);
    assert_eq!(assert_refused(&second_try).reason, ClientAuthError::NotAsked);

    let (mut trusted, _) = start(ClientAuthMethod::Trust, Some(plain("sesame")));
    assert_eq!(
        assert_refused(&trusted.handle_message(b"sesame\0", &mut cache)).reason,
        ClientAuthError::NotAsked
    );
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

/// Lengths of all that we said, and what the client was told: all that a stranger can see.
fn outside_view(conversation: &Conversation) -> (Vec<(&'static str, usize)>, Vec<usize>, &'static str) {
    let ours = conversation
        .ours
        .iter()
        .map(|request| (request.name(), request.payload().len()))
        .collect();
    let theirs = conversation.theirs.iter().map(Vec::len).collect();
    (ours, theirs, assert_refused(&conversation.verdict).told)
}

/// A stored verifier like those of PostgreSQL: its salt has as many bytes as ours.
fn stored_verifier() -> Secret {
    Secret::Scram(ScramVerifier::from(&ScramKeys::derive(
        b"sesame",
        &[3; SALT_BYTES],
        ITERATIONS,
    )))
}

#[test]
fn a_stranger_cannot_tell_who_exists() {
    for (mock_secret, secrets) in [
        (MockSecret::Scram, vec![stored_verifier()]),
        (MockSecret::Md5, vec![md5("sesame"), plain("sesame")]),
    ] {
        for method in ASKING {
            let attempt = |secret| converse("alice", method, secret, mock_secret, "guess", |_, message| message);
            let unknown = attempt(None);
            assert_eq!(assert_refused(&unknown.verdict).reason, ClientAuthError::UnknownUser);
            for secret in &secrets {
                // Under scram-sha-256, plain text and MD5 secrets both look like verifiers.
                assert_eq!(
                    outside_view(&attempt(Some(secret.clone()))),
                    outside_view(&unknown),
                    "{method:?} {secret:?}"
                );
            }
            let no_password = attempt(Some(plain("")));
            assert_eq!(assert_refused(&no_password.verdict).reason, ClientAuthError::NoPassword);
            assert_eq!(outside_view(&no_password), outside_view(&unknown));
        }
    }
}

#[test]
fn a_stranger_sees_the_same_salt_each_time_and_another_for_each_name() {
    let salt = |user: &str, secret: Option<Secret>| {
        let talk = converse(
            user,
            ClientAuthMethod::ScramSha256,
            secret,
            MockSecret::Scram,
            "guess",
            |_, m| m,
        );
        match &talk.ours[1] {
            AuthRequest::SaslContinue(first) => first.split(|byte| *byte == b',').nth(1).unwrap().to_vec(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(salt("nobody", None), salt("nobody", None));
    assert_ne!(salt("nobody", None), salt("no-one", None));
    assert_eq!(
        salt("alice", None),
        salt("alice", Some(plain("sesame"))),
        "a plain text user, before and after creation"
    );
}

/// Whatever the answer: even one computed from the very mock secret. (A doom is not a matter of luck.)
#[test]
fn an_unknown_user_fails_even_with_the_right_answer() {
    let mut cache = ScramKeyCache::new(0);
    let (mut auth, step) = start_as("nobody", ClientAuthMethod::Md5, None, MockSecret::Md5);
    assert!(matches!(step, ClientStep::Ask(AuthRequest::Md5Password { .. })));
    let right = MockKey::new([42; KEY_BYTES]).md5(b"nobody").answer(NONCES.md5_salt);
    let step = hears(&mut auth, &password_payload(&right), &mut cache);
    assert_eq!(assert_refused(&step).reason, ClientAuthError::UnknownUser);
}

#[test]
fn a_plain_text_users_keys_are_derived_once() {
    let mut cache = ScramKeyCache::new(4);
    for _ in 0..3 {
        let (mut auth, _) = start(ClientAuthMethod::ScramSha256, Some(plain("sesame")));
        hears(&mut auth, b"SCRAM-SHA-256\0\0\0\0\x0bn,,n=,r=abc", &mut cache);
        assert_eq!(cache.len(), 1);
    }
    let (mut auth, _) = start(ClientAuthMethod::ScramSha256, None);
    hears(&mut auth, b"SCRAM-SHA-256\0\0\0\0\x0bn,,n=,r=abc", &mut cache);
    assert_eq!(cache.len(), 1, "strangers cannot fill the cache");
}

fn methods() -> impl Strategy<Value = ClientAuthMethod> {
    prop_oneof![
        Just(ClientAuthMethod::Plain),
        Just(ClientAuthMethod::Md5),
        Just(ClientAuthMethod::ScramSha256)
    ]
}

fn secrets(password: String) -> impl Strategy<Value = Secret> {
    prop_oneof![Just(plain(&password)), Just(scram(&password)), Just(md5(&password))]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_right_password_gets_in_and_others_do_not(
        method in methods(),
        (password, secret) in "[^\0]{1,20}".prop_flat_map(|p| (Just(p.clone()), secrets(p))),
        other in "[a-z]{1,20}",
    ) {
        prop_assume!(!(method == ClientAuthMethod::ScramSha256 && matches!(secret, Secret::Md5(_))));
        assert_accepted(&login(method, Some(secret.clone()), &password));
        if other != password && !crate::saslprep::saslprep(password.as_bytes()).as_ref().eq(other.as_bytes()) {
            assert_refused(&login(method, Some(secret), &other));
        }
    }

    /// A message changed on its way, in any byte of any message, never panics us and never gets anybody in.
    #[test]
    fn a_changed_message_is_never_accepted(
        method in methods(),
        secret in secrets("sesame".to_owned()),
        which in 0_usize..2,
        at in any::<prop::sample::Index>(),
        change in 1_u8..=255,
    ) {
        let mut changed = false;
        let mut auth_mutant = |number: usize, mut message: Vec<u8>| {
            if number == which {
                let at = at.index(message.len());
                message[at] ^= change;
                changed = true;
            }
            message
        };
        let step = converse_with_mutant("alice", method, secret, &mut auth_mutant);
        prop_assert!(!changed || matches!(step, ClientStep::Refused(_)), "{:?}", step);
    }

    #[test]
    fn bytes_out_of_the_blue_are_never_accepted(
        method in methods(),
        secret in secrets("sesame".to_owned()),
        messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..80), 1..4),
    ) {
        let (mut auth, mut step) = start(method, Some(secret));
        let mut cache = ScramKeyCache::new(0);
        for message in messages {
            step = hears(&mut auth, &message, &mut cache);
        }
        prop_assert!(!matches!(step, ClientStep::Accepted(_)));
    }
}

/// As [`converse`], with a client that may be confused by what we answer to its changed messages.
fn converse_with_mutant(
    user: &str,
    method: ClientAuthMethod,
    secret: Secret,
    alter: &mut dyn FnMut(usize, Vec<u8>) -> Vec<u8>,
) -> ClientStep {
    let mut cache = ScramKeyCache::new(4);
    let mut client = ServerAuth::new(user.as_bytes(), Credential::Password(Password::from("sesame")), [9; 18]);
    let (mut auth, mut step) = start_as(user, method, Some(secret), MockSecret::Scram);
    for number in 0.. {
        let ClientStep::Ask(request) = &step else { break };
        let answer = match client.handle_message(&request.payload(), &mut cache) {
            Ok(ServerStep::Send(payload)) => payload,
            _ => b"c=biws,r=lost,p=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=".to_vec(),
        };
        step = hears(&mut auth, &alter(number, answer), &mut cache);
    }
    step
}

/// Exhaustive over the SCRAM conversation, where the random test above might miss a byte: each bit of each message.
#[test]
fn no_single_bit_of_a_scram_message_is_without_meaning() {
    for which in 0..2 {
        let mut bits = 1;
        let mut bit = 0;
        while bit < bits {
            let step = converse_with_mutant(
                "alice",
                ClientAuthMethod::ScramSha256,
                scram("sesame"),
                &mut |number, mut m| {
                    if number == which {
                        bits = m.len() * 8;
                        m[bit / 8] ^= 1 << (bit % 8);
                    }
                    m
                },
            );
            assert!(matches!(step, ClientStep::Refused(_)), "message {which}, bit {bit}");
            bit += 1;
        }
        assert!(bits > 300, "the message was there to be changed");
    }
}

/// What a client whose TLS ends at `theirs` achieves at a pooler whose certificate has the hash `ours`.
fn log_in_over_tls(ours: &[u8], theirs: Option<&[u8]>, change_offer: impl Fn(&mut Vec<Vec<u8>>)) -> ClientStep {
    let keys = &mut ScramKeyCache::new(4);
    let mut auth = ClientAuth::new(
        ClientAuthMethod::ScramSha256,
        b"alice",
        NONCES,
        rules(MockSecret::Scram),
    )
    .offer_channel_binding(ours.into());
    let mut client = ServerAuth::new(b"alice", Credential::Password(Password::from("sesame")), [9; 18]);
    if let Some(theirs) = theirs {
        client = client.bind_to(theirs.into());
    }
    let mut step = auth.handle_secret(Some(Secret::parse(b"sesame").unwrap()));
    while let ClientStep::Ask(mut request) = step {
        if let AuthRequest::Sasl { mechanisms } = &mut request {
            change_offer(mechanisms);
        }
        let Ok(ServerStep::Send(payload)) = client.handle_message(&request.payload(), keys) else {
            panic!("the client gives up");
        };
        step = hears(&mut auth, &payload, keys);
    }
    step
}

#[test]
fn a_client_that_binds_to_our_certificate_gets_in_and_one_bound_to_another_does_not() {
    let accepted = |step| matches!(step, ClientStep::Accepted(_));
    assert!(accepted(log_in_over_tls(b"hash", Some(b"hash"), |_| {})));
    assert!(accepted(log_in_over_tls(b"hash", None, |_| {})), "no need to bind");
    let step = log_in_over_tls(b"hash", Some(b"hash of somebody in between"), |_| {});
    let ClientStep::Refused(refused) = step else {
        panic!("somebody in between gets in");
    };
    assert_eq!(refused.reason, ScramFault::ChannelBindingMismatch.into());
}

#[test]
fn an_offer_that_somebody_has_taken_away_is_missed() {
    let ClientStep::Refused(refused) = log_in_over_tls(b"hash", Some(b"hash"), |offer| {
        offer.retain(|mechanism| mechanism != SCRAM_SHA_256_PLUS.as_bytes())
    }) else {
        panic!("nobody has noticed");
    };
    assert_eq!(refused.reason, ScramFault::ChannelBindingDowngraded.into());
}

#[test]
fn mechanism_and_flag_must_agree() {
    for (mechanism, first, offered, expected) in [
        (
            SCRAM_SHA_256_PLUS,
            "n,,n=,r=abc",
            true,
            ScramFault::ChannelBindingMissing,
        ),
        (
            SCRAM_SHA_256_PLUS,
            "y,,n=,r=abc",
            true,
            ScramFault::ChannelBindingMissing,
        ),
        (
            SCRAM_SHA_256,
            "p=tls-server-end-point,,n=,r=abc",
            true,
            ScramFault::ChannelBindingNotChosen,
        ),
        (
            SCRAM_SHA_256,
            "p=tls-server-end-point,,n=,r=abc",
            false,
            ScramFault::ChannelBindingNotChosen,
        ),
    ] {
        let keys = &mut ScramKeyCache::new(4);
        let method = ClientAuthMethod::ScramSha256;
        let mut auth = ClientAuth::new(method, b"alice", NONCES, rules(MockSecret::Scram));
        if offered {
            auth = auth.offer_channel_binding(b"hash".as_slice().into());
        }
        auth.handle_secret(Some(Secret::parse(b"sesame").unwrap()));
        let payload = SaslInitialResponse::payload(mechanism.as_bytes(), first.as_bytes());
        let ClientStep::Refused(refused) = hears(&mut auth, &payload, keys) else {
            panic!("{mechanism} {first}");
        };
        assert_eq!(refused.reason, expected.into(), "{mechanism} {first}");
    }
}

/// What the operating system or a certificate proves about a client does not make a user of it.
#[test]
fn proven_by_others_and_unknown() {
    for (method, told) in [
        (ClientAuthMethod::Peer, "unix socket login rejected"),
        (ClientAuthMethod::Cert, "certificate authentication failed"),
    ] {
        assert!(matches!(start(method, Some(scram("x"))).1, ClientStep::Accepted(_)));
        let ClientStep::Refused(refused) = start(method, None).1 else {
            panic!("a user who does not exist was accepted")
        };
        assert_eq!((refused.reason, refused.told), (ClientAuthError::UnknownUser, told));
    }
}

#[test]
fn somebody_else_judges_the_password() {
    let mut cache = ScramKeyCache::new(0);
    for (method, told) in [
        (ClientAuthMethod::Ldap, "LDAP authentication failed"),
        (ClientAuthMethod::Pam, "PAM authentication failed"),
    ] {
        let asked = || {
            let (mut auth, step) = start(method, None);
            assert_eq!(step, ClientStep::Ask(AuthRequest::CleartextPassword));
            let step = hears(&mut auth, b"sesame\0", &mut ScramKeyCache::new(0));
            assert_eq!(step, ClientStep::Judge(Password::from("sesame")));
            auth
        };
        let right = asked().handle_verdict(Ok(()));
        let learned = Learned::Password(Password::from("sesame"));
        assert_eq!(right, ClientStep::Accepted(Accepted { closing: None, learned }));
        let ClientStep::Refused(wrong) = asked().handle_verdict(Err("no".into())) else {
            panic!("expected a refusal")
        };
        assert_eq!((wrong.reason.to_string().as_str(), wrong.told), ("no", told));
        // A second password while the first is being judged, and a verdict nobody waits for.
        let mut twice = asked();
        assert!(matches!(
            twice.handle_message(b"other\0", &mut cache),
            ClientStep::Refused(_)
        ));
        assert!(matches!(twice.handle_verdict(Ok(())), ClientStep::Refused(_)));
        let (mut early, _) = start(method, None);
        assert!(matches!(early.handle_verdict(Ok(())), ClientStep::Refused(_)));
        // A directory takes an empty password for an anonymous bind, and says yes.
        let (mut empty, _) = start(method, None);
        let ClientStep::Refused(refused) = empty.handle_message(b"\0", &mut cache) else {
            panic!("an empty password was passed on")
        };
        assert_eq!(refused.reason, ClientAuthError::EmptyPassword);
    }
}
