//! Settings under which constants are read, and texts that may change them.

use crate::lexer::{Lexer, Token};
use crate::search::contains;
use crate::settings::{Place, Target, targets_in_code};
use memchr::{memchr, memmem};

/// Settings under which constants are read, in lower case: a literal is converted to its type when its statement is
/// analysed, and functions that PostgreSQL takes for immutable are computed when it is planned. Functions keep such
/// plans in the server process, until DISCARD PLANS. Not in the list are search_path and the role, which PostgreSQL
/// checks whenever it uses a plan, and the settings that matter only to the lexer, because DISCARD PLANS does not
/// discard what the lexer has read.
pub const READ_UNDER: [&str; 12] = [
    "array_nulls",
    "bytea_output",
    "datestyle",
    "extra_float_digits",
    "intervalstyle",
    "lc_monetary",
    "quote_all_identifiers",
    "timezone",
    "timezone_abbreviations",
    "transform_null_equals",
    "xmlbinary",
    "xmloption",
];

/// Settings under which the lexer reads constants.
const LEXED_UNDER: [&str; 3] = ["backslash_quote", "client_encoding", "standard_conforming_strings"];

impl Target {
    /// Whether it is one of [`READ_UNDER`], or a setting under which the lexer reads constants.
    pub(crate) fn may_be_read_under(&self) -> bool {
        matches!(self, Target::Setting(name) if may_be_read_under(name))
    }

    /// Whether it is the ALL of RESET ALL.
    pub(crate) fn is_all(&self) -> bool {
        matches!(self, Target::Setting(name) if **name == *b"all")
    }
}

/// Whether this name, in any case, is one of [`READ_UNDER`].
pub fn is_read_under(name: &[u8]) -> bool {
    READ_UNDER
        .iter()
        .any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
}

/// Whether this name, in any case, is one of [`READ_UNDER`], or a setting under which the lexer reads constants.
pub(crate) fn may_be_read_under(name: &[u8]) -> bool {
    is_read_under(name)
        || LEXED_UNDER
            .iter()
            .any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
}

/// Whether some SET or RESET of a piece of code may change a setting under which constants are read.
pub(crate) fn sets_reading(code: &[u8]) -> bool {
    targets_in_code(code).any(|place| match place {
        Place::Read(target) => target.may_be_read_under() || target.is_all(),
        Place::Far => true,
    })
}

/// Functions and words of the grammar before a parenthesis that make no constant that depends on [`READ_UNDER`].
const PLAIN_CALLS: [&str; 28] = [
    "now",
    "clock_timestamp",
    "statement_timestamp",
    "transaction_timestamp",
    "count",
    "sum",
    "min",
    "max",
    "coalesce",
    "nullif",
    "greatest",
    "least",
    "exists",
    "in",
    "any",
    "all",
    "and",
    "or",
    "not",
    "values",
    "when",
    "then",
    "if",
    "elsif",
    "where",
    "on",
    "as",
    "return",
];

/// Whether a function with this source may keep a plan whose result depends on [`READ_UNDER`]. It does not if it
/// contains no literal, no cast, no concatenation, no comparison with NULL, no number with binary fractions, and calls
/// only [`PLAIN_CALLS`]: PostgreSQL computes immutable functions when it makes the plan.
pub fn reads_constants(source: &[u8]) -> bool {
    if source.contains(&b'\'') {
        return true;
    }
    let mut last = Token::Byte(b';');
    for token in Lexer::new(source) {
        let compares_null = |one: &Token<'_>, other: &Token<'_>| one.is("null") && *other == Token::Byte(b'=');
        let doubled = |byte| token == Token::Byte(byte) && last == token;
        let is_call = token == Token::Byte(b'(') && is_called(last);
        match token {
            Token::Text(_) | Token::Unterminated => return true,
            Token::Word(word) if is_suspicious(word) => return true,
            _ if is_call || doubled(b':') || doubled(b'|') => return true,
            _ if compares_null(&token, &last) || compares_null(&last, &token) => return true,
            _ => last = token,
        }
    }
    false
}

/// Whether the word before a parenthesis is a function that is not among [`PLAIN_CALLS`]. `= (null)` is a comparison
/// with NULL.
fn is_called(before: Token<'_>) -> bool {
    match before {
        Token::Word(_) => !PLAIN_CALLS.iter().any(|plain| before.is(plain)),
        Token::Quoted(_) | Token::UnicodeQuoted(_) | Token::Byte(b'=') => true,
        _ => false,
    }
}

/// Whether this word is a part of the name of an XML function, of a cast, or of a type with binary fractions.
fn is_suspicious(word: &[u8]) -> bool {
    let parts: [&[u8]; 5] = [b"xml", b"float", b"double", b"real", b"cast"];
    parts.into_iter().any(|part| contains(word, part))
}

/// Words for moments in literals of dates and times, in lower case.
const MOMENTS: [&[u8]; 4] = [b"now", b"today", b"tomorrow", b"yesterday"];

/// Whether a text may contain a constant such as `'now'` or `'yesterday 10:00'`, which PostgreSQL reads as a date or
/// time when it analyses the statement. `now()` is not one.
pub fn reads_clock(text: &[u8]) -> bool {
    // With UESCAPE, any character may begin an escape.
    memmem::find(text, b"&'").is_some()
        || has_moments(Lexer::new(text))
        || memchr(b'\\', text).is_some() && has_moments(Lexer::with_backslashes(text, true))
}

fn has_moments(lexer: Lexer<'_>) -> bool {
    let mut last = Token::Number;
    for token in lexer {
        if let Token::Text(text) = token {
            // A constant that goes on in the next line.
            if matches!(last, Token::Text(_)) || may_be_moment(text) {
                return true;
            }
        }
        last = token;
    }
    false
}

/// Whether a constant may contain one of [`MOMENTS`]. All but letters may stand beside it. Quotes and backslashes may
/// stand within it: in constants of arrays, rows and ranges they go away.
fn may_be_moment(text: &[u8]) -> bool {
    let mut word = [0; 9];
    let mut length = 0;
    let mut rest = text;
    loop {
        let (first, behind) = rest.split_first().map_or((0, rest), |(first, behind)| (*first, behind));
        match (first, behind) {
            // Numbers of characters; a constant that goes on in the next line.
            (b'\\', [b'x' | b'u' | b'U' | b'0'..=b'7', ..]) => return true,
            (b'\'', [b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c | b'-', ..]) => return true,
            (b'\\' | b'"', _) => {}
            (letter, _) if letter.is_ascii_alphabetic() => {
                if let Some(place) = word.get_mut(length) {
                    *place = letter.to_ascii_lowercase();
                }
                length += 1;
            }
            _ => {
                if word.get(..length).is_some_and(|word| MOMENTS.contains(&word)) {
                    return true;
                }
                length = 0;
            }
        }
        if rest.is_empty() {
            return false;
        }
        rest = behind;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Effects, Language, effects, judge_body};

    #[test]
    fn texts_that_change_how_constants_are_read() {
        for text in [
            "set datestyle = 'ISO, DMY'",
            "SET LOCAL DateStyle TO dmy",
            "set time zone 'UTC'",
            "set local time zone local",
            "set xml option document",
            "reset timezone",
            "reset all",
            "set u&\"d!0061testyle\" uescape '!' = dmy",
            "begin; set local intervalstyle = iso_8601; commit",
            "select set_config('TimeZone', 'UTC', true)",
            "select set_config($1, $2, true)",
            "select set_config('date' || 'style', 'ISO', true)",
            "select set_config(k, v, false) from t",
            "update pg_settings set setting = 'x' where name = 'DateStyle'",
            "do $$begin set local bytea_output = escape; end$$",
            "do $$begin execute 'set local ' || x; end$$",
            "explain analyze select set_config('timezone', 'UTC', true)",
            "explain analyze update pg_settings set setting = 'escape' where name = 'bytea_output'",
            "set timezone_abbreviations = 'India'",
        ] {
            assert!(effects(text.as_bytes()).intersects(Effects::READING), "{text}");
        }
        for text in [
            "set local statement_timeout = 5",
            "set search_path = a",
            "set local app.datestyle = 'x'",
            "set role bob",
            "reset role",
            "set transaction read only",
            "set session characteristics as transaction read only",
            "discard all",
            "select set_config('app.tenant', $1, true), 'datestyle'",
            "select current_setting('datestyle')",
            "do $$begin perform set_config('app.x', 'y', true); end$$",
            "call p()",
            "show timezone",
        ] {
            assert!(!effects(text.as_bytes()).intersects(Effects::READING), "{text}");
        }
    }

    #[test]
    fn bodies_that_change_how_constants_are_read() {
        let judge = |language, body: &str| judge_body(language, body.as_bytes(), &[b"a"]).effects;
        for body in [
            "begin set local timezone = 'UTC'; end",
            "begin if true then set datestyle to dmy; end if; end",
            "begin perform set_config('timezone', 'UTC', true); end",
            "begin perform set_config(a, 'UTC', true); end",
            "begin reset all; end",
            "begin execute a; end",
        ] {
            assert!(judge(Language::Plpgsql, body).intersects(Effects::READING), "{body}");
        }
        assert!(judge(Language::Sql, "select set_config('timezone', a, true)").intersects(Effects::READING));
        assert!(judge(Language::Sql, "set local timezone = 'UTC'").intersects(Effects::READING));
        for body in [
            "begin update t set timezone_of = 1; end",
            "begin perform set_config('app.x', a, true); return 1; end",
            "begin set local statement_timeout = 0; end",
        ] {
            assert!(!judge(Language::Plpgsql, body).intersects(Effects::READING), "{body}");
        }
    }

    #[test]
    fn moments_in_literals() {
        for text in [
            "insert into t values ($1, 'now')",
            "select timestamp ' NOW '",
            "select d from t where d >= $$today$$",
            "select 'yesterday10:00'::timestamp",
            "select date 'x', 'tomorrow'",
            "select timestamp 'no'\n'w'",
            "select timestamp 'no' -- x\n 'w'",
            "select timestamp e'n\\x6fw'",
            "select timestamp E'n\\157w'",
            "select timestamp e'no'\n'w'",
            "select timestamp 'n\\u006fw'",
            "select timestamp u&'n\\006fw'",
            "select timestamp U&'n!006fw' uescape '!'",
            "select '{n\\ow}'::timestamp[]",
            "select '(\"n\"ow)'::t",
            "select timestamp 'now_', timestamp '2'",
            "select timestamp '\u{a0}now'",
        ] {
            assert!(reads_clock(text.as_bytes()), "{text}");
        }
        for text in [
            "select now(), pg_catalog.now  (), 'x'",
            "select known, is_now, now_utc, 'knows' from snow",
            "select \"now\", today from t where a like '%\\_x\\%' or b ~ '\\d+' or c = 'it''s' or d = e'a\\n\\'b'",
            "",
        ] {
            assert!(!reads_clock(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn sources_with_constants() {
        for source in [
            "select 'a'",
            "begin x := $q$a$q$; end",
            "select a = null",
            "select NULL  = a",
            "select xmlparse(document $1)",
            "select (1::float8 / 3)::text",
            "select quote_ident(chr(97))",
            "select pi()::text",
            "select concat(pi())",
            "select a || b",
            "begin x := sqrt(2); end",
            "select a = (null)",
            "select cast(1 as text)",
        ] {
            assert!(reads_constants(source.as_bytes()), "{source}");
        }
        for source in [
            "begin new.changed = now(); return new; end",
            "select $1 + 1 where a is null",
            "begin if a is not null then return b; end if; end",
        ] {
            assert!(!reads_constants(source.as_bytes()), "{source}");
        }
    }
}
