//! A client of the console: its state, and the messages that it sends.

use crate::base::access::Access;
use crate::base::message::bad_header;
use crate::console::portals::Portals;
use crate::console::refusal::Refusal;
use crate::console::waiting::Waits;
use pgweir_wire::{FrontendTag, HEADER_BYTES, Header, ReadError, Reader, TransactionStatus};

/// The longest message that the console reads, bytes.
const MESSAGE_BYTES_MAX: u32 = 64 * 1024;

/// The protocol of a client's latest command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, pgweir_freeze::Freeze)]
enum Protocol {
    /// By Query: ReadyForQuery follows each command.
    Simple,
    /// By Parse to Execute: ReadyForQuery comes with Sync.
    Extended,
    /// Extended, and after an error everything up to the next Sync is ignored.
    IgnoringToSync,
}

/// A client on the console.
#[derive(Debug, pgweir_freeze::Freeze)]
pub(crate) struct ConsoleState {
    user: String,
    access: Access,
    application_name: String,
    /// The status that ReadyForQuery reports. The console has no transactions.
    status: TransactionStatus,
    /// The command whose end the client waits for; nothing is read from the client meanwhile.
    waits: Option<Waits>,
    protocol: Protocol,
    portals: Portals,
}

impl ConsoleState {
    pub(crate) fn new(user: &str, access: Access, application_name: &str) -> Self {
        ConsoleState {
            user: user.into(),
            access,
            application_name: application_name.into(),
            status: TransactionStatus::Idle,
            waits: None,
            protocol: Protocol::Simple,
            portals: Portals::default(),
        }
    }

    pub(crate) fn user(&self) -> &str {
        &self.user
    }

    pub(crate) fn access(&self) -> Access {
        self.access
    }

    pub(crate) fn application_name(&self) -> &str {
        &self.application_name
    }

    /// SET application_name.
    pub(crate) fn set_application_name(&mut self, name: String) {
        self.application_name = name;
    }

    /// Its statements and portals.
    pub(crate) fn portals(&self) -> &Portals {
        &self.portals
    }

    pub(crate) fn portals_mut(&mut self) -> &mut Portals {
        &mut self.portals
    }

    /// Whether the client waits for the end of a command; nothing is read from it meanwhile.
    pub(crate) fn is_busy(&self) -> bool {
        self.waits.is_some()
    }

    pub(crate) fn waits(&self) -> Option<&Waits> {
        self.waits.as_ref()
    }

    pub(crate) fn begin_to_wait(&mut self, waits: Waits) {
        self.waits = Some(waits);
    }

    pub(crate) fn wait_no_more(&mut self) {
        self.waits = None;
    }

    pub(crate) fn status(&self) -> TransactionStatus {
        self.status
    }

    /// BEGIN, COMMIT or ROLLBACK.
    pub(crate) fn set_status(&mut self, status: TransactionStatus) {
        self.status = status;
    }

    /// Whether ReadyForQuery follows each command.
    pub(crate) fn is_simple(&self) -> bool {
        self.protocol == Protocol::Simple
    }

    /// Whether this message is ignored after an error.
    pub(crate) fn ignores(&self, tag: FrontendTag) -> bool {
        self.protocol == Protocol::IgnoringToSync && !matches!(tag, FrontendTag::Sync | FrontendTag::Terminate)
    }

    /// A Query has come.
    pub(crate) fn begin_query(&mut self) {
        self.protocol = Protocol::Simple;
        self.portals.end_unnamed();
    }

    /// A message of the extended protocol has come.
    pub(crate) fn begin_extended(&mut self) {
        self.protocol = Protocol::Extended;
    }

    /// After an error, everything up to the next Sync is ignored.
    pub(crate) fn ignore_to_sync(&mut self) {
        self.protocol = Protocol::IgnoringToSync;
    }

    /// Sync has come.
    pub(crate) fn sync(&mut self) {
        if self.protocol == Protocol::IgnoringToSync {
            self.protocol = Protocol::Extended;
        }
        if self.status == TransactionStatus::Idle {
            self.portals.end_portals();
        }
    }
}

/// Why bytes are no message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NoMessage {
    /// Its kind does not exist.
    Tag(u8),
    /// Its length cannot be, in words.
    Length(String),
}

/// The first message of the bytes that a console client has sent: its tag and its length, or the reason why it is no
/// message. `None` if it has not arrived completely.
pub(crate) fn message(input: &[u8]) -> Result<Option<(FrontendTag, usize)>, NoMessage> {
    let bad_length = |error| NoMessage::Length(format!("{}: {error}", bad_header(&input[..HEADER_BYTES])));
    let Some(header) = Header::read(input).map_err(bad_length)? else {
        return Ok(None);
    };
    let got = header.message_bytes;
    if got > MESSAGE_BYTES_MAX {
        return Err(NoMessage::Length(format!(
            "message is too long for the console: expected at most {MESSAGE_BYTES_MAX} bytes, got {got}"
        )));
    }
    let tag = FrontendTag::from_byte(header.tag);
    let tag = tag.ok_or(NoMessage::Tag(header.tag))?;
    Ok((got as usize <= input.len()).then_some((tag, got as usize)))
}

pub(crate) fn query_text(body: &[u8]) -> Result<String, Refusal> {
    let read = |mut reader: Reader<'_>| -> Result<Vec<u8>, ReadError> {
        let text = reader.cstr()?.to_vec();
        reader.end()?;
        Ok(text)
    };
    let text = read(Reader::new(body)).map_err(|error| Refusal::protocol(format!("incomplete query: {error}")))?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

pub(crate) fn body(message: &[u8]) -> &[u8] {
    &message[HEADER_BYTES..]
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgweir_wire::Writer;

    fn state() -> ConsoleState {
        ConsoleState::new("admin", Access::Admin, "psql")
    }

    #[test]
    fn behind_an_error_everything_up_to_sync_is_ignored() {
        let mut console = state();
        console.begin_extended();
        assert!(!console.ignores(FrontendTag::Query));
        console.ignore_to_sync();
        assert!(console.ignores(FrontendTag::Query) && console.ignores(FrontendTag::Execute));
        assert!(!console.ignores(FrontendTag::Sync) && !console.ignores(FrontendTag::Terminate));
        console.sync();
        assert!(!console.ignores(FrontendTag::Query));
        assert!(
            !console.is_simple(),
            "a command that waits is still answered without ReadyForQuery"
        );
        console.begin_query();
        assert!(console.is_simple());
    }

    #[test]
    fn portals_end_with_sync_outside_a_transaction() {
        let mut console = state();
        let parse = [b"s\0".as_slice(), b"show version\0", &[0, 0]].concat();
        let bind = [b"p\0".as_slice(), b"s\0", &[0, 0], &[0, 0], &[0, 0]].concat();
        console.portals.handle(FrontendTag::Parse, &parse).unwrap();
        console.portals.handle(FrontendTag::Bind, &bind).unwrap();
        console.set_status(TransactionStatus::InTransaction);
        console.sync();
        assert!(console.portals.execute(b"p").is_ok());
        console.set_status(TransactionStatus::Idle);
        console.sync();
        assert!(console.portals.execute(b"p").is_err());
        assert_eq!(console.portals.statements(), 1, "statements stay");
    }

    #[test]
    fn a_message_is_taken_when_it_is_whole_and_never_when_it_is_too_long() {
        let mut query = Vec::new();
        Writer::new(&mut query).query(b"show pools");
        for cut in 0..query.len() {
            assert_eq!(message(&query[..cut]), Ok(None), "{cut}");
        }
        assert_eq!(message(&query), Ok(Some((FrontendTag::Query, query.len()))));
        let long = [&b"Q"[..], &MESSAGE_BYTES_MAX.to_be_bytes()].concat();
        assert!(message(&long).is_err());
    }
}
