//! What the answers of a directory consist of (RFC 4511, sections 4.1 and 4.5.2).
//!
//! The library that reads them panics if a part is missing or of another kind.

use crate::directory_answers::Head;

const BOOLEAN: u8 = 0x01;
const OCTET_STRING: u8 = 0x04;
const ENUMERATED: u8 = 0x0a;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;

const BIND_RESPONSE: u8 = 0x61;
const SEARCH_RESULT_ENTRY: u8 = 0x64;
const SEARCH_RESULT_DONE: u8 = 0x65;
const SEARCH_RESULT_REFERENCE: u8 = 0x73;
const EXTENDED_RESPONSE: u8 = 0x78;
const INTERMEDIATE_RESPONSE: u8 = 0x79;

/// Optional parts of a message or a result.
const CONTROLS: u8 = 0xa0;
const REFERRAL: u8 = 0xa3;
const SASL_CREDENTIALS: u8 = 0x87;
const RESPONSE_NAME: u8 = 0x8a;
const RESPONSE_VALUE: u8 = 0x8b;

/// The tag numbers of the optional parts of a result, which mean nothing with another class or form.
const RESULT_PARTS: [u8; 4] = [3, 7, 10, 11];

/// The elements of a content, one after the other. They are known to lie within it.
struct Parts<'a>(&'a [u8]);

impl<'a> Iterator for Parts<'a> {
    type Item = (u8, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let head = Head::read(self.0).ok()??;
        let content = self.0.get(head.bytes..head.bytes + head.content)?;
        self.0 = &self.0[head.bytes + head.content..];
        Some((head.tag, content))
    }
}

/// Whether the whole message has the parts of an answer. Its elements are known to lie within those that contain them.
pub(crate) fn is_answer(message: &[u8]) -> bool {
    let Some((SEQUENCE, content)) = Parts(message).next() else {
        return false;
    };
    let mut parts = Parts(content);
    let (Some(_number), Some((tag, operation))) = (parts.next(), parts.next()) else {
        return false;
    };
    let has_sound_end = match parts.next() {
        None => true,
        Some((CONTROLS, controls)) => Parts(controls).all(is_control),
        // Active Directory puts the name of a Notice of Disconnection here.
        Some((RESPONSE_NAME, _)) => true,
        Some(_) => false,
    };
    has_sound_end && parts.next().is_none() && is_operation(tag, operation)
}

fn is_operation(tag: u8, content: &[u8]) -> bool {
    match tag {
        BIND_RESPONSE | SEARCH_RESULT_DONE | EXTENDED_RESPONSE => is_result(content),
        SEARCH_RESULT_ENTRY => is_entry(content),
        SEARCH_RESULT_REFERENCE | INTERMEDIATE_RESPONSE => true,
        _ => false,
    }
}

/// LDAPResult: a code, the matched name, a message, and what may follow.
fn is_result(content: &[u8]) -> bool {
    let mut parts = Parts(content);
    let has_code = matches!(parts.next(), Some((ENUMERATED, code)) if (1..=4).contains(&code.len()));
    has_code && parts.next().is_some_and(is_text) && parts.next().is_some_and(is_text) && parts.all(is_result_part)
}

fn is_result_part((tag, content): (u8, &[u8])) -> bool {
    match tag {
        REFERRAL => Parts(content).all(is_text),
        RESPONSE_NAME => std::str::from_utf8(content).is_ok(),
        SASL_CREDENTIALS | RESPONSE_VALUE => true,
        _ => !RESULT_PARTS.contains(&(tag & 0x1f)),
    }
}

/// SearchResultEntry: a name, and attributes with their values.
fn is_entry(content: &[u8]) -> bool {
    let mut parts = Parts(content);
    let has_name = parts.next().is_some_and(is_text);
    has_name && matches!(parts.next(), Some((SEQUENCE, attributes)) if Parts(attributes).all(is_attribute))
}

fn is_attribute((tag, content): (u8, &[u8])) -> bool {
    let mut parts = Parts(content);
    let is_value = |(tag, _): (u8, &[u8])| tag == OCTET_STRING;
    tag == SEQUENCE
        && parts.next().is_some_and(is_text)
        && matches!(parts.next(), Some((SET, values)) if Parts(values).all(is_value))
}

/// Control: its type, whether it is critical, and a value; the last two may be missing.
fn is_control((tag, content): (u8, &[u8])) -> bool {
    let mut parts = Parts(content);
    let has_type = tag == SEQUENCE && parts.next().is_some_and(is_text);
    let value = match parts.next() {
        Some((BOOLEAN, critical)) if critical.len() == 1 => parts.next(),
        Some((BOOLEAN, _)) => return false,
        other => other,
    };
    has_type && value.is_none_or(|(tag, _)| tag == OCTET_STRING)
}

fn is_text((tag, content): (u8, &[u8])) -> bool {
    tag == OCTET_STRING && std::str::from_utf8(content).is_ok()
}
