//! What a text shows of types: the names of types, and parameters, whose types may be open.

use crate::lexer::{Lexer, Token};
use crate::search::contains;

/// The numbers of a text's parameters: `$1`. What looks like one in a constant counts, too.
pub fn parameter_numbers(text: &[u8]) -> impl Iterator<Item = usize> {
    let behind_dollars = text.split(|&b| b == b'$').skip(1);
    behind_dollars.filter_map(|rest| {
        let digits = rest.iter().position(|b| !b.is_ascii_digit()).unwrap_or(rest.len());
        std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()
    })
}

/// Words that may stand before a parenthesis without being the name of a user-defined function or type.
const BEFORE_PARENTHESIS: &[&str] = &[
    "all",
    "and",
    "any",
    "as",
    "avg",
    "between",
    "by",
    "coalesce",
    "count",
    "else",
    "except",
    "exists",
    "from",
    "greatest",
    "having",
    "in",
    "intersect",
    "join",
    "least",
    "length",
    "like",
    "limit",
    "lower",
    "max",
    "min",
    "not",
    "now",
    "nullif",
    "offset",
    "on",
    "or",
    "over",
    "returning",
    "select",
    "some",
    "sum",
    "then",
    "union",
    "upper",
    "using",
    "values",
    "when",
    "where",
];

/// Words that may stand before a string without being the name of a user-defined type.
const BEFORE_STRING: &[&str] = &[
    "all",
    "and",
    "between",
    "by",
    "case",
    "date",
    "distinct",
    "e",
    "else",
    "escape",
    "ilike",
    "in",
    "interval",
    "is",
    "like",
    "limit",
    "not",
    "on",
    "or",
    "returning",
    "select",
    "then",
    "time",
    "timestamp",
    "timestamptz",
    "to",
    "when",
    "where",
];

/// Whether the text may name a type. A copy of such a statement may have been analysed with a type that DDL has dropped
/// since: PostgreSQL analyses a plan again when tables, functions and domains change, but not when other types do.
pub fn may_name_types(query: &[u8]) -> bool {
    let is_word = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'$') || !b.is_ascii();
    let is_in = |words: &[&str], word: &[u8]| words.iter().any(|w| w.as_bytes().eq_ignore_ascii_case(word));
    if query.windows(2).any(|w| matches!(w, b"::" | b"--" | b"/*")) || query.contains(&b'"') {
        return true;
    }
    let mut before: &[u8] = b"";
    let mut word: &[u8] = b"";
    let mut rest = query;
    while let Some(&byte) = rest.first() {
        if is_word(&byte) {
            let end = rest.iter().position(|b| !is_word(b)).unwrap_or(rest.len());
            (before, word, rest) = (word, &rest[..end], &rest[end..]);
            if is_in(&["cast", "xmlserialize", "xmltable", "json_table"], word) {
                return true;
            }
            continue;
        }
        let names = match byte {
            b'(' => !word.is_empty() && !is_in(BEFORE_PARENTHESIS, word) && !before.eq_ignore_ascii_case(b"into"),
            b'\'' => !word.is_empty() && !is_in(BEFORE_STRING, word),
            _ => false,
        };
        if names {
            return true;
        }
        if byte == b'\'' {
            let end = rest[1..]
                .iter()
                .position(|&b| b == b'\'')
                .map_or(rest.len(), |at| at + 2);
            rest = &rest[end..];
        } else {
            rest = &rest[1..];
        }
        if !byte.is_ascii_whitespace() {
            (before, word) = (b"", b"");
        }
    }
    false
}

/// Whether a text casts something to the type `unknown`, as in `$1::unknown` or `cast($1 as unknown)`.
pub fn casts_to_unknown(query: &[u8]) -> bool {
    const UNKNOWN: &[u8] = b"unknown";
    if !contains(query, UNKNOWN) {
        return false;
    }
    Lexer::readings(query).any(|mut lexer| {
        let mut before = None;
        lexer.any(|token| {
            let may_be_type = match before.replace(token) {
                Some(Token::Byte(byte)) => matches!(byte, b':' | b'.'),
                Some(token) => token.is("as"),
                None => false,
            };
            may_be_type && token.identifier().is_some_and(|name| *name == *UNKNOWN)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_found_by_their_numbers() {
        let numbers = |text: &str| parameter_numbers(text.as_bytes()).collect::<Vec<_>>();
        assert_eq!(numbers("select $1, $12::int, '$3'"), [1, 12, 3]);
        assert!(numbers("select $$a$$, $x, $").is_empty());
    }

    #[test]
    fn a_cast_to_unknown_is_found_however_it_is_written() {
        for text in [
            "select $1::unknown",
            "select $1 :: \"unknown\"",
            "SELECT CAST($1 AS UNKNOWN)",
            "select $1::pg_catalog.unknown = 'a'",
            "select $1::/**/unknown::int",
        ] {
            assert!(casts_to_unknown(text.as_bytes()), "{text}");
        }
        for text in [
            "select $1, 'as unknown'",
            "select unknown from t where a = $1",
            "select $1::text as unknowns",
            "unknown",
        ] {
            assert!(!casts_to_unknown(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn a_text_names_no_type_only_where_none_can_stand() {
        for text in [
            "select 1",
            "select a, 'x', count(*) from t where b in (1, 2) and c like 'y' order by a",
            "insert into t (a, b) values (1, 'x')",
            "update t set a = 'x' where b = date '2020-01-01'",
            "",
        ] {
            assert!(!may_name_types(text.as_bytes()), "{text}");
        }
        for text in [
            "select 'x'::mood",
            "select cast('x' as mood)",
            "select mood 'x'",
            "select mood('x')",
            "select mood/**/'x'",
            "select \"mood\" 'x'",
            "select * from f() as t(a mood)",
            "select s.mood 'x'",
        ] {
            assert!(may_name_types(text.as_bytes()), "{text}");
        }
    }
}
