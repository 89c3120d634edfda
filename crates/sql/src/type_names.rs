//! What a text shows of types: the names of types, and parameters, whose types may be open.

use crate::calls::UNREAD;
use crate::effects::Effects;
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

/// [`UNREAD`] if a statement, whose CREATE or ALTER has been read, makes a type with the name `text` (a table that is
/// renamed is one), or a cast to one of this name: from then on, a cast to `text` may change the name of a setting. The
/// catalog tells of such types of others.
pub(crate) fn type_of_name_text(mut lexer: Lexer<'_>) -> Effects {
    let is_cast = lexer.peek().is_some_and(|kind| kind.is("cast"));
    let is_type = lexer.accept("domain") || lexer.accept("type");
    let is_text = |token: Token<'_>| match token {
        Token::UnicodeQuoted(_) => true,
        _ => token.identifier().is_some_and(|name| *name == *b"text"),
    };
    if is_cast {
        return if lexer.any(is_text) { UNREAD } else { Effects::NONE };
    }
    let mut name = lexer.next();
    while is_type && lexer.peek() == Some(Token::Byte(b'.')) {
        lexer.next();
        name = lexer.next();
    }
    let mut makes = is_type && name.is_some_and(is_text);
    // RENAME TO; behind RENAME COLUMN a TO, the name is a column's.
    let mut before = [Token::Number; 2];
    for token in lexer {
        makes |= before[0].is("rename") && before[1].is("to") && is_text(token);
        before = [before[1], token];
    }
    if makes { UNREAD } else { Effects::NONE }
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
    fn a_type_with_the_name_text_is_seen_when_it_is_made() {
        let seen = |text: &str| crate::effects(text.as_bytes()).contains(UNREAD | Effects::DEFINES);
        for text in [
            "create domain text as varchar(4)",
            "CREATE DOMAIN s.\"text\" varchar(4)",
            "create domain U&\"t!0065xt\" uescape '!' as varchar(4)",
            "alter domain s.d rename to text",
            "alter type s.d rename to \"text\"",
            "alter table t rename to text",
            "create cast (s.d as text) with inout as implicit",
            "do $$begin alter type d rename to text; end$$",
        ] {
            assert!(seen(text), "{text}");
        }
        for text in [
            "create domain email as text",
            "create domain email text check (value ~ '@')",
            "create domain text_id as text",
            "alter type e rename to f",
            "alter table t alter a type text",
            "alter table t rename a to text",
            "create table text (text text)",
        ] {
            assert!(!seen(text), "{text}");
        }
    }

    #[test]
    fn a_cast_behind_a_backslash_is_found() {
        assert!(casts_to_unknown(br"select '\'', $1::unknown, '\''"));
        assert!(!casts_to_unknown(b"select '$1::unknown'"));
    }

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
