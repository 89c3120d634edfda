//! Search in a text for the names of one database that are known to matter: functions, tables and views.
//!
//! Names are compared by their ASCII words alone, in upper or lower case, wherever they are in the text, also in
//! constants and comments. A word that only looks like such a name costs a probe; a missed name costs the client its
//! session.

use crate::calls;
use crate::effects::Effects;
use crate::key_words::{KeyWordNames, Needs};
use crate::lexer::{Lexer, Token};
use crate::set_config::{Argument, argument};
use std::collections::HashMap;

/// Longer identifiers are cut to this length (`NAMEDATALEN - 1`).
const WORD_BYTES_MAX: usize = 63;

/// A name of this length may have been cut within a character. Then its last word may not be a word of the text.
const CUT_NAME_BYTES_MIN: usize = 60;

/// The statement writes to tables.
const WRITES: Effects = Effects::private(0);

/// The statement contains the word SELECT, or INTO.
const SELECT: Effects = Effects::private(1);
const INTO: Effects = Effects::private(2);

/// Words of statements that may fire triggers.
const WRITING: [&str; 9] = [
    "insert", "update", "delete", "merge", "truncate", "copy", "create", "alter", "execute",
];

/// The effects of a text that contains a name.
#[derive(Debug, Clone, Copy, Default, pgweir_freeze::Freeze)]
struct Mention {
    /// Effects in any text.
    read: Effects,
    /// Effects in a text that may write.
    written: Effects,
    /// For routines: the arguments that name settings; bit 0 is the first.
    passes: u64,
}

/// The settings that a text names as arguments of routines that pass the name on.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// Names given as constants.
    pub names: Vec<Box<str>>,
    /// Numbers of the parameters (`$1` is 1) given as names.
    pub parameters: Vec<u16>,
    /// Some name is neither a constant nor a parameter, or the routine is called from elsewhere: by a view, a constant,
    /// a default.
    pub untold: bool,
}

/// Names, and the effects of texts that contain them.
#[derive(Debug, pgweir_freeze::Freeze)]
pub struct KnownNames {
    words: HashMap<Box<[u8]>, Mention>,
    /// Names that are key words, or contain one: a text may contain the word without meaning the name.
    key_words: HashMap<(Box<[u8]>, Needs), Mention>,
    /// For each first byte of a word, the lengths of the words that begin with it: bit n is n bytes.
    lengths: [u64; 256],
    /// The effects of names without an ASCII word. Any text with a quoted identifier or a letter that is not ASCII may
    /// contain them.
    unreadable: Mention,
    /// The effects of objects that run without being named.
    always: Effects,
    /// The effects of every SELECT .. INTO.
    select_into: Effects,
    /// The effects of all names together.
    all: Effects,
    /// PostgreSQL folds some letter beyond ASCII to an ASCII letter.
    folds_to_ascii: bool,
}

impl Default for KnownNames {
    fn default() -> Self {
        KnownNames::new()
    }
}

impl KnownNames {
    /// No names.
    pub fn new() -> Self {
        let mut known = KnownNames {
            words: HashMap::new(),
            key_words: HashMap::new(),
            lengths: [0; 256],
            unreadable: Mention::default(),
            always: Effects::NONE,
            select_into: Effects::NONE,
            all: Effects::NONE,
            folds_to_ascii: false,
        };
        for word in WRITING {
            known.add_word(word.as_bytes(), WRITES, Effects::NONE);
        }
        known
    }

    /// Every text gets these effects, whatever names it contains.
    pub fn everything(effects: Effects) -> Self {
        let mut known = KnownNames::new();
        known.add_always(effects);
        known
    }

    /// Adds a name as the catalog holds it. `read` are the effects of a statement that contains it; `written` are added
    /// if the statement may write to tables.
    pub fn add(&mut self, name: &[u8], read: Effects, written: Effects) {
        self.all |= read | written;
        match word_of(name) {
            Some(word) => self.add_word(&word, read, written),
            None => {
                self.unreadable.read |= read;
                self.unreadable.written |= written;
            }
        }
    }

    /// Adds the name of an object, like [`KnownNames::add`]. If it is a key word, it counts only where a text may mean
    /// the object.
    pub fn add_object(&mut self, name: &[u8], is_routine: bool, read: Effects, written: Effects) {
        let word = word_of(name).unwrap_or_default();
        let needs = Needs::of(&word, is_routine);
        if needs == Needs::Nothing {
            return self.add(name, read, written);
        }
        self.all |= read | written;
        let mention = self.key_words.entry((word, needs)).or_default();
        mention.read |= read;
        mention.written |= written;
    }

    /// Adds a routine whose arguments in the bits of `passes` name settings.
    pub fn add_passing(&mut self, name: &[u8], passes: u64) {
        if word_of(name).is_some_and(|word| Needs::of(&word, true) != Needs::Nothing) {
            // Calls of it are not told from the key word, so nobody looks at their arguments.
            return self.add_object(name, true, Effects::UNTOLD, Effects::NONE);
        }
        self.add(name, Effects::PASSES, Effects::NONE);
        match word_of(name) {
            Some(word) => self.words.entry(word).or_default().passes |= passes,
            None => self.unreadable.passes |= passes,
        }
    }

    /// The settings that this text names as arguments of routines that pass the name on. Such a text has
    /// [`Effects::PASSES`].
    pub fn passed_in(&self, text: &[u8]) -> Passed {
        let mut passed = Passed::default();
        let mut calls = 0;
        calls::each_foreign(text, false, |_, foreign| {
            let Some(name) = foreign.name else {
                passed.untold = true;
                return;
            };
            let mention = match word_of(&name) {
                Some(word) => self.words.get(&word),
                None => Some(&self.unreadable),
            };
            let Some(mention) = mention.filter(|mention| mention.passes != 0) else {
                return;
            };
            calls += 1;
            passed.add(text, foreign.arguments, mention.passes);
        });
        // A backslash may hide a call; a word that is not called may stand for a call elsewhere.
        let mentions = words(text).filter(|word| {
            let known = self.words.get(&*word.to_ascii_lowercase());
            known.is_some_and(|mention| mention.read.intersects(Effects::PASSES))
        });
        let has = |notation: &[u8]| memchr::memmem::find(text, notation).is_some();
        let named = has(b"=>") || has(b":=");
        passed.untold |= named || calls == 0 || mentions.count() > calls || text.contains(&b'\\');
        passed
    }

    /// Adds the effects that every statement may have without naming their cause: operators, casts.
    pub fn add_always(&mut self, effects: Effects) {
        self.all |= effects;
        self.always |= effects;
    }

    /// Adds the effects of every SELECT .. INTO. INSERT INTO .. SELECT gets them, too.
    pub fn add_select_into(&mut self, effects: Effects) {
        self.all |= effects;
        self.select_into |= effects;
        self.add_word(b"select", SELECT, Effects::NONE);
        self.add_word(b"into", INTO, Effects::NONE);
    }

    fn add_word(&mut self, word: &[u8], read: Effects, written: Effects) {
        let mention = self.words.entry(word.into()).or_default();
        mention.read |= read;
        mention.written |= written;
        self.lengths[usize::from(word[0])] |= 1 << word.len();
    }

    /// In this database, PostgreSQL folds some letter beyond ASCII to an ASCII letter: in Turkish and a single-byte
    /// encoding, the capital I with a dot. So an identifier with letters beyond ASCII may be any name, also one of
    /// PostgreSQL's own.
    pub fn fold_to_ascii(&mut self) {
        self.folds_to_ascii = true;
    }

    /// Whether no text has an effect.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty() && !self.folds_to_ascii
    }

    /// The number of names. Several names with the same word count once.
    pub fn len(&self) -> usize {
        self.words.len() - WRITING.len() + self.key_words.len()
    }

    /// The effects of all names together.
    pub fn all(&self) -> Effects {
        self.all
    }

    /// The effects of the names in this text.
    pub fn effects_in(&self, text: &[u8]) -> Effects {
        let mut found = Mention {
            read: self.always,
            written: Effects::NONE,
            passes: 0,
        };
        let mut unreadable = false;
        let mut at = 0;
        while at < text.len() {
            let b = text[at];
            if !is_word_byte(b) {
                unreadable |= b == b'"' || b >= 0x80;
                at += 1;
                continue;
            }
            let start = at;
            while at < text.len() && is_word_byte(text[at]) {
                at += 1;
            }
            self.look_up(&text[start..at], &mut found);
            if text[start..at].contains(&b'$') {
                // The dollar signs may be those of dollar quotes.
                for part in text[start..at].split(|b| *b == b'$').filter(|part| !part.is_empty()) {
                    self.look_up(part, &mut found);
                }
            }
            if matches!(b, b'u' | b'U') && at - start == 1 && text[at..].starts_with(b"&\"") {
                // The letters are written as escapes, so the text may contain any name.
                found.read |= self.all;
            }
        }
        if unreadable {
            found.read |= self.unreadable.read;
            found.written |= self.unreadable.written;
            if self.folds_to_ascii && has_other_letters(text) {
                found.read |= self.all | calls::UNREAD;
            }
        }
        if !self.key_words.is_empty() {
            self.add_key_words(text, &mut found);
        }
        if found.read.contains(SELECT.union(INTO)) {
            found.read |= self.select_into;
        }
        let writes = found.read.contains(WRITES);
        (if writes { found.read | found.written } else { found.read }).public()
    }

    /// Adds the effects of the names that are key words.
    #[cold]
    fn add_key_words(&self, text: &[u8], found: &mut Mention) {
        let used = KeyWordNames::of(text);
        for ((word, needs), mention) in &self.key_words {
            if used.may_name(word, *needs) {
                found.read |= mention.read;
                found.written |= mention.written;
            }
        }
    }

    /// Adds the effects of a word.
    #[inline]
    fn look_up(&self, word: &[u8], found: &mut Mention) {
        let word = &word[..word.len().min(WORD_BYTES_MAX)];
        if self.lengths[usize::from(word[0].to_ascii_lowercase())] & (1 << word.len()) == 0 {
            return;
        }
        let mut folded = [0; WORD_BYTES_MAX];
        let folded = &mut folded[..word.len()];
        folded.copy_from_slice(word);
        folded.make_ascii_lowercase();
        if let Some(mention) = self.words.get(&*folded) {
            found.read |= mention.read;
            found.written |= mention.written;
        }
    }
}

impl Passed {
    /// Adds the settings that a call names in the arguments whose bits are set.
    fn add(&mut self, text: &[u8], mut arguments: Lexer<'_>, passes: u64) {
        for number in 0..u64::BITS - passes.leading_zeros() {
            let wanted = passes & (1 << number) != 0;
            let mut one = arguments.clone();
            match argument(text, &mut one) {
                Argument::Literal(name) if wanted => match std::str::from_utf8(&name) {
                    Ok(name) => self.names.push(name.to_ascii_lowercase().into()),
                    Err(_) => self.untold = true,
                },
                Argument::Parameter(number) if wanted => self.parameters.push(number),
                _ if wanted => self.untold = true,
                _ => {}
            }
            if !skip_argument(&mut arguments) {
                // If the argument is missing, its default value may name the setting.
                self.untold |= passes >> number > 1;
                return;
            }
        }
    }
}

/// Moves past the comma that ends an argument; `false` if the call ends.
fn skip_argument(lexer: &mut Lexer<'_>) -> bool {
    let mut depth = 0usize;
    for token in lexer.by_ref() {
        match token {
            Token::Byte(b'(' | b'[') => depth += 1,
            Token::Byte(b')' | b']') => match depth.checked_sub(1) {
                Some(less) => depth = less,
                None => return false,
            },
            Token::Byte(b',') if depth == 0 => return true,
            _ => {}
        }
    }
    false
}

/// Whether an identifier without quotes may contain a letter beyond ASCII.
fn has_other_letters(text: &[u8]) -> bool {
    [false, true].into_iter().any(|backslashes| {
        Lexer::with_backslashes(text, backslashes).any(|token| match token {
            Token::Word(word) => !word.is_ascii(),
            Token::Unterminated => true,
            _ => false,
        })
    })
}

fn is_word_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_' || b == b'$'
}

/// The ASCII words of a text, as written, cut as identifiers are. The parts of a word with dollar signs are words, too:
/// the dollar signs may be those of dollar quotes.
pub fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|b| !is_word_byte(*b))
        .flat_map(|word| {
            let parts = if word.contains(&b'$') { word } else { b"" };
            std::iter::once(word).chain(parts.split(|b| *b == b'$'))
        })
        .filter(|word| !word.is_empty())
        .map(|word| &word[..word.len().min(WORD_BYTES_MAX)])
}

/// The word, in lower case, that every text with this name contains: its longest ASCII word. `None` if it has none.
pub fn word_of(name: &[u8]) -> Option<Box<[u8]>> {
    let word = words(name).max_by_key(|word| word.len())?;
    if word.len() < name.len() && name.len() >= CUT_NAME_BYTES_MIN {
        return None;
    }
    Some(word.to_ascii_lowercase().into())
}

#[cfg(test)]
#[path = "known_names_tests.rs"]
mod tests;
