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
        if message.starts_with(b"m=") {
            return Err(ScramFault::MandatoryExtension);
        }
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
        parts.end()?;
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
                parts.end()?;
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
        parts.end()?;
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

    fn end(&mut self) -> Result<(), ScramFault> {
        if self.next().is_some() {
            Err(ScramFault::Trailing)
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
mod tests {
    use super::*;

    const KEY_TEXT: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";

    #[test]
    fn client_first_in_all_its_shapes() {
        let parse = |text: &'static str| ClientFirst::parse(text.as_bytes());
        assert_eq!(
            parse("n,,n=,r=abc"),
            Ok(ClientFirst {
                gs2: Gs2::NotSupported,
                bare: b"n=,r=abc",
                nonce: b"abc"
            })
        );
        assert_eq!(
            parse("y,,n=*,r=abc,x=1,z=2"),
            Ok(ClientFirst {
                gs2: Gs2::NotOffered,
                bare: b"n=*,r=abc,x=1,z=2",
                nonce: b"abc"
            })
        );
        assert_eq!(
            parse("p=tls-unique,,n=,r=abc"),
            Err(ScramFault::ChannelBindingType {
                got: "tls-unique".into()
            })
        );
        assert_eq!(parse("n,a=root,n=,r=abc"), Err(ScramFault::AuthorizationIdentity));
        assert_eq!(parse("n,,m=x,n=,r=abc"), Err(ScramFault::MandatoryExtension));
        assert_eq!(parse("n,,n=,r=abc,m=x"), Err(ScramFault::MandatoryExtension));
        assert_eq!(parse("n,,n=,r="), Err(ScramFault::Nonce));
        assert_eq!(parse("n,,n=,r=a\x7fb"), Err(ScramFault::Nonce));
        assert_eq!(parse("n,,n=,r=a b"), Err(ScramFault::Nonce));
        assert_eq!(parse("n,,n=\0,r=abc"), Err(ScramFault::ZeroByte));
        for text in [
            "q,,n=,r=abc",
            "N,,n=,r=abc",
            ",,n=,r=abc",
            "nn,,n=,r=abc",
            "p,,n=,r=abc",
        ] {
            assert!(
                matches!(parse(text), Err(ScramFault::ChannelBindingFlag { .. })),
                "{text}"
            );
        }
        for text in [
            "n",
            "n,",
            "n,,",
            "n,n=,r=abc",
            "n,,r=abc,n=",
            "n,,n=",
            "n,,n=,",
            "n,,n=,r=abc,",
            "n,,n=,r=abc,x",
        ] {
            assert!(matches!(parse(text), Err(ScramFault::Attribute { .. })), "{text}");
        }
    }

    #[test]
    fn server_first_in_all_its_shapes() {
        let parse = |text: &'static str| ServerFirst::parse(text.as_bytes());
        assert_eq!(
            parse("r=abc,s=AA==,i=4096"),
            Ok(ServerFirst {
                nonce: b"abc",
                salt: vec![0],
                iterations: 4096
            })
        );
        assert_eq!(parse("m=x,r=abc,s=AA==,i=4096"), Err(ScramFault::MandatoryExtension));
        assert_eq!(parse("r=abc,s=AA,i=4096"), Err(ScramFault::Base64 { attribute: 's' }));
        assert!(matches!(
            parse("r=abc,s=,i=4096"),
            Err(ScramFault::DecodedLength { attribute: 's', .. })
        ));
        assert_eq!(parse("r=abc,s=AA==,i=4096,x=1"), Err(ScramFault::Trailing));
        for text in [
            "",
            "r",
            "r=abc",
            "s=AA==,r=abc,i=1",
            "r=abc,i=1,s=AA==",
            "r=abc,s=AA==",
            "e=other-error",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    /// A huge iteration count would block the pooler for minutes; one that overflows a number crashed other poolers
    /// (PgBouncer CVE-2026-6664).
    #[test]
    fn iteration_counts_are_bounded() {
        let parse =
            |count: &str| ServerFirst::parse(format!("r=abc,s=AA==,i={count}").as_bytes()).map(|m| m.iterations);
        assert_eq!(parse("1"), Ok(1));
        assert_eq!(parse(&ITERATIONS_MAX.to_string()), Ok(ITERATIONS_MAX));
        for count in [
            "",
            "0",
            "-1",
            "+1",
            "01",
            " 1",
            "1 ",
            "0x1",
            "1000001",
            "4294967297",
            "18446744073709551617",
        ] {
            assert_eq!(
                parse(count),
                Err(ScramFault::Iterations { max: ITERATIONS_MAX }),
                "{count}"
            );
        }
    }

    #[test]
    fn client_final_in_all_its_shapes() {
        let parse = |text: &str| {
            ClientFinal::parse(text.as_bytes()).map(|m| (m.channel_binding.clone(), m.without_proof.to_vec(), m.proof))
        };
        assert_eq!(
            parse(&format!("c=biws,r=abc,p={KEY_TEXT}")),
            Ok((b"n,,".to_vec(), b"c=biws,r=abc".to_vec(), [0; 32]))
        );
        assert_eq!(
            parse(&format!("c=biws,r=abc,x=p=1,p={KEY_TEXT}")),
            Ok((b"n,,".to_vec(), b"c=biws,r=abc,x=p=1".to_vec(), [0; 32]))
        );
        assert_eq!(
            parse(&format!("c=biws,r=abc,p={KEY_TEXT},x=1")),
            Err(ScramFault::Trailing)
        );
        assert_eq!(
            parse(&format!("c=biws,r=abc,m=1,p={KEY_TEXT}")),
            Err(ScramFault::MandatoryExtension)
        );
        assert_eq!(
            parse(&format!("c=biw,r=abc,p={KEY_TEXT}")),
            Err(ScramFault::Base64 { attribute: 'c' })
        );
        assert_eq!(parse("c=biws,r=abc,p=AAA"), Err(ScramFault::Base64 { attribute: 'p' }));
        assert_eq!(
            parse("c=biws,r=abc,p=AAAA"),
            Err(ScramFault::DecodedLength {
                attribute: 'p',
                got: 3,
                expected: "32"
            })
        );
        for text in [
            "c=biws",
            "c=biws,r=abc",
            "c=biws,r=abc,",
            "r=abc,c=biws",
            "c=biws,p=AAAA",
            "p=AAAA",
        ] {
            assert!(matches!(parse(text), Err(ScramFault::Attribute { .. })), "{text}");
        }
    }

    #[test]
    fn server_final_is_a_signature_or_an_error() {
        assert_eq!(
            ServerFinal::parse(format!("v={KEY_TEXT}").as_bytes()),
            Ok(ServerFinal::Signature([0; 32]))
        );
        assert_eq!(
            ServerFinal::parse(b"e=invalid-proof"),
            Ok(ServerFinal::Error(b"invalid-proof"))
        );
        assert_eq!(
            ServerFinal::parse(format!("v={KEY_TEXT},x=1").as_bytes()),
            Err(ScramFault::Trailing)
        );
        assert!(matches!(
            ServerFinal::parse(b"v=AAAA"),
            Err(ScramFault::DecodedLength { .. })
        ));
        assert!(matches!(
            ServerFinal::parse(b"x=AAAA"),
            Err(ScramFault::Attribute { .. })
        ));
    }

    #[test]
    fn messages_are_bounded() {
        let message = |bytes: usize| format!("{:x<bytes$}", "n,,n=,r=").into_bytes();
        assert!(ClientFirst::parse(&message(SCRAM_MESSAGE_BYTES_MAX)).is_ok());
        for bad in [message(SCRAM_MESSAGE_BYTES_MAX + 1), vec![]] {
            let fault = ScramFault::Length {
                got: bad.len(),
                max: SCRAM_MESSAGE_BYTES_MAX,
            };
            assert_eq!(ClientFirst::parse(&bad), Err(fault));
        }
    }

    /// A fault is logged; text in a wrong place may be a proof.
    #[test]
    fn faults_show_no_values() {
        let fault = ClientFirst::parse(b"n,,p=c2VjcmV0").unwrap_err().to_string();
        assert_eq!(fault, "SCRAM attribute \"n\" expected, got \"p\"");
    }
}
