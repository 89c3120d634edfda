//! Conversations with a client that does not know the password: they must look alike whether the user
//! exists or not.

use super::*;
use crate::mock_counts::IterationCounts;
use crate::scram::Derivation;

/// All that such a client sees: the lengths of the messages, and the error.
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

/// The right answer does not help, even if it is computed from the mock secret itself.
#[test]
fn an_unknown_user_fails_even_with_the_right_answer() {
    let mut cache = ScramKeyCache::new(0);
    let (mut auth, step) = start_as("nobody", ClientAuthMethod::Md5, None, MockSecret::Md5);
    assert!(matches!(step, ClientStep::Ask(AuthRequest::Md5Password { .. })));
    let right = MockKey::new([42; KEY_BYTES]).md5(b"nobody").answer(NONCES.md5_salt);
    let step = hears(&mut auth, &password_payload(&right), &mut cache);
    assert_eq!(assert_refused(&step).reason, ClientAuthError::UnknownUser);
}

/// The first messages need no keys, so their time tells nothing.
#[test]
fn nothing_is_derived_for_the_first_messages_and_strangers_cannot_fill_the_cache() {
    let mut cache = ScramKeyCache::new(4);
    for secret in [None, Some(plain("sesame"))] {
        let (mut auth, _) = start(ClientAuthMethod::ScramSha256, secret);
        let step = auth.handle_message(b"SCRAM-SHA-256\0\0\0\0\x0bn,,n=,r=abc", &mut cache);
        assert!(matches!(step, ClientStep::Ask(AuthRequest::SaslContinue(_))));
    }
    assert!(cache.is_empty());
    let mut every_guess = |secret| derivations(secret, &mut cache, true, "guess");
    every_guess(None);
    every_guess(Some(stored_verifier()));
    assert!(cache.is_empty());
}

/// What the exchange of a client that guesses asks the caller to derive, step by step. No answer comes before.
fn derivations(
    secret: Option<Secret>,
    cache: &mut ScramKeyCache,
    plain_secrets: bool,
    password: &str,
) -> Vec<Derivation> {
    let rules = ClientAuthRules {
        plain_secrets,
        ..rules(MockSecret::Scram)
    };
    let mut client = ServerAuth::new(b"alice", Credential::Password(Password::from(password)), [9; 18]);
    let mut auth = ClientAuth::new(ClientAuthMethod::ScramSha256, b"alice", NONCES, rules);
    let (mut step, mut derived) = (auth.handle_secret(secret), Vec::new());
    loop {
        step = match step {
            ClientStep::Ask(request) => match client.handle_message(&request.payload(), &mut ScramKeyCache::new(0)) {
                Ok(ServerStep::Send(answer)) => auth.handle_message(&answer, cache),
                other => panic!("{other:?}"),
            },
            ClientStep::Derive(derivation) => {
                assert_eq!(
                    auth.keys_being_derived().as_ref(),
                    Some(&derivation),
                    "it may be asked for again"
                );
                let keys = derivation.derive();
                derived.push(derivation);
                auth.handle_keys(keys, cache)
            }
            ClientStep::Refused(_) | ClientStep::Accepted(_) => return derived,
            ClientStep::Judge(_) => panic!("nobody else is asked"),
        };
    }
}

/// Where some users have a plain-text secret, the keys of that secret are derived at their first exchange. The others
/// take as long.
#[test]
fn every_exchange_that_fails_takes_one_derivation_if_some_secrets_are_plain_text() {
    let mut cache = ScramKeyCache::new(4);
    for secret in [
        None,
        Some(plain("")),
        Some(md5("sesame")),
        Some(stored_verifier()),
        Some(plain("sesame")),
    ] {
        // The second time the keys of a plain-text secret are known.
        for _ in 0..2 {
            let derived = derivations(secret.clone(), &mut cache, true, "guess");
            assert_eq!(derived.len(), 1, "{secret:?}");
            assert_eq!(derived[0].iterations, ITERATIONS);
        }
    }
    for secret in [None, Some(stored_verifier())] {
        assert_eq!(derivations(secret, &mut cache, false, "guess"), []);
    }
}

#[test]
fn a_login_with_keys_that_are_known_derives_nothing() {
    let mut cache = ScramKeyCache::new(4);
    let mut login = || derivations(Some(plain("sesame")), &mut cache, true, "sesame").len();
    assert_eq!([login(), login(), login()], [1, 0, 0]);
}

/// The iteration count that a client is told.
fn told(user: &str, method: ClientAuthMethod, secret: Option<Secret>, mock_key: MockKey) -> u32 {
    let rules = ClientAuthRules {
        mock_key,
        ..rules(MockSecret::Scram)
    };
    let mut auth = ClientAuth::new(method, user.as_bytes(), NONCES, rules);
    auth.handle_secret(secret);
    let first = b"SCRAM-SHA-256\0\0\0\0\x0bn,,n=,r=abc";
    match auth.handle_message(first, &mut ScramKeyCache::new(0)) {
        ClientStep::Ask(AuthRequest::SaslContinue(text)) => {
            let text = String::from_utf8(text).unwrap();
            text.rsplit_once("i=").unwrap().1.parse().unwrap()
        }
        other => panic!("{other:?}"),
    }
}

/// Guards against telling by the iteration count who exists: verifiers may come from another PostgreSQL, or from one
/// whose scram_iterations was changed.
#[test]
fn strangers_have_the_iteration_counts_of_users() {
    let text = |count: u32, number: u32| {
        format!(
            "SCRAM-SHA-256${count}:AAAAAAAAAAAAAAAAAAAA{number:04}${}=:{}=",
            "A".repeat(43),
            "A".repeat(43)
        )
    };
    let names: Vec<String> = (0..300).map(|number| format!("nobody{number}")).collect();
    let share = |of: u32, method, key: MockKey| {
        let counts = names.iter().map(|name| told(name, method, None, key));
        counts.filter(|count| *count == of).count()
    };
    let (scram, md5_method) = (ClientAuthMethod::ScramSha256, ClientAuthMethod::Md5);
    let key = |secrets: &[String]| {
        let counts = IterationCounts::of(secrets.iter().map(String::as_bytes));
        MockKey::new([1; KEY_BYTES]).with_counts(counts)
    };
    let same: Vec<_> = (0..3).map(|number| text(1000, number)).collect();
    assert_eq!(share(1000, scram, key(&same)), 300, "as all users");
    // Three of four users, and one.
    let mixed: Vec<_> = same.iter().cloned().chain([text(2000, 4)]).collect();
    let many = share(1000, scram, key(&mixed));
    assert!(
        (180..270).contains(&many) && share(2000, scram, key(&mixed)) == 300 - many,
        "{many}"
    );
    // A plain-text secret counts like the verifier that is made of it, where it is not asked for by MD5.
    let with_plain: Vec<_> = same.iter().cloned().chain(["sesame".to_string()]).collect();
    assert!((30..120).contains(&share(ITERATIONS, scram, key(&with_plain))));
    assert_eq!(share(1000, md5_method, key(&with_plain)), 300);
    for secret in [None, Some(md5("x"))] {
        assert_eq!(
            told("alice", scram, secret, key(&mixed)),
            told("alice", scram, None, key(&mixed))
        );
    }
    assert_eq!(
        told("alice", scram, Some(plain("sesame")), key(&same)),
        ITERATIONS,
        "its keys must be derived"
    );
    assert_eq!(
        share(ITERATIONS, scram, MockKey::new([1; KEY_BYTES])),
        300,
        "no user has a verifier"
    );
}
