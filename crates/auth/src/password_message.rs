//! The messages with tag `p`: PasswordMessage and SASLInitialResponse. (A SASLResponse consists only of the mechanism's
//! bytes.)

use crate::error::ClientAuthError;

/// The longest payload of a PasswordMessage that is read, including the terminator: PostgreSQL's
/// `PG_MAX_AUTH_TOKEN_LENGTH`. Tokens of cloud services have thousands of bytes.
pub const PASSWORD_MESSAGE_BYTES_MAX: usize = 65_535;

/// A PasswordMessage's payload: the password and a zero byte.
pub(crate) fn password_payload(password: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(password.len() + 1);
    out.extend_from_slice(password);
    out.push(0);
    out
}

/// The password in a PasswordMessage.
pub(crate) fn parse_password(payload: &[u8]) -> Result<&[u8], ClientAuthError> {
    let problem = |problem| Err(ClientAuthError::MalformedPasswordMessage { problem });
    if payload.len() > PASSWORD_MESSAGE_BYTES_MAX {
        return problem("longer than 65535 bytes");
    }
    match payload.iter().position(|byte| *byte == 0) {
        None => problem("no terminating zero byte"),
        Some(end) if end + 1 != payload.len() => problem("bytes after its terminating zero byte"),
        Some(0) => Err(ClientAuthError::EmptyPassword),
        Some(end) => Ok(&payload[..end]),
    }
}

/// What a client chose among the mechanisms offered.
///
/// ```text
/// payload:  string mechanism (ends in 0)    int32 length of what follows, -1 for nothing    bytes
/// ```
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SaslInitialResponse<'a> {
    pub mechanism: &'a [u8],
    /// The mechanism's first message. If it is missing, the server asks for it with an empty challenge.
    pub data: Option<&'a [u8]>,
}

impl<'a> SaslInitialResponse<'a> {
    pub fn parse(payload: &'a [u8]) -> Result<Self, ClientAuthError> {
        let problem = |problem| Err(ClientAuthError::MalformedSaslInitialResponse { problem });
        let Some(end) = payload.iter().position(|byte| *byte == 0) else {
            return problem("mechanism has no terminating zero byte");
        };
        let mechanism = &payload[..end];
        let Some((length, data)) = payload[end + 1..].split_first_chunk::<4>() else {
            return problem("shorter than its length field");
        };
        match i32::from_be_bytes(*length) {
            -1 if data.is_empty() => Ok(Self { mechanism, data: None }),
            length if usize::try_from(length) == Ok(data.len()) => Ok(Self {
                mechanism,
                data: Some(data),
            }),
            _ => problem("its length field differs from the bytes that follow"),
        }
    }

    pub fn payload(mechanism: &[u8], data: &[u8]) -> Vec<u8> {
        let length = i32::try_from(data.len()).expect("our own first message is far below 2 GB");
        let mut out = password_payload(mechanism);
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(data);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_one_string() {
        assert_eq!(parse_password(b"sesame\0"), Ok(b"sesame".as_slice()));
        assert_eq!(parse_password(&password_payload(b"x")), Ok(b"x".as_slice()));
        assert_eq!(parse_password(b"\0"), Err(ClientAuthError::EmptyPassword));
        for payload in [b"".as_slice(), b"sesame", b"ses\0ame\0", b"sesame\0\0", b"\0\0"] {
            assert!(
                matches!(
                    parse_password(payload),
                    Err(ClientAuthError::MalformedPasswordMessage { .. })
                ),
                "{payload:?}"
            );
        }
    }

    /// PgBouncer crashed at passwords beyond 1024 bytes, or refused them (1.16, 1.25.0); cloud tokens are longer.
    #[test]
    fn passwords_are_bounded_by_a_constant_only() {
        assert!(parse_password(&password_payload(&[b'x'; 65_530])).is_ok());
        assert!(parse_password(&password_payload(&[b'x'; PASSWORD_MESSAGE_BYTES_MAX - 1])).is_ok());
        assert!(parse_password(&password_payload(&[b'x'; PASSWORD_MESSAGE_BYTES_MAX])).is_err());
    }

    /// PgBouncer CVE-2026-6664: integer overflow in the length field, before authentication.
    #[test]
    fn a_sasl_initial_responses_length_must_be_the_truth() {
        let parse = |length: i32, data: &[u8]| {
            let payload = [b"M\0".as_slice(), &length.to_be_bytes(), data].concat();
            SaslInitialResponse::parse(&payload).map(|parsed| parsed.data.map(<[u8]>::to_vec))
        };
        assert_eq!(parse(3, b"n,,"), Ok(Some(b"n,,".to_vec())));
        assert_eq!(parse(0, b""), Ok(Some(vec![])));
        assert_eq!(parse(-1, b""), Ok(None));
        for (length, data) in [
            (2, "n,,"),
            (4, "n,,"),
            (-1, "n,,"),
            (-2, ""),
            (i32::MIN, ""),
            (i32::MAX, "n,,"),
            (0, "n"),
        ] {
            assert!(parse(length, data.as_bytes()).is_err(), "{length} before {data:?}");
        }
        for payload in [b"".as_slice(), b"M", b"M\0", b"M\0\0\0\0"] {
            assert!(SaslInitialResponse::parse(payload).is_err(), "{payload:?}");
        }
    }
}
