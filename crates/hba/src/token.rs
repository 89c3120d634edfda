//! Splitting a line of a file into fields of words.
//!
//! Fields are separated by blanks, and the words of a field by commas (with blanks around them, as PgBouncer reads them).
//! A word in double quotes is taken literally and may contain blanks, commas and `#`; `""` inside it is one quote. `#`
//! begins a comment. A backslash at the end of a line joins it with the next one.

use crate::problem::Fault;

/// A word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    pub(crate) text: String,
    /// It begins with a quote: then keywords, `+` and `@` have no special meaning.
    pub(crate) quoted: bool,
}

impl Word {
    /// Whether it is this keyword.
    pub(crate) fn is(&self, keyword: &str) -> bool {
        !self.quoted && self.text == keyword
    }

    /// The text after this character, if the word begins with it.
    pub(crate) fn behind(&self, sign: char) -> Option<&str> {
        if self.quoted {
            return None;
        }
        self.text.strip_prefix(sign)
    }

    /// The regular expression, if the word begins with a slash. This holds between quotes, too, because the expression
    /// may need blanks and commas.
    pub(crate) fn regex(&self) -> Option<&str> {
        self.text.strip_prefix('/')
    }
}

/// The words between two blanks.
pub(crate) type Field = Vec<Word>;

/// A line that is not empty.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// Its number, from 1.
    pub(crate) number: u32,
    pub(crate) fields: Vec<Field>,
}

/// The lines of a text. Comments and empty lines are left out.
pub(crate) fn lines(bytes: &[u8]) -> Vec<(u32, Result<Vec<Field>, Fault>)> {
    let mut found = Vec::new();
    let mut joined = String::new();
    let mut first = 0;
    let mut wrong = None;
    let body = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let count = body.split(|byte| *byte == b'\n').count();
    for (index, raw) in body.split(|byte| *byte == b'\n').enumerate() {
        let number = u32::try_from(index + 1).unwrap_or(u32::MAX);
        if first == 0 {
            first = number;
        }
        let raw = raw.strip_suffix(b"\r").unwrap_or(raw);
        match std::str::from_utf8(raw) {
            Ok(text) if text.contains('\0') => wrong = Some(Fault::new("the line contains a zero byte")),
            Ok(text) => joined.push_str(text),
            Err(_) => wrong = Some(Fault::new("the line is not valid UTF-8")),
        }
        if joined.ends_with('\\') && index + 1 < count && wrong.is_none() {
            joined.pop();
            continue;
        }
        let fields = match wrong.take() {
            Some(fault) => Err(fault),
            None => fields(&joined),
        };
        if !matches!(&fields, Ok(fields) if fields.is_empty()) {
            found.push((first, fields));
        }
        joined.clear();
        first = 0;
    }
    found
}

/// The fields of one line.
pub(crate) fn fields(line: &str) -> Result<Vec<Field>, Fault> {
    let mut fields: Vec<Field> = Vec::new();
    let mut rest = line;
    // A comma joins the words before and after it.
    let mut joins = false;
    loop {
        rest = rest.trim_start();
        match rest.chars().next() {
            None | Some('#') => break,
            Some(',') if fields.is_empty() || joins => {
                return Err(Fault::new("expected a word, got a comma"));
            }
            Some(',') => {
                joins = true;
                rest = &rest[1..];
            }
            Some(_) => {
                let (word, bytes) = word(rest)?;
                rest = &rest[bytes..];
                match fields.last_mut() {
                    Some(field) if joins => field.push(word),
                    _ => fields.push(vec![word]),
                }
                joins = false;
            }
        }
    }
    if joins {
        return Err(Fault::new(
            "expected a word behind the last comma, got the end of the line",
        ));
    }
    Ok(fields)
}

/// The word at the beginning of a text, and its length in bytes.
fn word(text: &str) -> Result<(Word, usize), Fault> {
    let mut word = Word {
        text: String::new(),
        quoted: text.starts_with('"'),
    };
    let mut inside = false;
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' if inside && matches!(chars.peek(), Some((_, '"'))) => {
                word.text.push('"');
                chars.next();
            }
            '"' => inside = !inside,
            c if !inside && (c.is_whitespace() || c == ',' || c == '#') => return Ok((word, at)),
            c => word.text.push(c),
        }
    }
    if inside {
        return Err(Fault::new("expected a closing quote, got the end of the line"));
    }
    Ok((word, text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Vec<Vec<String>> {
        let show = |word: Word| {
            if word.quoted {
                format!("<{}>", word.text)
            } else {
                word.text
            }
        };
        let fields = fields(line).unwrap().into_iter();
        fields.map(|field| field.into_iter().map(show).collect()).collect()
    }

    #[test]
    fn blanks_separate_fields_and_commas_separate_words() {
        assert_eq!(
            read("host a,b , c\td # e"),
            [vec!["host"], vec!["a", "b", "c"], vec!["d"]]
        );
        assert_eq!(read("  # only a comment"), Vec::<Vec<String>>::new());
        assert_eq!(read("map=x#y"), [["map=x"]]);
    }

    #[test]
    fn quotes_take_words_literally() {
        assert_eq!(
            read("\"all\" \"a b,#\"\"c\" x\"y z\""),
            [["<all>"], ["<a b,#\"c>"], ["xy z"]]
        );
        assert_eq!(read("\"\" x"), [["<>"], ["x"]]);
    }

    #[test]
    fn half_written_lines_are_refused() {
        for line in [", a", "a,", "a,,b", "\"a", "a \"b c", "\"a\"\""] {
            assert!(fields(line).is_err(), "{line}");
        }
    }

    #[test]
    fn a_backslash_joins_lines_and_the_first_ones_number_counts() {
        let found = lines(b"\na b \\\n c\r\n# x\n d \\");
        let found: Vec<_> = found
            .into_iter()
            .map(|(number, fields)| (number, fields.unwrap().len()))
            .collect();
        assert_eq!(found, [(2, 3), (5, 2)]);
    }

    #[test]
    fn bytes_that_are_no_text_cost_their_line() {
        let found = lines(b"a\n\xff\nb\0\nc");
        assert_eq!(
            found.iter().map(|(n, f)| (*n, f.is_ok())).collect::<Vec<_>>(),
            [(1, true), (2, false), (3, false), (4, true)]
        );
    }
}
