//! The answers of a directory (LDAP), before anything else reads them.
//!
//! A directory may mean harm, and without TLS anybody in between may speak for it. The library that reads its answers
//! recurses into elements within elements, gathers whatever length a message announces, and panics where a part of an
//! answer is missing. So it only gets whole messages that [`DirectoryAnswers`] has let pass.
//!
//! LDAP uses a part of BER (RFC 4511, section 5.1): lengths are definite. It has no tag number above 30, either.

use crate::directory_shapes::is_answer;
use std::fmt;

/// The longest answer, with its tag and length. An answer about a user is much shorter: a search asks for names alone.
pub const MESSAGE_BYTES_MAX: usize = 64 * 1024;

/// The deepest nesting of elements in an answer. A value of an attribute is at level 6.
pub const DEPTH_MAX: usize = 16;

/// The most messages that one login may get from a directory. It needs three answers, and reads up to 17 entries.
pub const MESSAGES_MAX: usize = 32;

/// The most elements in all of them: an element of two bytes takes a hundred when it has been read.
pub const ELEMENTS_MAX: usize = 16 * 1024;

/// The octets of a length, after the one that tells their number, as in OpenLDAP.
const LENGTH_OCTETS_MAX: usize = 8;

const CONSTRUCTED: u8 = 0x20;
const TAG_NUMBER: u8 = 0x1f;
const INTEGER: u8 = 0x02;
const SEQUENCE: u8 = 0x30;
const CLASS: u8 = 0xc0;
const APPLICATION: u8 = 0x40;

/// Why the answers of a directory are not read any further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerFault {
    /// A message is longer than [`MESSAGE_BYTES_MAX`].
    TooLong,
    /// Its elements are nested deeper than [`DEPTH_MAX`].
    TooDeep,
    /// There are more than [`MESSAGES_MAX`].
    TooMany,
    /// They have more than [`ELEMENTS_MAX`] elements.
    TooFine,
    /// This is no LDAPMessage, or no answer.
    Malformed,
}

impl fmt::Display for AnswerFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AnswerFault::TooLong => write!(f, "an answer of the directory is longer than {MESSAGE_BYTES_MAX} bytes"),
            AnswerFault::TooDeep => write!(f, "an answer of the directory is nested deeper than {DEPTH_MAX} levels"),
            AnswerFault::TooMany => write!(
                f,
                "the directory has sent more than {MESSAGES_MAX} messages for one login"
            ),
            AnswerFault::TooFine => write!(
                f,
                "the answers of the directory for one login have more than {ELEMENTS_MAX} elements"
            ),
            AnswerFault::Malformed => f.write_str("an answer of the directory is not a valid message of LDAP"),
        }
    }
}

/// The answers of a directory during one login.
#[derive(Debug, Default)]
pub struct DirectoryAnswers {
    /// The beginning of a message. At most [`MESSAGE_BYTES_MAX`] bytes.
    held: Vec<u8>,
    messages: usize,
    elements: usize,
    fault: Option<AnswerFault>,
}

impl DirectoryAnswers {
    /// Takes bytes of the directory, and appends to `passed` the messages that are whole. After an error, which may
    /// follow sound messages, nothing more passes.
    pub fn take(&mut self, bytes: &[u8], passed: &mut Vec<u8>) -> Result<(), AnswerFault> {
        if self.fault.is_none() {
            self.fault = self.pass(bytes, passed).err();
        }
        self.fault.map_or(Ok(()), Err)
    }

    /// Whether no message has begun that is not whole yet.
    pub fn is_between_messages(&self) -> bool {
        self.held.is_empty()
    }

    fn pass(&mut self, mut bytes: &[u8], passed: &mut Vec<u8>) -> Result<(), AnswerFault> {
        while !bytes.is_empty() {
            let missing = message_bytes(&self.held)?.map_or(1, |total| total - self.held.len());
            let (taken, rest) = bytes.split_at(missing.min(bytes.len()));
            self.held.extend_from_slice(taken);
            bytes = rest;
            if message_bytes(&self.held)? == Some(self.held.len()) {
                self.note(elements(&self.held)?)?;
                if !is_answer(&self.held) {
                    return Err(AnswerFault::Malformed);
                }
                passed.append(&mut self.held);
            }
        }
        Ok(())
    }

    fn note(&mut self, elements: usize) -> Result<(), AnswerFault> {
        self.messages += 1;
        self.elements += elements;
        match () {
            () if self.messages > MESSAGES_MAX => Err(AnswerFault::TooMany),
            () if self.elements > ELEMENTS_MAX => Err(AnswerFault::TooFine),
            () => Ok(()),
        }
    }
}

/// What an element is, and its length.
pub(crate) struct Head {
    pub(crate) tag: u8,
    /// The bytes of tag and length.
    pub(crate) bytes: usize,
    /// The bytes of the content.
    pub(crate) content: usize,
}

impl Head {
    /// The head of the element with which these bytes begin; `None` if they end before it does.
    pub(crate) fn read(bytes: &[u8]) -> Result<Option<Head>, AnswerFault> {
        let Some((&tag, bytes)) = bytes.split_first() else {
            return Ok(None);
        };
        if tag & TAG_NUMBER == TAG_NUMBER {
            return Err(AnswerFault::Malformed);
        }
        let Some((&first, bytes)) = bytes.split_first() else {
            return Ok(None);
        };
        if first < 0x80 {
            let content = usize::from(first);
            return Ok(Some(Head { tag, bytes: 2, content }));
        }
        let count = usize::from(first & 0x7f);
        if count == 0 || count > LENGTH_OCTETS_MAX {
            return Err(AnswerFault::Malformed);
        }
        let Some(octets) = bytes.get(..count) else {
            return Ok(None);
        };
        let length = octets
            .iter()
            .fold(0u64, |length, octet| length << 8 | u64::from(*octet));
        Ok(Some(Head {
            tag,
            bytes: 2 + count,
            content: usize::try_from(length).map_err(|_| AnswerFault::TooLong)?,
        }))
    }
}

/// The length of the message that begins like this, with its head, as soon as it is known.
fn message_bytes(held: &[u8]) -> Result<Option<usize>, AnswerFault> {
    if held.first().is_some_and(|tag| *tag != SEQUENCE) {
        return Err(AnswerFault::Malformed);
    }
    let Some(head) = Head::read(held)? else {
        return Ok(None);
    };
    let total = head.bytes.saturating_add(head.content);
    if total > MESSAGE_BYTES_MAX {
        return Err(AnswerFault::TooLong);
    }
    Ok(Some(total))
}

/// The number of elements in a message, if all of them lie within those that contain them, and the message has a number
/// and an operation.
fn elements(message: &[u8]) -> Result<usize, AnswerFault> {
    // Where the elements end that contain the next one; the first is the end of the message.
    let mut ends = vec![message.len()];
    let (mut at, mut count) = (0, 0);
    while let Some(end) = ends.last().copied() {
        if at == end {
            ends.pop();
            continue;
        }
        if ends.len() > DEPTH_MAX {
            return Err(AnswerFault::TooDeep);
        }
        let head = Head::read(&message[at..end])?.ok_or(AnswerFault::Malformed)?;
        let begin = at + head.bytes;
        if head.content > end - begin {
            return Err(AnswerFault::Malformed);
        }
        count += 1;
        let is_sound = match count {
            2 => head.tag == INTEGER && (1..=4).contains(&head.content),
            3 => ends.len() == 2 && head.tag & CLASS == APPLICATION,
            _ => true,
        };
        if !is_sound {
            return Err(AnswerFault::Malformed);
        }
        at = begin + head.content;
        if head.tag & CONSTRUCTED != 0 {
            ends.push(at);
            at = begin;
        }
    }
    if count < 3 {
        return Err(AnswerFault::Malformed);
    }
    Ok(count)
}

#[cfg(test)]
#[path = "directory_answers_tests.rs"]
mod tests;
