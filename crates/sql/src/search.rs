//! Searches for single words, wherever they stand in a text: constants and comments count, too.

/// Whether a text contains these bytes, in any case of letters.
pub fn contains(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|w| w.eq_ignore_ascii_case(word))
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

/// Whether an identifier of a text may be written with escapes: `U&"..."`.
fn may_have_escapes(text: &[u8]) -> bool {
    contains(text, b"u&")
}

/// Whether an identifier of a text may contain this part, in any case of letters.
pub fn may_spell(text: &[u8], part: &[u8]) -> bool {
    contains(text, part) || may_have_escapes(text)
}

/// What may be an identifier in a text, as written: its words, and what stands between two successive quotes. `None`:
/// there may be escapes, so the text may contain any identifier.
pub fn possible_names(text: &[u8]) -> Option<impl Iterator<Item = &[u8]>> {
    let is_word = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'$') || !b.is_ascii();
    let words = text.split(move |b| !is_word(b));
    let quoted = text.split(|&b| b == b'"');
    let names = words.chain(quoted).filter(|name| !name.is_empty());
    (!may_have_escapes(text)).then_some(names)
}

/// What stands between single quotes: the constants of a text without escapes.
pub fn between_quotes(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|&b| b == b'\'').skip(1).step_by(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_in_whatever_case() {
        assert!(contains(b"select Pg_Notify('a', '')", b"notify"));
        assert!(!contains(b"notif", b"notify"));
        assert!(has_word(b"do $$ begin execute 'Listen b'; end $$", b"listen"));
        assert!(!has_word(b"select * from listeners, unlisten_log", b"listen"));
        assert!(has_word(b"listeners listen", b"listen"));
    }

    #[test]
    fn an_identifier_may_be_a_word_or_quoted_or_escaped() {
        let names: Vec<_> = possible_names(br#"execute "a b"(x$1)"#).unwrap().collect();
        for name in [&b"execute"[..], b"x$1", b"a b"] {
            assert!(names.contains(&name), "{names:?}");
        }
        assert!(possible_names(br#"execute U&"\0061""#).is_none());
        assert!(may_spell(b"execute PGweir_1", b"pgweir_") && may_spell(b"execute U&\"x\"", b"pgweir_"));
        assert!(!may_spell(b"execute x", b"pgweir_"));
    }

    #[test]
    fn constants_stand_between_every_other_pair_of_quotes() {
        let constants: Vec<_> = between_quotes(b"select f('a', 'b c') || 'd").collect();
        assert_eq!(constants, [&b"a"[..], b"b c", b"d"]);
    }
}
