//! Words, quoted identifiers and punctuation, as far as the session statements need them.
//!
//! Rules: the PostgreSQL manual, section "Lexical Structure".

/// One token; everything the session statements do not use is [`Token::Other`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Token<'a> {
    /// An unquoted identifier or key word, as written.
    Word(&'a [u8]),
    /// A `"quoted"` identifier without its quotes, doubled quotes halved.
    Quoted(Vec<u8>),
    /// `;`
    Semicolon,
    /// Anything else: the text is not a statement of ours.
    Other,
}

/// Tokens of a text.
#[derive(Debug, Clone)]
pub(crate) struct Lexer<'a> {
    rest: &'a [u8],
}

impl<'a> Lexer<'a> {
    pub(crate) fn new(text: &'a [u8]) -> Self {
        Lexer { rest: text }
    }

    /// Drops white space and comments; `false` where a block comment does not end.
    pub(crate) fn skip_space(&mut self) -> bool {
        loop {
            match self.rest {
                [b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c, rest @ ..] => self.rest = rest,
                [b'-', b'-', ..] => {
                    let end = self
                        .rest
                        .iter()
                        .position(|&b| b == b'\n' || b == b'\r')
                        .unwrap_or(self.rest.len());
                    self.rest = &self.rest[end..];
                }
                [b'/', b'*', ..] => match block_comment_bytes(self.rest) {
                    Some(bytes) => self.rest = &self.rest[bytes..],
                    None => return false,
                },
                _ => return true,
            }
        }
    }

    /// The next token, or `None` at the end.
    pub(crate) fn next(&mut self) -> Option<Token<'a>> {
        if !self.skip_space() {
            return Some(Token::Other);
        }
        let (&first, rest) = self.rest.split_first()?;
        match first {
            b';' => {
                self.rest = rest;
                Some(Token::Semicolon)
            }
            b'"' => Some(self.quoted()),
            b if is_word_start(b) => {
                let end = self
                    .rest
                    .iter()
                    .position(|&b| !is_word_part(b))
                    .unwrap_or(self.rest.len());
                let (word, rest) = self.rest.split_at(end);
                self.rest = rest;
                // U&"..." and similar prefixes are not plain words.
                if matches!(rest.first(), Some(b'&' | b'\'' | b'"')) {
                    Some(Token::Other)
                } else {
                    Some(Token::Word(word))
                }
            }
            _ => {
                self.rest = rest;
                Some(Token::Other)
            }
        }
    }

    fn quoted(&mut self) -> Token<'a> {
        let mut name = Vec::new();
        let mut rest = &self.rest[1..];
        loop {
            match rest {
                [b'"', b'"', more @ ..] => {
                    name.push(b'"');
                    rest = more;
                }
                [b'"', more @ ..] => {
                    self.rest = more;
                    return Token::Quoted(name);
                }
                [b, more @ ..] => {
                    name.push(*b);
                    rest = more;
                }
                [] => {
                    self.rest = rest;
                    return Token::Other;
                }
            }
        }
    }
}

fn is_word_start(b: u8) -> bool {
    b.is_ascii_alphabetic() || b == b'_' || b >= 0x80
}

fn is_word_part(b: u8) -> bool {
    is_word_start(b) || b.is_ascii_digit() || b == b'$'
}

/// Bytes of the block comment at the front of `text`, nested ones included; `None` where it does not end.
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
