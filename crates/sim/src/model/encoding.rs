//! The two encodings of clients that are modelled. The database has UTF8. LATIN1 has a character for each byte.

use super::error::ServerError;
use super::session::Session;
use super::value::{Type, Value};
use pgweir_wire::{HEADER_BYTES, Writer};
use std::borrow::Cow;

/// What a client with client_encoding = LATIN1 has sent, as the database has it.
fn from_latin1(bytes: &[u8]) -> Vec<u8> {
    let text: String = bytes.iter().map(|byte| char::from(*byte)).collect();
    text.into_bytes()
}

/// What the database has, as a client with client_encoding = LATIN1 gets it. No script uses other characters.
fn to_latin1(bytes: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(bytes);
    text.chars()
        .map(|c| u8::try_from(u32::from(c)).unwrap_or(b'?'))
        .collect()
}

impl Session {
    /// Text that the client has sent, as the database has it.
    pub(super) fn received<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        match bytes.is_ascii() || !self.settings.is_latin1() {
            true => bytes.into(),
            false => from_latin1(bytes).into(),
        }
    }

    /// Text for the client.
    pub(super) fn to_client<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        match bytes.is_ascii() || !self.settings.is_latin1() {
            true => bytes.into(),
            false => to_latin1(bytes).into(),
        }
    }

    /// A value as DataRow carries it; `None` is NULL.
    pub(super) fn written(&self, value: &Value, of: Type, binary: bool) -> Option<Vec<u8>> {
        let bytes = value.write(of, binary)?;
        match value {
            Value::Text(_) => Some(self.to_client(&bytes).into_owned()),
            _ => Some(bytes),
        }
    }

    /// A parameter as a client sent it.
    pub(super) fn read(&self, bytes: &[u8], of: Type, binary: bool) -> Result<Value, ServerError> {
        match binary && of != Type::Text {
            true => Value::read(bytes, of, binary),
            false => Value::read(&self.received(bytes), of, binary),
        }
    }

    /// Sends the settings that have changed.
    pub(super) fn tell_settings(&mut self) {
        for (name, value) in self.settings.changes_to_tell() {
            let value = self.to_client(value.as_bytes()).into_owned();
            self.out.write(|w| w.parameter_status(name.as_bytes(), &value));
        }
    }

    /// Writes an ErrorResponse or NoticeResponse, which are sent at once (`send_message_to_frontend`).
    pub(super) fn report(&mut self, e: &ServerError) {
        let text = e.text();
        let mut message = Vec::new();
        let mut writer = Writer::new(&mut message);
        match (e.severity, e.position) {
            (_, Some(position)) => {
                writer.error_with(&text, &[(b'P', &position.to_string()), (b'R', "scanner_yyerror")]);
            }
            ("ERROR" | "FATAL", None) => writer.error(&text),
            _ => writer.notice(&text),
        }
        let body = self.to_client(&message[HEADER_BYTES..]).into_owned();
        self.out.write(|w| w.message(message[0], |to| to.extend(body)));
        self.out.flush();
    }
}
