//! Mock secrets for users without one, so that a stranger cannot tell which users exist.

use std::fmt;

use crate::md5::Md5Secret;
use crate::scram::{KEY_BYTES, SALT_BYTES, ScramVerifier, hmac};
use crate::secret::Secret;

/// The source of mock secrets: secret bytes, which should be the same in all processes of an address and after a restart,
/// because the salts of real users are. It corresponds to PostgreSQL's mock authentication nonce.
#[derive(Clone, Copy, pgweir_freeze::Freeze)]
pub struct MockKey([u8; KEY_BYTES]);

impl MockKey {
    /// From random bytes.
    pub fn new(bytes: [u8; KEY_BYTES]) -> Self {
        Self(bytes)
    }

    /// From a stored SCRAM verifier, which every process with the same users has. `None` for another secret: whoever
    /// knows a salt could find out a password by trial, while the salt and the keys of a verifier cannot be guessed.
    pub fn from_verifier(secret: &[u8]) -> Option<Self> {
        match Secret::parse(secret) {
            Ok(Secret::Scram(_)) => Some(Self(hmac(b"pgweir mock key", &[secret]))),
            _ => None,
        }
    }

    /// The salt for a user without a stored salt. It is always the same for the same name, as a stored one would be.
    /// Users with a plain-text secret and users who do not exist both get such a salt.
    pub(crate) fn salt(&self, user: &[u8]) -> [u8; SALT_BYTES] {
        let mut salt = [0; SALT_BYTES];
        salt.copy_from_slice(&hmac(&self.0, &[b"salt ", user])[..SALT_BYTES]);
        salt
    }

    /// A number for this name. It is always the same, and does not depend on any fact about the user.
    pub fn lot(&self, user: &[u8]) -> u64 {
        let hash = hmac(&self.0, &[b"lot ", user]);
        u64::from_be_bytes(hash[..8].try_into().expect("eight bytes"))
    }

    /// A verifier that no password matches.
    pub(crate) fn verifier(&self, user: &[u8], iterations: u32) -> ScramVerifier {
        ScramVerifier {
            iterations,
            salt: self.salt(user).to_vec(),
            stored_key: hmac(&self.0, &[b"stored key ", user]),
            server_key: hmac(&self.0, &[b"server key ", user]),
        }
    }

    /// A hash that no password matches.
    pub(crate) fn md5(&self, user: &[u8]) -> Md5Secret {
        Md5Secret::mock(&hmac(&self.0, &[b"md5 ", user]))
    }
}

impl fmt::Debug for MockKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MockKey(..)")
    }
}

/// The kind of secret that a user who does not exist seems to have. It decides whether `auth_type = md5` asks for MD5
/// or SCRAM. So the kinds must be as frequent as among real users (plain text counts as MD5); [`MockKey::lot`] chooses
/// the kind for a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, pgweir_freeze::Freeze)]
pub enum MockSecret {
    /// An MD5 hash, or plain text.
    Md5,
    /// A SCRAM verifier.
    Scram,
}

#[cfg(test)]
mod tests {
    use super::*;

    const VERIFIER: &[u8] = b"SCRAM-SHA-256$4096:AAAAAAAAAAAAAAAAAAAAAA==$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";

    #[test]
    fn a_verifier_gives_every_process_the_same_salts() {
        let [one, two] = [(); 2].map(|()| MockKey::from_verifier(VERIFIER).unwrap());
        assert_eq!(one.salt(b"nobody"), two.salt(b"nobody"));
        assert_ne!(one.salt(b"nobody"), one.salt(b"mallory"));
        let another = String::from_utf8(VERIFIER.to_vec())
            .unwrap()
            .replace("4096:AA", "4096:BA");
        let another = MockKey::from_verifier(another.as_bytes()).unwrap();
        assert_ne!(one.salt(b"nobody"), another.salt(b"nobody"));
    }

    /// A password could be found out by trial from a salt made of it.
    #[test]
    fn passwords_and_md5_hashes_give_no_key() {
        for secret in [&b"secret"[..], b"", b"md5c4ca4238a0b923820dcc509a6f75849b"] {
            assert!(MockKey::from_verifier(secret).is_none());
        }
    }
}
