//! The text of a server's error, and that text as a client gets it.

use crate::base::secret_names::PREFIX;
use pgweir_wire::write::ErrorText;
use pgweir_wire::{ErrorFields, HEADER_BYTES, Writer};

/// An error as it came.
pub(super) struct Refusal<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) whole: bool,
    pub(super) fields: ErrorFields<'a>,
}

impl Refusal<'_> {
    /// A copy of the message.
    pub(super) fn kept(&self) -> Vec<u8> {
        if self.whole {
            self.bytes.to_vec()
        } else {
            in_short(&self.fields)
        }
    }

    /// A copy for a client whose statement was being prepared again.
    pub(super) fn kept_for_use(&self) -> Vec<u8> {
        self.without_place().unwrap_or_else(|| self.kept())
    }

    /// The error of a wait for a lock, without the place of the table in the text: PostgreSQL tells it only to a client
    /// that has sent this text just now.
    pub(super) fn without_place(&self) -> Option<Vec<u8>> {
        let is_of_wait = matches!(self.fields.sqlstate, b"55P03" | b"40P01");
        (is_of_wait && self.whole).then(|| without_position(self.bytes))
    }

    pub(super) fn severity(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(self.fields.severity)
    }

    pub(super) fn text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(self.fields.message)
    }
}

/// Whether an error may contain the server's name of a statement.
pub(super) fn mentions_ours(message: &[u8]) -> bool {
    message.windows(PREFIX.len()).any(|w| w == PREFIX.as_bytes())
}

/// Replaces the server's name of a statement in an error, with any quotes, by the client's name.
pub(super) fn renamed(message: &[u8], ours: &[u8], theirs: &[u8]) -> Option<Vec<u8>> {
    let body = &message[HEADER_BYTES..];
    let is_ours = |at: &usize| {
        let rest = body[*at..].strip_prefix(ours);
        rest.is_some_and(|r| r.first().is_some_and(|b| !b.is_ascii_alphanumeric()))
    };
    let at = (0..body.len()).find(is_ours)?;
    let mut reply = Vec::new();
    Writer::new(&mut reply).message(message[0], |to| {
        to.extend_from_slice(&body[..at]);
        to.extend_from_slice(theirs);
        to.extend_from_slice(&body[at + ours.len()..]);
    });
    Some(reply)
}

/// An error without the field that says where in the text it is.
fn without_position(message: &[u8]) -> Vec<u8> {
    let mut reply = Vec::new();
    Writer::new(&mut reply).message(message[0], |to| {
        let fields = message[HEADER_BYTES..].split_inclusive(|&b| b == 0);
        fields
            .filter(|field| !field.starts_with(b"P"))
            .for_each(|field| to.extend_from_slice(field));
    });
    reply
}

/// A short form of an error that is too long to keep.
fn in_short(fields: &ErrorFields<'_>) -> Vec<u8> {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    let mut reply = Vec::new();
    Writer::new(&mut reply).error(&ErrorText {
        severity: "ERROR",
        sqlstate: &text(fields.sqlstate),
        message: &text(fields.message),
        detail: "",
        hint: "",
    });
    reply
}
