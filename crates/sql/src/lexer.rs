//! Tokens of SQL text, detailed enough to tell words from quoted text, and one statement from the next.
//!
//! Rules: the PostgreSQL manual, section "Lexical Structure", and scan.l where the manual says nothing (strings that go
//! on in the next line, `--` inside an operator, identifiers that end at a dollar sign).
//!
//! Whether a backslash escapes in a plain string is a setting of the session (`standard_conforming_strings`), which the
//! text does not show. The caller of the lexer says which setting to assume, and the lexer records whether it made a
//! difference.

use memchr::{memchr, memchr2, memmem};

/// Identifiers are cut to this many bytes (`NAMEDATALEN - 1`).
pub const IDENTIFIER_BYTES_MAX: usize = 63;

/// One token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Token<'a> {
    /// An unquoted identifier or key word, as written.
    Word(&'a [u8]),
    /// A `"quoted"` identifier: the bytes between the quotes; doubled quotes are still doubled.
    Quoted(&'a [u8]),
    /// `U&"..."`, whose letters may be written as escapes: the bytes between the quotes, unchanged.
    UnicodeQuoted(&'a [u8]),
    /// A string constant of any kind: the bytes between its delimiters, unchanged.
    Text(&'a [u8]),
    /// `$1`
    Parameter(u16),
    /// Digits and decimal points.
    Number,
    /// Any other byte: operators, parentheses, semicolons.
    Byte(u8),
    /// A comment, string or quoted identifier without an end. No token follows it.
    Unterminated,
}

impl Token<'_> {
    /// Whether this token is the key word `word`, which is in lower case.
    pub(crate) fn is(&self, word: &str) -> bool {
        matches!(self, Token::Word(w) if w.eq_ignore_ascii_case(word.as_bytes()))
    }

    /// The name that an identifier stands for, as the catalog holds it: folded or unquoted, and cut.
    pub(crate) fn identifier(&self) -> Option<Box<[u8]>> {
        let mut name = match self {
            Token::Word(word) => word.to_ascii_lowercase(),
            Token::Quoted([]) => return None,
            Token::Quoted(raw) => unquote(raw),
            _ => return None,
        };
        cut(&mut name);
        Some(name.into())
    }

    /// As [`Token::identifier`], also for `U&"..."` if its escapes stand for ASCII: what other letters become depends
    /// on the server's encoding. The caller makes sure that no UESCAPE follows.
    pub(crate) fn spelled_identifier(&self) -> Option<Box<[u8]>> {
        let Token::UnicodeQuoted(raw) = self else {
            return self.identifier();
        };
        let mut name = unescape(&unquote(raw))?;
        cut(&mut name);
        (!name.is_empty()).then(|| name.into())
    }
}

/// Tokens of a text.
#[derive(Debug, Clone)]
pub(crate) struct Lexer<'a> {
    text: &'a [u8],
    /// Where the unread part begins; at most the length of the text.
    at: usize,
    /// Whether a backslash escapes in a plain string: `standard_conforming_strings = off`.
    backslashes: bool,
    /// Whether a plain string was read that ends at another place under the other setting.
    ambiguous: bool,
}

impl<'a> Lexer<'a> {
    pub(crate) fn new(text: &'a [u8]) -> Self {
        Lexer::with_backslashes(text, false)
    }

    /// For a session with `standard_conforming_strings = off`, if `backslashes` is true.
    pub(crate) fn with_backslashes(text: &'a [u8], backslashes: bool) -> Self {
        Lexer {
            text,
            at: 0,
            backslashes,
            ambiguous: false,
        }
    }

    /// A text under each setting of `standard_conforming_strings` under which it may be another one.
    pub(crate) fn readings(text: &'a [u8]) -> impl Iterator<Item = Self> {
        let escaped = memchr(b'\\', text).map(|_| Lexer::with_backslashes(text, true));
        [Lexer::new(text)].into_iter().chain(escaped)
    }

    /// Bytes read so far.
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    /// Whether the tokens read so far depend on `standard_conforming_strings`.
    pub(crate) fn is_ambiguous(&self) -> bool {
        self.ambiguous
    }

    /// The next token, without taking it.
    pub(crate) fn peek(&self) -> Option<Token<'a>> {
        self.clone().next()
    }

    /// Takes the next token if it is the key word `word`, which is in lower case.
    pub(crate) fn accept(&mut self, word: &str) -> bool {
        let mut ahead = self.clone();
        let accepted = ahead.next().is_some_and(|t| t.is(word));
        if accepted {
            *self = ahead;
        }
        accepted
    }

    /// Skips white space and comments; `false` if a block comment has no end.
    pub(crate) fn skip_space(&mut self) -> bool {
        loop {
            match self.rest() {
                [b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c, ..] => self.at += 1,
                [b'-', b'-', ..] => self.at += line_comment_bytes(self.rest()),
                [b'/', b'*', ..] => match block_comment_bytes(self.rest()) {
                    Some(bytes) => self.at += bytes,
                    None => return false,
                },
                _ => return true,
            }
        }
    }

    fn rest(&self) -> &'a [u8] {
        &self.text[self.at..]
    }

    fn unterminated(&mut self) -> Token<'a> {
        self.at = self.text.len();
        Token::Unterminated
    }

    fn word(&mut self) -> Token<'a> {
        let rest = self.rest();
        let end = rest.iter().position(|&b| !is_word_part(b)).unwrap_or(rest.len());
        let (word, rest) = rest.split_at(end);
        self.at += end;
        match (word, rest) {
            (b"e" | b"E", [b'\'', ..]) => self.text(true, false),
            (b"b" | b"B" | b"x" | b"X", [b'\'', ..]) => self.text(false, false),
            (b"u" | b"U", [b'&', b'\'', ..]) => {
                self.at += 1;
                self.text(false, false)
            }
            (b"u" | b"U", [b'&', b'"', ..]) => {
                self.at += 1;
                match self.quoted() {
                    Token::Quoted(raw) => Token::UnicodeQuoted(raw),
                    other => other,
                }
            }
            _ => Token::Word(word),
        }
    }

    /// A quoted identifier; the opening quote is next.
    fn quoted(&mut self) -> Token<'a> {
        let start = self.at + 1;
        let mut at = start;
        while let Some(found) = memchr(b'"', &self.text[at..]) {
            at += found + 1;
            if self.text.get(at) != Some(&b'"') {
                self.at = at;
                return Token::Quoted(&self.text[start..at - 1]);
            }
            at += 1;
        }
        self.unterminated()
    }

    /// A string constant; the opening quote is next.
    fn text(&mut self, escapes: bool, plain: bool) -> Token<'a> {
        let start = self.at + 1;
        let mut at = start;
        loop {
            let rest = self.text.get(at..).unwrap_or_default();
            let found = if escapes {
                memchr2(b'\'', b'\\', rest)
            } else {
                memchr(b'\'', rest)
            };
            let Some(found) = found else { return self.unterminated() };
            at += found;
            if self.text[at] == b'\\' {
                at += 2;
                continue;
            }
            self.ambiguous |= plain && at > start && self.text[at - 1] == b'\\';
            if self.text.get(at + 1) == Some(&b'\'') {
                at += 2;
                continue;
            }
            match self.continuation(at + 1).filter(|_| escapes) {
                Some(next) => at = next,
                None => {
                    self.at = at + 1;
                    return Token::Text(&self.text[start..at]);
                }
            }
        }
    }

    /// If white space with a line break and another quote follow a string, the string goes on after that quote. This
    /// matters only where backslashes escape: the further part is read like the first.
    fn continuation(&self, at: usize) -> Option<usize> {
        let mut at = at;
        let mut lines = false;
        loop {
            match &self.text[at..] {
                [b'\n' | b'\r', ..] => {
                    lines = true;
                    at += 1;
                }
                [b' ' | b'\t' | 0x0b | 0x0c, ..] => at += 1,
                rest @ [b'-', b'-', ..] => at += line_comment_bytes(rest),
                [b'\'', ..] if lines => return Some(at + 1),
                _ => return None,
            }
        }
    }

    /// `$1`, `$tag$ .. $tag$`, or a dollar sign.
    fn dollar(&mut self) -> Token<'a> {
        let rest = &self.rest()[1..];
        if rest.first().is_some_and(u8::is_ascii_digit) {
            let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
            self.at += 1 + digits;
            let number = rest[..digits]
                .iter()
                .try_fold(0u16, |n, b| n.checked_mul(10)?.checked_add(u16::from(b - b'0')));
            return number.map_or(Token::Number, Token::Parameter);
        }
        let tag = match rest.first() {
            Some(&b) if is_word_start(b) => rest.iter().take_while(|b| is_word_part(**b) && **b != b'$').count(),
            _ => 0,
        };
        if rest.get(tag) != Some(&b'$') {
            self.at += 1;
            return Token::Byte(b'$');
        }
        let delimiter = &self.rest()[..tag + 2];
        let start = self.at + delimiter.len();
        match memmem::find(&self.text[start..], delimiter) {
            Some(bytes) => {
                self.at = start + bytes + delimiter.len();
                Token::Text(&self.text[start..start + bytes])
            }
            None => self.unterminated(),
        }
    }
}

impl<'a> Iterator for Lexer<'a> {
    type Item = Token<'a>;

    /// The next token, or `None` at the end.
    fn next(&mut self) -> Option<Token<'a>> {
        if !self.skip_space() {
            return Some(self.unterminated());
        }
        Some(match *self.rest().first()? {
            b'"' => self.quoted(),
            b'\'' => self.text(self.backslashes, true),
            b'$' => self.dollar(),
            b if is_word_start(b) => self.word(),
            b if b.is_ascii_digit() => {
                let number = |b: &&u8| b.is_ascii_digit() || **b == b'.';
                self.at += self.rest().iter().take_while(number).count();
                Token::Number
            }
            b => {
                self.at += 1;
                Token::Byte(b)
            }
        })
    }
}

/// Makes one quote of each doubled one.
fn unquote(raw: &[u8]) -> Vec<u8> {
    let mut name = Vec::with_capacity(raw.len());
    let mut rest = raw;
    while let [first, more @ ..] = rest {
        name.push(*first);
        rest = match more {
            [b'"', after @ ..] if *first == b'"' => after,
            _ => more,
        };
    }
    name
}

/// Reads the escapes of `U&"..."`: `\\`, `\XXXX` and `\+XXXXXX`. `None` if one is malformed or not ASCII.
fn unescape(raw: &[u8]) -> Option<Vec<u8>> {
    let mut name = Vec::with_capacity(raw.len());
    let mut rest = raw;
    while let [first, more @ ..] = rest {
        rest = more;
        if *first != b'\\' {
            name.push(*first);
            continue;
        }
        let (digits, after) = match more {
            [b'\\', after @ ..] => {
                name.push(b'\\');
                rest = after;
                continue;
            }
            [b'+', more @ ..] => more.split_at_checked(6)?,
            _ => more.split_at_checked(4)?,
        };
        if !digits.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        let letter = u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
        name.push(u8::try_from(letter).ok().filter(|b| matches!(b, 1..=0x7f))?);
        rest = after;
    }
    Some(name)
}

/// Cuts an identifier as the server does; if it is UTF-8, between characters.
fn cut(name: &mut Vec<u8>) {
    if name.len() > IDENTIFIER_BYTES_MAX {
        let mut end = IDENTIFIER_BYTES_MAX;
        if let Ok(text) = std::str::from_utf8(name) {
            while !text.is_char_boundary(end) {
                end -= 1;
            }
        }
        name.truncate(end);
    }
}

fn is_word_start(b: u8) -> bool {
    b.is_ascii_alphabetic() || b == b'_' || b >= 0x80
}

fn is_word_part(b: u8) -> bool {
    is_word_start(b) || b.is_ascii_digit() || b == b'$'
}

/// The length in bytes of the `--` comment at the beginning of `text`, without the line break.
fn line_comment_bytes(text: &[u8]) -> usize {
    memchr2(b'\n', b'\r', text).unwrap_or(text.len())
}

/// The length in bytes of the block comment at the beginning of `text`, including nested ones; `None` if it has no end.
fn block_comment_bytes(text: &[u8]) -> Option<usize> {
    let mut depth = 0;
    let mut at = 0;
    loop {
        match text.get(at..at + 2)? {
            b"/*" => {
                depth += 1;
                at += 2;
            }
            b"*/" => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => at += 1,
        }
    }
}

#[cfg(test)]
#[path = "lexer_tests.rs"]
mod tests;
