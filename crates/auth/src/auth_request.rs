//! The Authentication messages that the pooler sends and understands.

use crate::error::ServerAuthError;
use crate::md5::MD5_SALT_BYTES;

/// The longest payload of an Authentication message that is read. libpq refuses messages beyond 2000 bytes.
pub const AUTH_REQUEST_BYTES_MAX: usize = 2000;

/// An Authentication message. Source: the protocol manual, section "Message Formats".
///
/// ```text
/// payload:  int32 code   0 Ok, 3 cleartext, 5 MD5, 10 SASL, 11 SASLContinue, 12 SASLFinal
///           bytes        MD5: 4 of salt; SASL: names, each ending in 0, then 0; Continue, Final: mechanism's data
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuthRequest {
    /// Authentication has succeeded.
    Ok,
    /// Asks for a PasswordMessage with the password in clear text.
    CleartextPassword,
    /// Asks for a PasswordMessage with the password hashed with this salt.
    Md5Password {
        /// Random, fresh for each exchange.
        salt: [u8; MD5_SALT_BYTES],
    },
    /// Asks for a SASLInitialResponse.
    Sasl {
        /// Names of the mechanisms offered, the preferred one first.
        mechanisms: Vec<Vec<u8>>,
    },
    /// Asks for a SASLResponse.
    SaslContinue(Vec<u8>),
    /// The mechanism has ended on the server's side; AuthenticationOk follows.
    SaslFinal(Vec<u8>),
}

impl AuthRequest {
    /// The message's bytes after tag and length.
    pub fn payload(&self) -> Vec<u8> {
        let mut out = self.code().to_be_bytes().to_vec();
        match self {
            Self::Ok | Self::CleartextPassword => {}
            Self::Md5Password { salt } => out.extend_from_slice(salt),
            Self::Sasl { mechanisms } => {
                for name in mechanisms {
                    out.extend_from_slice(name);
                    out.push(0);
                }
                out.push(0);
            }
            Self::SaslContinue(data) | Self::SaslFinal(data) => out.extend_from_slice(data),
        }
        out
    }

    /// Reads the payload that a server has sent.
    pub fn parse(payload: &[u8]) -> Result<Self, ServerAuthError> {
        if payload.len() > AUTH_REQUEST_BYTES_MAX {
            return Err(ServerAuthError::TooLong {
                got: payload.len(),
                max: AUTH_REQUEST_BYTES_MAX,
            });
        }
        let Some((code, data)) = payload.split_first_chunk::<4>() else {
            return Err(ServerAuthError::Malformed {
                problem: "shorter than its code",
            });
        };
        match i32::from_be_bytes(*code) {
            0 => nothing_more(data).map(|()| Self::Ok),
            3 => nothing_more(data).map(|()| Self::CleartextPassword),
            5 => match data.try_into() {
                Ok(salt) => Ok(Self::Md5Password { salt }),
                Err(_) => Err(ServerAuthError::Malformed {
                    problem: "an MD5 salt is 4 bytes",
                }),
            },
            10 => mechanisms(data).map(|mechanisms| Self::Sasl { mechanisms }),
            11 => Ok(Self::SaslContinue(data.to_vec())),
            12 => Ok(Self::SaslFinal(data.to_vec())),
            code => Err(ServerAuthError::UnsupportedMethod {
                name: unsupported_name(code),
                code,
            }),
        }
    }

    /// The message's name in the manual.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Ok => "AuthenticationOk",
            Self::CleartextPassword => "AuthenticationCleartextPassword",
            Self::Md5Password { .. } => "AuthenticationMD5Password",
            Self::Sasl { .. } => "AuthenticationSASL",
            Self::SaslContinue(_) => "AuthenticationSASLContinue",
            Self::SaslFinal(_) => "AuthenticationSASLFinal",
        }
    }

    fn code(&self) -> i32 {
        match self {
            Self::Ok => 0,
            Self::CleartextPassword => 3,
            Self::Md5Password { .. } => 5,
            Self::Sasl { .. } => 10,
            Self::SaslContinue(_) => 11,
            Self::SaslFinal(_) => 12,
        }
    }
}

fn nothing_more(data: &[u8]) -> Result<(), ServerAuthError> {
    if data.is_empty() {
        Ok(())
    } else {
        Err(ServerAuthError::Malformed {
            problem: "bytes after its end",
        })
    }
}

/// Names, each ending in a zero byte, and one more zero byte.
fn mechanisms(data: &[u8]) -> Result<Vec<Vec<u8>>, ServerAuthError> {
    let problem = ServerAuthError::Malformed {
        problem: "list of SASL mechanisms does not end in an empty name",
    };
    let Some(names) = data.strip_suffix(b"\0") else {
        return Err(problem);
    };
    let Some(names) = names.strip_suffix(b"\0") else {
        return if names.is_empty() { Ok(Vec::new()) } else { Err(problem) };
    };
    let names: Vec<Vec<u8>> = names.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect();
    if names.iter().any(Vec::is_empty) {
        Err(problem)
    } else {
        Ok(names)
    }
}

fn unsupported_name(code: i32) -> &'static str {
    match code {
        1 => "KerberosV4",
        2 => "KerberosV5",
        4 => "crypt",
        6 => "SCM credential",
        7 => "GSSAPI",
        8 => "GSSAPI or SSPI (continued)",
        9 => "SSPI",
        _ => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<AuthRequest> {
        vec![
            AuthRequest::Ok,
            AuthRequest::CleartextPassword,
            AuthRequest::Md5Password { salt: *b"\0\xffab" },
            AuthRequest::Sasl { mechanisms: vec![] },
            AuthRequest::Sasl {
                mechanisms: vec![b"SCRAM-SHA-256-PLUS".to_vec(), b"SCRAM-SHA-256".to_vec()],
            },
            AuthRequest::SaslContinue(b"r=,s=,i=".to_vec()),
            AuthRequest::SaslFinal(b"v=".to_vec()),
        ]
    }

    #[test]
    fn payload_and_parse_are_inverse() {
        for request in all() {
            assert_eq!(AuthRequest::parse(&request.payload()), Ok(request));
        }
        assert_eq!(AuthRequest::Md5Password { salt: *b"salt" }.payload(), b"\0\0\0\x05salt");
        assert_eq!(
            AuthRequest::Sasl {
                mechanisms: vec![b"SCRAM-SHA-256".to_vec()]
            }
            .payload(),
            b"\0\0\0\x0aSCRAM-SHA-256\0\0"
        );
    }

    #[test]
    fn payloads_cut_short_are_not_mistaken_for_others() {
        for request in all() {
            let payload = request.payload();
            for end in 0..payload.len() {
                assert_ne!(
                    AuthRequest::parse(&payload[..end]),
                    Ok(request.clone()),
                    "{request:?} cut at {end}"
                );
            }
        }
    }

    #[test]
    fn methods_we_do_not_speak_are_named() {
        for (code, expected) in [
            (2, "KerberosV5"),
            (7, "GSSAPI"),
            (9, "SSPI"),
            (-1, "unknown"),
            (i32::MAX, "unknown"),
        ] {
            let error = AuthRequest::parse(&code.to_be_bytes()).unwrap_err();
            assert_eq!(error, ServerAuthError::UnsupportedMethod { name: expected, code });
        }
    }

    #[test]
    fn lengths_that_do_not_add_up_are_refused() {
        let refused: [&[u8]; 9] = [
            b"",
            b"\0\0\0",
            b"\0\0\0\0x",
            b"\0\0\0\x03\0",
            b"\0\0\0\x05sal",
            b"\0\0\0\x05salt+",
            b"\0\0\0\x0a",
            b"\0\0\0\x0aSCRAM-SHA-256\0",
            b"\0\0\0\x0aA\0\0B\0\0",
        ];
        for payload in refused {
            assert!(
                matches!(AuthRequest::parse(payload), Err(ServerAuthError::Malformed { .. })),
                "{payload:?}"
            );
        }
        let mut long = b"\0\0\0\x0b".to_vec();
        long.resize(AUTH_REQUEST_BYTES_MAX, b'x');
        assert!(AuthRequest::parse(&long).is_ok());
        long.push(b'x');
        assert!(matches!(
            AuthRequest::parse(&long),
            Err(ServerAuthError::TooLong { .. })
        ));
    }
}
