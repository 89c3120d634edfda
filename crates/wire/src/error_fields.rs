//! ErrorResponse and NoticeResponse: fields by their letter.

use crate::read::{ReadError, Reader};

/// The fields of an ErrorResponse or NoticeResponse that a pooler reads; absent fields are empty.
///
/// A server may leave out any of them, even the SQLSTATE (an old or hostile server does), so none is required.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ErrorFields<'a> {
    /// `V`, or `S` if a server before 9.6 sent no `V`: ERROR, FATAL, PANIC, WARNING, NOTICE, ...
    pub severity: &'a [u8],
    /// `C`: SQLSTATE, five bytes.
    pub sqlstate: &'a [u8],
    /// `M`: the primary message.
    pub message: &'a [u8],
    /// `D`: more about the cause.
    pub detail: &'a [u8],
    /// `H`: what to do about it.
    pub hint: &'a [u8],
    /// `R`: the function in the server's source that reports the error.
    pub routine: &'a [u8],
    /// `P`: the error is about this character of the client's text, counted from 1.
    pub position: Option<u32>,
    /// Whether there is a `W` or a `q`: the error comes from within a function, or from a text that a function runs.
    pub has_context: bool,
}

impl<'a> ErrorFields<'a> {
    /// Reads a body as far as possible. If it is cut off or malformed, the fields before the fault are returned.
    pub fn read_prefix(body: &'a [u8]) -> Self {
        let mut fields = ErrorFields::default();
        fields.fill(body).ok();
        fields
    }

    /// Reads a whole body.
    pub fn read(body: &'a [u8]) -> Result<Self, ReadError> {
        let mut fields = ErrorFields::default();
        fields.fill(body)?;
        Ok(fields)
    }

    fn fill(&mut self, body: &'a [u8]) -> Result<(), ReadError> {
        let mut r = Reader::new(body);
        loop {
            match r.u8()? {
                0 => return Ok(()),
                b'V' => self.severity = r.cstr()?,
                b'S' if self.severity.is_empty() => self.severity = r.cstr()?,
                b'C' => self.sqlstate = r.cstr()?,
                b'M' => self.message = r.cstr()?,
                b'D' => self.detail = r.cstr()?,
                b'H' => self.hint = r.cstr()?,
                b'R' => self.routine = r.cstr()?,
                b'P' => self.position = Some(read_position(r.cstr()?)),
                b'W' | b'q' => {
                    self.has_context = true;
                    r.cstr()?;
                }
                _ => drop(r.cstr()?),
            }
        }
    }

    /// Whether the server refuses a statement because of its text. Then no part of that statement has run.
    pub fn is_refusal(&self) -> bool {
        let of_text = self.position.is_some() && self.sqlstate.starts_with(b"42");
        // EXECUTE of an unknown name.
        !self.has_context && (of_text || self.sqlstate == b"26000")
    }

    /// Whether the server refuses a whole text because of a syntax error. Then none of its statements has run.
    pub fn is_of_grammar(&self) -> bool {
        self.is_refusal() && self.position.is_some() && self.routine == b"scanner_yyerror"
    }

    /// Whether the connection ends with this message.
    pub fn is_fatal(&self) -> bool {
        matches!(self.severity, b"FATAL" | b"PANIC")
    }
}

/// Digits; 0 is no position in a text.
fn read_position(digits: &[u8]) -> u32 {
    let digits = std::str::from_utf8(digits).ok();
    digits.and_then(|digits| digits.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_letter_in_any_order_and_may_be_missing() {
        let f = ErrorFields::read(b"SFEHLER\0VERROR\0C42P01\0Mno table\0Hhint\0Dmore\0\0").unwrap();
        assert_eq!(
            (f.severity, f.sqlstate, f.message),
            (&b"ERROR"[..], &b"42P01"[..], &b"no table"[..])
        );
        assert_eq!((f.detail, f.hint), (&b"more"[..], &b"hint"[..]));
        assert!(!f.is_fatal() && !f.is_refusal());
        let typo = ErrorFields::read(b"SERROR\0C42601\0Mno\0P1\0Fscan.l\0Rscanner_yyerror\0\0").unwrap();
        assert!(typo.is_refusal() && typo.is_of_grammar() && typo.position == Some(1));
        for odd in [&b"Px\0\0"[..], b"P\0\0", b"P4294967296\0\0", b"P-1\0\0", b"P\xff\0\0"] {
            assert_eq!(ErrorFields::read(odd).unwrap().position, Some(0));
        }
        let within = ErrorFields::read(b"SERROR\0C42601\0Mno\0P1\0Wfunction f\0Rscanner_yyerror\0\0").unwrap();
        assert!(!within.is_refusal() && !within.is_of_grammar());
        assert_eq!(ErrorFields::read(b"\0").unwrap(), ErrorFields::default());
        assert!(ErrorFields::read(b"SFATAL\0\0").unwrap().is_fatal());
        assert!(ErrorFields::read(b"SFATAL").is_err());
        assert!(ErrorFields::read(b"").is_err());
        let cut = ErrorFields::read_prefix(b"SERROR\0C42P01\0Mno ta");
        assert_eq!(
            (cut.severity, cut.sqlstate, cut.message),
            (&b"ERROR"[..], &b"42P01"[..], &b""[..])
        );
    }
}
