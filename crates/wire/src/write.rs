//! Appends messages to a buffer.

use crate::backend::TransactionStatus;

/// Appends messages, both directions, to a caller's buffer.
///
/// Every message goes through [`Writer::message`], which fills in the length when the body is complete, so the length
/// is always that of the body.
#[derive(Debug)]
pub struct Writer<'a> {
    to: &'a mut Vec<u8>,
}

/// Appends `text` up to its first zero byte, and a zero byte.
pub(crate) fn put_cstr(to: &mut Vec<u8>, text: &[u8]) {
    let end = text.iter().position(|&b| b == 0).unwrap_or(text.len());
    to.extend_from_slice(&text[..end]);
    to.push(0);
}

/// One column of a RowDescription.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column<'a> {
    /// Column name.
    pub name: &'a str,
    /// OID of its type.
    pub type_oid: u32,
    /// `pg_type.typlen` of the type; negative is variable.
    pub type_bytes: i16,
}

/// Severity, SQLSTATE, message and other fields of an error or notice that the pooler sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorText<'a> {
    /// ERROR, FATAL, WARNING, NOTICE.
    pub severity: &'a str,
    /// SQLSTATE.
    pub sqlstate: &'a str,
    /// Primary message: lower case, no full stop.
    pub message: &'a str,
    /// What was expected and what was received; empty for none.
    pub detail: &'a str,
    /// What to do; empty for none.
    pub hint: &'a str,
}

impl<'a> Writer<'a> {
    /// A writer at the end of `to`.
    pub fn new(to: &'a mut Vec<u8>) -> Self {
        Writer { to }
    }

    /// One message: `tag`, length, and what `body` appends.
    #[inline]
    pub fn message(&mut self, tag: u8, body: impl FnOnce(&mut Vec<u8>)) {
        self.to.push(tag);
        let start = self.to.len();
        self.to.extend([0; 4]);
        body(self.to);
        let length = (self.to.len() - start) as u32;
        self.to[start..start + 4].copy_from_slice(&length.to_be_bytes());
    }

    /// Parse; `types` is the count and the OIDs as in the message.
    pub fn parse(&mut self, name: &[u8], query: &[u8], types: &[u8]) {
        self.message(b'P', |b| {
            put_cstr(b, name);
            put_cstr(b, query);
            b.extend_from_slice(types);
        });
    }

    /// Bind to the unnamed portal with text parameters and text results; `None` is NULL.
    pub fn bind_text(&mut self, statement: &[u8], values: &[Option<&[u8]>]) {
        self.bind_portal(b"", statement, values);
    }

    /// Bind to a portal with text parameters and text results; `None` is NULL.
    pub fn bind_portal(&mut self, portal: &[u8], statement: &[u8], values: &[Option<&[u8]>]) {
        self.message(b'B', |b| {
            put_cstr(b, portal);
            put_cstr(b, statement);
            b.extend([0, 0]);
            b.extend((values.len() as u16).to_be_bytes());
            for value in values {
                match value {
                    None => b.extend((-1i32).to_be_bytes()),
                    Some(v) => {
                        b.extend((v.len() as u32).to_be_bytes());
                        b.extend_from_slice(v);
                    }
                }
            }
            b.extend([0, 0]);
        });
    }

    /// Execute the unnamed portal to its end.
    pub fn execute(&mut self) {
        self.execute_portal(b"");
    }

    /// Execute a portal to its end.
    pub fn execute_portal(&mut self, portal: &[u8]) {
        self.message(b'E', |b| {
            put_cstr(b, portal);
            b.extend([0; 4]);
        });
    }

    /// Describe a statement (`b'S'`) or portal (`b'P'`).
    pub fn describe(&mut self, what: u8, name: &[u8]) {
        self.message(b'D', |b| {
            b.push(what);
            put_cstr(b, name);
        });
    }

    /// Close a statement (`b'S'`) or portal (`b'P'`).
    pub fn close(&mut self, what: u8, name: &[u8]) {
        self.message(b'C', |b| {
            b.push(what);
            put_cstr(b, name);
        });
    }

    /// Sync.
    pub fn sync(&mut self) {
        self.message(b'S', |_| {});
    }

    /// Flush.
    pub fn flush(&mut self) {
        self.message(b'H', |_| {});
    }

    /// Terminate.
    pub fn terminate(&mut self) {
        self.message(b'X', |_| {});
    }

    /// CopyFail.
    pub fn copy_fail(&mut self, reason: &str) {
        self.message(b'f', |b| put_cstr(b, reason.as_bytes()));
    }

    /// Query.
    pub fn query(&mut self, text: &[u8]) {
        self.message(b'Q', |b| put_cstr(b, text));
    }

    /// PasswordMessage, SASLInitialResponse or SASLResponse, with the payload unchanged.
    pub fn password(&mut self, payload: &[u8]) {
        self.message(b'p', |b| b.extend_from_slice(payload));
    }

    /// AuthenticationXXX; the payload begins with its four-byte code.
    pub fn authentication(&mut self, payload: &[u8]) {
        self.message(b'R', |b| b.extend_from_slice(payload));
    }

    /// ParameterStatus.
    pub fn parameter_status(&mut self, name: &[u8], value: &[u8]) {
        self.message(b'S', |b| {
            put_cstr(b, name);
            put_cstr(b, value);
        });
    }

    /// BackendKeyData.
    pub fn backend_key_data(&mut self, process_id: u32, secret: &[u8]) {
        self.message(b'K', |b| {
            b.extend(process_id.to_be_bytes());
            b.extend_from_slice(secret);
        });
    }

    /// NegotiateProtocolVersion: the newest minor version that the pooler supports, and the options that it does not
    /// know.
    pub fn negotiate_protocol_version(&mut self, newest: u32, unknown: &[&[u8]]) {
        self.message(b'v', |b| {
            b.extend(newest.to_be_bytes());
            b.extend((unknown.len() as u32).to_be_bytes());
            for name in unknown {
                put_cstr(b, name);
            }
        });
    }

    /// ReadyForQuery.
    pub fn ready_for_query(&mut self, status: TransactionStatus) {
        self.message(b'Z', |b| b.push(status as u8));
    }

    /// CommandComplete.
    pub fn command_complete(&mut self, tag: &str) {
        self.message(b'C', |b| put_cstr(b, tag.as_bytes()));
    }

    /// A message without a body: ParseComplete, BindComplete, CloseComplete, NoData, EmptyQueryResponse, ...
    pub fn empty(&mut self, tag: u8) {
        self.message(tag, |_| {});
    }

    /// ErrorResponse.
    pub fn error(&mut self, error: &ErrorText<'_>) {
        self.error_or_notice(b'E', error, &[]);
    }

    /// ErrorResponse as a certain function of the server's source would send it: clients tell errors of one SQLSTATE
    /// apart by the routine (`R`). `more` are further fields, with their letters.
    pub fn error_with(&mut self, error: &ErrorText<'_>, more: &[(u8, &str)]) {
        self.error_or_notice(b'E', error, more);
    }

    /// NoticeResponse.
    pub fn notice(&mut self, notice: &ErrorText<'_>) {
        self.error_or_notice(b'N', notice, &[]);
    }

    fn error_or_notice(&mut self, tag: u8, e: &ErrorText<'_>, more: &[(u8, &str)]) {
        self.message(tag, |b| {
            let fields = [
                (b'S', e.severity),
                (b'V', e.severity),
                (b'C', e.sqlstate),
                (b'M', e.message),
                (b'D', e.detail),
                (b'H', e.hint),
            ];
            for &(letter, text) in fields.iter().chain(more) {
                if !text.is_empty() {
                    b.push(letter);
                    put_cstr(b, text.as_bytes());
                }
            }
            b.push(0);
        });
    }

    /// RowDescription with text-format columns.
    pub fn row_description(&mut self, columns: &[Column<'_>]) {
        self.message(b'T', |b| {
            b.extend((columns.len() as u16).to_be_bytes());
            for c in columns {
                put_cstr(b, c.name.as_bytes());
                b.extend([0; 6]);
                b.extend(c.type_oid.to_be_bytes());
                b.extend(c.type_bytes.to_be_bytes());
                b.extend((-1i32).to_be_bytes());
                b.extend([0; 2]);
            }
        });
    }

    /// DataRow; `None` is NULL.
    pub fn data_row<'v>(&mut self, count: usize, values: impl IntoIterator<Item = Option<&'v [u8]>>) {
        self.message(b'D', |b| {
            b.extend((count as u16).to_be_bytes());
            let mut written = 0;
            for value in values {
                written += 1;
                match value {
                    None => b.extend((-1i32).to_be_bytes()),
                    Some(v) => {
                        b.extend((v.len() as u32).to_be_bytes());
                        b.extend_from_slice(v);
                    }
                }
            }
            assert_eq!(written, count, "a DataRow holds as many values as it says");
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ErrorFields, Header, backend, frontend};

    fn one(write: impl FnOnce(&mut Writer<'_>)) -> (u8, Vec<u8>) {
        let mut bytes = Vec::new();
        write(&mut Writer::new(&mut bytes));
        let header = Header::read(&bytes).unwrap().unwrap();
        assert_eq!(header.message_bytes as usize, bytes.len());
        (header.tag, bytes.split_off(5))
    }

    #[test]
    fn what_is_written_reads_back() {
        let (tag, body) = one(|w| w.parse(b"s", b"select 1", &[0, 0]));
        assert_eq!(tag, b'P');
        assert_eq!(frontend::Parse::read(&body).unwrap().query, b"select 1");
        let (_, body) = one(|w| w.bind_text(b"s", &[Some(b"x"), None]));
        assert_eq!(frontend::BindNames::read(&body).unwrap().statement, b"s");
        let (_, body) = one(|w| w.data_row(2, [Some(&b"x"[..]), None]));
        assert_eq!(backend::data_row(&body), Ok(vec![Some(&b"x"[..]), None]));
        let text = ErrorText {
            severity: "FATAL",
            sqlstate: "53300",
            message: "no",
            detail: "",
            hint: "wait",
        };
        let (tag, body) = one(|w| w.error(&text));
        let fields = ErrorFields::read(&body).unwrap();
        assert_eq!((tag, fields.sqlstate, fields.is_fatal()), (b'E', &b"53300"[..], true));
    }

    #[test]
    fn a_zero_byte_inside_a_string_ends_it_and_cannot_smuggle_a_field() {
        let (_, body) = one(|w| w.query(b"select 1\0; drop table t"));
        assert_eq!(body, b"select 1\0");
    }
}
