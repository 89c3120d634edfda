//! Messages that a client sends after its startup packet.

use crate::read::{ReadError, Reader};

/// Tags of frontend messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum FrontendTag {
    /// Bind: make a portal from a prepared statement.
    Bind = b'B',
    /// Close: drop a prepared statement or a portal.
    Close = b'C',
    /// CopyData, both directions.
    CopyData = b'd',
    /// CopyDone, both directions.
    CopyDone = b'c',
    /// CopyFail: end copy-in with an error.
    CopyFail = b'f',
    /// Describe: ask for the shape of a statement or portal.
    Describe = b'D',
    /// Execute a portal.
    Execute = b'E',
    /// Flush: send what is ready.
    Flush = b'H',
    /// FunctionCall, the old fast path.
    FunctionCall = b'F',
    /// Parse: make a prepared statement.
    Parse = b'P',
    /// PasswordMessage, SASLInitialResponse, SASLResponse, GSSResponse share one tag.
    Password = b'p',
    /// Simple query.
    Query = b'Q',
    /// Sync: end an extended-query segment.
    Sync = b'S',
    /// Terminate.
    Terminate = b'X',
}

impl FrontendTag {
    /// The tag of this byte, if a client may send it.
    #[inline]
    pub fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            b'B' => Self::Bind,
            b'C' => Self::Close,
            b'd' => Self::CopyData,
            b'c' => Self::CopyDone,
            b'f' => Self::CopyFail,
            b'D' => Self::Describe,
            b'E' => Self::Execute,
            b'H' => Self::Flush,
            b'F' => Self::FunctionCall,
            b'P' => Self::Parse,
            b'p' => Self::Password,
            b'Q' => Self::Query,
            b'S' => Self::Sync,
            b'X' => Self::Terminate,
            _ => return None,
        })
    }
}

impl FrontendTag {
    /// Whether PostgreSQL accepts such messages only up to [`SHORT_MESSAGE_BYTES_MAX`](crate::SHORT_MESSAGE_BYTES_MAX).
    #[inline]
    pub fn is_short(self) -> bool {
        match self {
            Self::Bind | Self::CopyData | Self::FunctionCall | Self::Parse | Self::Password | Self::Query => false,
            Self::Close | Self::CopyDone | Self::CopyFail | Self::Describe | Self::Execute => true,
            Self::Flush | Self::Sync | Self::Terminate => true,
        }
    }

    /// Whether PostgreSQL does nothing for such a message outside of a copy, and answers nothing.
    pub fn asks_nothing(self) -> bool {
        matches!(self, Self::CopyData | Self::CopyDone | Self::CopyFail | Self::Flush)
    }
}

/// The object that Describe and Close name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// `S`: a prepared statement.
    Statement,
    /// `P`: a portal.
    Portal,
}

/// Body of Parse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parse<'a> {
    /// Name of the prepared statement; empty is the unnamed one.
    pub name: &'a [u8],
    /// Query text, in the client's encoding.
    pub query: &'a [u8],
    /// Parameter types as sent: a two-byte count, then that many four-byte OIDs.
    pub types: &'a [u8],
}

impl<'a> Parse<'a> {
    /// Reads a whole Parse body.
    pub fn read(body: &'a [u8]) -> Result<Self, ReadError> {
        let mut r = Reader::new(body);
        let name = r.cstr()?;
        let query = r.cstr()?;
        let types = r.rest();
        let count = r.i16()?;
        // PostgreSQL reads the count as unsigned 16 bits. So a count that was meant as negative ends as "too short".
        r.bytes(usize::from(count as u16) * 4)?;
        r.end()?;
        Ok(Parse { name, query, types })
    }
}

/// The two names at the beginning of Bind. A pooler does not need the values after them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BindNames<'a> {
    /// Destination portal; empty is the unnamed one.
    pub portal: &'a [u8],
    /// Source statement; empty is the unnamed one.
    pub statement: &'a [u8],
}

impl<'a> BindNames<'a> {
    /// Reads the names; `body` may be cut off anywhere after them.
    #[inline]
    pub fn read(body: &'a [u8]) -> Result<Self, ReadError> {
        let mut r = Reader::new(body);
        Ok(BindNames {
            portal: r.cstr()?,
            statement: r.cstr()?,
        })
    }

    /// The length in bytes of both names, including their zeros.
    pub fn wire_bytes(&self) -> usize {
        self.portal.len() + self.statement.len() + 2
    }

    /// Whether this body of a Bind, which begins with these names, is formed well and has no values. It may name one
    /// format for all values, and any formats of columns.
    pub fn bind_nothing(&self, body: &[u8]) -> bool {
        let read = || {
            let mut r = Reader::new(body);
            r.bytes(self.wire_bytes())?;
            let formats = format_codes(&mut r)?;
            let values = r.i16()?;
            format_codes(&mut r)?;
            r.end()?;
            Ok::<_, ReadError>(formats <= 1 && values == 0)
        };
        read() == Ok(true)
    }
}

/// Reads format codes, and returns how many there are.
fn format_codes(r: &mut Reader<'_>) -> Result<usize, ReadError> {
    // PostgreSQL reads the count as unsigned 16 bits.
    let count = usize::from(r.i16()? as u16);
    r.bytes(count * 2)?;
    Ok(count)
}

/// Body of Describe and of Close.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Named<'a> {
    /// Statement or portal.
    pub target: Target,
    /// Its name.
    pub name: &'a [u8],
}

impl<'a> Named<'a> {
    /// Reads a whole Describe or Close body.
    #[inline]
    pub fn read(body: &'a [u8]) -> Result<Self, ReadError> {
        let mut r = Reader::new(body);
        let target = match r.u8()? {
            b'S' => Target::Statement,
            b'P' => Target::Portal,
            other => return Err(ReadError::Count { got: i64::from(other) }),
        };
        let name = r.cstr()?;
        r.end()?;
        Ok(Named { target, name })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_body_is_checked_to_its_last_byte() {
        let body = b"s1\0select $1\0\x00\x01\x00\x00\x00\x17";
        let parse = Parse::read(body).unwrap();
        assert_eq!(
            (parse.name, parse.query, parse.types.len()),
            (&b"s1"[..], &b"select $1"[..], 6)
        );
        for cut in 0..body.len() {
            assert!(Parse::read(&body[..cut]).is_err(), "cut at {cut}");
        }
        let mut long = body.to_vec();
        long.push(0);
        assert_eq!(Parse::read(&long), Err(ReadError::Trailing { got: 1 }));
    }

    #[test]
    fn bind_names_do_not_need_the_values() {
        let names = BindNames::read(b"p\0s\0\x00\x00").unwrap();
        assert_eq!(
            (names.portal, names.statement, names.wire_bytes()),
            (&b"p"[..], &b"s"[..], 4)
        );
        assert_eq!(BindNames::read(b"p\0s"), Err(ReadError::Unterminated));
    }

    #[test]
    fn a_bind_without_values_may_have_formats() {
        let binds_nothing = |rest: &[u8]| {
            let body = [b"p\0s\0", rest].concat();
            BindNames::read(&body).unwrap().bind_nothing(&body)
        };
        assert!(binds_nothing(b"\0\0\0\0\0\0"));
        assert!(
            binds_nothing(b"\0\x01\0\x01\0\0\0\x02\0\0\0\x01"),
            "one format of values, two of columns"
        );
        assert!(!binds_nothing(b"\0\x02\0\0\0\0\0\0\0\0"), "two formats of values");
        assert!(!binds_nothing(b"\0\0\0\x01\xff\xff\xff\xff\0\0"), "a value");
        assert!(!binds_nothing(b"\0\0\0\0\0"), "cut off");
        assert!(!binds_nothing(b"\0\0\0\0\0\0\0"), "too long");
    }

    #[test]
    fn describe_and_close_name_a_statement_or_a_portal() {
        assert_eq!(
            Named::read(b"Sx\0"),
            Ok(Named {
                target: Target::Statement,
                name: b"x"
            })
        );
        assert_eq!(
            Named::read(b"P\0"),
            Ok(Named {
                target: Target::Portal,
                name: b""
            })
        );
        assert!(Named::read(b"Qx\0").is_err());
    }

    #[test]
    fn every_tag_survives_its_byte() {
        let known = (0..=255u8)
            .filter_map(FrontendTag::from_byte)
            .map(|t| t as u8)
            .collect::<Vec<_>>();
        assert_eq!(known.len(), 14);
        assert!(known.iter().all(|&b| FrontendTag::from_byte(b).unwrap() as u8 == b));
    }
}
