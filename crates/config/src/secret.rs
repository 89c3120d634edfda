//! A user's password, or the form of it that PostgreSQL stores.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// A password, or the form that PostgreSQL stores in its place, as in `pg_authid.rolpassword` and `auth_file`.
///
/// Debug output never shows it.
#[derive(Clone, PartialEq, Eq)]
pub enum Secret {
    /// The password itself. Empty: the user exists but cannot log in by password.
    Plain(String),
    /// `md5` and 32 lower-case hexadecimal digits: md5(password + user name).
    Md5(String),
    /// `SCRAM-SHA-256$<iterations>:<salt>$<StoredKey>:<ServerKey>`, the last three in base64.
    Scram(String),
}

/// The length of SHA-256's output, and so of a StoredKey and a ServerKey.
const SCRAM_KEY_BYTES: usize = 32;

impl Secret {
    /// Tells the kinds apart by their form, as PostgreSQL's `get_password_type` does. A text that only resembles a
    /// stored form is a password.
    pub fn parse(text: &str) -> Secret {
        if is_md5(text) {
            Secret::Md5(text.to_string())
        } else if is_scram(text) {
            Secret::Scram(text.to_string())
        } else {
            Secret::Plain(text.to_string())
        }
    }

    /// The text in the file.
    pub fn text(&self) -> &str {
        match self {
            Secret::Plain(text) | Secret::Md5(text) | Secret::Scram(text) => text,
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Secret::Plain(_) => "Plain(..)",
            Secret::Md5(_) => "Md5(..)",
            Secret::Scram(_) => "Scram(..)",
        })
    }
}

fn is_md5(text: &str) -> bool {
    const HEX_DIGITS: usize = 32;
    text.strip_prefix("md5").is_some_and(|hex| {
        hex.len() == HEX_DIGITS && hex.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    })
}

fn is_scram(text: &str) -> bool {
    scram_parts(text).is_some()
}

/// `Some(())` if every part is there and has the right form.
fn scram_parts(text: &str) -> Option<()> {
    let (iterations_salt, keys) = text.strip_prefix("SCRAM-SHA-256$")?.split_once('$')?;
    let (iterations, salt) = iterations_salt.split_once(':')?;
    let (stored, server) = keys.split_once(':')?;
    let digits = !iterations.is_empty() && iterations.bytes().all(|b| b.is_ascii_digit());
    let count: u32 = iterations.parse().ok().filter(|_| digits)?;
    let salt = STANDARD.decode(salt).ok()?;
    let stored = STANDARD.decode(stored).ok()?;
    let server = STANDARD.decode(server).ok()?;
    let sound = count > 0 && !salt.is_empty() && stored.len() == SCRAM_KEY_BYTES && server.len() == SCRAM_KEY_BYTES;
    sound.then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7677's example: user "user", password "pencil".
    const VERIFIER: &str = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$\
        WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";

    #[test]
    fn kinds_are_told_by_shape() {
        assert!(matches!(
            Secret::parse("md545f2603610af569b6155c45067268c6b"),
            Secret::Md5(_)
        ));
        assert!(matches!(
            Secret::parse("md545F2603610AF569B6155C45067268C6B"),
            Secret::Plain(_)
        ));
        assert!(matches!(Secret::parse("md5short"), Secret::Plain(_)));
        assert!(matches!(Secret::parse(VERIFIER), Secret::Scram(_)));
        assert!(matches!(Secret::parse(""), Secret::Plain(_)));
        assert_eq!(Secret::parse(VERIFIER).text(), VERIFIER);
    }

    #[test]
    fn a_verifier_must_be_whole() {
        for broken in [
            VERIFIER.replace("4096", "0"),
            VERIFIER.replace("4096", "+4096"),
            VERIFIER.replace("4096:", "4096"),
            VERIFIER.replace("WG5d", "WG5"),
            VERIFIER.replace("W22ZaJ0SNY7soEsUEjb6gQ==", ""),
            VERIFIER[..VERIFIER.len() - 4].to_string(),
        ] {
            assert!(matches!(Secret::parse(&broken), Secret::Plain(_)), "{broken}");
        }
    }

    #[test]
    fn debug_output_keeps_the_secret() {
        assert_eq!(format!("{:?}", Secret::parse("hunter2")), "Plain(..)");
    }
}
