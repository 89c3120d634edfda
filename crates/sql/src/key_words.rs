//! Names of objects that are key words, or that contain one: `"select"`, `update`, `"from here"`.
//!
//! Nearly every text contains the word SELECT. It means an object of that name only where the grammar cannot take it for
//! the key word: in double quotes, behind a dot, and, if the key word is not reserved, before a parenthesis.

use crate::built_in::look_up;
use crate::known_names::words;
use crate::lexer::{Lexer, Token};
use std::collections::HashSet;

/// Key words that are the name of something only in quotes or behind a dot: those that are reserved in PostgreSQL 15 and
/// in 18. `tests/e2e/test_attack_key_words.py` compares both lists with real servers.
#[rustfmt::skip]
const RESERVED: [&str; 77] = [
    "all", "analyse", "analyze", "and", "any", "array", "as", "asc", "asymmetric", "both", "case", "cast", "check",
    "collate", "column", "constraint", "create", "current_catalog", "current_date", "current_role", "current_time",
    "current_timestamp", "current_user", "default", "deferrable", "desc", "distinct", "do", "else", "end", "except",
    "false", "fetch", "for", "foreign", "from", "grant", "group", "having", "in", "initially", "intersect", "into",
    "lateral", "leading", "limit", "localtime", "localtimestamp", "not", "null", "offset", "on", "only", "or",
    "order", "placing", "primary", "references", "returning", "select", "session_user", "some", "symmetric",
    "table", "then", "to", "trailing", "true", "union", "unique", "user", "using", "variadic", "when", "where",
    "window", "with",
];

/// Key words that are the name of a function only in quotes or behind a dot.
#[rustfmt::skip]
const NO_FUNCTIONS: [&str; 51] = [
    "between", "bigint", "bit", "boolean", "char", "character", "coalesce", "dec", "decimal", "exists", "extract",
    "float", "greatest", "grouping", "inout", "int", "integer", "interval", "least", "national", "nchar", "none",
    "normalize", "nullif", "numeric", "out", "overlay", "position", "precision", "real", "row", "setof", "smallint",
    "substring", "time", "timestamp", "treat", "trim", "values", "varchar", "xmlattributes", "xmlconcat",
    "xmlelement", "xmlexists", "xmlforest", "xmlnamespaces", "xmlparse", "xmlpi", "xmlroot", "xmlserialize",
    "xmltable",
];

/// Constants within constants are read to this depth; deeper ones may mean any name.
const DEPTH_MAX: usize = 4;

/// Where the word of a name must be, for a text to mean the object of this name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, pgweir_freeze::Freeze)]
pub enum Needs {
    /// Anywhere.
    Nothing,
    /// Before a parenthesis, in quotes, or behind a dot.
    Parenthesis,
    /// In quotes or behind a dot.
    Quotes,
}

impl Needs {
    /// What the word of an object's name needs; `is_routine`: the object is called with a parenthesis.
    pub fn of(word: &[u8], is_routine: bool) -> Self {
        let is_in = |list: &[&str]| list.binary_search_by(|known| known.as_bytes().cmp(word)).is_ok();
        if is_in(&RESERVED) || is_routine && is_in(&NO_FUNCTIONS) {
            Needs::Quotes
        } else if is_routine && look_up(word).is_key_word() {
            Needs::Parenthesis
        } else {
            Needs::Nothing
        }
    }
}

/// The key words that a text may use as names.
#[derive(Debug, Default)]
pub struct KeyWordNames {
    /// In quotes, as a part of a longer name, or behind a dot.
    quoted: HashSet<Box<[u8]>>,
    /// Before a parenthesis.
    called: HashSet<Box<[u8]>>,
    /// The text cannot be read to its end, or contains escapes: it may use any.
    any: bool,
}

impl KeyWordNames {
    /// Reads a text, under both settings of `standard_conforming_strings` if they differ.
    pub fn of(text: &[u8]) -> Self {
        let mut names = KeyWordNames::default();
        names.read(text, false, 0);
        if text.contains(&b'\\') {
            names.read(text, true, 0);
        }
        names
    }

    /// Whether the text may mean an object whose name contains this key word.
    pub fn may_name(&self, word: &[u8], needs: Needs) -> bool {
        self.any
            || self.quoted.contains(word)
            || match needs {
                Needs::Nothing => true,
                Needs::Parenthesis => self.called.contains(word),
                Needs::Quotes => false,
            }
    }

    fn read(&mut self, text: &[u8], backslashes: bool, depth: usize) {
        let mut lexer = Lexer::with_backslashes(text, backslashes);
        let mut last = Token::Number;
        loop {
            lexer.skip_space();
            let start = lexer.position();
            let Some(token) = lexer.next() else { return };
            match token {
                Token::Word(word) => {
                    self.any |= token.is("uescape");
                    if last == Token::Byte(b'.') {
                        add(&mut self.quoted, word);
                    }
                    // With dollar signs or letters beyond ASCII, it is a longer name.
                    words(word)
                        .filter(|part| part.len() < word.len())
                        .for_each(|part| add(&mut self.quoted, part));
                }
                Token::Quoted(name) => self.may_be_any_in(name),
                Token::Text(value) => self.read_constant(value, text[start] == b'$', depth),
                Token::Byte(b'(') => {
                    if let Token::Word(word) = last {
                        add(&mut self.called, word);
                    }
                }
                Token::UnicodeQuoted(_) | Token::Unterminated => self.any = true,
                Token::Parameter(_) | Token::Number | Token::Byte(_) => {}
            }
            last = token;
        }
    }

    /// Reads a constant, which may be code. If its bytes are not those of the code, any of its words may be a name.
    fn read_constant(&mut self, value: &[u8], is_plain: bool, depth: usize) {
        if depth < DEPTH_MAX && !value.contains(&b'\\') && (is_plain || !value.contains(&b'\'')) {
            self.read(value, false, depth + 1);
        } else {
            self.may_be_any_in(value);
        }
    }

    /// Any word of this text may be a name.
    fn may_be_any_in(&mut self, text: &[u8]) {
        words(text).for_each(|word| add(&mut self.quoted, word));
    }
}

fn add(names: &mut HashSet<Box<[u8]>>, word: &[u8]) {
    if look_up(word).is_key_word() {
        names.insert(word.to_ascii_lowercase().into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn may_name(text: &str, word: &str, is_routine: bool) -> bool {
        let needs = Needs::of(word.as_bytes(), is_routine);
        KeyWordNames::of(text.as_bytes()).may_name(word.as_bytes(), needs)
    }

    #[test]
    fn a_key_word_is_no_name() {
        for (text, word) in [
            ("select 1 from t", "select"),
            ("SELECT (1), \"a\".\"b\" FROM (values (1)) t", "select"),
            ("SELECT (1), \"a\".\"b\" FROM (values (1)) t", "from"),
            ("insert into t values (1)", "values"),
            ("insert into t values ('please select one', 'it''s')", "select"),
            ("begin", "begin"),
            ("update t set a = 1", "update"),
            ("update t set a = 1", "set"),
            ("-- s.select(\nselect /* \"select\" */ 1", "select"),
            ("do $$begin perform 1 from t; select 'x'; end$$", "from"),
            ("select '.'\n, 1", "select"),
        ] {
            assert!(!may_name(text, word, true), "{word}: {text}");
        }
        assert!(!may_name("select 1", "select", false));
    }

    #[test]
    fn what_may_be_a_name_counts() {
        for (text, word) in [
            ("call \"select\"()", "select"),
            ("select \"SELECT from\"(1)", "select"),
            ("select s.select()", "select"),
            ("select s . /* x */ Select()", "select"),
            ("select s.--x\nselect()", "select"),
            ("select (x).from", "from"),
            ("table t.from", "from"),
            ("select u&\"s\\0065lect\"()", "select"),
            ("select update(1)", "update"),
            ("select Begin /* x */ (1)", "begin"),
            ("select from\u{e4}(1)", "from"),
            ("select select$(1)", "select"),
            ("do $$begin perform s.select(); end$$", "select"),
            ("do $a$begin execute $b$call \"from\"()$b$; end$a$", "from"),
            ("do 'begin execute ''call s.''\n''select()''; end'", "select"),
            ("do u&'begin perform s!002eselect(); end' uescape '!'", "select"),
            ("select 'a\\', s.from(), '", "from"),
            ("select 'a\\'', \"from\"(), '\\''", "from"),
            ("select \"from", "from"),
        ] {
            assert!(may_name(text, word, true), "{word}: {text}");
        }
    }

    /// An escape may hide the dot. Such code is not read at all.
    #[test]
    fn code_with_escapes_is_not_read() {
        let effects = crate::effects(b"do e'begin perform s\\x2eselect(); end'");
        assert!(effects.contains(crate::UNREAD), "{effects:?}");
    }

    /// A table may have the name of a key word that is not reserved, without quotes.
    #[test]
    fn only_reserved_words_need_quotes_as_names_of_tables() {
        for word in ["update", "values", "begin", "left"] {
            assert_eq!(Needs::of(word.as_bytes(), false), Needs::Nothing, "{word}");
        }
        for word in ["select", "from", "user", "order"] {
            assert_eq!(Needs::of(word.as_bytes(), false), Needs::Quotes, "{word}");
        }
        assert_eq!(Needs::of(b"values", true), Needs::Quotes);
        assert_eq!(Needs::of(b"left", true), Needs::Parenthesis);
        assert_eq!(Needs::of(b"set_tenant", true), Needs::Nothing);
    }
}
