//! Conversations in which a message is changed on its way, or in which any bytes are sent.

use super::*;

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

    /// A message that was changed on its way, in any byte, causes no panic and is never accepted.
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

/// Like [`converse`], with a client that may be confused by the answers to its changed messages.
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
