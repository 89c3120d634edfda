//! Secrets as they are stored for a user: plain text, MD5 hash, or SCRAM verifier.

use std::fmt;

use zeroize::Zeroizing;

use crate::error::SecretError;
use crate::md5::Md5Secret;
use crate::scram::ScramVerifier;

/// A password in plain text: any bytes but zero, of any encoding, wiped from memory when dropped.
#[derive(Clone, PartialEq, Eq, pgweir_freeze::Freeze)]
pub struct Password(Zeroizing<Vec<u8>>);

impl Password {
    /// The bytes, for an exchange. Never log them.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// An empty password, which stands for a user without a password. Nobody can log in with it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<&[u8]> for Password {
    fn from(bytes: &[u8]) -> Self {
        Self(Zeroizing::new(bytes.to_vec()))
    }
}

impl From<&str> for Password {
    fn from(text: &str) -> Self {
        Self::from(text.as_bytes())
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(..)")
    }
}

/// The stored secret of a user, in `pg_authid.rolpassword` or in `auth_file`.
#[derive(Clone, Debug, PartialEq, Eq, pgweir_freeze::Freeze)]
pub enum Secret {
    /// The password itself; it can be used for every method. Empty for a user without a password.
    Plain(Password),
    /// `md5` and 32 hex digits; it can be used for `plain` and `md5`.
    Md5(Md5Secret),
    /// `SCRAM-SHA-256$...`; it can be used for `plain`, `scram-sha-256`, and `md5` (which then becomes SCRAM, as in
    /// PostgreSQL).
    Scram(ScramVerifier),
}

impl Secret {
    /// Reads a stored secret. As in PostgreSQL's `get_password_type`, a text that is not exactly an MD5 hash is plain
    /// text. But a text that begins like a SCRAM verifier must be one, because nobody means it as a password.
    pub fn parse(stored: &[u8]) -> Result<Self, SecretError> {
        if let Some(hash) = Md5Secret::parse(stored) {
            Ok(Self::Md5(hash))
        } else if stored.starts_with(ScramVerifier::PREFIX) {
            ScramVerifier::parse(stored).map(Self::Scram)
        } else {
            Ok(Self::Plain(Password::from(stored)))
        }
    }

    /// The kind, in words for a log line.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Plain(_) => "a plain text password",
            Self::Md5(_) => "an MD5 hash",
            Self::Scram(_) => "a SCRAM verifier",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_text_tells_its_kind() {
        let kind = |text: &str| Secret::parse(text.as_bytes()).map(|secret| secret.kind());
        assert_eq!(kind("sesame"), Ok("a plain text password"));
        assert_eq!(kind(""), Ok("a plain text password"));
        assert_eq!(kind("md5d41d8cd98f00b204e9800998ecf8427e"), Ok("an MD5 hash"));
        assert_eq!(
            kind("md5d41d8cd98f00b204e9800998ecf8427"),
            Ok("a plain text password"),
            "31 digits"
        );
        assert_eq!(
            kind("md5D41D8CD98F00B204E9800998ECF8427E"),
            Ok("a plain text password"),
            "upper case"
        );
        assert_eq!(
            kind("md5d41d8cd98f00b204e9800998ecf8427g"),
            Ok("a plain text password"),
            "not hex"
        );
        assert!(kind("SCRAM-SHA-256$4096:").is_err());
    }

    #[test]
    fn debug_output_never_shows_a_secret() {
        let texts: [&str; 3] = [
            "open sesame",
            "md5d41d8cd98f00b204e9800998ecf8427e",
            "SCRAM-SHA-256$4096:c2FsdHNhbHQ=$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:\
             AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=",
        ];
        for text in texts {
            let shown = format!("{:?}", Secret::parse(text.as_bytes()).unwrap());
            assert!(!shown.contains("sesame") && !shown.contains("d41d8cd9"), "{shown}");
            assert!(!shown.contains("AAAA") && !shown.contains("1, 1, 1"), "{shown}");
        }
    }
}
