//! Guards the logins, both sides: a message that was changed on its way must cause no panic, and without the right
//! proof no client is let in and no server is trusted.
//!
//! The first bytes choose the two sides; the others are changes to their messages. An exchange without changes must
//! succeed. If anything other than the right proof arrives, it must fail.
#![no_main]

use pgweir_auth::{
    AuthRequest, ClientAuth, ClientAuthMethod, ClientAuthNonces, ClientAuthRules, ClientStep, Credential,
    ITERATIONS_MAX, Learned, Md5Secret, MockKey, MockSecret, ScramKeyCache, ScramKeys, ScramVerifier, Secret,
    ServerAuth, ServerStep,
};
use pgweir_fuzz::story::Story;

/// More iterations would only cost time: the pooler limits them to [`ITERATIONS_MAX`].
const ITERATIONS_TRIED_MAX: u64 = 2_000;

/// Messages from one side to the other, more than any exchange has.
const MESSAGES_MAX: usize = 8;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = Secret::parse(bytes);
    let _ = AuthRequest::parse(bytes);
    if let Ok(verifier) = ScramVerifier::parse(bytes) {
        assert_eq!(ScramVerifier::parse(verifier.to_stored_text().as_bytes()), Ok(verifier));
    }
    let mut story = Story::new(bytes);
    exchange(&mut story);
});

/// How a message is changed on its way.
fn mutated(message: &[u8], story: &mut Story<'_>) -> Vec<u8> {
    let mut message = message.to_vec();
    let at = story.pick(message.len().max(1));
    match story.pick(8) {
        1 => {
            if let Some(byte) = message.get_mut(at) {
                *byte = story.byte().unwrap_or_default();
            }
        }
        2 => message.truncate(at),
        3 => {
            let more = story.raw(40);
            message.splice(at..at, more);
        }
        4 => message = story.raw(200),
        5 => message.extend_from_within(at..),
        6 => {
            // Near the end, where the proof is.
            let from_end = message.len() - message.len().min(1 + story.pick(60));
            if let Some(byte) = message.get_mut(from_end) {
                *byte = byte.wrapping_add(1 + story.pick(250) as u8);
            }
        }
        7 => message.extend(story.raw(40)),
        _ => {}
    }
    message
}

/// Whether a server-first-message asks for so many iterations that they would only cost time.
fn is_dear(message: &[u8]) -> bool {
    let asked = message
        .rsplit(|b| *b == b',')
        .next()
        .and_then(|last| last.strip_prefix(b"i="));
    let asked = asked
        .and_then(|digits| std::str::from_utf8(digits).ok())
        .and_then(|digits| digits.parse::<u64>().ok());
    asked.is_some_and(|asked| asked > ITERATIONS_TRIED_MAX && asked <= u64::from(ITERATIONS_MAX))
}

fn exchange(story: &mut Story<'_>) {
    let method = story.one_of(&[
        ClientAuthMethod::ScramSha256,
        ClientAuthMethod::Md5,
        ClientAuthMethod::Plain,
    ]);
    let keys = ScramKeys::derive(b"right", b"salt", 1);
    let stored = match story.pick(5) {
        0 => Some(Secret::Plain("right".into())),
        1 => Some(Secret::Scram(ScramVerifier::from(&keys))),
        2 => Some(Secret::Md5(Md5Secret::derive(b"right", b"user"))),
        3 => Some(Secret::Plain("".into())),
        _ => None,
    };
    let (credential, knows) = match story.pick(5) {
        0 => (Credential::Password("right".into()), true),
        1 => (Credential::Password("wrong".into()), false),
        2 => (Credential::ScramKeys(keys), true),
        3 => (Credential::Md5(Md5Secret::derive(b"right", b"user")), true),
        _ => (Credential::Nothing, false),
    };
    let usable = match (&stored, method) {
        (None, _) => false,
        (Some(Secret::Plain(password)), _) => !password.is_empty(),
        (Some(Secret::Md5(_)), ClientAuthMethod::ScramSha256) => false,
        (Some(_), _) => true,
    };
    let nonces = ClientAuthNonces {
        md5_salt: [1; 4],
        scram: [2; 18],
    };
    let rules = ClientAuthRules {
        mock_key: MockKey::new([9; 32]),
        mock_secret: if story.pick(2) == 0 {
            MockSecret::Scram
        } else {
            MockSecret::Md5
        },
        scram_iterations: 1,
        plain_secrets: story.pick(2) == 0,
    };
    let mut cache = ScramKeyCache::new(8);
    let stored_is_keys = matches!(stored, Some(Secret::Scram(_)));
    let mut doorkeeper = ClientAuth::new(method, b"user", nonces, rules);
    let mut visitor = ServerAuth::new(b"user", credential, [3; 18]);
    let mut untouched = true;
    let mut step = doorkeeper.handle_secret(stored);
    for _ in 0..MESSAGES_MAX {
        let request = match step {
            ClientStep::Ask(request) => request,
            ClientStep::Derive(derivation) => {
                step = doorkeeper.handle_keys(derivation.derive(), &mut cache);
                continue;
            }
            ClientStep::Judge(_) => unreachable!("{method:?} asks nobody else"),
            ClientStep::Refused(_) => {
                // The exchange has ended: every further message is refused.
                let late = doorkeeper.handle_message(&story.raw(20), &mut cache);
                assert!(matches!(late, ClientStep::Refused(_)));
                return;
            }
            ClientStep::Accepted(accepted) => {
                assert!(usable, "a user without a usable secret was let in");
                if untouched {
                    assert!(knows, "a wrong password was let in");
                }
                if method == ClientAuthMethod::ScramSha256 && !knows {
                    panic!("a proof was made without the key");
                }
                if let Learned::ScramKeys(learned) = &accepted.learned {
                    assert!(stored_is_keys);
                    assert_eq!(*learned, ScramKeys::derive(b"right", b"salt", 1));
                }
                return believe(accepted.closing, visitor, untouched, knows, story, &mut cache);
            }
        };
        let payload = request.payload();
        let heard = mutated(&payload, story);
        untouched &= heard == payload;
        if is_dear(&heard) {
            return;
        }
        let answer = match visitor.handle_message(&heard, &mut cache) {
            Ok(ServerStep::Send(answer)) => answer,
            Ok(ServerStep::Derive(derivation)) => match visitor.handle_keys(derivation.derive(), &mut cache) {
                Some(ServerStep::Send(answer)) => answer,
                other => panic!("keys must lead to a proof, not to {other:?}"),
            },
            Ok(ServerStep::Authenticated) => {
                assert!(!untouched, "let in before it has proved anything");
                story.raw(60)
            }
            Ok(ServerStep::Wait) => {
                assert!(!untouched, "the server has proved itself before it was asked to");
                story.raw(60)
            }
            // A real client would have closed the connection; somebody else continues in its place.
            Err(_) => {
                untouched = false;
                story.raw(200)
            }
        };
        let heard = mutated(&answer, story);
        untouched &= heard == answer;
        step = doorkeeper.handle_message(&heard, &mut cache);
    }
    panic!("an exchange without end");
}

/// The client has been let in; does it trust the server?
fn believe(
    closing: Option<AuthRequest>,
    mut visitor: ServerAuth,
    untouched: bool,
    knows: bool,
    story: &mut Story<'_>,
    cache: &mut ScramKeyCache,
) {
    let Some(closing) = closing else {
        if untouched {
            let end = visitor.handle_message(&AuthRequest::Ok.payload(), cache);
            assert_eq!(end, Ok(ServerStep::Authenticated));
        }
        return;
    };
    let payload = closing.payload();
    let heard = mutated(&payload, story);
    let first = visitor.handle_message(&heard, cache);
    let end = visitor.handle_message(&AuthRequest::Ok.payload(), cache);
    if untouched && heard == payload {
        assert!(knows);
        assert_eq!((first, end), (Ok(ServerStep::Wait), Ok(ServerStep::Authenticated)));
    } else if untouched {
        // The message contains only this signature.
        assert!(
            first.is_err() && end.is_err(),
            "a server that has proved nothing was believed"
        );
    }
}
