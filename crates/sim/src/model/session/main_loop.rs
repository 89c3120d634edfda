//! The main loop (`PostgresMain`): which message comes next, what it does, and what follows an error.

use super::{Caller, Phase, Session};
use crate::model::catalog_locks::Wait;
use crate::model::error::ServerError;
use crate::model::transaction::{Block, Shared};
use pgweir_wire::frontend::FrontendTag;
use pgweir_wire::{HEADER_BYTES, Header, TransactionStatus};

impl Session {
    pub(super) fn work(&mut self, shared: &mut Shared, now_us: u64) {
        let mut input = std::mem::take(&mut self.input);
        let mut at = 0;
        loop {
            let rest = &input[at..];
            match self.phase {
                Phase::Closed => {
                    at = input.len();
                    break;
                }
                Phase::Sleeping(..) => break,
                Phase::Ready if self.pausing.is_some() => break,
                Phase::Startup => match self.startup(rest) {
                    Some(consumed) => at += consumed,
                    None => break,
                },
                Phase::Ready | Phase::CopyIn(..) => match Header::read(rest) {
                    Ok(None) => {
                        if let Some(&tag) = rest.first() {
                            self.check_tag(tag);
                        }
                        if !self.is_closed() {
                            break;
                        }
                    }
                    // PostgreSQL logs "invalid message length" and closes without a word to the client, but an unknown
                    // tag is noticed first.
                    Err(e) => {
                        self.check_tag(e.tag);
                        self.client_closed();
                    }
                    Ok(Some(header)) => {
                        self.check_tag(header.tag);
                        let bytes = header.message_bytes as usize;
                        if self.is_closed() {
                            continue;
                        }
                        if rest.len() < bytes {
                            break;
                        }
                        self.idle_limit.ends();
                        if self.pauses(header.tag, &rest[..bytes], now_us) {
                            break;
                        }
                        at += bytes;
                        self.message(shared, now_us, header.tag, &rest[HEADER_BYTES..bytes]);
                    }
                },
            }
        }
        input.drain(..at);
        self.input = input;
        self.wait_for_command(now_us);
    }

    /// Whether it pauses now, before a message that has come completely.
    fn pauses(&mut self, tag: u8, message: &[u8], now_us: u64) -> bool {
        if std::mem::take(&mut self.has_paused) || self.skip_to_sync || !matches!(self.phase, Phase::Ready) {
            return false;
        }
        let Some(tag) = FrontendTag::from_byte(tag) else {
            return false;
        };
        let pause = match self.wait_for_lock(tag, message, now_us) {
            Some(wait) => Some(wait),
            None => self.pace.pause_us(tag).map(|us| Wait { us, ends_with: None }),
        };
        if let Some(Wait { us, ends_with }) = pause {
            (self.pausing, self.pause_ends_with) = (Some(now_us.saturating_add(us)), ends_with);
        }
        self.pausing.is_some()
    }

    /// Refuses tags that no client sends, before it reads the length.
    fn check_tag(&mut self, tag: u8) {
        if let Phase::CopyIn(..) = self.phase {
            self.check_copy_tag(tag);
        } else if FrontendTag::from_byte(tag).is_none() || tag == FrontendTag::Password as u8 {
            self.fatal(&ServerError::fatal(
                "08P01",
                format!("invalid frontend message type {tag}"),
            ));
        }
    }

    fn message(&mut self, shared: &mut Shared, now_us: u64, tag: u8, body: &[u8]) {
        let Some(tag) = FrontendTag::from_byte(tag) else {
            return;
        };
        if let Phase::CopyIn(..) = self.phase {
            self.copy_in_message(shared, now_us, tag, body);
            return;
        }
        if self.skip_to_sync && tag != FrontendTag::Sync && tag != FrontendTag::Terminate {
            return;
        }
        let (result, extended) = match tag {
            FrontendTag::Query => (self.query(shared, now_us, body), false),
            FrontendTag::FunctionCall => (self.function_call(shared, body), false),
            FrontendTag::Parse => (self.parse(shared, body), true),
            FrontendTag::Bind => (self.bind(shared, body), true),
            FrontendTag::Describe => (self.describe(body), true),
            FrontendTag::Execute => (self.execute(shared, now_us, body), true),
            FrontendTag::Close => (self.close(body), true),
            FrontendTag::Flush if !body.is_empty() => (Err(ServerError::protocol("invalid message format")), true),
            FrontendTag::Flush => {
                self.out.flush();
                (Ok(()), true)
            }
            FrontendTag::Sync if !body.is_empty() => {
                self.skip_to_sync = false;
                (Err(ServerError::protocol("invalid message format")), false)
            }
            FrontendTag::Sync => (self.sync(shared), false),
            FrontendTag::Terminate => {
                self.client_closed();
                (Ok(()), false)
            }
            // They are left over from a COPY that has failed, and are ignored.
            FrontendTag::CopyData | FrontendTag::CopyDone | FrontendTag::CopyFail => (Ok(()), false),
            FrontendTag::Password => (Ok(()), false),
        };
        if let Err(e) = result {
            self.fail(shared, &e, extended);
        }
    }

    fn sync(&mut self, shared: &mut Shared) -> Result<(), ServerError> {
        self.skip_to_sync = false;
        if self.transaction.block == Block::Implicit {
            self.transaction.block = Block::Started;
        }
        let mut committed = match self.transaction.block {
            Block::Started => std::mem::take(&mut self.unsynced),
            _ => Vec::new(),
        };
        self.finish_command(shared)?;
        self.synced.append(&mut committed);
        self.ready(shared);
        Ok(())
    }

    /// Goes on after a sleep or a copy-in. `tag` is the tag of the statement that has ended; none if rows follow.
    pub(in crate::model) fn resume(&mut self, shared: &mut Shared, now_us: u64, caller: Caller, tag: Option<String>) {
        let (result, extended) = match caller {
            Caller::Simple(run) => (self.simple_resume(shared, now_us, run, tag), false),
            Caller::Execute { portal, rows_max } => (self.execute_resume(shared, now_us, &portal, rows_max, tag), true),
        };
        if let Err(e) = result {
            self.fail(shared, &e, extended);
        }
    }

    /// A cancel ends the message before which it pauses, without any effect of the message.
    pub(super) fn fail_first_message(&mut self, shared: &mut Shared, ended: ServerError) {
        let Ok(Some(header)) = Header::read(&self.input) else {
            return;
        };
        if drops_unnamed(&self.input) {
            self.unnamed = None;
        }
        self.input.drain(..header.message_bytes as usize);
        let extended = !matches!(header.tag, b'Q' | b'F');
        let e = self.start_command().err().unwrap_or(ended);
        self.fail(shared, &e, extended);
    }

    /// The main loop's reaction to an error.
    pub(in crate::model) fn fail(&mut self, shared: &Shared, e: &ServerError, extended: bool) {
        if e.severity == "FATAL" {
            self.fatal(e);
            return;
        }
        self.report(e);
        self.abort_current();
        if extended {
            self.skip_to_sync = true;
        } else {
            self.ready(shared);
        }
    }

    pub(in crate::model) fn fatal(&mut self, e: &ServerError) {
        self.report(e);
        self.client_closed();
    }

    /// Sends notifications, changed settings, and then ReadyForQuery.
    pub(in crate::model) fn ready(&mut self, shared: &Shared) {
        if self.status() == TransactionStatus::Idle {
            self.tell_notifications(shared);
        }
        self.tell_ready();
    }

    /// Sends changed settings, and then ReadyForQuery.
    pub(in crate::model) fn tell_ready(&mut self) {
        self.tell_settings();
        let status = self.status();
        self.idle_limit.begins();
        self.out.write(|w| w.ready_for_query(status));
        self.out.flush();
    }
}

/// Whether PostgreSQL drops the unnamed statement because of this message, before the first point at which a cancel can
/// interrupt.
pub fn drops_unnamed(message: &[u8]) -> bool {
    let Ok(Some(header)) = Header::read(message) else {
        return false;
    };
    header.tag == b'Q' || header.tag == b'P' && message.get(HEADER_BYTES) == Some(&0)
}
