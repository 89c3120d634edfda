//! A quick look at the calls of a text: whether all of them are surely harmless.

use crate::built_in::{is_word_byte, last_word, look_up};
use memchr::{memchr, memchr_iter, memmem, memrchr};

/// Whether the word before each parenthesis of this text is surely harmless. This is a quick look backwards from each
/// parenthesis. The text contains no `U&"`. `false` proves nothing.
pub(crate) fn surely_harmless(text: &[u8]) -> bool {
    let mut firsts = Firsts {
        text,
        dollar: None,
        dashes: None,
    };
    memchr_iter(b'(', text).all(|at| {
        let (before, mut lines) = without_space(&text[..at]);
        let harmless = match before.last() {
            Some(b'"') => firsts.are_without_dollar(before.len()) && behind_into(before),
            // The end of a comment, or white space that only some versions know.
            Some(b'/' | 0x0b) => false,
            Some(b) if is_word_byte(*b) => {
                let (rest, _, known) = last_word(before);
                match rest.last() {
                    _ if known.is_doubtful() => false,
                    _ if known.is_foreign() => firsts.are_without_dollar(before.len()) && behind_into(before),
                    Some(b'.' | b'/' | 0x0b) => false,
                    Some(b' ' | b'\n' | b'\t' | b'\r' | 0x0c) => {
                        let (rest, more_lines) = without_space(rest);
                        lines |= more_lines;
                        !matches!(rest.last(), Some(b'.' | b'/' | 0x0b))
                    }
                    _ => true,
                }
            }
            _ => true,
        };
        // After a line break, the word may be the end of a comment.
        harmless && (!lines || firsts.are_without_dashes(at))
    })
}

/// The first places of what makes a quick look backwards doubtful. Each is searched for at most once: a text may have
/// as many parentheses as bytes.
struct Firsts<'a> {
    text: &'a [u8],
    dollar: Option<usize>,
    dashes: Option<usize>,
}

impl Firsts<'_> {
    /// Whether this many bytes of the text contain no dollar sign. It may end a string that contains an INTO.
    fn are_without_dollar(&mut self, bytes: usize) -> bool {
        let search = || memchr(b'$', self.text).unwrap_or(self.text.len());
        *self.dollar.get_or_insert_with(search) >= bytes
    }

    /// Whether this many bytes of the text contain no `--`.
    fn are_without_dashes(&mut self, bytes: usize) -> bool {
        let search = || memmem::find(self.text, b"--").unwrap_or(self.text.len());
        *self.dashes.get_or_insert_with(search) + 2 > bytes
    }
}

/// Whether the name that ends here follows INTO.
fn behind_into(mut before: &[u8]) -> bool {
    loop {
        let rest = if let Some(quoted) = before.strip_suffix(b"\"") {
            match memrchr(b'"', quoted) {
                Some(at) if !look_up(&quoted[at + 1..]).is_doubtful() => &quoted[..at],
                _ => return false,
            }
        } else {
            last_word(before).0
        };
        // No name is there, or a digit comes before it.
        if before[rest.len()..].first().is_none_or(u8::is_ascii_digit) {
            return false;
        }
        if let Some(schema) = rest.strip_suffix(b".") {
            before = schema;
            continue;
        }
        let (rest, lines) = without_space(rest);
        return !lines && last_word(rest).1.eq_ignore_ascii_case(b"into");
    }
}

/// A text without its trailing white space, and whether that contained line breaks.
fn without_space(text: &[u8]) -> (&[u8], bool) {
    let mut end = text.len();
    let mut lines = false;
    while end > 0 && matches!(text[end - 1], b' ' | b'\t' | b'\n' | b'\r' | 0x0c) {
        lines |= matches!(text[end - 1], b'\n' | b'\r');
        end -= 1;
    }
    (&text[..end], lines)
}
