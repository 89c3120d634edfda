//! A text too long to keep, without its constants: what it does is read from the rest.
//!
//! Long texts are long by their constants, as a rule: rows of an INSERT. Each constant becomes [`CONSTANT`], constants in a
//! row become one, and rows of constants one row. What is left does at least what the whole does, as far as
//! [`crate::effects`] and [`crate::KnownNames`] tell, but that texts in constants are lost: functions that run such texts
//! may do anything anyway.

use crate::built_in::is_word_byte;

/// The longest text that is left of a long one, bytes; of a longer one nothing is known.
pub const CONDENSED_BYTES_MAX: usize = 64 * 1024;

/// Stands for any constant. It has an escape, so that nobody takes it for a name.
const CONSTANT: &[u8] = br"e'\\'";

/// What comes in a row as one.
const TWO: &[u8] = br"e'\\',e'\\'";
const TWO_ROWS: &[u8] = br"(e'\\'),(e'\\')";

/// Words that are constants.
const CONSTANT_WORDS: [&[u8]; 4] = [b"null", b"true", b"false", b"default"];

/// Where in the text a piece ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Between tokens.
    Between,
    /// In a word, number or parameter, which began here in what is left.
    Word(usize),
    /// In a string constant; whether backslashes escape.
    Text(bool),
    /// Behind a backslash in one.
    Escaped,
    /// Behind a backslash in a plain one: whether it escapes, a setting of the session decides.
    Backslash,
    /// Behind a quote in one: it ends, or goes on if another quote follows.
    Quote(bool),
    /// In a quoted identifier.
    Quoted,
    /// Behind a minus sign.
    Minus,
    LineComment,
    /// Behind a slash.
    Slash,
    /// In a block comment so deep, and behind this byte.
    Block(u32, u8),
}

/// A long text on its way to be condensed.
#[derive(Debug)]
pub struct Condensed {
    left: Vec<u8>,
    place: Place,
    /// What is left cannot be told, or is too long.
    lost: bool,
    /// A constant with escapes has ended, and goes on if a quote is next.
    escaped_before: bool,
}

impl Default for Condensed {
    fn default() -> Self {
        Condensed {
            left: Vec::new(),
            place: Place::Between,
            lost: false,
            escaped_before: false,
        }
    }
}

impl Condensed {
    /// Reads the next piece; pieces may be cut anywhere.
    pub fn feed(&mut self, piece: &[u8]) {
        for &byte in piece {
            if self.lost {
                return;
            }
            self.read(byte);
            self.lost |= self.left.len() > CONDENSED_BYTES_MAX;
        }
    }

    /// What is left at the end of the text; `None` where that cannot be told.
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

    /// A byte behind a whole token.
    fn between(&mut self, byte: u8) -> Place {
        // The message ends with a zero byte.
        let space = matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0c | 0);
        let escaped_before = self.escaped_before;
        self.escaped_before &= space;
        match byte {
            b'\'' => {
                // A constant with escapes goes on in the next line.
                self.lost |= escaped_before;
                return Place::Text(false);
            }
            // Dollar quotes are not worth following.
            b'$' => self.lost = true,
            b'"' => {
                // U&"..": any name may hide.
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

    /// `e'`, `x'`, `u&'`: a constant; the word was its prefix.
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
        // The sign of a number is a part of it.
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

    proptest! {
        /// What a text does must not be lost with its constants.
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
