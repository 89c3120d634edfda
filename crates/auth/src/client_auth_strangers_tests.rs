//! Conversations with a client that does not know the password: they must look alike whether the user
//! exists or not.

use super::*;

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
