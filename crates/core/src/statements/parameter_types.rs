//! The types of a statement's parameters that its client relies on.
//!
//! If Parse leaves a type open, PostgreSQL infers it, once: on a direct connection the parameters of a prepared
//! statement keep their types whatever DDL does to the tables. Here the statement may be prepared again on another
//! server, which would infer the types again and might then misread a binary value. So the types that a client was
//! first told (ParameterDescription) are kept, and given explicitly whenever its statement is prepared again. If a
//! client does not ask for them, an internal Describe goes with the Parse.

use std::sync::Arc;

/// Parameter types as in Parse and ParameterDescription: a count (two bytes) and OIDs (four bytes each).
#[derive(Debug, Clone, PartialEq, Eq, pgweir_freeze::Freeze)]
pub(crate) struct Types(Arc<[u8]>);

impl Types {
    /// Reads the body of a ParameterDescription. `None` if it is malformed.
    pub(crate) fn read(body: &[u8]) -> Option<Types> {
        let (count, oids) = body.split_first_chunk::<2>()?;
        (oids.len() == usize::from(u16::from_be_bytes(*count)) * 4).then(|| Types(body.into()))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// The OIDs in the parameter types of a Parse: a count and OIDs, as in [`Types`].
pub(crate) fn oids(types: &[u8]) -> &[[u8; 4]] {
    types.get(2..).unwrap_or_default().as_chunks::<4>().0
}

/// Whether a Parse leaves the type of some parameter open. `types` as in [`Types`].
pub(crate) fn are_inferred(query: &[u8], types: &[u8]) -> bool {
    let given = oids(types);
    let is_open = |number: usize| given.get(number.wrapping_sub(1)).is_none_or(|oid| *oid == [0; 4]);
    let mut rest = query;
    while let Some(at) = rest.iter().position(|&b| b == b'$') {
        rest = &rest[at + 1..];
        let digits = rest.iter().position(|b| !b.is_ascii_digit()).unwrap_or(rest.len());
        let number = std::str::from_utf8(&rest[..digits]).unwrap_or_default().parse();
        if digits > 0 && number.is_ok_and(is_open) {
            return true;
        }
    }
    given.contains(&[0; 4])
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
pub(crate) fn may_name_types(query: &[u8]) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_is_inferred_where_none_is_given() {
        let inferred = |query: &str, types: &[u8]| are_inferred(query.as_bytes(), types);
        assert!(inferred("select $1", &[0, 0]));
        assert!(inferred("select $1", &[0, 1, 0, 0, 0, 0]));
        assert!(inferred("select $1, $2", &[0, 1, 0, 0, 0, 23]));
        assert!(!inferred("select $1", &[0, 1, 0, 0, 0, 23]));
        assert!(!inferred("select 1", &[0, 0]) && !inferred("select '$'", &[0, 0]));
        assert!(!inferred("select $$a$$", &[0, 0]));
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

    #[test]
    fn types_are_read_if_they_are_all_there() {
        assert_eq!(Types::read(&[0, 1, 0, 0, 0, 23]).unwrap().bytes(), [0, 1, 0, 0, 0, 23]);
        assert!(Types::read(&[0, 1, 0, 0, 0]).is_none() && Types::read(&[0]).is_none());
        assert!(Types::read(&[0, 0]).is_some());
    }
}
