//! ErrorResponse and NoticeResponse: fields by their letter.

use crate::read::{ReadError, Reader};

/// The fields of an ErrorResponse or NoticeResponse that a pooler reads; absent fields are empty.
///
/// A server may leave any of them out, SQLSTATE included (an old or hostile one does), so nothing here is required.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ErrorFields<'a> {
    /// `V`, or `S` where a server before 9.6 sent no `V`: ERROR, FATAL, PANIC, WARNING, NOTICE, ...
    pub severity: &'a [u8],
    /// `C`: SQLSTATE, five bytes.
    pub sqlstate: &'a [u8],
    /// `M`: the primary message.
    pub message: &'a [u8],
    /// `R`: the function of the server's source that reports it.
    pub routine: &'a [u8],
    /// Whether there is a `P`: it is about a place in the text that the client has sent.
    pub has_position: bool,
    /// Whether there is a `W` or a `q`: it comes from within a function, or from a text that one runs.
    pub has_context: bool,
}

impl<'a> ErrorFields<'a> {
    /// Reads a body as far as it goes: one that is cut off or malformed gives the fields in front of the fault.
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
                b'R' => self.routine = r.cstr()?,
                b'P' => {
                    self.has_position = true;
                    r.cstr()?;
                }
                b'W' | b'q' => {
                    self.has_context = true;
                    r.cstr()?;
                }
                _ => drop(r.cstr()?),
            }
        }
    }

    /// Whether it refuses a statement for what its text says: nothing of that statement has run.
    pub fn is_refusal(&self) -> bool {
        let of_text = self.has_position && self.sqlstate.starts_with(b"42");
        // EXECUTE of a name that nobody has given.
        !self.has_context && (of_text || self.sqlstate == b"26000")
    }

    /// Whether it refuses a whole text, as none the grammar knows: nothing of any of its statements has run.
    pub fn is_of_grammar(&self) -> bool {
        self.is_refusal() && self.has_position && self.routine == b"scanner_yyerror"
    }

    /// Whether the connection ends with this message.
    pub fn is_fatal(&self) -> bool {
        matches!(self.severity, b"FATAL" | b"PANIC")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_letter_in_any_order_and_may_be_missing() {
        let f = ErrorFields::read(b"SFEHLER\0VERROR\0C42P01\0Mno table\0Hhint\0\0").unwrap();
        assert_eq!(
            (f.severity, f.sqlstate, f.message),
            (&b"ERROR"[..], &b"42P01"[..], &b"no table"[..])
        );
        assert!(!f.is_fatal() && !f.is_refusal());
        let typo = ErrorFields::read(b"SERROR\0C42601\0Mno\0P1\0Fscan.l\0Rscanner_yyerror\0\0").unwrap();
        assert!(typo.is_refusal() && typo.is_of_grammar());
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
