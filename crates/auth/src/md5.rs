//! MD5 authentication. Source: the protocol manual, section "Start-up", AuthenticationMD5Password:
//! `concat('md5', md5(concat(md5(concat(password, username)), random-salt)))`, all MD5 values as lower-case hex.

use std::fmt;

use md5::{Digest, Md5};
use subtle::ConstantTimeEq;
use zeroize::Zeroize;

/// Random bytes of an MD5 challenge; the protocol fixes the number.
pub const MD5_SALT_BYTES: usize = 4;

/// Bytes of a stored MD5 secret, and of the answer to an MD5 challenge: `md5` and 32 hex digits.
pub const MD5_SECRET_BYTES: usize = 35;

/// The stored form, `md5` + hex(md5(password + user)). It is enough to log in wherever MD5 is asked for, so it is
/// treated as a secret. It does not reveal the password.
#[derive(Clone, pgweir_freeze::Freeze)]
pub struct Md5Secret([u8; MD5_SECRET_BYTES]);

impl Md5Secret {
    /// From stored text; `None` unless it is `md5` and 32 lower-case hex digits.
    pub fn parse(stored: &[u8]) -> Option<Self> {
        let text: [u8; MD5_SECRET_BYTES] = stored.try_into().ok()?;
        let is_hash = text.starts_with(b"md5") && text[3..].iter().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        is_hash.then_some(Self(text))
    }

    /// The form that PostgreSQL would store for this password and user name.
    pub fn derive(password: &[u8], user: &[u8]) -> Self {
        Self(md5_text(&[password, user]))
    }

    /// The stored text, as in `auth_file`.
    pub fn as_bytes(&self) -> &[u8; MD5_SECRET_BYTES] {
        &self.0
    }

    /// The answer to a challenge with this salt.
    pub(crate) fn answer(&self, salt: [u8; MD5_SALT_BYTES]) -> [u8; MD5_SECRET_BYTES] {
        md5_text(&[&self.0[3..], &salt])
    }

    /// A hash that no password matches, from bytes that nobody can guess.
    pub(crate) fn mock(seed: &[u8]) -> Self {
        Self(md5_text(&[seed]))
    }
}

impl PartialEq for Md5Secret {
    fn eq(&self, other: &Self) -> bool {
        bool::from(self.0.ct_eq(&other.0))
    }
}

impl Eq for Md5Secret {}

impl Drop for Md5Secret {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for Md5Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Md5Secret(..)")
    }
}

/// `md5` and the hex digits of the parts' MD5.
fn md5_text(parts: &[&[u8]]) -> [u8; MD5_SECRET_BYTES] {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let mut digest = Md5::new();
    for part in parts {
        digest.update(part);
    }
    let mut text = [0; MD5_SECRET_BYTES];
    text[..3].copy_from_slice(b"md5");
    for (pair, byte) in text[3..].chunks_exact_mut(2).zip(digest.finalize()) {
        pair[0] = HEX[usize::from(byte >> 4)];
        pair[1] = HEX[usize::from(byte & 15)];
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The test suite of RFC 1321, appendix A.5.
    #[test]
    fn hashes_are_those_of_rfc_1321() {
        let vectors: [(&[u8], &[u8]); 4] = [
            (b"", b"md5d41d8cd98f00b204e9800998ecf8427e"),
            (b"abc", b"md5900150983cd24fb0d6963f7d28e17f72"),
            (b"message digest", b"md5f96b697d7cb7938d525a2f31aaf161d0"),
            (b"abcdefghijklmnopqrstuvwxyz", b"md5c3fcd3d76192e4007dfb496cca67e13b"),
        ];
        for (input, expected) in vectors {
            assert_eq!(md5_text(&[input]).as_slice(), expected);
            let (head, tail) = input.split_at(input.len() / 2);
            assert_eq!(md5_text(&[head, tail]).as_slice(), expected, "parts are hashed as one");
        }
    }

    #[test]
    fn the_stored_form_is_the_hash_of_password_then_user() {
        assert_eq!(
            Md5Secret::derive(b"message ", b"digest").as_bytes(),
            b"md5f96b697d7cb7938d525a2f31aaf161d0"
        );
        let stored = Md5Secret::derive(b"abc", b"");
        assert_eq!(Md5Secret::parse(stored.as_bytes()), Some(stored.clone()));
        // The answer hashes the 32 digits, without the "md5" before them, and then the salt.
        assert_eq!(
            stored.answer(*b"salt"),
            md5_text(&[b"900150983cd24fb0d6963f7d28e17f72salt"])
        );
    }
}
