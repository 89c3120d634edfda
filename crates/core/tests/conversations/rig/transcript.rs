//! What was written to a connection: as bytes, as messages, and as one line of text for each message.

use super::Rig;
use super::secrets::without_secrets;
use super::servers::error;
use pgweir_core::ConnectionId;
use pgweir_wire::write::ErrorText;
use pgweir_wire::{HEADER_BYTES, Header};

impl Rig {
    /// The bytes written to a connection since the last look.
    pub fn raw(&mut self, id: impl Into<ConnectionId>) -> Vec<u8> {
        self.written.remove(&id.into()).unwrap_or_default()
    }

    /// The messages written to a connection since the last look, one line each.
    pub fn told(&mut self, id: impl Into<ConnectionId>) -> Vec<String> {
        let id = id.into();
        let bytes = self.written.remove(&id).unwrap_or_default();
        let to_server = matches!(id, ConnectionId::Server(_));
        self.note_names(&String::from_utf8_lossy(&bytes));
        messages(&bytes)
            .into_iter()
            .map(|(tag, body)| line(to_server, tag, body))
            .collect()
    }

    fn note_names(&mut self, text: &str) {
        for (at, _) in text.match_indices("pgweir_") {
            let is_end = |c: char| !c.is_ascii_alphanumeric() && c != '_';
            let name = text[at..].split(is_end).next().unwrap_or_default();
            self.names.insert(without_secrets(name), name.to_string());
        }
    }

    /// An ERROR about an internal object `pgweir_10`, with the full name that was sent to a server.
    pub fn error_about(&self, sqlstate: &'static str, message: &str) -> ErrorText<'static> {
        let word = message.split('"').nth(1).expect("a name in quotes");
        error(sqlstate, message.replace(word, self.full_name(word)).leak())
    }

    /// The full name of an internal object `pgweir_10` that was sent to a server, as a client may read it.
    pub fn full_name(&self, name: &str) -> &str {
        &self.names[name]
    }

    /// The messages written to a connection since the last look, as tags and bodies.
    pub fn hears(&mut self, id: impl Into<ConnectionId>) -> Vec<(u8, Vec<u8>)> {
        let bytes = self.written.remove(&id.into()).unwrap_or_default();
        let owned = |(tag, body): (u8, &[u8])| (tag, body.to_vec());
        messages(&bytes).into_iter().map(owned).collect()
    }

    /// The parameters of each Bind among the messages that the test has not looked at, as text.
    pub fn values_bound(&self, id: impl Into<ConnectionId>) -> Vec<Vec<String>> {
        let written = self.written.get(&id.into()).map_or(&[][..], Vec::as_slice);
        let binds = messages(written).into_iter().filter(|(tag, _)| *tag == b'B');
        binds.map(|(_, body)| parameters(body)).collect()
    }

    /// The number of bytes that the test has not looked at.
    pub fn bytes_written(&self, id: impl Into<ConnectionId>) -> usize {
        self.written.get(&id.into()).map_or(0, Vec::len)
    }
}

/// The parameters of a Bind without format codes. NULL is `NULL`.
fn parameters(bind: &[u8]) -> Vec<String> {
    let names: usize = bind.split(|&b| b == 0).take(2).map(|name| name.len() + 1).sum();
    let (count, mut rest) = bind[names + 2..].split_first_chunk().expect("the number of parameters");
    let mut values = Vec::new();
    for _ in 0..u16::from_be_bytes(*count) {
        let (bytes, behind) = rest.split_first_chunk().expect("a length");
        let bytes = usize::try_from(i32::from_be_bytes(*bytes)).ok();
        let (value, behind) = behind.split_at(bytes.unwrap_or(0));
        values.push(bytes.map_or("NULL".into(), |_| String::from_utf8_lossy(value).into_owned()));
        rest = behind;
    }
    values
}

pub(super) fn messages(mut rest: &[u8]) -> Vec<(u8, &[u8])> {
    let mut messages = Vec::new();
    while let Some(header) = Header::read(rest).expect("a valid message") {
        let (message, more) = rest.split_at(header.message_bytes as usize);
        messages.push((header.tag, &message[HEADER_BYTES..]));
        rest = more;
    }
    assert!(rest.is_empty(), "half a message");
    messages
}

fn text(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes).replace('\0', " ").trim_end().to_string();
    without_secrets(&text)
}

pub(super) fn line(to_server: bool, tag: u8, body: &[u8]) -> String {
    let name = match (to_server, tag) {
        (true, b'Q') => "Query",
        (true, b'P') => "Parse",
        (true, b'B') => "Bind",
        (true, b'D') => "Describe",
        (true, b'E') => return "Execute".into(),
        (true, b'C') => "Close",
        (true, b'S') => return "Sync".into(),
        (true, b'H') => return "Flush".into(),
        (true, b'X') => return "Terminate".into(),
        (true, b'f') => return "CopyFail".into(),
        (true, b'd') => return "CopyData".into(),
        (false, b'Z') => "ReadyForQuery",
        (false, b'C') => "CommandComplete",
        (false, b'1') => return "ParseComplete".into(),
        (false, b'2') => return "BindComplete".into(),
        (false, b'3') => return "CloseComplete".into(),
        (false, b'n') => return "NoData".into(),
        (false, b'D') => return "DataRow".into(),
        (false, b'S') => "ParameterStatus",
        (false, b'R') => return "Authentication".into(),
        (false, b'K') => return "BackendKeyData".into(),
        (false, b'E' | b'N') => {
            let fields = pgweir_wire::ErrorFields::read(body).expect("an error's fields");
            let kind = if tag == b'E' { "Error" } else { "Notice" };
            return format!("{kind} {} {}", text(fields.sqlstate), text(fields.message));
        }
        _ => return format!("{}?", char::from(tag)),
    };
    if name == "Bind" || name == "Parse" {
        // Two names, or the name and the text.
        let fields: Vec<_> = body.split(|&b| b == 0).take(2).map(text).collect();
        return format!("{name} {}", fields.join(" "));
    }
    format!("{name} {}", text(body))
}
