//! SASLprep (RFC 4013) exactly as PostgreSQL and libpq apply it to passwords.

use std::borrow::Cow;

use stringprep::tables;
use unicode_normalization::UnicodeNormalization;
use zeroize::Zeroizing;

/// The bytes that PBKDF2 is given for a password.
///
/// A password that SASLprep forbids is used as it is (auth-scram.c, `scram_build_secret`: "ignore errors"). PostgreSQL
/// departs from RFC 4013 in two ways, and a password must mean the same to both of us: ASCII passes untouched, control
/// characters included, and the forbidden characters are looked for before normalization, not after it.
pub(crate) fn saslprep(password: &[u8]) -> Cow<'_, [u8]> {
    match std::str::from_utf8(password) {
        Ok(text) if !text.is_ascii() => prepared(text).map_or(Cow::Borrowed(password), Cow::Owned),
        _ => Cow::Borrowed(password),
    }
}

/// `None` if the text is forbidden.
fn prepared(text: &str) -> Option<Vec<u8>> {
    // 2.1 Mapping
    let mapped: Zeroizing<String> = Zeroizing::new(
        text.chars()
            .map(|c| if tables::non_ascii_space_character(c) { ' ' } else { c })
            .filter(|c| !tables::commonly_mapped_to_nothing(*c))
            .collect(),
    );
    let allowed = !mapped.is_empty()
        && !mapped
            .chars()
            .any(|c| is_prohibited(c) || tables::unassigned_code_point(c))
        && is_direction_clear(&mapped);
    // 2.2 Normalization
    allowed.then(|| mapped.nfkc().collect::<String>().into_bytes())
}

/// 2.3 Prohibited Output
fn is_prohibited(c: char) -> bool {
    tables::non_ascii_space_character(c)
        || tables::ascii_control_character(c)
        || tables::non_ascii_control_character(c)
        || tables::private_use(c)
        || tables::non_character_code_point(c)
        || tables::surrogate_code(c)
        || tables::inappropriate_for_plain_text(c)
        || tables::inappropriate_for_canonical_representation(c)
        || tables::change_display_properties_or_deprecated(c)
        || tables::tagging_character(c)
}

/// 2.4 Bidirectional Characters: with right-to-left characters, no left-to-right ones, and the former at both ends.
fn is_direction_clear(text: &str) -> bool {
    !text.contains(tables::bidi_r_or_al)
        || (!text.contains(tables::bidi_l)
            && text.starts_with(tables::bidi_r_or_al)
            && text.ends_with(tables::bidi_r_or_al))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_prepared(input: &str, expected: &str) {
        assert_eq!(saslprep(input.as_bytes()), expected.as_bytes(), "{input:?}");
    }

    /// RFC 4013, section 3 "Examples".
    #[test]
    fn examples_of_the_rfc() {
        assert_prepared("I\u{ad}X", "IX");
        assert_prepared("user", "user");
        assert_prepared("USER", "USER");
        assert_prepared("\u{aa}", "a");
        assert_prepared("\u{2168}", "IX");
        assert_prepared("\u{7}", "\u{7}"); // forbidden: used as it is
        assert_prepared("\u{627}1", "\u{627}1"); // forbidden: used as it is
    }

    #[test]
    fn spaces_are_mapped_and_marks_composed() {
        assert_prepared("a\u{a0}b\u{3000}c", "a b c");
        assert_prepared("e\u{301}", "\u{e9}");
        assert_prepared("\u{fb01}n", "fin");
        assert_prepared("\u{627}1\u{628}", "\u{627}1\u{628}");
    }

    #[test]
    fn what_is_forbidden_is_used_raw() {
        for raw in [
            "\u{ad}\u{200d}",  // nothing would be left
            "\u{aa}\u{e000}",  // private use
            "\u{aa}\u{221}",   // unassigned in Unicode 3.2
            "\u{aa}\u{7f}",    // control character among non-ASCII ones
            "\u{2168}\u{627}", // both directions
            "\u{aa}\u{340}",   // deprecated mark, although NFKC would turn it into an allowed one
        ] {
            assert_prepared(raw, raw);
        }
        assert_eq!(saslprep(b"\xe9t\xe9"), b"\xe9t\xe9".as_slice(), "LATIN1 is not UTF-8");
    }
}
