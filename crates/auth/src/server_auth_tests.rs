//! Conversations of ours with servers. Honest servers are played by [`ClientAuth`](crate::ClientAuth) in
//! `client_auth_tests`; here are the odd and the hostile ones.

use proptest::prelude::*;

use super::*;
use crate::error::ScramFault;
use crate::scram::ScramVerifier;
use crate::scram::server::{AwaitClientFinal, AwaitClientFirst, Offer};

const NONCE: [u8; NONCE_RAW_BYTES] = [9; NONCE_RAW_BYTES];
const SALT: &[u8] = b"a salt of sixteen";
const ITERATIONS: u32 = 3;

fn password() -> Credential {
    Credential::Password(Password::from("sesame"))
}

fn keys() -> ScramKeys {
    ScramKeys::derive(b"sesame", SALT, ITERATIONS)
}

fn auth(credential: Credential) -> ServerAuth {
    ServerAuth::new(b"alice", credential, NONCE)
}

fn handle(auth: &mut ServerAuth, request: &AuthRequest) -> Result<ServerStep, ServerAuthError> {
    auth.handle_message(&request.payload(), &mut ScramKeyCache::new(0))
}

fn sasl() -> AuthRequest {
    AuthRequest::Sasl {
        mechanisms: vec![b"SCRAM-SHA-256-PLUS".to_vec(), b"SCRAM-SHA-256".to_vec()],
    }
}

const SALTED: AuthRequest = AuthRequest::Md5Password { salt: [1, 2, 3, 4] };

/// Up to the point where our proof has been sent: what the server would say, and its state.
fn until_proof(auth: &mut ServerAuth, verifier: &ScramVerifier) -> (AwaitClientFinal, Vec<u8>) {
    let Ok(ServerStep::Send(initial)) = handle(auth, &sasl()) else {
        panic!("SASL is answered")
    };
    let first = SaslInitialResponse::parse(&initial).unwrap();
    assert_eq!(first.mechanism, b"SCRAM-SHA-256");
    let server = AwaitClientFirst::new(
        verifier.salt.clone(),
        verifier.iterations,
        b"SERVER".to_vec(),
        Offer::None,
    );
    let (server, server_first) = server.read(first.data.unwrap()).unwrap();
    let Ok(ServerStep::Send(proof)) = handle(auth, &AuthRequest::SaslContinue(server_first)) else {
        panic!("the challenge is answered")
    };
    (server, proof)
}

/// What a server that has the verifier of [`keys`] answers to this proof.
fn signature(server: AwaitClientFinal, proof: &[u8]) -> Vec<u8> {
    let proven = server.read(proof).unwrap().check(&ScramVerifier::from(&keys()));
    proven.expect("the proof is right").server_final
}

#[test]
fn what_libpq_would_send() {
    let mut ours = auth(password());
    let Ok(ServerStep::Send(initial)) = handle(&mut ours, &sasl()) else {
        panic!()
    };
    assert_eq!(initial, b"SCRAM-SHA-256\0\0\0\0\x20n,,n=,r=CQkJCQkJCQkJCQkJCQkJCQkJ");
}

#[test]
fn each_question_is_answered_from_what_serves_it() {
    let sent = |credential: Credential, request: &AuthRequest| match handle(&mut auth(credential), request) {
        Ok(ServerStep::Send(payload)) => payload,
        other => panic!("{other:?}"),
    };
    assert_eq!(sent(password(), &AuthRequest::CleartextPassword), b"sesame\0");
    // Computed with Python's hashlib.
    let md5_answer = b"md55186f3b6a7e31b8fedc1a1ffcb0e3472\0".as_slice();
    assert_eq!(sent(password(), &SALTED), md5_answer);
    let hash = Md5Secret::parse(b"md51a1403cdf37da2c74e920c31477e3b20").unwrap();
    assert_eq!(sent(Credential::Md5(hash.clone()), &SALTED), md5_answer);

    let cannot = |credential: Credential, request: &AuthRequest| {
        let error = handle(&mut auth(credential), request).unwrap_err();
        assert!(
            matches!(error, ServerAuthError::CredentialCannotAnswer { .. }),
            "{error:?}"
        );
    };
    cannot(Credential::Md5(hash.clone()), &AuthRequest::CleartextPassword);
    cannot(Credential::Md5(hash), &sasl());
    cannot(Credential::ScramKeys(keys()), &AuthRequest::CleartextPassword);
    cannot(Credential::ScramKeys(keys()), &SALTED);
    for request in [AuthRequest::CleartextPassword, SALTED, sasl()] {
        cannot(Credential::Nothing, &request);
    }
}

#[test]
fn a_server_that_asks_nothing_is_fine() {
    for credential in [Credential::Nothing, password(), Credential::ScramKeys(keys())] {
        assert_eq!(
            handle(&mut auth(credential), &AuthRequest::Ok),
            Ok(ServerStep::Authenticated)
        );
    }
}

#[test]
fn stored_secrets_are_worth_what_they_are() {
    let kind = |text: &str| Credential::from_secret(&Secret::parse(text.as_bytes()).unwrap()).kind();
    assert_eq!(kind("sesame"), "a plain text password");
    assert_eq!(kind("md51a1403cdf37da2c74e920c31477e3b20"), "an MD5 hash");
    assert_eq!(kind(&ScramVerifier::from(&keys()).to_stored_text()), "none");
    assert_eq!(kind(""), "none");
}

#[test]
fn methods_we_do_not_speak_are_named_in_the_error() {
    for (code, name) in [(2_i32, "KerberosV5"), (7, "GSSAPI"), (9, "SSPI")] {
        let error = auth(password())
            .handle_message(&code.to_be_bytes(), &mut ScramKeyCache::new(0))
            .unwrap_err();
        assert!(error.to_string().contains(name), "{error}");
        assert_eq!(error.blame(), crate::Blame::Server);
    }
    let offer = AuthRequest::Sasl {
        mechanisms: vec![b"OAUTHBEARER".to_vec(), b"SCRAM-SHA-256-PLUS".to_vec()],
    };
    assert_eq!(
        handle(&mut auth(password()), &offer),
        Err(ServerAuthError::NoCommonMechanism {
            offered: "OAUTHBEARER, SCRAM-SHA-256-PLUS".to_owned()
        })
    );
}

/// Pass-through with another verifier would fail with "password authentication failed", and nobody would know why.
#[test]
fn keys_of_another_verifier_are_recognized() {
    for other in [
        ScramKeys::derive(b"sesame", b"other salt", ITERATIONS),
        ScramKeys::derive(b"sesame", SALT, 4),
    ] {
        let mut ours = auth(Credential::ScramKeys(keys()));
        let Ok(ServerStep::Send(initial)) = handle(&mut ours, &sasl()) else {
            panic!()
        };
        let first = SaslInitialResponse::parse(&initial).unwrap().data.unwrap().to_vec();
        let server = AwaitClientFirst::new(other.salt.clone(), other.iterations, b"SERVER".to_vec(), Offer::None);
        let (_, server_first) = server.read(&first).unwrap();
        assert_eq!(
            handle(&mut ours, &AuthRequest::SaslContinue(server_first)),
            Err(ServerAuthError::VerifierMismatch)
        );
    }
}

#[test]
fn ok_is_believed_only_of_a_server_that_has_proved_itself() {
    let early = |error: Result<ServerStep, ServerAuthError>| {
        assert!(
            matches!(
                error,
                Err(ServerAuthError::OutOfTurn {
                    got: "AuthenticationOk",
                    ..
                })
            ),
            "{error:?}"
        );
    };
    let mut ours = auth(password());
    handle(&mut ours, &sasl()).unwrap();
    early(handle(&mut ours, &AuthRequest::Ok));

    let mut ours = auth(password());
    until_proof(&mut ours, &ScramVerifier::from(&keys()));
    early(handle(&mut ours, &AuthRequest::Ok));

    let mut ours = auth(password());
    let (server, proof) = until_proof(&mut ours, &ScramVerifier::from(&keys()));
    let server_final = signature(server, &proof);
    assert_eq!(
        handle(&mut ours, &AuthRequest::SaslFinal(server_final)),
        Ok(ServerStep::Wait)
    );
    assert_eq!(handle(&mut ours, &AuthRequest::Ok), Ok(ServerStep::Authenticated));
    early(handle(&mut ours, &AuthRequest::Ok));
}

/// A server that has seen our proof, and then asks for the password itself, is not the server.
#[test]
fn nothing_is_asked_twice_and_nothing_weaker_afterwards() {
    for first in [AuthRequest::CleartextPassword, SALTED, sasl()] {
        for second in [
            AuthRequest::CleartextPassword,
            SALTED,
            sasl(),
            AuthRequest::SaslFinal(b"v=".to_vec()),
        ] {
            let mut ours = auth(password());
            handle(&mut ours, &first).unwrap();
            let answer = handle(&mut ours, &second);
            assert!(
                matches!(answer, Err(ServerAuthError::OutOfTurn { .. })),
                "{first:?} {second:?}"
            );
            let after = handle(&mut ours, &AuthRequest::Ok);
            assert!(
                matches!(after, Err(ServerAuthError::OutOfTurn { .. })),
                "an error ends it"
            );
        }
    }
}

#[test]
fn hostile_challenges_are_refused() {
    let refuse = |message: &str| {
        let mut ours = auth(password());
        handle(&mut ours, &sasl()).unwrap();
        handle(&mut ours, &AuthRequest::SaslContinue(message.as_bytes().to_vec())).unwrap_err()
    };
    let ours = "CQkJCQkJCQkJCQkJCQkJCQkJ";
    assert_eq!(
        refuse(&format!("r={ours},s=AA==,i=1")),
        ScramFault::NonceMismatch.into()
    );
    assert_eq!(refuse("r=other,s=AA==,i=1"), ScramFault::NonceMismatch.into());
    assert!(matches!(
        refuse(&format!("r={ours}X,s=AA==,i=2000000000")),
        ServerAuthError::Scram(ScramFault::Iterations { .. })
    ));
    let long = "x".repeat(1900);
    assert!(matches!(
        refuse(&format!("r={ours}{long},s=AA==,i=1")),
        ServerAuthError::Scram(ScramFault::Length { .. })
    ));
    let longer = "x".repeat(100_000);
    assert!(matches!(
        refuse(&format!("r={ours}{longer},s=AA==,i=1")),
        ServerAuthError::TooLong { .. }
    ));
}

#[test]
fn no_bit_of_a_servers_signature_is_without_meaning() {
    let mut bit = 0;
    loop {
        let mut ours = auth(password());
        let (server, proof) = until_proof(&mut ours, &ScramVerifier::from(&keys()));
        let mut server_final = signature(server, &proof);
        if bit == server_final.len() * 8 {
            break;
        }
        server_final[bit / 8] ^= 1 << (bit % 8);
        let answer = handle(&mut ours, &AuthRequest::SaslFinal(server_final));
        assert!(answer.is_err(), "bit {bit}");
        bit += 1;
    }
    assert!(bit > 300, "the signature was there to be changed");
}

#[test]
fn a_server_with_another_password_is_found_out_by_its_signature() {
    let mut ours = auth(password());
    until_proof(&mut ours, &ScramVerifier::from(&keys()));
    // The server cannot check our proof, so it signs with what it has.
    let mut other = auth(Credential::Password(Password::from("other")));
    let (server, proof) = until_proof(
        &mut other,
        &ScramVerifier::from(&ScramKeys::derive(b"other", SALT, ITERATIONS)),
    );
    let verifier = ScramVerifier::from(&ScramKeys::derive(b"other", SALT, ITERATIONS));
    let server_final = server.read(&proof).unwrap().check(&verifier).unwrap().server_final;
    assert_eq!(
        handle(&mut ours, &AuthRequest::SaslFinal(server_final)),
        Err(ServerAuthError::ServerSignature)
    );
}

#[test]
fn a_pools_keys_are_derived_once() {
    let mut cache = ScramKeyCache::new(4);
    for _ in 0..3 {
        let mut ours = auth(password());
        ours.handle_message(&sasl().payload(), &mut cache).unwrap();
        let challenge = AuthRequest::SaslContinue(b"r=CQkJCQkJCQkJCQkJCQkJCQkJX,s=AA==,i=3".to_vec());
        ours.handle_message(&challenge.payload(), &mut cache).unwrap();
        assert_eq!(cache.len(), 1);
    }
}

/// Guards against a database user who chooses how long all clients wait.
#[test]
fn many_iterations_are_left_to_the_caller() {
    let mut cache = ScramKeyCache::new(4);
    let challenge = |iterations: u32| {
        AuthRequest::SaslContinue(format!("r=CQkJCQkJCQkJCQkJCQkJCQkJX,s=AA==,i={iterations}").into_bytes()).payload()
    };
    let many = ITERATIONS_AT_ONCE_MAX + 1;
    let mut ours = auth(password());
    ours.handle_message(&sasl().payload(), &mut cache).unwrap();
    let Ok(ServerStep::Derive(derivation)) = ours.handle_message(&challenge(many), &mut cache) else {
        panic!("the keys were derived at once");
    };
    assert_eq!((derivation.iterations, cache.len()), (many, 0));
    assert_eq!(ours.keys_being_derived().as_ref(), Some(&derivation));
    let stale = ScramKeys::derive(b"sesame", b"\0", 1);
    assert_eq!(
        ours.handle_keys(stale, &mut cache),
        None,
        "these answer another question"
    );
    let answer = ours.handle_keys(derivation.derive(), &mut cache);
    assert!(matches!(answer, Some(ServerStep::Send(_))), "{answer:?}");
    assert_eq!(ours.keys_being_derived(), None);
    assert_eq!(ours.handle_keys(derivation.derive(), &mut cache), None, "once");

    // The next connection of the pool has them.
    for (iterations, kept) in [(many, 1), (ITERATIONS_AT_ONCE_MAX, 2)] {
        let mut ours = auth(password());
        ours.handle_message(&sasl().payload(), &mut cache).unwrap();
        let step = ours.handle_message(&challenge(iterations), &mut cache);
        assert!(matches!(step, Ok(ServerStep::Send(_))), "{step:?}");
        assert_eq!(cache.len(), kept);
    }
    // A server that goes on before the proof is out of turn.
    let mut ours = auth(password());
    ours.handle_message(&sasl().payload(), &mut ScramKeyCache::new(0))
        .unwrap();
    ours.handle_message(&challenge(many), &mut ScramKeyCache::new(0))
        .unwrap();
    assert!(handle(&mut ours, &AuthRequest::Ok).is_err());
    assert_eq!(ours.handle_keys(derivation.derive(), &mut cache), None);
}

#[test]
fn debug_output_shows_no_secret() {
    let ours = auth(password());
    let shown = format!("{ours:?} {:?} {:?}", password(), Credential::ScramKeys(keys()));
    assert!(
        !shown.contains("sesame") && !shown.contains(&format!("{:?}", keys().client_key)),
        "{shown}"
    );
}

fn requests() -> impl Strategy<Value = Vec<u8>> {
    let codes = prop_oneof![
        Just(0_i32),
        Just(3),
        Just(5),
        Just(10),
        Just(11),
        Just(12),
        any::<i32>()
    ];
    let data = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..60),
        Just(b"SCRAM-SHA-256\0\0".to_vec()),
        "r=CQkJCQkJCQkJCQkJCQkJCQkJ[!-~]{0,9},s=[A-Za-z0-9+/=]{0,8},i=[1-9]".prop_map(String::into_bytes),
        "v=[A-Za-z0-9+/]{43}=".prop_map(String::into_bytes),
    ];
    (codes, data).prop_map(|(code, data)| [code.to_be_bytes().as_slice(), &data].concat())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever a server says, the pooler does not panic; and once SCRAM has begun, no guessed message ends it well.
    #[test]
    fn whatever_a_server_says_is_survived(messages in prop::collection::vec(requests(), 1..6)) {
        let mut ours = auth(password());
        let mut cache = ScramKeyCache::new(0);
        let mut is_scram = false;
        for message in messages {
            match ours.handle_message(&message, &mut cache) {
                Ok(ServerStep::Send(_)) => is_scram |= message.starts_with(b"\0\0\0\x0a"),
                Ok(ServerStep::Authenticated | ServerStep::Wait | ServerStep::Derive(_)) => prop_assert!(!is_scram),
                Err(_) => {}
            }
        }
    }
}
