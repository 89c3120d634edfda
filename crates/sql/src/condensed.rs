//! The text of a statement that is too long to keep, without its constants. Its effects are read from the rest.
//!
//! A long text usually consists mostly of constants: the rows of an INSERT. Each constant becomes [`CONSTANT`], several
//! constants in a list become one, and several rows become one. The condensed text has at least the effects of the
//! whole text, as far as [`crate::effects`] and [`crate::KnownNames`] can tell. The one exception are texts inside
//! constants: these are lost, but functions that run them may do anything anyway.

use crate::built_in::is_word_byte;
use crate::search::contains;

/// The longest condensed text, bytes. If it would be longer, nothing is known of the text.
pub const CONDENSED_BYTES_MAX: usize = 64 * 1024;

/// Replaces any constant. It contains an escape, so that it is never taken for a name.
const CONSTANT: &[u8] = br"e'\\'";

/// Two constants in a list, which become one.
const TWO: &[u8] = br"e'\\',e'\\'";
const TWO_ROWS: &[u8] = br"(e'\\'),(e'\\')";

/// Words that are looked for in a text of which nothing else is known.
const SEARCHED: [&[u8]; 3] = [b"prepared_statement", b"unlisten", b"pg_listening_channels"];

/// Bytes at the end of a piece that may belong to such a word.
const TAIL_BYTES_MAX: usize = 20;

/// Words that are constants.
const CONSTANT_WORDS: [&[u8]; 4] = [b"null", b"true", b"false", b"default"];

/// Where in the text a piece ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, pgweir_freeze::Freeze)]
enum Place {
    /// Between tokens.
    Between,
    /// In a word, number or parameter, which begins at this offset of the condensed text.
    Word(usize),
    /// In a string constant; whether backslashes escape.
    Text(bool),
    /// After a backslash in a string constant.
    Escaped,
    /// After a backslash in a plain string constant: a setting of the session decides whether it escapes.
    Backslash,
    /// After a quote in a string constant: the constant ends, or another quote follows and it goes on.
    Quote(bool),
    /// In a quoted identifier.
    Quoted,
    /// After a minus sign.
    Minus,
    LineComment,
    /// After a slash.
    Slash,
    /// In a block comment of this depth, after this byte.
    Block(u32, u8),
}

/// A long text that is being condensed.
#[derive(Debug, pgweir_freeze::Freeze)]
pub struct Condensed {
    left: Vec<u8>,
    place: Place,
    /// The condensed text cannot be made, or is too long.
    lost: bool,
    /// A constant with escapes has ended. It goes on if the next token is a quote.
    escaped_before: bool,
    /// If the text is lost: the last bytes of it that were searched.
    tail: Vec<u8>,
    /// If the text is lost: which of the words [`SEARCHED`] it contains.
    found: [bool; SEARCHED.len()],
}

impl Default for Condensed {
    fn default() -> Self {
        Condensed {
            left: Vec::new(),
            place: Place::Between,
            lost: false,
            escaped_before: false,
            tail: Vec::new(),
            found: [false; SEARCHED.len()],
        }
    }
}

impl Condensed {
    /// Reads the next piece; pieces may be cut anywhere.
    pub fn feed(&mut self, piece: &[u8]) {
        if self.lost {
            return self.search(piece);
        }
        for &byte in piece {
            self.read(byte);
            self.lost |= self.left.len() > CONDENSED_BYTES_MAX;
            if self.lost {
                let left = std::mem::take(&mut self.left);
                self.search(&left);
                return self.search(piece);
            }
        }
    }

    /// Searches a text that is lost.
    fn search(&mut self, piece: &[u8]) {
        self.tail.extend_from_slice(piece);
        for (word, found) in SEARCHED.iter().zip(&mut self.found) {
            *found = *found || contains(&self.tail, word);
        }
        let searched = self.tail.len().saturating_sub(TAIL_BYTES_MAX);
        self.tail.drain(..searched);
    }

    /// The condensed text as far as it has been read; `None` if it cannot be made.
    pub fn so_far(&self) -> Option<&[u8]> {
        (!self.lost).then_some(&self.left)
    }

    /// Whether a text that is lost contains the name of the view of prepared statements.
    pub fn lists_statements(&self) -> bool {
        self.found[0]
    }

    /// Whether a text that is lost contains UNLISTEN, or asks for the session's channels.
    pub fn asks_for_channels(&self) -> bool {
        self.found[1] || self.found[2]
    }

    /// The condensed text; `None` if it could not be made.
    pub fn finish(mut self) -> Option<Vec<u8>> {
        self.feed(b"\n");
        (!self.lost && self.place == Place::Between).then_some(self.left)
    }

    fn read(&mut self, byte: u8) {
        self.place = match (self.place, byte) {
            (Place::Text(true), b'\\') => Place::Escaped,
            (Place::Text(false), b'\\') | (Place::Backslash, b'\\') => Place::Backslash,
            (Place::Text(escapes), b'\'') => Place::Quote(escapes),
            (Place::Text(_), _) => self.place,
            (Place::Escaped, _) => Place::Text(true),
            (Place::Backslash, b'\'') => {
                self.lost = true;
                self.place
            }
            (Place::Backslash, _) => Place::Text(false),
            (Place::Quote(escapes), b'\'') => Place::Text(escapes),
            (Place::Quote(escapes), _) => {
                self.constant();
                self.escaped_before = escapes;
                self.between(byte)
            }
            (Place::Quoted, _) => {
                self.left.push(byte);
                if byte == b'"' { Place::Between } else { Place::Quoted }
            }
            (Place::Word(_), b) if is_word_byte(b) => {
                self.left.push(byte);
                self.place
            }
            (Place::Word(start), b'\'' | b'"' | b'&') => self.prefixed(start, byte),
            (Place::Word(start), b'.') if self.left[start].is_ascii_digit() => {
                self.left.push(byte);
                self.place
            }
            (Place::Word(start), _) => {
                self.word_ends(start);
                self.between(byte)
            }
            (Place::Minus, b'-') => {
                self.left.pop();
                Place::LineComment
            }
            (Place::Slash, b'*') => {
                self.left.pop();
                Place::Block(1, 0)
            }
            (Place::LineComment, b'\n' | b'\r') => self.between(b' '),
            (Place::LineComment, _) => self.place,
            (Place::Block(1, b'*'), b'/') => self.between(b' '),
            (Place::Block(depth, b'*'), b'/') => Place::Block(depth - 1, 0),
            (Place::Block(depth, b'/'), b'*') => Place::Block(depth + 1, 0),
            (Place::Block(depth, _), _) => Place::Block(depth, byte),
            (Place::Between | Place::Minus | Place::Slash, _) => self.between(byte),
        };
    }

    /// Handles a byte that follows a whole token.
    fn between(&mut self, byte: u8) -> Place {
        // The message ends with a zero byte.
        let space = matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0c | 0);
        let escaped_before = self.escaped_before;
        self.escaped_before &= space;
        match byte {
            b'\'' => {
                // A constant with escapes may go on in the next line.
                self.lost |= escaped_before;
                return Place::Text(false);
            }
            // Dollar quotes are too rare to be followed.
            b'$' => self.lost = true,
            b'"' => {
                // U&"..": it may stand for any name.
                self.lost |= self.left.ends_with(b"&");
                self.left.push(byte);
                return Place::Quoted;
            }
            b if is_word_byte(b) => {
                self.left.push(byte);
                return Place::Word(self.left.len() - 1);
            }
            _ if space => {
                if !matches!(self.left.last(), None | Some(b' ' | b',' | b'(' | b')')) {
                    self.left.push(b' ');
                }
            }
            b',' | b')' => {
                self.left.truncate(self.left.trim_ascii_end().len());
                self.left.push(byte);
                if self.left.ends_with(TWO_ROWS) {
                    self.left.truncate(self.left.len() - TWO_ROWS.len() / 2 - 1);
                }
            }
            _ => self.left.push(byte),
        }
        match byte {
            b'-' => Place::Minus,
            b'/' => Place::Slash,
            _ => Place::Between,
        }
    }

    /// `e'`, `x'`, `u&'`: the word was the prefix of a constant.
    fn prefixed(&mut self, start: usize, byte: u8) -> Place {
        match (self.left[start..].to_ascii_lowercase().as_slice(), byte) {
            (b"e", b'\'') => {
                self.left.truncate(start);
                Place::Text(true)
            }
            (b"b" | b"x" | b"n", b'\'') => {
                self.left.truncate(start);
                Place::Text(false)
            }
            (b"u", b'&') => {
                self.lost = true;
                Place::Between
            }
            _ => {
                self.word_ends(start);
                self.between(byte)
            }
        }
    }

    fn word_ends(&mut self, start: usize) {
        let word = &self.left[start..];
        let number = word[0].is_ascii_digit()
            && word
                .iter()
                .all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E'));
        if number || CONSTANT_WORDS.iter().any(|w| w.eq_ignore_ascii_case(word)) {
            self.left.truncate(start);
            self.constant();
        }
    }

    fn constant(&mut self) {
        // The sign of a number is part of it.
        let before = self.left.trim_ascii_end();
        if let Some(rest) = before
            .strip_suffix(b"-")
            .filter(|rest| rest.ends_with(b",") || rest.ends_with(b"("))
        {
            self.left.truncate(rest.len());
        }
        self.left.extend_from_slice(CONSTANT);
        if self.left.ends_with(TWO) {
            self.left.truncate(self.left.len() - TWO.len() / 2 - 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Effects;
    use proptest::prelude::*;

    fn of(text: &str, piece: usize) -> Option<String> {
        let mut condensed = Condensed::default();
        text.as_bytes().chunks(piece).for_each(|piece| condensed.feed(piece));
        condensed.finish().map(|left| String::from_utf8(left).unwrap())
    }

    #[test]
    fn rows_of_constants_become_one() {
        for (text, left) in [
            (
                "insert into t (a) values (1, -2.5, 'x(y', null), (2, 3,e'\\'', TRUE) ;",
                r"insert into t (a)values (e'\\');",
            ),
            (
                "select f('a''b') -- x'\n, 'c' /* ' /* */ */ from \"t'\"",
                r#"select f(e'\\'),e'\\' from "t'""#,
            ),
            ("select a1, b - 2, x'1f' - c", r"select a1,b - e'\\' - c"),
        ] {
            for piece in [1, 3, 1000] {
                let got = of(text, piece).unwrap().trim_end().replace(" ;", ";");
                assert_eq!(got, left, "{text}");
            }
        }
        for text in [
            "select $$x$$",
            "select u&\"x\"",
            r"select 'a\'b'",
            "select 'x",
            "select \"x",
            "select e'a'\n'b'",
            "/*",
        ] {
            assert_eq!(of(text, 2), None, "{text}");
        }
        let rows = "(1, 'two', 3.5), ".repeat(100_000);
        let left = of(&format!("insert into t values {rows}(1, 'x', 2)"), 4096).unwrap();
        assert_eq!(left.trim_end(), r"insert into t values (e'\\')");
        assert_eq!(crate::effects(left.as_bytes()), Effects::NONE);
    }

    /// Guards against a text that shows other clients' statements because it could not be condensed.
    #[test]
    fn a_lost_text_is_searched() {
        for piece in [1, 7, 4096] {
            let of = |text: &str| {
                let mut condensed = Condensed::default();
                text.as_bytes().chunks(piece).for_each(|piece| condensed.feed(piece));
                assert_eq!(condensed.so_far(), None);
                (condensed.lists_statements(), condensed.asks_for_channels())
            };
            assert_eq!(of("select $$x$$ from t"), (false, false));
            assert_eq!(of("select $$x$$ from PG_prepared_statements"), (true, false));
            assert_eq!(of("table pg_prepared_statements; select $$x$$"), (true, false));
            assert_eq!(of("select $$x$$; unlisten *"), (false, true));
            assert_eq!(of("select pg_listening_channels(), $$x$$"), (false, true));
        }
    }

    proptest! {
        /// The effects of a text must not be lost with its constants.
        #[test]
        fn what_is_left_does_what_the_whole_does(
            parts in prop::collection::vec(prop::sample::select(vec![
                "set_config(", "f(", "abs(", "query_to_xml(", "'x'", "'a''b'", "e'\\''", "1", ",", ")", "(", " ", "\n", "null",
                "into temp t", "; set a = 1", "-- c\n", "/* c */", "\"q\"", "currval(", "a.b", "+", "pg_advisory_lock(",
            ]), 0..20),
            piece in 1..9usize,
        ) {
            let text = format!("select {}", parts.concat());
            if let Some(left) = of(&text, piece) {
                let (whole, left_effects) = (crate::effects(text.as_bytes()), crate::effects(left.as_bytes()));
                prop_assert!(left_effects.contains(whole), "{} / {}: {:?} {:?}", text, left, whole, left_effects);
            }
        }
    }
}
