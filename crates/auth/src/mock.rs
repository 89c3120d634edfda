//! Mock secrets for users without one, so that a stranger cannot tell which users exist.

use std::fmt;

use crate::client_auth_method::ClientAuthMethod;
use crate::md5::Md5Secret;
use crate::mock_counts::IterationCounts;
use crate::scram::{KEY_BYTES, SALT_BYTES, ScramVerifier, hmac};
use crate::secret::Secret;

/// The most verifiers that make a [`MockKey`]. Whoever knows the passwords of all of them can compute it; but each of them
/// that changes gives other salts at the next start.
const VERIFIERS_MAX: usize = 8;

/// The source of mock secrets: secret bytes, which should be the same in all processes of an address and after a restart,
/// because the salts of real users are. It corresponds to PostgreSQL's mock authentication nonce.
#[derive(Clone, Copy, pgweir_freeze::Freeze)]
pub struct MockKey {
    bytes: [u8; KEY_BYTES],
    counts: IterationCounts,
}

impl MockKey {
    /// From random bytes.
    pub fn new(bytes: [u8; KEY_BYTES]) -> Self {
        Self {
            bytes,
            counts: IterationCounts::default(),
        }
    }

    /// From the first [`VERIFIERS_MAX`] SCRAM verifiers among stored secrets, which are the same in every process with
    /// the same users. Someone who knows a password can compute its verifier, so the key comes from several. `None` if
    /// there is no verifier. Other secrets do not count: with them, someone who knows a salt could guess a password,
    /// while the keys of a verifier cannot be guessed.
    pub fn from_verifiers<'s>(secrets: impl IntoIterator<Item = &'s [u8]>) -> Option<Self> {
        let verifiers = secrets
            .into_iter()
            .filter(|text| matches!(Secret::parse(text), Ok(Secret::Scram(_))));
        let mut first = verifiers.take(VERIFIERS_MAX).peekable();
        first.peek()?;
        Some(Self::new(
            first.fold(hmac(b"pgweir mock key", &[]), |key, text| hmac(&key, &[text])),
        ))
    }

    /// The same key, but users who do not exist have these iteration counts.
    pub fn with_counts(self, counts: IterationCounts) -> Self {
        Self { counts, ..self }
    }

    /// The same key, but users who do not exist have the iteration counts of `others`, too.
    pub fn and_counts(self, others: &IterationCounts) -> Self {
        self.with_counts(self.counts.and(others))
    }

    /// The salt for a user without a stored salt. It is always the same for the same name, as a stored one would be.
    /// Users with a plain-text secret and users who do not exist both get such a salt.
    pub(crate) fn salt(&self, user: &[u8]) -> [u8; SALT_BYTES] {
        let mut salt = [0; SALT_BYTES];
        salt.copy_from_slice(&hmac(&self.bytes, &[b"salt ", user])[..SALT_BYTES]);
        salt
    }

    /// A number for this name. It is always the same, and does not depend on any fact about the user.
    pub fn lot(&self, user: &[u8]) -> u64 {
        let hash = hmac(&self.bytes, &[b"lot ", user]);
        u64::from_be_bytes(hash[..8].try_into().expect("eight bytes"))
    }

    /// The iteration count of a user who does not exist: one of those that the verifiers have. `setting`: that of users with
    /// a plain-text secret, who count if they are asked for SCRAM.
    pub(crate) fn iterations(&self, user: &[u8], method: ClientAuthMethod, setting: u32) -> u32 {
        let hash = hmac(&self.bytes, &[b"iterations ", user]);
        let lot = u64::from_be_bytes(hash[..8].try_into().expect("eight bytes"));
        let of_plain = (method != ClientAuthMethod::Md5).then_some(setting);
        self.counts.draw(lot, of_plain, setting)
    }

    /// A verifier that no password matches.
    pub(crate) fn verifier(&self, user: &[u8], iterations: u32) -> ScramVerifier {
        ScramVerifier {
            iterations,
            salt: self.salt(user).to_vec(),
            stored_key: hmac(&self.bytes, &[b"stored key ", user]),
            server_key: hmac(&self.bytes, &[b"server key ", user]),
        }
    }

    /// A hash that no password matches.
    pub(crate) fn md5(&self, user: &[u8]) -> Md5Secret {
        Md5Secret::mock(&hmac(&self.bytes, &[b"md5 ", user]))
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

    /// A verifier with a salt of this number.
    fn verifier(number: u8) -> Vec<u8> {
        let salt = format!("4096:{}A", char::from(b'A' + number));
        String::from_utf8_lossy(VERIFIER).replace("4096:AA", &salt).into_bytes()
    }

    fn salt(verifiers: &[Vec<u8>], user: &[u8]) -> [u8; SALT_BYTES] {
        let key = MockKey::from_verifiers(verifiers.iter().map(|verifier| &**verifier));
        key.unwrap().salt(user)
    }

    #[test]
    fn verifiers_give_every_process_the_same_salts() {
        let one = [verifier(0)];
        assert_eq!(salt(&one, b"nobody"), salt(&one, b"nobody"));
        assert_ne!(salt(&one, b"nobody"), salt(&one, b"mallory"));
        assert_ne!(salt(&one, b"nobody"), salt(&[verifier(1)], b"nobody"));
    }

    /// Its own user can compute a verifier, and so could compute the salts of all who do not exist.
    #[test]
    fn whoever_knows_one_verifier_does_not_know_the_salts() {
        let some: Vec<Vec<u8>> = (0..VERIFIERS_MAX as u8).map(verifier).collect();
        for known in 0..some.len() {
            let mut others = some.clone();
            others[known] = verifier(25);
            assert_ne!(salt(&some, b"nobody"), salt(&others, b"nobody"), "all count: {known}");
            assert_ne!(salt(&some, b"nobody"), salt(&some[known..=known], b"nobody"));
        }
        let more: Vec<_> = some.iter().cloned().chain([verifier(24)]).collect();
        assert_eq!(
            salt(&some, b"nobody"),
            salt(&more, b"nobody"),
            "further ones change nothing"
        );
    }

    /// A password could be found out by trial from a salt made of it.
    #[test]
    fn passwords_and_md5_hashes_give_no_key() {
        for secret in [&b"secret"[..], b"", b"md5c4ca4238a0b923820dcc509a6f75849b"] {
            assert!(MockKey::from_verifiers([secret]).is_none());
        }
    }
}
