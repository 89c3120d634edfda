//! The ini syntax: sections, `name = value` lines, comments and `%include`.
//!
//! - `;` and `#` start a comment only at the start of a line; later in a line they are ordinary characters.
//! - Blanks may stand before sections and names and around `=`.
//! - A name is letters, digits and `_.-*`, or any text in double quotes with `""` for one quote.
//! - A value ends at the end of its line; blanks at its end are left out.
//! - `%include FILE` reads FILE at this point; a section that it opens stays open after it.

use std::sync::Arc;

use crate::file_source::FileSource;
use crate::problem::{Place, Problem};

/// How deep `%include` may nest, as in PgBouncer.
pub const INCLUDE_DEPTH_MAX: usize = 10;

/// The most files that one configuration may read. Without it, nested includes could multiply without end.
pub const INCLUDED_FILES_MAX: usize = 1000;

/// One `name = value` line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub section: Arc<str>,
    pub name: String,
    pub value: String,
    /// Where the line is.
    pub place: Place,
    /// The column, from 1, at which `value` starts.
    pub value_column: usize,
}

/// A configuration file and its includes, as one list in the order in which they are read.
#[derive(Debug, Default)]
pub(crate) struct Ini {
    /// Each `[section]` line.
    pub sections: Vec<(Arc<str>, Place)>,
    pub entries: Vec<Entry>,
    pub problems: Vec<Problem>,
}

/// Reads `name` and all files that it includes. Lines that cannot be read are reported and left out.
pub(crate) fn read(name: &str, files: &dyn FileSource) -> Ini {
    let mut reader = Reader {
        files,
        ini: Ini::default(),
        section: None,
        open: Vec::new(),
        files_read: 0,
    };
    reader.file(name, None);
    reader.ini
}

struct Reader<'a> {
    files: &'a dyn FileSource,
    ini: Ini,
    section: Option<Arc<str>>,
    /// Names of the files that are being read, the outermost first.
    open: Vec<String>,
    files_read: usize,
}

impl Reader<'_> {
    fn file(&mut self, name: &str, included_at: Option<&Place>) {
        let whole = Place::file(name);
        let blamed = included_at.unwrap_or(&whole);
        self.files_read += 1;
        if self.files_read > INCLUDED_FILES_MAX {
            self.problem(Problem::error(
                blamed,
                format!("more than {INCLUDED_FILES_MAX} files are included"),
            ));
            return;
        }
        let bytes = match self.files.read(name) {
            Ok(bytes) => bytes,
            Err(e) => {
                self.problem(
                    Problem::error(blamed, format!("could not load file \"{name}\": {e}")).maybe_hint(
                        included_at
                            .map(|_| "names are relative to the working directory, not to the including file".into()),
                    ),
                );
                return;
            }
        };
        self.open.push(name.to_string());
        let file: Arc<str> = name.into();
        for (index, line) in bytes.split(|b| *b == b'\n').enumerate() {
            let number = u32::try_from(index + 1).unwrap_or(u32::MAX);
            self.raw_line(
                line,
                &Place {
                    file: file.clone(),
                    line: Some(number),
                    column: None,
                },
            );
        }
        self.open.pop();
    }

    fn raw_line(&mut self, line: &[u8], place: &Place) {
        let first = line.iter().find(|b| !is_c_space(**b));
        if matches!(first, None | Some(b'#' | b';')) {
            return;
        }
        let bad_byte = match std::str::from_utf8(line) {
            Ok(text) => match text.find('\0') {
                None => return self.line(text, place),
                Some(at) => (at, "null byte in configuration", "save the file as plain UTF-8 text"),
            },
            Err(e) => (
                e.valid_up_to(),
                "invalid UTF-8 in configuration",
                "save the file as UTF-8",
            ),
        };
        let (at, message, hint) = bad_byte;
        self.problem(Problem::error(&place.at_column(at + 1), message).hint(hint));
    }

    fn line(&mut self, text: &str, place: &Place) {
        let text = text.trim_end_matches(is_c_space_char);
        if place.line == Some(1) && text.starts_with('\u{feff}') {
            self.problem(Problem::error(place, "file starts with a byte order mark").hint("save the file without it"));
            return self.line_at(text, '\u{feff}'.len_utf8(), place);
        }
        self.line_at(text, 0, place);
    }

    /// Reads a line of `text` from byte `at` on.
    fn line_at(&mut self, text: &str, at: usize, place: &Place) {
        let mut at = at;
        loop {
            at += text.len() - at - text[at..].trim_start_matches(is_c_space_char).len();
            let rest = &text[at..];
            match rest.as_bytes().first() {
                None | Some(b'#' | b';') => return,
                Some(b'[') => match rest.find(']') {
                    Some(end) => {
                        let section: Arc<str> = rest[1..end].into();
                        self.ini.sections.push((section.clone(), place.clone()));
                        self.section = Some(section);
                        at += end + 1;
                    }
                    None => {
                        return self.problem(Problem::error(
                            &place.at_column(at + 1),
                            "syntax error in configuration: section name without \"]\"",
                        ));
                    }
                },
                Some(b'%') => return self.include(rest, &place.at_column(at + 1)),
                Some(_) => return self.entry(text, at, place),
            }
        }
    }

    fn include(&mut self, rest: &str, place: &Place) {
        let name = match rest.strip_prefix("%include") {
            Some(name) if name.starts_with([' ', '\t']) => name.trim_matches([' ', '\t']),
            Some("") => "",
            _ => {
                return self.problem(
                    Problem::error(place, "syntax error in configuration: unknown directive")
                        .hint("the only directive is %include FILE"),
                );
            }
        };
        if name.is_empty() {
            self.problem(Problem::error(place, "%include without a file name"));
        } else if self.open.iter().any(|open| open == name) {
            self.problem(Problem::error(place, format!("file \"{name}\" includes itself")));
        } else if self.open.len() > INCLUDE_DEPTH_MAX {
            self.problem(Problem::error(
                place,
                format!("%include nests deeper than {INCLUDE_DEPTH_MAX} files"),
            ));
        } else {
            self.file(name, Some(place));
        }
    }

    fn entry(&mut self, text: &str, at: usize, place: &Place) {
        let rest = &text[at..];
        let (name, name_bytes) = match read_name(rest) {
            Ok(name) => name,
            Err(message) => return self.problem(Problem::error(&place.at_column(at + 1), message)),
        };
        let after_name = skip_blanks(&rest[name_bytes..]);
        let Some(after_equals) = after_name.strip_prefix('=') else {
            let column = text.len() - after_name.len() + 1;
            return self.problem(missing_equals(rest, after_name, &place.at_column(column)));
        };
        if name.is_empty() {
            return self.problem(Problem::error(
                &place.at_column(at + 1),
                "syntax error in configuration: no name before \"=\"",
            ));
        }
        let value = skip_blanks(after_equals);
        let Some(section) = self.section.clone() else {
            return self.problem(
                Problem::error(place, format!("\"{name}\" stands before any section"))
                    .hint("put it under [pgbouncer], [databases], [users] or [peers]"),
            );
        };
        self.ini.entries.push(Entry {
            section,
            name,
            value: value.to_string(),
            place: place.clone(),
            value_column: text.len() - value.len() + 1,
        });
    }

    fn problem(&mut self, problem: Problem) {
        self.ini.problems.push(problem);
    }
}

fn missing_equals(line: &str, found: &str, place: &Place) -> Problem {
    let problem = match found.chars().next() {
        None => Problem::error(place, "syntax error in configuration: expected \"=\" after the name"),
        Some(c) => Problem::error(
            place,
            format!("syntax error in configuration: expected \"=\" after the name, got \"{c}\""),
        ),
    };
    if line.contains('=') {
        problem.hint("names of other characters than A-Z a-z 0-9 _ . - * need double quotes")
    } else if line.starts_with("//") || line.starts_with("--") {
        problem.hint("comments start with ; or #")
    } else {
        problem
    }
}

/// The name at the start of `rest`, and the number of bytes that it takes.
fn read_name(rest: &str) -> Result<(String, usize), &'static str> {
    if let Some(body) = rest.strip_prefix('"') {
        let (name, used) = unquote(body, '"').ok_or("syntax error in configuration: quoted name does not end")?;
        Ok((name, used + 1))
    } else {
        let bytes = rest
            .bytes()
            .take_while(|b| b.is_ascii_alphanumeric() || b"_.-*".contains(b))
            .count();
        Ok((rest[..bytes].to_string(), bytes))
    }
}

/// Reads up to a single `quote`; a doubled one stands for itself. Returns the text and the number of bytes used,
/// including the closing quote; `None` if there is no closing quote.
pub(crate) fn unquote(body: &str, quote: char) -> Option<(String, usize)> {
    let mut out = String::new();
    let mut at = 0;
    loop {
        let end = at + body[at..].find(quote)?;
        out.push_str(&body[at..end]);
        at = end + quote.len_utf8();
        if !body[at..].starts_with(quote) {
            return Some((out, at));
        }
        out.push(quote);
        at += quote.len_utf8();
    }
}

fn skip_blanks(text: &str) -> &str {
    text.trim_start_matches([' ', '\t'])
}

/// C's isspace.
fn is_c_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

fn is_c_space_char(c: char) -> bool {
    u8::try_from(c).is_ok_and(is_c_space)
}

#[cfg(test)]
#[path = "ini_tests.rs"]
mod tests;
