//! Copy-in: CopyData until CopyDone or CopyFail.

use super::error::ServerError;
use super::execute::copy_response;
use super::session::{Caller, Phase, Session};
use super::transaction::Shared;
use super::value::{Type, Value};
use pgweir_wire::frontend::FrontendTag;

/// Rows on their way in.
#[derive(Debug, Default)]
pub(super) struct CopyIn {
    /// The beginning of a line whose end has not come.
    line: Vec<u8>,
    /// Checked rows; they reach the table in a batch at the end, so a duplicate key is found only then.
    rows: Vec<(i32, Value)>,
}

impl CopyIn {
    fn take(&mut self, mut data: &[u8]) -> Result<(), ServerError> {
        while let Some(end) = data.iter().position(|&b| b == b'\n') {
            self.line.extend_from_slice(&data[..end]);
            let line = std::mem::take(&mut self.line);
            self.row(&line)?;
            data = &data[end + 1..];
        }
        self.line.extend_from_slice(data);
        Ok(())
    }

    fn row(&mut self, line: &[u8]) -> Result<(), ServerError> {
        let mut fields = line.split(|&b| b == b'\t').map(unescape);
        let key = fields.next().unwrap_or_default();
        let value = fields.next();
        if fields.next().is_some() {
            return Err(ServerError::error("22P04", "extra data after last expected column"));
        }
        let Some(key) = key else {
            return Err(ServerError::error(
                "23502",
                "null value in column \"k\" of relation \"kv\" violates not-null constraint",
            ));
        };
        let Value::Int(key) = Value::read(&key, Type::Int4, false)? else {
            return Err(ServerError::unmodelled("such keys"));
        };
        let Some(value) = value else {
            return Err(ServerError::error("22P04", "missing data for column \"v\""));
        };
        let value = match value {
            Some(value) => Value::read(&value, Type::Text, false)?,
            None => Value::Null,
        };
        self.rows.push((key as i32, value));
        Ok(())
    }
}

/// One field of COPY's text format; `\N` is NULL.
fn unescape(field: &[u8]) -> Option<Vec<u8>> {
    if field == b"\\N" {
        return None;
    }
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field.iter();
    while let Some(&b) = rest.next() {
        bytes.push(match b {
            b'\\' => match rest.next() {
                Some(b't') => b'\t',
                Some(b'n') => b'\n',
                Some(b'r') => b'\r',
                Some(&other) => other,
                None => b'\\',
            },
            b => b,
        });
    }
    Some(bytes)
}

/// Appends a field as COPY's text format writes it.
pub(super) fn escape(to: &mut Vec<u8>, text: &[u8]) {
    for &b in text {
        match b {
            b'\\' => to.extend(b"\\\\"),
            b'\t' => to.extend(b"\\t"),
            b'\n' => to.extend(b"\\n"),
            b'\r' => to.extend(b"\\r"),
            b => to.push(b),
        }
    }
}

impl Session {
    pub(super) fn begin_copy_in(&mut self, caller: Caller) {
        self.out.write(|w| copy_response(w, b'G', 2));
        self.out.flush();
        self.phase = Phase::CopyIn(CopyIn::default(), caller);
    }

    /// Closes the connection if the tag is not one that a copy-in accepts, before the length is read (`CopyGetData`).
    pub(super) fn check_copy_tag(&mut self, tag: u8) {
        let known = matches!(
            FrontendTag::from_byte(tag),
            Some(
                FrontendTag::CopyData
                    | FrontendTag::CopyDone
                    | FrontendTag::CopyFail
                    | FrontendTag::Flush
                    | FrontendTag::Sync
            )
        );
        if !known {
            self.report(&ServerError::protocol(format!(
                "unexpected message type 0x{tag:02X} during COPY from stdin"
            )));
            self.fatal(&ServerError::fatal(
                "08P01",
                "terminating connection because protocol synchronization was lost",
            ));
        }
    }

    pub(super) fn copy_in_message(&mut self, shared: &mut Shared, now_us: u64, tag: FrontendTag, body: &[u8]) {
        let data = self.received(body).into_owned();
        let Phase::CopyIn(copy, _) = &mut self.phase else {
            return;
        };
        let result = match tag {
            FrontendTag::CopyData => copy.take(&data),
            FrontendTag::CopyFail => {
                let reason = body.strip_suffix(&[0]).unwrap_or(body);
                Err(ServerError::error(
                    "57014",
                    format!("COPY from stdin failed: {}", String::from_utf8_lossy(reason)),
                ))
            }
            FrontendTag::CopyDone => {
                if copy.line.is_empty() {
                    Ok(())
                } else {
                    let line = std::mem::take(&mut copy.line);
                    copy.row(&line)
                }
            }
            // Sync and Flush are ignored here (E7).
            _ => return,
        };
        let ended = result.is_err() || tag == FrontendTag::CopyDone;
        if !ended {
            return;
        }
        let Phase::CopyIn(copy, caller) = std::mem::replace(&mut self.phase, Phase::Ready) else {
            return;
        };
        let extended = matches!(caller, Caller::Execute { .. });
        let result = result.and_then(|()| {
            let count = copy.rows.len();
            for (key, value) in copy.rows {
                self.insert(shared, key, value)?;
            }
            Ok(count)
        });
        match result {
            Ok(count) => self.resume(shared, now_us, caller, Some(format!("COPY {count}"))),
            Err(e) => self.fail(shared, &e, extended),
        }
    }
}
