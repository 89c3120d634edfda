//! SCRAM-SHA-256 (RFC 5802 and RFC 7677), both sides, as PostgreSQL speaks it.
//!
//! ```text
//! SaltedPassword  := PBKDF2-HMAC-SHA-256(SASLprep(password), salt, iterations)
//! ClientKey       := HMAC(SaltedPassword, "Client Key")      StoredKey := H(ClientKey)
//! ServerKey       := HMAC(SaltedPassword, "Server Key")
//! AuthMessage     := client-first-bare "," server-first "," client-final-without-proof
//! ClientProof     := ClientKey XOR HMAC(StoredKey, AuthMessage)
//! ServerSignature := HMAC(ServerKey, AuthMessage)
//! ```
//!
//! Each side is a chain of states that a message consumes, so that a failed exchange cannot go on:
//!
//! | `client` (we log in to a server) | | `server` (a client logs in to us) |
//! |---|---|---|
//! | `AwaitServerFirst::start` | client-first-message → | `AwaitClientFirst::read` |
//! | `AwaitServerFirst::read`, `Challenge::answer` | ← server-first-message | |
//! | | client-final-message → | `AwaitClientFinal::read`, `Claim::check` |
//! | `AwaitServerFinal::read` | ← server-final-message | |

pub(crate) mod client;
mod keys;
pub(crate) mod messages;
pub(crate) mod server;
mod verifier;

pub use keys::{Derivation, ScramKeyCache, ScramKeys};
pub use verifier::ScramVerifier;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

/// The name of the mechanism without channel binding.
pub const SCRAM_SHA_256: &str = "SCRAM-SHA-256";

/// The name of the mechanism that binds to the TLS connection by `tls-server-end-point`, the hash of the certificate.
pub const SCRAM_SHA_256_PLUS: &str = "SCRAM-SHA-256-PLUS";

/// Bytes of every key, proof and signature: SHA-256's output.
pub const KEY_BYTES: usize = 32;

/// Random bytes in a nonce, before base64: PostgreSQL's `SCRAM_RAW_NONCE_LEN`.
pub const NONCE_RAW_BYTES: usize = 18;

/// Bytes of a salt that the pooler makes: PostgreSQL's `SCRAM_DEFAULT_SALT_LEN`. A salt that it reads may have any
/// length.
pub const SALT_BYTES: usize = 16;

/// The longest SCRAM message that is read, from either side: PostgreSQL's `PG_MAX_SASL_MESSAGE_LENGTH`. It limits every
/// nonce, salt and proof inside.
pub const SCRAM_MESSAGE_BYTES_MAX: usize = 1024;

/// The most iterations that are computed for a peer. PostgreSQL's default is 4096, and recommendations go up to
/// 600,000. A million take most of a second, once for each password and salt.
pub const ITERATIONS_MAX: u32 = 1_000_000;

/// The most iterations that the pooler computes at once in a login to a server: PostgreSQL's default, which takes one or
/// two milliseconds. A database user chooses this number by ALTER ROLE, and all other clients would wait for more.
pub const ITERATIONS_AT_ONCE_MAX: u32 = 4096;

/// A key, a proof or a signature.
pub(crate) type Key = [u8; KEY_BYTES];

pub(crate) fn hmac(key: &[u8], parts: &[&[u8]]) -> Key {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

pub(crate) fn sha256(bytes: &[u8]) -> Key {
    Sha256::digest(bytes).into()
}

fn xor(a: Key, b: &Key) -> Key {
    let mut out = a;
    out.iter_mut().zip(b).for_each(|(x, y)| *x ^= y);
    out
}

/// The AuthMessage, in the parts that [`hmac`] takes.
fn auth_message<'a>(client_first_bare: &'a [u8], server_first: &'a [u8], client_final: &'a [u8]) -> [&'a [u8]; 5] {
    [client_first_bare, b",", server_first, b",", client_final]
}

/// A nonce as it is sent. 18 bytes make 24 characters.
pub(crate) fn nonce_text(raw: &[u8; NONCE_RAW_BYTES]) -> Vec<u8> {
    encode(raw)
}

fn encode(bytes: &[u8]) -> Vec<u8> {
    BASE64.encode(bytes).into_bytes()
}

/// Decodes canonical base64 with padding. Each value has only one text, because a proof must not have several.
fn decode(text: &[u8]) -> Option<Vec<u8>> {
    BASE64.decode(text).ok()
}

#[cfg(test)]
mod tests {
    use super::client::AwaitServerFirst;
    use super::messages::Gs2;
    use super::server::{AwaitClientFirst, Offer};
    use super::*;

    /// RFC 7677, section 3 "SCRAM-SHA-256 and SCRAM-SHA-256-PLUS", the example conversation.
    mod rfc_7677 {
        pub const CLIENT_NONCE: &[u8] = b"rOprNGfwEbeRWgbNEkqO";
        pub const SERVER_NONCE: &[u8] = b"%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
        pub const CLIENT_FIRST: &[u8] = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO";
        pub const SERVER_FIRST: &[u8] =
            b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
        pub const CLIENT_FINAL: &[u8] = b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
            p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
        pub const SERVER_FINAL: &[u8] = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";
        pub const SALT: &[u8] = b"W22ZaJ0SNY7soEsUEjb6gQ==";
    }

    #[test]
    fn the_client_says_what_rfc_7677_says() {
        let (waiting, first) =
            AwaitServerFirst::start(b"user", rfc_7677::CLIENT_NONCE.to_vec(), Gs2::NotSupported, b"");
        assert_eq!(first, rfc_7677::CLIENT_FIRST);
        let challenge = waiting.read(rfc_7677::SERVER_FIRST).unwrap();
        let keys = ScramKeys::derive(b"pencil", challenge.salt(), challenge.iterations());
        let (waiting, last) = challenge.answer(&keys);
        assert_eq!(last, rfc_7677::CLIENT_FINAL);
        assert_eq!(waiting.read(rfc_7677::SERVER_FINAL), Ok(()));
    }

    #[test]
    fn the_server_says_what_rfc_7677_says() {
        let keys = ScramKeys::derive(b"pencil", &decode(rfc_7677::SALT).unwrap(), 4096);
        let waiting = AwaitClientFirst::new(keys.salt.clone(), 4096, rfc_7677::SERVER_NONCE.to_vec(), Offer::None);
        let (waiting, first) = waiting.read(rfc_7677::CLIENT_FIRST).unwrap();
        assert_eq!(first, rfc_7677::SERVER_FIRST);
        let proven = waiting
            .read(rfc_7677::CLIENT_FINAL)
            .unwrap()
            .check(&ScramVerifier::from(&keys))
            .expect("the proof is right");
        assert_eq!(proven.server_final, rfc_7677::SERVER_FINAL);
        assert_eq!(proven.keys, keys, "the client's key can be had from its proof");
    }

    #[test]
    fn base64_has_one_text_for_each_value() {
        assert_eq!(decode(b"biws"), Some(b"n,,".to_vec()));
        assert_eq!(decode(b"AA=="), Some(vec![0]));
        for text in ["AB==", "AA=", "AA", "A A=", "AA==\n", "biws=", "_-=="] {
            assert_eq!(decode(text.as_bytes()), None, "{text}");
        }
    }
}
