//! The stored form of a SCRAM secret: it can check a proof, but not make one.

use std::fmt;

use subtle::ConstantTimeEq;
use zeroize::Zeroize;

use super::{KEY_BYTES, Key, SCRAM_SHA_256, ScramKeys, decode, encode, sha256};
use crate::error::SecretError;

/// `SCRAM-SHA-256$<iterations>:<salt>$<StoredKey>:<ServerKey>`, as in `pg_authid.rolpassword`.
#[derive(Clone, pgweir_freeze::Freeze)]
pub struct ScramVerifier {
    /// Iteration count of PBKDF2, at least 1.
    pub iterations: u32,
    /// Raw salt, not empty.
    pub salt: Vec<u8>,
    /// H(ClientKey): checks a proof.
    pub stored_key: [u8; KEY_BYTES],
    /// ServerKey: proves to the client that the pooler knows the secret.
    pub server_key: [u8; KEY_BYTES],
}

impl ScramVerifier {
    /// How every stored verifier begins.
    pub(crate) const PREFIX: &'static [u8] = b"SCRAM-SHA-256$";

    /// The longest salt of a stored verifier. It must fit into a server-first-message together with both nonces.
    const SALT_BYTES_MAX: usize = 256;

    /// Reads the stored text.
    pub fn parse(stored: &[u8]) -> Result<Self, SecretError> {
        let bad = |problem| SecretError::MalformedVerifier { problem };
        let rest = stored.strip_prefix(Self::PREFIX).ok_or(bad("unknown mechanism"))?;
        let (parameters, keys) = split_at_byte(rest, b'$').ok_or(bad("no keys"))?;
        let (iterations, salt) = split_at_byte(parameters, b':').ok_or(bad("no salt"))?;
        let (stored_key, server_key) = split_at_byte(keys, b':').ok_or(bad("no server key"))?;
        let salt = decode(salt).ok_or(bad("salt is not base64"))?;
        if salt.is_empty() || salt.len() > Self::SALT_BYTES_MAX {
            return Err(bad("salt is empty or longer than 256 bytes"));
        }
        Ok(Self {
            iterations: parse_iterations(iterations, u32::MAX)
                .ok_or(bad("iteration count is not a positive number"))?,
            salt,
            stored_key: decode_key(stored_key).ok_or(bad("stored key is not base64 of 32 bytes"))?,
            server_key: decode_key(server_key).ok_or(bad("server key is not base64 of 32 bytes"))?,
        })
    }

    /// The stored text, as in `auth_file`; [`ScramVerifier::parse`] reads it.
    pub fn to_stored_text(&self) -> String {
        let text = |bytes: &[u8]| String::from_utf8(encode(bytes)).expect("base64 is ASCII");
        let (stored_key, server_key) = (text(&self.stored_key), text(&self.server_key));
        format!(
            "{SCRAM_SHA_256}${}:{}${stored_key}:{server_key}",
            self.iterations,
            text(&self.salt)
        )
    }

    /// Whether the verifier was made from these keys, which were derived with its salt and iterations.
    pub(crate) fn is_of(&self, keys: &ScramKeys) -> bool {
        Self::from(keys) == *self
    }
}

impl From<&ScramKeys> for ScramVerifier {
    fn from(keys: &ScramKeys) -> Self {
        Self {
            iterations: keys.iterations,
            salt: keys.salt.clone(),
            stored_key: sha256(&keys.client_key),
            server_key: keys.server_key,
        }
    }
}

impl PartialEq for ScramVerifier {
    fn eq(&self, other: &Self) -> bool {
        let same = self.stored_key.ct_eq(&other.stored_key) & self.server_key.ct_eq(&other.server_key);
        bool::from(same) && self.iterations == other.iterations && self.salt == other.salt
    }
}

impl Eq for ScramVerifier {}

impl Drop for ScramVerifier {
    fn drop(&mut self) {
        self.stored_key.zeroize();
        self.server_key.zeroize();
    }
}

impl fmt::Debug for ScramVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScramVerifier")
            .field("iterations", &self.iterations)
            .finish_non_exhaustive()
    }
}

/// `posit-number` of RFC 5802: decimal digits, the first not zero; at most `max`.
pub(super) fn parse_iterations(digits: &[u8], max: u32) -> Option<u32> {
    let is_number = digits.first().is_some_and(|first| *first != b'0') && digits.iter().all(u8::is_ascii_digit);
    let number: u32 = std::str::from_utf8(digits).ok().filter(|_| is_number)?.parse().ok()?;
    (number <= max).then_some(number)
}

/// Exactly one key.
pub(super) fn decode_key(text: &[u8]) -> Option<Key> {
    decode(text)?.try_into().ok()
}

fn split_at_byte(bytes: &[u8], separator: u8) -> Option<(&[u8], &[u8])> {
    let at = bytes.iter().position(|byte| *byte == separator)?;
    Some((&bytes[..at], &bytes[at + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proves(password: &[u8], verifier: &ScramVerifier) -> bool {
        verifier.is_of(&ScramKeys::derive(password, &verifier.salt, verifier.iterations))
    }

    /// Made by PostgreSQL's algorithm from RFC 7677's password, salt and iteration count.
    fn pencil() -> ScramVerifier {
        ScramVerifier::from(&ScramKeys::derive(
            b"pencil",
            &decode(b"W22ZaJ0SNY7soEsUEjb6gQ==").unwrap(),
            4096,
        ))
    }

    #[test]
    fn the_stored_text_is_postgresqls() {
        let text = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:\
                    wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";
        assert_eq!(pencil().to_stored_text(), text);
        assert_eq!(ScramVerifier::parse(text.as_bytes()), Ok(pencil()));
    }

    #[test]
    fn a_password_is_judged_by_both_keys() {
        let verifier = ScramVerifier::from(&ScramKeys::derive(b"pencil", b"salt", 3));
        assert!(proves(b"pencil", &verifier));
        assert!(!proves(b"pencils", &verifier));
        let mut half_wrong = verifier.clone();
        half_wrong.server_key[0] ^= 1;
        assert!(!proves(b"pencil", &half_wrong));
    }

    #[test]
    fn malformed_texts_are_refused_with_the_part_at_fault() {
        let good = pencil().to_stored_text();
        for (from, to, expected) in [
            ("SCRAM-SHA-256", "SCRAM-SHA-512", "unknown mechanism"),
            ("4096", "0", "iteration count"),
            ("4096", "-1", "iteration count"),
            ("4096", "+1", "iteration count"),
            ("4096", "0x10", "iteration count"),
            ("4096", "4294967296", "iteration count"),
            ("4096", "", "iteration count"),
            ("W22ZaJ0SNY7soEsUEjb6gQ==", "", "salt is empty"),
            (
                "W22ZaJ0SNY7soEsUEjb6gQ==",
                "W22ZaJ0SNY7soEsUEjb6gQ",
                "salt is not base64",
            ),
            ("4096:", "4096", "no salt"),
            ("$WG5d8o", "WG5d8o", "no keys"),
            ("$WG5d8o", "$", "stored key"),
            ("=:", "=", "no server key"),
            ("2dU=", "2dU=x", "server key"),
        ] {
            let SecretError::MalformedVerifier { problem } =
                ScramVerifier::parse(good.replacen(from, to, 1).as_bytes()).unwrap_err();
            assert!(problem.contains(expected), "{from} -> {to}: {problem}");
        }
        for end in 0..good.len() {
            assert!(ScramVerifier::parse(&good.as_bytes()[..end]).is_err(), "cut at {end}");
        }
    }
}
