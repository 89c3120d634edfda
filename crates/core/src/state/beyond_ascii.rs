//! Names and values of settings beyond ASCII: sent and asked for in the encoding of the database.
//!
//! PostgreSQL keeps settings in the encoding of the database. It takes those of a startup packet as they come, whatever
//! `client_encoding` says. All others it converts: what SET, `set_config()` and messages contain, and what it answers
//! and reports. So a value has different bytes under different client encodings, and may have none at all.
//!
//! **The rule.** Shapes hold the bytes that the database has. A name or value that is not ASCII is sent only while
//! client_encoding is the encoding of the database ([`in_database_encoding`]). It is asked for under that encoding, too
//! ([`crate::session::probe`]), so that the answer is not converted. What the server reports in another encoding is not
//! kept, but asked for. ASCII has the same bytes in all encodings, and nothing of this concerns it.
//!
//! Shapes hold text. In a database whose encoding is not UTF8, bytes that are not UTF-8 stand there as characters of
//! their own ([`text_of`]).

use crate::state::difference::Change;
use crate::state::shape::Shape;
use crate::statements::parse_settings::{CLIENT_ENCODING, is_client_encoding};
use std::borrow::Cow;
use std::sync::Arc;

/// The last 256 characters for private use: each stands for a byte that is not a part of UTF-8.
const BYTES: u32 = 0x10_ff00;

/// Bytes that the database has, as text. `None`: they contain one of the characters that stand for bytes.
pub(crate) fn text_of(bytes: &[u8]) -> Option<Cow<'_, str>> {
    let stands_for_byte = |text: &str| text.chars().any(|c| u32::from(c) >= BYTES);
    if let Ok(text) = std::str::from_utf8(bytes) {
        return (!stands_for_byte(text)).then_some(Cow::Borrowed(text));
    }
    let mut text = String::with_capacity(2 * bytes.len());
    for chunk in bytes.utf8_chunks() {
        if stands_for_byte(chunk.valid()) {
            return None;
        }
        text.push_str(chunk.valid());
        text.extend(
            chunk
                .invalid()
                .iter()
                .filter_map(|byte| char::from_u32(BYTES + u32::from(*byte))),
        );
    }
    Some(text.into())
}

/// The bytes that the database has.
pub(crate) fn bytes_of(text: &str) -> Cow<'_, [u8]> {
    let byte = |c: char| u32::from(c).checked_sub(BYTES).map(|byte| byte as u8);
    if text.is_ascii() || text.chars().all(|c| byte(c).is_none()) {
        return text.as_bytes().into();
    }
    let mut bytes = Vec::with_capacity(text.len());
    for c in text.chars() {
        match byte(c) {
            Some(byte) => bytes.push(byte),
            None => bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    bytes.into()
}

/// Changes that set settings beyond ASCII in the encoding of the database, and leave the session with the
/// client_encoding that `set` chooses, or otherwise with that of `target`.
///
/// `now`: the settings before, if the session's client_encoding is known. A setting that is reset gets its value of
/// `base`, which PostgreSQL sends back.
pub(crate) fn in_database_encoding(now: Option<&Shape>, base: &Shape, target: &Shape, set: Vec<Change>) -> Vec<Change> {
    let is_ascii = |(name, value): &Change| name.is_ascii() && value.as_ref().is_none_or(|value| value.is_ascii());
    let resets = || set.iter().any(|(_, value)| value.is_none());
    if set.iter().all(is_ascii) && !(base.is_beyond_ascii() && resets()) {
        return set;
    }
    let Some([database, client]) = target.encodings() else {
        return set;
    };
    let (mut last, others): (Vec<Change>, Vec<Change>) =
        set.into_iter().partition(|(name, _)| is_client_encoding(name));
    let encoding = |value: &Arc<str>| (CLIENT_ENCODING.into(), Some(value.clone()));
    let is_there = now.is_some_and(|now| now.value(CLIENT_ENCODING) == Some(database));
    if last.is_empty() && (!is_there || client != database) {
        last.push(encoding(client));
    }
    let first = (!is_there).then(|| encoding(database));
    first.into_iter().chain(others).chain(last).collect()
}

/// How many of these changes come before the last one of client_encoding; 0 if all of them are ASCII.
pub(crate) fn before_encoding(set: &[Change]) -> usize {
    let last = set.iter().rposition(|(name, _)| is_client_encoding(name));
    let is_beyond = |(_, value): &Change| value.as_ref().is_some_and(|value| !value.is_ascii());
    last.filter(|&at| set[..at].iter().any(is_beyond)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::shape_table::ShapeTable;

    /// A session in a database with the encoding UTF8.
    fn session(table: &mut ShapeTable, client_encoding: &str) -> Arc<Shape> {
        let empty = table.empty();
        let reported = [
            ("client_encoding", Some(client_encoding), true),
            ("server_encoding", Some("UTF8"), true),
        ];
        table.change(&empty, reported)
    }

    fn shown(set: &[Change]) -> String {
        let one = |(name, value): &Change| format!("{name}={}", value.as_deref().unwrap_or("default"));
        set.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn values_beyond_ascii_are_set_while_nothing_is_converted() {
        let mut table = ShapeTable::new();
        let (utf8, latin1) = (session(&mut table, "UTF8"), session(&mut table, "LATIN1"));
        let change = |name: &str, value: &str| -> Change { (name.into(), Some(value.into())) };
        let way = |now: Option<&Shape>, target: &Shape, set: Vec<Change>| {
            shown(&in_database_encoding(now, &utf8, target, set))
        };
        let path = || vec![change("search_path", "\u{fc}")];
        assert_eq!(way(Some(&utf8), &utf8, path()), "search_path=\u{fc}");
        let around = "client_encoding=UTF8 search_path=\u{fc} client_encoding=LATIN1";
        assert_eq!(way(Some(&latin1), &latin1, path()), around);
        let both = || [vec![change("client_encoding", "LATIN1")], path()].concat();
        let behind = "search_path=\u{fc} client_encoding=LATIN1";
        assert_eq!(way(Some(&utf8), &latin1, both()), behind);
        assert_eq!(way(None, &latin1, both()), around, "what the session has is not known");
        let back = || [vec![change("client_encoding", "UTF8")], path()].concat();
        let home = "client_encoding=UTF8 search_path=\u{fc} client_encoding=UTF8";
        assert_eq!(way(Some(&latin1), &utf8, back()), home);
        let name = vec![change("app.\u{fc}", "x")];
        let named = "client_encoding=UTF8 app.\u{fc}=x client_encoding=LATIN1";
        assert_eq!(way(Some(&latin1), &latin1, name), named);
    }

    #[test]
    fn any_bytes_are_text_and_bytes_again() {
        let latin1 = b"M\xfcller \xc3\xbc \xe2\x82";
        for bytes in [&b"a"[..], "\u{fc}\u{10feff}".as_bytes(), latin1, b"\xff"] {
            assert_eq!(*bytes_of(&text_of(bytes).unwrap()), *bytes);
        }
        assert_ne!(text_of(b"\xfc"), text_of("\u{fc}".as_bytes()));
        assert_eq!(text_of("\u{10fffc}".as_bytes()), None, "it would be sent as a byte");
        assert_eq!(text_of("\u{10fffc}\u{fc}".as_bytes()), None);
    }

    #[test]
    fn ascii_is_sent_as_it_is() {
        let mut table = ShapeTable::new();
        let latin1 = session(&mut table, "LATIN1");
        let set: Vec<Change> = vec![("search_path".into(), Some("a".into())), ("role".into(), None)];
        assert_eq!(in_database_encoding(Some(&latin1), &latin1, &latin1, set.clone()), set);
    }

    /// Guards against a RESET whose answer has characters that the client's encoding lacks.
    #[test]
    fn a_startup_value_beyond_ascii_comes_back_unconverted() {
        let mut table = ShapeTable::new();
        let latin1 = session(&mut table, "LATIN1");
        let base = table.change(&latin1, [("search_path", Some("\u{20ac}"), true)]);
        let set = vec![("search_path".into(), None)];
        let way = in_database_encoding(Some(&latin1), &base, &latin1, set);
        let around = "client_encoding=UTF8 search_path=default client_encoding=LATIN1";
        assert_eq!(shown(&way), around);
    }
}
