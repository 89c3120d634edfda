//! Conversations with a client that breaks the protocol.

use super::*;
use crate::error::ScramFault;

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
        let told = match &refused.reason {
            ClientAuthError::MechanismNotOffered { .. } => "client selected an invalid SASL authentication mechanism",
            _ => "SASL authentication failed",
        };
        assert_eq!(refused.told, told);
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
        ScramFault::ClientNonceMismatch.into()
    );
    assert_eq!(
        refuse(&[first, &answer("biws", &nonce[3..])]),
        ScramFault::ClientNonceMismatch.into()
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
