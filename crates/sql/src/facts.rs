//! Facts about a single statement that its first words, or words anywhere in it, show.

use crate::search::contains;

/// Statements that return rows only by a RETURNING clause.
const WRITES: [&[u8]; 4] = [b"insert", b"update", b"delete", b"merge"];

/// Whether a text begins with DO or CALL, after spaces. Usually the code that they run is not in the text.
#[inline]
pub fn begins_code(text: &[u8]) -> bool {
    let text = text.trim_ascii_start();
    if !matches!(text.first(), Some(b'D' | b'd' | b'C' | b'c')) {
        return false;
    }
    let word = text.iter().position(|b| !b.is_ascii_alphabetic()).unwrap_or(text.len());
    matches!(word, 2 | 4)
        && [&b"do"[..], b"call"]
            .iter()
            .any(|w| text[..word].eq_ignore_ascii_case(w))
}

/// The setting whose value a text asks for by SHOW.
pub fn setting_shown(text: &[u8]) -> Option<&[u8]> {
    let text = text.trim_ascii();
    let (verb, name) = text.strip_suffix(b";").unwrap_or(text).split_at_checked(5)?;
    verb.eq_ignore_ascii_case(b"show ").then_some(name.trim_ascii())
}

/// `false` only if no setting changes the meaning of the text, except search_path and role.
pub fn has_constants(query: &[u8]) -> bool {
    let quotes = query.contains(&b'\'') || query.windows(2).any(|w| w[0] == b'$' && !w[1].is_ascii_digit());
    quotes || !query.is_ascii() || contains(query, b"null") || contains(query, b"xml")
}

/// Whether a text may have parameters such as `$1`.
pub fn has_parameters(query: &[u8]) -> bool {
    query.windows(2).any(|w| w[0] == b'$' && w[1].is_ascii_digit())
}

/// `false` only if the text begins with the word of a write and does not contain the word RETURNING.
pub fn may_return_rows(query: &[u8]) -> bool {
    let text = query.trim_ascii_start();
    let begins = |word: &&[u8]| text.get(..word.len()).is_some_and(|t| t.eq_ignore_ascii_case(word));
    !WRITES.iter().any(begins) || contains(text, b"returning")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn do_and_call_are_code() {
        for text in ["do $$begin end$$", " CALL p()", "Do'begin end'"] {
            assert!(begins_code(text.as_bytes()), "{text}");
        }
        for text in ["", "select 1", "done", "callp()", "dont"] {
            assert!(!begins_code(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn constants_are_found() {
        for text in [
            "select 'x'",
            "select $$x$$",
            "select a = NULL",
            "select xmlparse(document $1)",
            "select \u{fc} from t",
        ] {
            assert!(has_constants(text.as_bytes()), "{text}");
        }
        assert!(!has_constants(b"select a, 1.5 from t where b = $1") && !has_constants(b"commit"));
    }

    #[test]
    fn what_returns_no_rows_is_known_by_its_text() {
        for text in [
            "select 1",
            "with x as (select 1) insert into t table x",
            "Update t set a=1 Returning a",
            "",
            "fetch c",
        ] {
            assert!(may_return_rows(text.as_bytes()), "{text}");
        }
        for text in ["insert into t values (1)", "  UPDATE t SET a = 1", "delete from t"] {
            assert!(!may_return_rows(text.as_bytes()), "{text}");
        }
    }
}
