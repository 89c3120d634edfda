//! The server's side: a client logs in to the pooler.

use subtle::ConstantTimeEq;

use super::messages::{ClientFinal, ClientFirst, Gs2};
use super::{Key, ScramKeys, ScramVerifier, auth_message, encode, hmac, sha256, xor};
use crate::error::ScramFault;

/// Whether channel binding was offered, and what the client has chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offer<'a> {
    /// There is no TLS, or its certificate has no hash to bind to.
    None,
    /// Offered, but the client has chosen the mechanism without it.
    Declined,
    /// The client binds to the certificate with this hash.
    Taken(&'a [u8]),
}

impl Offer<'_> {
    /// What the client must repeat in `c=`, if its first message had this flag. If a client believes that there was no
    /// offer although there was one, somebody between client and pooler has removed the offer (RFC 5802, section 6).
    fn expected(self, flag: Gs2) -> Result<Vec<u8>, ScramFault> {
        match (flag, self) {
            (Gs2::EndPoint, Offer::Taken(hash)) => Ok(flag.channel_binding(hash)),
            (Gs2::EndPoint, _) => Err(ScramFault::ChannelBindingNotChosen),
            (_, Offer::Taken(_)) => Err(ScramFault::ChannelBindingMissing),
            (Gs2::NotOffered, Offer::Declined) => Err(ScramFault::ChannelBindingDowngraded),
            (Gs2::NotOffered | Gs2::NotSupported, _) => Ok(flag.channel_binding(b"")),
        }
    }
}

/// Waits for the client-first-message.
pub struct AwaitClientFirst<'a> {
    salt: Vec<u8>,
    iterations: u32,
    /// The server's half of the nonce, printable.
    nonce: Vec<u8>,
    offer: Offer<'a>,
}

impl<'a> AwaitClientFirst<'a> {
    /// Salt and count are those of the user's verifier. Its keys need not be known yet.
    pub fn new(salt: Vec<u8>, iterations: u32, nonce: Vec<u8>, offer: Offer<'a>) -> Self {
        Self {
            salt,
            iterations,
            nonce,
            offer,
        }
    }

    /// Returns the next state and the server-first-message.
    pub fn read(self, message: &[u8]) -> Result<(AwaitClientFinal, Vec<u8>), ScramFault> {
        let first = ClientFirst::parse(message)?;
        let nonce = [first.nonce, &self.nonce].concat();
        let iterations = self.iterations.to_string();
        let server_first = [
            b"r=".as_slice(),
            &nonce,
            b",s=",
            &encode(&self.salt),
            b",i=",
            iterations.as_bytes(),
        ]
        .concat();
        let next = AwaitClientFinal {
            channel_binding: self.offer.expected(first.gs2)?,
            client_first_bare: first.bare.to_vec(),
            server_first: server_first.clone(),
            nonce,
        };
        Ok((next, server_first))
    }
}

/// Waits for the client-final-message.
#[derive(pgweir_freeze::Freeze)]
pub struct AwaitClientFinal {
    /// What the client must repeat.
    channel_binding: Vec<u8>,
    client_first_bare: Vec<u8>,
    server_first: Vec<u8>,
    /// Both halves of the nonce.
    nonce: Vec<u8>,
}

/// A client that has proved that it knows the password.
pub struct Proven {
    /// The server-final-message, which proves that the pooler knows the secret too.
    pub server_final: Vec<u8>,
    /// The keys to log in to a server that has the same verifier.
    pub keys: ScramKeys,
}

/// A well-formed client-final-message, whose proof has not been checked yet.
#[derive(pgweir_freeze::Freeze)]
pub struct Claim {
    proof: Key,
    auth_message: Vec<u8>,
}

impl AwaitClientFinal {
    pub fn read(self, message: &[u8]) -> Result<Claim, ScramFault> {
        let last = ClientFinal::parse(message)?;
        if last.channel_binding != self.channel_binding {
            return Err(ScramFault::ChannelBindingMismatch);
        }
        if !bool::from(last.nonce.ct_eq(&self.nonce)) {
            return Err(ScramFault::ClientNonceMismatch);
        }
        Ok(Claim {
            proof: last.proof,
            auth_message: auth_message(&self.client_first_bare, &self.server_first, last.without_proof).concat(),
        })
    }
}

impl Claim {
    /// `None` if the proof is wrong. The verifier has the salt and the count that the client was told.
    pub fn check(&self, verifier: &ScramVerifier) -> Option<Proven> {
        let client_key = xor(self.proof, &hmac(&verifier.stored_key, &[&self.auth_message]));
        if !bool::from(sha256(&client_key).ct_eq(&verifier.stored_key)) {
            return None;
        }
        let signature = hmac(&verifier.server_key, &[&self.auth_message]);
        Some(Proven {
            server_final: [b"v=".as_slice(), &encode(&signature)].concat(),
            keys: ScramKeys {
                salt: verifier.salt.clone(),
                iterations: verifier.iterations,
                client_key,
                server_key: verifier.server_key,
            },
        })
    }
}
