//! The four messages, read and checked. Source: RFC 5802, section 7 "Formal Syntax"; where PostgreSQL is stricter
//! (no authorization identity, no mandatory extension) so are we.
//!
//! ```text
//! client-first   <n, y or p=tls-server-end-point>,,n=<user>,r=<client nonce>[,extensions]
//! server-first   r=<both nonces>,s=<salt>,i=<iterations>
//! client-final   c=<base64 of the header, with the certificate's hash behind "p">,r=<both nonces>[,extensions],p=<proof>
//! server-final   v=<signature>   or   e=<error>
//! ```

use super::verifier::{decode_key, parse_iterations};
use super::{ITERATIONS_MAX, Key, SCRAM_MESSAGE_BYTES_MAX, decode};
use crate::error::{ScramFault, shown};

/// Whether a client binds to the TLS channel; the first letter of its first message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gs2 {
    /// `n`: the client does not support channel binding.
    NotSupported,
    /// `y`: the client does, and believes that the server does not.
    NotOffered,
    /// `p=tls-server-end-point`: it binds to the hash of the server's certificate (RFC 5929).
    EndPoint,
}

impl Gs2 {
    /// The header that the client repeats in its `c=` attribute, in front of the hash.
    pub fn header(self) -> &'static [u8] {
        match self {
            Self::NotSupported => b"n,,",
            Self::NotOffered => b"y,,",
            Self::EndPoint => b"p=tls-server-end-point,,",
        }
    }

    /// What `c=` holds: the header, and with it the hash of the certificate where the client binds to that.
    pub fn channel_binding(self, end_point: &[u8]) -> Vec<u8> {
        let hash = if self == Self::EndPoint { end_point } else { b"" };
        [self.header(), hash].concat()
    }
}

/// A client-first-message.
#[derive(Debug, PartialEq, Eq)]
pub struct ClientFirst<'a> {
    pub gs2: Gs2,
    /// The message without the channel binding header. The user name in it is ignored, as in PostgreSQL: the startup
    /// packet contains it, and drivers send various names here.
    pub bare: &'a [u8],
    pub nonce: &'a [u8],
}

impl<'a> ClientFirst<'a> {
    pub fn parse(message: &'a [u8]) -> Result<Self, ScramFault> {
        let mut parts = Parts::of(message)?;
        let gs2 = match parts.next() {
            Some(b"n") => Gs2::NotSupported,
            Some(b"y") => Gs2::NotOffered,
            Some(b"p=tls-server-end-point") => Gs2::EndPoint,
            Some(part) if part.starts_with(b"p=") => {
                return Err(ScramFault::ChannelBindingType { got: shown(&part[2..]) });
            }
            part => {
                return Err(ScramFault::ChannelBindingFlag {
                    got: shown(part.unwrap_or_default()),
                });
            }
        };
        match parts.next() {
            Some(b"") => {}
            Some(part) if part.starts_with(b"a=") => return Err(ScramFault::AuthorizationIdentity),
            part => return Err(unexpected('a', part)),
        }
        let bare = message.get(gs2.header().len()..).unwrap_or_default();
        if bare.starts_with(b"m=") {
            return Err(ScramFault::MandatoryExtension);
        }
        parts.value('n')?;
        let nonce = checked_nonce(parts.value('r')?)?;
        for part in parts {
            check_extension(part)?;
        }
        Ok(Self { gs2, bare, nonce })
    }
}

/// A server-first-message.
#[derive(Debug, PartialEq, Eq)]
pub struct ServerFirst<'a> {
    pub nonce: &'a [u8],
    pub salt: Vec<u8>,
    pub iterations: u32,
}

impl<'a> ServerFirst<'a> {
    pub fn parse(message: &'a [u8]) -> Result<Self, ScramFault> {
        let mut parts = Parts::of(message)?;
        let nonce = checked_nonce(parts.value('r')?)?;
        let salt = decode(parts.value('s')?).ok_or(ScramFault::Base64 { attribute: 's' })?;
        if salt.is_empty() {
            return Err(ScramFault::DecodedLength {
                attribute: 's',
                got: 0,
                expected: "at least 1",
            });
        }
        let iterations = parse_iterations(parts.value('i')?, ITERATIONS_MAX)
            .ok_or(ScramFault::Iterations { max: ITERATIONS_MAX })?;
        parts.end("end of server-first-message")?;
        Ok(Self {
            nonce,
            salt,
            iterations,
        })
    }
}

/// A client-final-message.
#[derive(Debug, PartialEq, Eq)]
pub struct ClientFinal<'a> {
    /// Decoded `c=`.
    pub channel_binding: Vec<u8>,
    pub nonce: &'a [u8],
    /// The message before `,p=`.
    pub without_proof: &'a [u8],
    pub proof: Key,
}

impl<'a> ClientFinal<'a> {
    pub fn parse(message: &'a [u8]) -> Result<Self, ScramFault> {
        let mut parts = Parts::of(message)?;
        let channel_binding = decode(parts.value('c')?).ok_or(ScramFault::Base64 { attribute: 'c' })?;
        let nonce = checked_nonce(parts.value('r')?)?;
        loop {
            let part = parts.next().ok_or_else(|| unexpected('p', None))?;
            if let Some(proof) = part.strip_prefix(b"p=") {
                parts.end("the end of client-final-message")?;
                let without_proof = &message[..message.len() - part.len() - 1];
                return Ok(Self {
                    channel_binding,
                    nonce,
                    without_proof,
                    proof: key('p', proof)?,
                });
            }
            check_extension(part)?;
        }
    }
}

/// A server-final-message.
#[derive(Debug, PartialEq, Eq)]
pub enum ServerFinal<'a> {
    /// `v=`: the server's signature.
    Signature(Key),
    /// `e=`: the reason of the refusal, in one word.
    Error(&'a [u8]),
}

impl<'a> ServerFinal<'a> {
    pub fn parse(message: &'a [u8]) -> Result<Self, ScramFault> {
        let mut parts = Parts::of(message)?;
        let outcome = if message.starts_with(b"e=") {
            Self::Error(parts.value('e')?)
        } else {
            Self::Signature(key('v', parts.value('v')?)?)
        };
        parts.end("end of server-final-message")?;
        Ok(outcome)
    }
}

/// A message's attributes, in order.
struct Parts<'a>(std::slice::Split<'a, u8, fn(&u8) -> bool>);

impl<'a> Parts<'a> {
    /// Checks the rules for every message.
    fn of(message: &'a [u8]) -> Result<Self, ScramFault> {
        if message.is_empty() || message.len() > SCRAM_MESSAGE_BYTES_MAX {
            return Err(ScramFault::Length {
                got: message.len(),
                max: SCRAM_MESSAGE_BYTES_MAX,
            });
        }
        if message.contains(&0) {
            return Err(ScramFault::ZeroByte);
        }
        Ok(Self(message.split(|byte| *byte == b',')))
    }

    /// The value of the next attribute, which must be this one.
    fn value(&mut self, letter: char) -> Result<&'a [u8], ScramFault> {
        let part = self.next();
        match part {
            Some([first, b'=', value @ ..]) if char::from(*first) == letter => Ok(value),
            _ => Err(unexpected(letter, part)),
        }
    }

    /// Nothing may follow; `place` is where, in PgBouncer's words.
    fn end(&mut self, place: &'static str) -> Result<(), ScramFault> {
        if self.next().is_some() {
            Err(ScramFault::Trailing { place })
        } else {
            Ok(())
        }
    }
}

impl<'a> Iterator for Parts<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        self.0.next()
    }
}

/// Shows only the letter of the attribute that came instead: its value might be a proof.
fn unexpected(expected: char, part: Option<&[u8]>) -> ScramFault {
    let got = match part {
        None => "end of message".to_owned(),
        Some(part) => format!("\"{}\"", shown(&part[..part.len().min(1)])),
    };
    ScramFault::Attribute { expected, got }
}

/// An optional extension, to be ignored: a letter, `=`, a value.
fn check_extension(part: &[u8]) -> Result<(), ScramFault> {
    match part {
        [b'm', b'=', ..] => Err(ScramFault::MandatoryExtension),
        [letter, b'=', _, ..] if letter.is_ascii_alphabetic() => Ok(()),
        _ => Err(unexpected('x', Some(part))),
    }
}

/// A nonce: printable ASCII. It can no longer contain a comma.
fn checked_nonce(nonce: &[u8]) -> Result<&[u8], ScramFault> {
    if !nonce.is_empty() && nonce.iter().all(u8::is_ascii_graphic) {
        Ok(nonce)
    } else {
        Err(ScramFault::Nonce)
    }
}

fn key(attribute: char, text: &[u8]) -> Result<Key, ScramFault> {
    decode_key(text).ok_or_else(|| match decode(text) {
        None => ScramFault::Base64 { attribute },
        Some(bytes) => ScramFault::DecodedLength {
            attribute,
            got: bytes.len(),
            expected: "32",
        },
    })
}

#[cfg(test)]
#[path = "messages_tests.rs"]
mod tests;
