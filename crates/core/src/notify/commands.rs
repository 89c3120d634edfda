//! Texts of commands about channels, and searches in clients' texts for such commands.

/// `LISTEN "channel"`: the name in quotes, in any encoding; no encoding uses a quote as a part of another character.
pub(crate) fn command(verb: &str, channel: &[u8]) -> Vec<u8> {
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

/// The number in an internal payload.
pub(crate) fn number(payload: &[u8]) -> Option<u64> {
    std::str::from_utf8(payload).ok()?.parse().ok()
}

/// Whether a text contains this whole word, in any case of letters.
pub(crate) fn has_word(text: &[u8], word: &[u8]) -> bool {
    let is_inner = |byte: Option<&u8>| byte.is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_' || *b >= 0x80);
    text.windows(word.len()).enumerate().any(|(at, w)| {
        w.eq_ignore_ascii_case(word)
            && !is_inner(at.checked_sub(1).and_then(|before| text.get(before)))
            && !is_inner(text.get(at + word.len()))
    })
}

/// Whether a text contains these bytes, in any case of letters.
pub(crate) fn contains(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|w| w.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_are_quoted_whatever_their_bytes() {
        assert_eq!(command("LISTEN", b"a\"b"), b"LISTEN \"a\"\"b\"");
        assert_eq!(command("UNLISTEN", &[0xe4, b' ']), b"UNLISTEN \"\xe4 \"");
    }

    #[test]
    fn words_are_found_in_whatever_case() {
        assert!(contains(b"select Pg_Notify('a', '')", b"notify"));
        assert!(!contains(b"notif", b"notify"));
        assert!(has_word(b"do $$ begin execute 'Listen b'; end $$", b"listen"));
        assert!(!has_word(b"select * from listeners, unlisten_log", b"listen"));
        assert!(has_word(b"listeners listen", b"listen"));
    }
}
