//! Messages that a server sends.

use crate::read::{ReadError, Reader};

/// Tags of backend messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum BackendTag {
    /// AuthenticationXXX; the first four bytes of the body say which.
    Authentication = b'R',
    /// BackendKeyData: process id and cancel key.
    BackendKeyData = b'K',
    /// BindComplete.
    BindComplete = b'2',
    /// CloseComplete.
    CloseComplete = b'3',
    /// CommandComplete with its tag.
    CommandComplete = b'C',
    /// CopyBothResponse (replication).
    CopyBothResponse = b'W',
    /// CopyData.
    CopyData = b'd',
    /// CopyDone.
    CopyDone = b'c',
    /// CopyInResponse: the server now reads CopyData.
    CopyInResponse = b'G',
    /// CopyOutResponse.
    CopyOutResponse = b'H',
    /// DataRow.
    DataRow = b'D',
    /// EmptyQueryResponse.
    EmptyQueryResponse = b'I',
    /// ErrorResponse.
    ErrorResponse = b'E',
    /// FunctionCallResponse.
    FunctionCallResponse = b'V',
    /// NegotiateProtocolVersion.
    NegotiateProtocolVersion = b'v',
    /// NoData, answer to Describe.
    NoData = b'n',
    /// NoticeResponse, at any time.
    NoticeResponse = b'N',
    /// NotificationResponse, at any time outside a transaction.
    NotificationResponse = b'A',
    /// ParameterDescription, answer to Describe statement.
    ParameterDescription = b't',
    /// ParameterStatus, at any time.
    ParameterStatus = b'S',
    /// ParseComplete.
    ParseComplete = b'1',
    /// PortalSuspended: Execute reached its row limit.
    PortalSuspended = b's',
    /// ReadyForQuery with the transaction status.
    ReadyForQuery = b'Z',
    /// RowDescription.
    RowDescription = b'T',
}

impl BackendTag {
    /// The tag of this byte, if a server may send it.
    #[inline]
    pub fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            b'R' => Self::Authentication,
            b'K' => Self::BackendKeyData,
            b'2' => Self::BindComplete,
            b'3' => Self::CloseComplete,
            b'C' => Self::CommandComplete,
            b'W' => Self::CopyBothResponse,
            b'd' => Self::CopyData,
            b'c' => Self::CopyDone,
            b'G' => Self::CopyInResponse,
            b'H' => Self::CopyOutResponse,
            b'D' => Self::DataRow,
            b'I' => Self::EmptyQueryResponse,
            b'E' => Self::ErrorResponse,
            b'V' => Self::FunctionCallResponse,
            b'v' => Self::NegotiateProtocolVersion,
            b'n' => Self::NoData,
            b'N' => Self::NoticeResponse,
            b'A' => Self::NotificationResponse,
            b't' => Self::ParameterDescription,
            b'S' => Self::ParameterStatus,
            b'1' => Self::ParseComplete,
            b's' => Self::PortalSuspended,
            b'Z' => Self::ReadyForQuery,
            b'T' => Self::RowDescription,
            _ => return None,
        })
    }
}

/// The status byte of ReadyForQuery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
#[derive(pgweir_freeze::Freeze)]
pub enum TransactionStatus {
    /// `I`: not in a transaction block.
    Idle = b'I',
    /// `T`: in a transaction block.
    InTransaction = b'T',
    /// `E`: in a failed transaction block.
    Failed = b'E',
}

impl TransactionStatus {
    /// Reads the one-byte body of ReadyForQuery.
    #[inline]
    pub fn read(body: &[u8]) -> Option<Self> {
        match body {
            [b'I'] => Some(Self::Idle),
            [b'T'] => Some(Self::InTransaction),
            [b'E'] => Some(Self::Failed),
            _ => None,
        }
    }
}

/// Body of ParameterStatus.
pub fn parameter_status(body: &[u8]) -> Result<(&[u8], &[u8]), ReadError> {
    let mut r = Reader::new(body);
    let pair = (r.cstr()?, r.cstr()?);
    r.end()?;
    Ok(pair)
}

/// Body of CommandComplete: the tag without its zero.
#[inline]
pub fn command_tag(body: &[u8]) -> Result<&[u8], ReadError> {
    match body {
        [tag @ .., 0] => Ok(tag),
        _ => Err(ReadError::Unterminated),
    }
}

/// Body of DataRow: its column values in the order of the row; `None` is NULL.
pub fn data_row(body: &[u8]) -> Result<Vec<Option<&[u8]>>, ReadError> {
    let mut r = Reader::new(body);
    let count = r.i16()?;
    if count < 0 {
        return Err(ReadError::Count { got: i64::from(count) });
    }
    let mut row = Vec::new();
    for _ in 0..count {
        let length = r.i32()?;
        row.push(if length < 0 {
            None
        } else {
            Some(r.bytes(length as usize)?)
        });
    }
    r.end()?;
    Ok(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tag_survives_its_byte() {
        let known = (0..=255u8)
            .filter_map(BackendTag::from_byte)
            .map(|t| t as u8)
            .collect::<Vec<_>>();
        assert_eq!(known.len(), 24);
        assert!(known.iter().all(|&b| BackendTag::from_byte(b).unwrap() as u8 == b));
    }

    #[test]
    fn small_bodies() {
        assert_eq!(TransactionStatus::read(b"T"), Some(TransactionStatus::InTransaction));
        assert_eq!(TransactionStatus::read(b""), None);
        assert_eq!(TransactionStatus::read(b"II"), None);
        assert_eq!(parameter_status(b"a\0b\0"), Ok((&b"a"[..], &b"b"[..])));
        assert!(parameter_status(b"a\0b").is_err());
        assert_eq!(command_tag(b"SELECT 1\0"), Ok(&b"SELECT 1"[..]));
        assert_eq!(
            data_row(b"\0\x02\0\0\0\x01x\xff\xff\xff\xff"),
            Ok(vec![Some(&b"x"[..]), None])
        );
        assert!(data_row(b"\0\x01\x7f\xff\xff\xffx").is_err());
    }
}
