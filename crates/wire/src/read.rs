//! A cursor over a message body.

use thiserror::Error;

/// A body that does not have the fields of its message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ReadError {
    /// The body ended too early.
    #[error("message is too short: expected {expected} more bytes, got {got}")]
    Short {
        /// The bytes that the next field needs.
        expected: usize,
        /// The bytes that are left.
        got: usize,
    },
    /// A string without its terminating zero byte.
    #[error("invalid string in message: expected a terminating zero byte")]
    Unterminated,
    /// A count or length that is not allowed.
    #[error("invalid count in message: {got}")]
    Count {
        /// The number as received.
        got: i64,
    },
    /// Bytes after the last field.
    #[error("invalid message format: {got} bytes after the last field")]
    Trailing {
        /// How many.
        got: usize,
    },
}

/// Reads fields from the beginning of a body. It never panics and never allocates.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// A reader at the start of `body`.
    pub fn new(body: &'a [u8]) -> Self {
        Reader { rest: body }
    }

    /// The bytes that have not been read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The next `count` bytes.
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], ReadError> {
        if count > self.rest.len() {
            return Err(ReadError::Short {
                expected: count,
                got: self.rest.len(),
            });
        }
        let (head, rest) = self.rest.split_at(count);
        self.rest = rest;
        Ok(head)
    }

    /// One byte.
    pub fn u8(&mut self) -> Result<u8, ReadError> {
        Ok(self.bytes(1)?[0])
    }

    /// A two-byte signed integer, big endian like all numbers of the protocol.
    pub fn i16(&mut self) -> Result<i16, ReadError> {
        let b = self.bytes(2)?;
        Ok(i16::from_be_bytes([b[0], b[1]]))
    }

    /// A four-byte signed integer.
    pub fn i32(&mut self) -> Result<i32, ReadError> {
        let b = self.bytes(4)?;
        Ok(i32::from_be_bytes([b[0], b[1], b[2], b[3]]))
    }

    /// A four-byte unsigned integer.
    pub fn u32(&mut self) -> Result<u32, ReadError> {
        Ok(self.i32()? as u32)
    }

    /// A zero-terminated string, without the zero.
    #[inline]
    pub fn cstr(&mut self) -> Result<&'a [u8], ReadError> {
        let end = zero_in(self.rest).ok_or(ReadError::Unterminated)?;
        let (text, rest) = self.rest.split_at(end);
        self.rest = &rest[1..];
        Ok(text)
    }

    /// Fails if bytes are left.
    pub fn end(self) -> Result<(), ReadError> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(ReadError::Trailing { got: self.rest.len() })
        }
    }
}

/// The position of the first zero byte. Most strings are names of portals and statements, so the first eight bytes are
/// tested together: the subtraction borrows from the highest bit of a zero byte, and the lowest such bit belongs to the
/// first zero.
#[inline]
fn zero_in(bytes: &[u8]) -> Option<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let Some(front) = bytes.first_chunk::<8>() else {
        return bytes.iter().position(|&b| b == 0);
    };
    let front = u64::from_le_bytes(*front);
    match front.wrapping_sub(ONES) & !front & HIGH {
        0 => memchr::memchr(0, bytes),
        zeros => Some((zeros.trailing_zeros() / 8) as usize),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_off_the_front_and_errors_name_what_was_missing() {
        let mut r = Reader::new(b"ab\0\x00\x07\xff\xff\xff\xffz");
        assert_eq!(r.cstr(), Ok(&b"ab"[..]));
        assert_eq!(r.i16(), Ok(7));
        assert_eq!(r.i32(), Ok(-1));
        assert_eq!(r.end(), Err(ReadError::Trailing { got: 1 }));
        assert_eq!(r.i32(), Err(ReadError::Short { expected: 4, got: 1 }));
        assert_eq!(r.cstr(), Err(ReadError::Unterminated));
        assert_eq!(r.u8(), Ok(b'z'));
        assert_eq!(r.end(), Ok(()));
    }

    #[test]
    fn a_string_of_any_length_ends_at_its_first_zero() {
        for length in 0..100 {
            let text = vec![[1, 0x80, b'x'][length % 3]; length];
            let mut r = Reader::new(&text);
            assert_eq!(r.cstr(), Err(ReadError::Unterminated), "{length}");
            let bytes = [&text[..], b"\0y\0"].concat();
            let mut r = Reader::new(&bytes);
            assert_eq!((r.cstr(), r.cstr()), (Ok(&text[..]), Ok(&b"y"[..])), "{length}");
        }
    }
}
