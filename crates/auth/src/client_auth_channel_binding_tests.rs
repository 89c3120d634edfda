//! Conversations over TLS: the client's proof is bound to the certificate that it has seen.

use super::*;
use crate::error::ScramFault;

/// The outcome for a client whose TLS connection ends at the certificate `theirs`, and a pooler whose
/// certificate has the hash `ours`.
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
