//! The packet that opens a connection; it has a length but no tag.

use crate::read::{ReadError, Reader};
use thiserror::Error;

/// The longest startup packet that PostgreSQL accepts: `MAX_STARTUP_PACKET_LENGTH`, and the length field.
pub const STARTUP_BYTES_MAX: u32 = 10_004;

/// The longest cancel key of protocol 3.2, bytes.
pub const CANCEL_KEY_BYTES_MAX: usize = 256;

const CANCEL_CODE: u32 = 1234 << 16 | 5678;
const SSL_CODE: u32 = 1234 << 16 | 5679;
const GSSENC_CODE: u32 = 1234 << 16 | 5680;

/// Parameters that are not settings, besides those that begin with `_pq_.`.
const KEYWORDS: [&[u8]; 4] = [b"user", b"database", b"options", b"replication"];

/// A protocol version as in the startup packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, pgweir_freeze::Freeze)]
pub struct ProtocolVersion(pub u32);

impl ProtocolVersion {
    /// 3.0: every server and driver since 7.4.
    pub const V3_0: Self = Self(3 << 16);
    /// 3.2: longer cancel keys, PostgreSQL 18.
    pub const V3_2: Self = Self(3 << 16 | 2);

    /// The part before the dot.
    pub fn major(self) -> u32 {
        self.0 >> 16
    }

    /// The part after the dot.
    pub fn minor(self) -> u32 {
        self.0 & 0xffff
    }
}

/// The key by which a CancelRequest names a running query: the process id and its secret.
#[derive(Debug, Clone, PartialEq, Eq, Hash, pgweir_freeze::Freeze)]
pub struct CancelKey {
    /// Process id of BackendKeyData.
    pub process_id: u32,
    /// Four bytes under protocol 3.0, 4 to [`CANCEL_KEY_BYTES_MAX`] under 3.2.
    pub secret: Box<[u8]>,
}

impl CancelKey {
    /// Reads the body of BackendKeyData, or of CancelRequest after its code: both have the same shape.
    pub fn read(body: &[u8]) -> Result<Self, ReadError> {
        let mut r = Reader::new(body);
        let process_id = r.u32()?;
        let secret = r.rest();
        if !(4..=CANCEL_KEY_BYTES_MAX).contains(&secret.len()) {
            return Err(ReadError::Count {
                got: secret.len() as i64,
            });
        }
        Ok(CancelKey {
            process_id,
            secret: secret.into(),
        })
    }
}

/// The first packet of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StartupPacket<'a> {
    /// SSLRequest: the answer is one byte, and another first packet follows.
    SslRequest,
    /// GSSENCRequest: the same.
    GssEncRequest,
    /// CancelRequest: there is no answer, and the connection closes.
    Cancel(CancelKey),
    /// StartupMessage.
    Startup {
        /// The version that the client asks for.
        version: ProtocolVersion,
        /// Name and value pairs in their order. Their encoding is not known.
        parameters: Vec<(&'a [u8], &'a [u8])>,
    },
}

/// Why bytes are not a valid first packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum StartupError {
    /// The length field is out of bounds.
    #[error("invalid length of startup packet: expected 8 to {STARTUP_BYTES_MAX}, got {got}")]
    Length {
        /// The length field as received.
        got: u32,
    },
    /// A major version other than 3.
    #[error("{}unsupported frontend protocol {}.{}: server supports 3.0 to 3.2", old_protocol(version), version.major(), version.minor())]
    Version {
        /// The version as received.
        version: ProtocolVersion,
    },
    /// The parameter list is malformed.
    #[error("invalid startup packet layout: {0}")]
    Layout(#[from] ReadError),
}

/// What PgBouncer says of the protocol before 7.4.
fn old_protocol(version: &ProtocolVersion) -> &'static str {
    match version.major() {
        2 => "old V2 protocol not supported: ",
        _ => "",
    }
}

impl<'a> StartupPacket<'a> {
    /// The length in bytes of the packet at the beginning of `bytes`, including its length field; `None` if the length
    /// field is not complete.
    pub fn packet_bytes(bytes: &[u8]) -> Result<Option<usize>, StartupError> {
        let Some(length) = bytes.first_chunk::<4>() else {
            return Ok(None);
        };
        let got = u32::from_be_bytes(*length);
        if !(8..=STARTUP_BYTES_MAX).contains(&got) {
            return Err(StartupError::Length { got });
        }
        Ok(Some(got as usize))
    }

    /// Whether a packet of which so much has come is a CancelRequest.
    pub fn is_cancel(packet: &[u8]) -> bool {
        packet.get(4..8) == Some(&CANCEL_CODE.to_be_bytes())
    }

    /// Reads one complete packet, including its length field.
    pub fn read(packet: &'a [u8]) -> Result<Self, StartupError> {
        let mut r = Reader::new(packet);
        r.u32()?;
        let code = r.u32()?;
        match code {
            CANCEL_CODE => return Ok(Self::Cancel(CancelKey::read(r.rest())?)),
            SSL_CODE => return r.end().map(|()| Self::SslRequest).map_err(Into::into),
            GSSENC_CODE => return r.end().map(|()| Self::GssEncRequest).map_err(Into::into),
            _ => {}
        }
        let version = ProtocolVersion(code);
        if version.major() != 3 {
            return Err(StartupError::Version { version });
        }
        let mut parameters = Vec::new();
        loop {
            let name = r.cstr()?;
            if name.is_empty() {
                r.end()?;
                return Ok(Self::Startup { version, parameters });
            }
            parameters.push((name, r.cstr()?));
        }
    }

    /// Appends SSLRequest.
    pub fn write_ssl_request(to: &mut Vec<u8>) {
        to.extend(8u32.to_be_bytes());
        to.extend(SSL_CODE.to_be_bytes());
    }

    /// Appends CancelRequest.
    pub fn write_cancel(to: &mut Vec<u8>, key: &CancelKey) {
        to.extend((12 + key.secret.len() as u32).to_be_bytes());
        to.extend(CANCEL_CODE.to_be_bytes());
        to.extend(key.process_id.to_be_bytes());
        to.extend_from_slice(&key.secret);
    }

    /// Whether PostgreSQL reads a parameter of this name as a part of the packet, not as a setting of the session. Other
    /// servers may read such names in any case.
    pub fn is_keyword(name: &[u8]) -> bool {
        let is_option = || name.get(..5).is_some_and(|start| start.eq_ignore_ascii_case(b"_pq_."));
        KEYWORDS.iter().any(|word| name.eq_ignore_ascii_case(word)) || is_option()
    }

    /// Appends StartupMessage of a login with these keywords, and these settings of the session. A setting cannot
    /// replace a keyword, although the server would let the last of two parameters count: a setting that has the name
    /// of a keyword is left out.
    pub fn write_login<'p>(
        to: &mut Vec<u8>,
        version: ProtocolVersion,
        keywords: &[(&'p [u8], &'p [u8])],
        settings: impl IntoIterator<Item = (&'p [u8], &'p [u8])>,
    ) {
        let settings = settings.into_iter().filter(|(name, _)| {
            let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
            !name.is_empty() && !Self::is_keyword(name)
        });
        Self::write_startup(to, version, keywords.iter().copied().chain(settings));
    }

    /// Appends StartupMessage. A name or value ends at its first zero byte.
    pub fn write_startup<'p>(
        to: &mut Vec<u8>,
        version: ProtocolVersion,
        parameters: impl IntoIterator<Item = (&'p [u8], &'p [u8])>,
    ) {
        let start = to.len();
        to.extend([0; 4]);
        to.extend(version.0.to_be_bytes());
        for (name, value) in parameters {
            crate::write::put_cstr(to, name);
            crate::write::put_cstr(to, value);
        }
        to.push(0);
        let length = (to.len() - start) as u32;
        to[start..start + 4].copy_from_slice(&length.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn startup_packet_round_trip_at_every_cut() {
        let mut packet = Vec::new();
        let parameters = [(&b"user"[..], &b"alice"[..]), (b"database", b"shop")];
        StartupPacket::write_startup(&mut packet, ProtocolVersion::V3_2, parameters);
        assert_eq!(StartupPacket::packet_bytes(&packet), Ok(Some(packet.len())));
        assert_eq!(
            StartupPacket::read(&packet),
            Ok(StartupPacket::Startup {
                version: ProtocolVersion::V3_2,
                parameters: parameters.to_vec()
            })
        );
        for cut in 0..packet.len() {
            assert!(StartupPacket::read(&packet[..cut]).is_err(), "cut at {cut}");
        }
    }

    /// The last of two parameters counts, so a setting called `user` would choose the user.
    #[test]
    fn a_setting_cannot_replace_a_keyword() {
        let mut packet = Vec::new();
        let settings: [(&[u8], &[u8]); 9] = [
            (b"user", b"postgres"),
            (b"Database", b"secret"),
            (b"replication", b"true"),
            (b"options", b"-c user=postgres"),
            (b"_pq_.x", b"1"),
            (b"user\0x", b"postgres"),
            (b"", b"end of the packet"),
            (b"\0", b"end of the packet"),
            (b"work_mem", b"1MB"),
        ];
        StartupPacket::write_login(&mut packet, ProtocolVersion::V3_0, &[(b"user", b"alice")], settings);
        assert_eq!(
            StartupPacket::read(&packet),
            Ok(StartupPacket::Startup {
                version: ProtocolVersion::V3_0,
                parameters: vec![(b"user", b"alice"), (b"work_mem", b"1MB")],
            })
        );
    }

    #[test]
    fn cancel_keys_of_both_versions() {
        for bytes in [4, 32, 256] {
            let key = CancelKey {
                process_id: 77,
                secret: vec![7; bytes].into(),
            };
            let mut packet = Vec::new();
            StartupPacket::write_cancel(&mut packet, &key);
            assert_eq!(StartupPacket::read(&packet), Ok(StartupPacket::Cancel(key)));
        }
        assert!(CancelKey::read(&[0; 7]).is_err());
        assert!(CancelKey::read(&[0; 261]).is_err());
    }

    #[test]
    fn bad_lengths_and_versions() {
        assert_eq!(
            StartupPacket::packet_bytes(&[0, 0, 0, 7]),
            Err(StartupError::Length { got: 7 })
        );
        assert_eq!(
            StartupPacket::packet_bytes(b"GET "),
            Err(StartupError::Length {
                got: u32::from_be_bytes(*b"GET ")
            })
        );
        assert_eq!(StartupPacket::packet_bytes(&[0, 0]), Ok(None));
        let v2 = [0, 0, 0, 9, 0, 2, 0, 0, 0];
        assert!(matches!(
            StartupPacket::read(&v2),
            Err(StartupError::Version {
                version: ProtocolVersion(0x20000)
            })
        ));
        let mut ssl = Vec::new();
        StartupPacket::write_ssl_request(&mut ssl);
        assert_eq!(StartupPacket::read(&ssl), Ok(StartupPacket::SslRequest));
    }
}
