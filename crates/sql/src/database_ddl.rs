//! Statements that need a database without connections: DROP DATABASE, ALTER DATABASE .. RENAME, CREATE DATABASE ..
//! TEMPLATE.

/// The longest statement that is read, bytes.
const STATEMENT_BYTES_MAX: usize = 2048;

/// The database that CREATE DATABASE copies if it names none.
const DEFAULT_TEMPLATE: &[u8] = b"template1";

/// Whether a text may be one of these statements. Only its first letter, and the letter at which DATABASE would begin,
/// are read.
#[inline]
pub fn may_need_database_alone(text: &[u8]) -> bool {
    let verb_bytes = match text.first() {
        Some(b'd' | b'D') => 4,
        Some(b'a' | b'A') => 5,
        Some(b'c' | b'C') => 6,
        _ => return false,
    };
    matches!(text.get(verb_bytes + 1), Some(b'd' | b'D')) && text.len() > verb_bytes + 1 + b"database ".len()
}

/// The database that must have no connections for this statement.
#[cold]
pub fn database_needed_alone(text: &[u8]) -> Option<Vec<u8>> {
    if text.len() > STATEMENT_BYTES_MAX {
        return None;
    }
    let mut words = Words { rest: text };
    let verb = words.next()?;
    if words.next()? != b"database" {
        return None;
    }
    let mut name = words.next()?;
    match &*verb {
        b"drop" if name == b"if" => {
            words.next().filter(|w| w == b"exists")?;
            words.next()
        }
        b"drop" => Some(name),
        b"alter" => {
            let what = words.next()?;
            let moves = what == b"set" && words.next()? == b"tablespace";
            (what == b"rename" || moves).then(|| std::mem::take(&mut name))
        }
        b"create" => {
            while let Some(word) = words.next() {
                if word == b"template" {
                    return words.next();
                }
            }
            Some(DEFAULT_TEMPLATE.into())
        }
        _ => None,
    }
}

/// Names and words of a statement, folded as PostgreSQL folds them; `=` and other bytes between them are left out.
struct Words<'a> {
    rest: &'a [u8],
}

impl Words<'_> {
    fn next(&mut self) -> Option<Vec<u8>> {
        let is_word = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'$') || b >= 0x80;
        let start = self
            .rest
            .iter()
            .position(|&b| is_word(b) || matches!(b, b'"' | b'\''))?;
        self.rest = &self.rest[start..];
        let quote = self.rest[0];
        if is_word(quote) {
            let end = self.rest.iter().position(|&b| !is_word(b)).unwrap_or(self.rest.len());
            let (word, rest) = self.rest.split_at(end);
            self.rest = rest;
            return Some(word.to_ascii_lowercase());
        }
        let mut word = Vec::new();
        let mut at = 1;
        loop {
            match (self.rest.get(at)?, self.rest.get(at + 1)) {
                (&b, Some(&next)) if b == quote && next == quote => at += 2,
                (&b, _) if b == quote => break,
                _ => at += 1,
            }
            word.push(self.rest[at - 1]);
        }
        self.rest = &self.rest[at + 1..];
        Some(word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_database_in_question_is_found() {
        assert!(!may_need_database_alone(b"commit") && !may_need_database_alone(b"delete from database_list"));
        for (text, expected) in [
            ("DROP DATABASE Shop", Some("shop")),
            ("drop database if exists \"My \"\"Shop\"", Some("My \"Shop")),
            ("DROP DATABASE \"test_shop\" WITH (FORCE);", Some("test_shop")),
            ("alter database shop rename to store", Some("shop")),
            ("alter database shop set tablespace fast", Some("shop")),
            ("alter database shop set work_mem = 1", None),
            ("create database a", Some("template1")),
            ("create database a with owner = b template = \"Shop\"", Some("Shop")),
            ("create database a template shop encoding 'UTF8'", Some("shop")),
            ("drop table database", None),
            ("drop database", None),
            ("drop database \"open", None),
            ("", None),
        ] {
            let found = database_needed_alone(text.as_bytes()).map(|name| String::from_utf8(name).unwrap());
            assert_eq!(found.as_deref(), expected, "{text}");
            assert!(expected.is_none() || may_need_database_alone(text.as_bytes()), "{text}");
        }
    }
}
