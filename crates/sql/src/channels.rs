//! Commands about channels (LISTEN, UNLISTEN, NOTIFY), and texts that may contain some.

use crate::condensed::Condensed;
use crate::search::{contains, has_word};
use crate::split::statements;
use crate::statement::{STATEMENT_BYTES_MAX, Statement, classify};
use std::collections::VecDeque;

/// `LISTEN "channel"`: the name in quotes, in any encoding; no encoding uses a quote as a part of another character.
pub fn channel_command(verb: &str, channel: &[u8]) -> Vec<u8> {
    let mut text = verb.as_bytes().to_vec();
    text.extend_from_slice(b" \"");
    for &byte in channel {
        if byte == b'"' {
            text.push(byte);
        }
        text.push(byte);
    }
    text.push(b'"');
    text
}

/// Words of statements that may ask for or change the session's channels, or the encoding of notifications.
const CONCERNS_CHANNELS: [&[u8]; 7] = [
    b"listen",
    b"unlisten",
    b"pg_listening_channels",
    b"discard",
    b"client_encoding",
    b"names",
    b"reset",
];

/// Whether a text may ask for or change the session's channels, or the encoding of notifications.
pub fn may_concern_channels(text: &[u8]) -> bool {
    CONCERNS_CHANNELS.iter().any(|word| has_word(text, word))
}

/// Words of a text without its constants and comments that ends channels or asks for them.
const ENDS_OR_LISTS: [&[u8]; 3] = [b"unlisten", b"pg_listening_channels", b"discard all"];

/// Whether a text, which has been condensed, may end channels or ask for them.
pub fn may_end_or_list_channels(condensed: &[u8]) -> bool {
    ENDS_OR_LISTS.iter().any(|words| contains(condensed, words))
}

/// Whether a text may send a notification.
pub fn may_notify(text: &[u8]) -> bool {
    contains(text, b"notify")
}

/// Whether a text may contain LISTEN.
pub fn may_listen(text: &[u8]) -> bool {
    has_word(text, b"listen")
}

/// Whether a text may contain UNLISTEN.
pub fn may_unlisten(text: &[u8]) -> bool {
    has_word(text, b"unlisten")
}

/// The channels that the UNLISTEN commands of a text name, in the order of their command tags; `None` for all. Those
/// behind a statement that may be an UNLISTEN of a name that is not read are left out.
pub fn unlistened(text: &[u8]) -> VecDeque<Option<Box<[u8]>>> {
    // A statement with a long comment is not classified.
    let condensed = (text.len() > STATEMENT_BYTES_MAX).then(|| {
        let mut condensed = Condensed::default();
        condensed.feed(text);
        condensed.finish()
    });
    let text = condensed.as_ref().and_then(|c| c.as_deref()).unwrap_or(text);
    let mut channels = VecDeque::new();
    for statement in statements(text).unwrap_or_default() {
        match classify(statement) {
            Statement::Unlisten(name) => channels.push_back(Some(name)),
            Statement::UnlistenAll => channels.push_back(None),
            _ if may_unlisten(statement) => break,
            _ => {}
        }
    }
    channels
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_are_quoted_whatever_their_bytes() {
        assert_eq!(channel_command("LISTEN", b"a\"b"), b"LISTEN \"a\"\"b\"");
        assert_eq!(channel_command("UNLISTEN", &[0xe4, b' ']), b"UNLISTEN \"\xe4 \"");
    }

    #[test]
    fn every_unlisten_of_a_text_is_found() {
        let a = || Some(b"a".as_slice().into());
        assert_eq!(unlistened(b"unlisten a; select 1; UNLISTEN *"), [a(), None]);
        let commented = [&b"/*"[..], &[b'x'; STATEMENT_BYTES_MAX], b"*/ unlisten a"].concat();
        assert_eq!(unlistened(&commented), [a()]);
        assert!(unlistened(b"select 'unlisten a'").is_empty());
    }

    #[test]
    fn nothing_behind_a_name_that_is_not_read_is_taken_for_another_unlisten() {
        let a = || Some(b"a".as_slice().into());
        assert_eq!(unlistened(b"unlisten a; commit; unlisten *"), [a(), None]);
        assert_eq!(unlistened(b"unlisten a; unlisten U&\"\\0062\"; unlisten c"), [a()]);
    }
}
