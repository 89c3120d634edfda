//! Looking in a text for names that are known to matter: functions, tables and views of one database.
//!
//! Names are compared by their ASCII words alone, without regard to case and wherever they stand, in constants and comments
//! too: a word that is no name costs a probe, a name that is not seen costs the client its session.

use crate::effects::Effects;
use std::collections::HashMap;

/// Longer identifiers are cut (`NAMEDATALEN - 1`).
const WORD_BYTES_MAX: usize = 63;

/// A name this long may have been cut within a letter, and then its last word is no word of the text's.
const CUT_NAME_BYTES_MIN: usize = 60;

/// The statement writes to tables.
const WRITES: Effects = Effects::private(2);

/// Words of statements that may fire triggers.
const WRITING: [&str; 8] = [
    "insert", "update", "delete", "merge", "truncate", "copy", "create", "execute",
];

/// What a mention of a name may bring about.
#[derive(Debug, Clone, Copy, Default)]
struct Mention {
    /// In any text.
    read: Effects,
    /// In a text that may write.
    written: Effects,
}

/// Names, and what a text that mentions them may do to the session.
#[derive(Debug)]
pub struct KnownNames {
    words: HashMap<Box<[u8]>, Mention>,
    /// For each first byte of a word, the lengths that words with it have: bit n is n bytes.
    lengths: [u64; 256],
    /// Of names without an ASCII word: any text with a quoted identifier or a letter that is not ASCII may mention them.
    unreadable: Mention,
    /// Of what runs without being named.
    always: Effects,
    /// All of them together.
    all: Effects,
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
            lengths: [0; 256],
            unreadable: Mention::default(),
            always: Effects::NONE,
            all: Effects::NONE,
        };
        for word in WRITING {
            known.add_word(word.as_bytes(), WRITES, Effects::NONE);
        }
        known
    }

    /// Every text has these effects, whatever it mentions.
    pub fn everything(effects: Effects) -> Self {
        let mut known = KnownNames::new();
        known.add_always(effects);
        known
    }

    /// A name as the catalog holds it: `read` are the effects of a statement that mentions it, `written` those that come
    /// in addition if it may write to tables.
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

    /// What every statement may bring about without naming it: operators, casts.
    pub fn add_always(&mut self, effects: Effects) {
        self.all |= effects;
        self.always |= effects;
    }

    fn add_word(&mut self, word: &[u8], read: Effects, written: Effects) {
        let mention = self.words.entry(word.into()).or_default();
        mention.read |= read;
        mention.written |= written;
        self.lengths[usize::from(word[0])] |= 1 << word.len();
    }

    /// Whether no text has an effect.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Names, those of one word once.
    pub fn len(&self) -> usize {
        self.words.len() - WRITING.len()
    }

    /// What any of the names may bring about.
    pub fn all(&self) -> Effects {
        self.all
    }

    /// What the names in this text may bring about.
    pub fn effects_in(&self, text: &[u8]) -> Effects {
        let mut found = Mention {
            read: self.always,
            written: Effects::NONE,
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
            let word = &text[start..at.min(start + WORD_BYTES_MAX)];
            let first = usize::from(b.to_ascii_lowercase());
            if self.lengths[first] & (1 << word.len()) != 0 {
                let mut folded = [0; WORD_BYTES_MAX];
                let folded = &mut folded[..word.len()];
                folded.copy_from_slice(word);
                folded.make_ascii_lowercase();
                if let Some(mention) = self.words.get(&*folded) {
                    found.read |= mention.read;
                    found.written |= mention.written;
                }
            }
            if first == usize::from(b'u') && word.len() == 1 && text[at..].starts_with(b"&\"") {
                // Letters are escapes: any name may hide.
                found.read |= self.all;
            }
        }
        if unreadable {
            found.read |= self.unreadable.read;
            found.written |= self.unreadable.written;
        }
        let writes = found.read.contains(WRITES);
        (if writes { found.read | found.written } else { found.read }).public()
    }
}

fn is_word_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_' || b == b'$'
}

/// The ASCII words of a text, as written, cut as identifiers are.
pub fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|b| !is_word_byte(*b))
        .filter(|word| !word.is_empty())
        .map(|word| &word[..word.len().min(WORD_BYTES_MAX)])
}

/// The word, in lower case, that every mention of this name has: its longest ASCII word. `None` where there is none.
pub fn word_of(name: &[u8]) -> Option<Box<[u8]>> {
    let word = words(name).max_by_key(|word| word.len())?;
    if word.len() < name.len() && name.len() >= CUT_NAME_BYTES_MIN {
        return None;
    }
    Some(word.to_ascii_lowercase().into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn known(names: &[&str]) -> KnownNames {
        let mut known = KnownNames::new();
        for name in names {
            known.add(name.as_bytes(), Effects::SETTINGS, Effects::NONE);
        }
        known
    }

    #[test]
    fn names_are_found_quoted_or_not_in_any_schema_and_as_whole_words_only() {
        let known = known(&["set_tenant", "MyFunc", "odd name", "größe_neu"]);
        for text in [
            "select set_tenant(1)",
            "SELECT public.Set_Tenant ( 1 )",
            "select \"app\".\"set_tenant\"(1)",
            "select myfunc(1)",
            "select \"odd name\"()",
            "select größe_neu()",
            "select 'set_tenant'::regproc",
            "select u&\"\\0073et_tenant\"()",
        ] {
            assert_eq!(known.effects_in(text.as_bytes()), Effects::SETTINGS, "{text}");
        }
        for text in [
            "",
            "select set_tenants()",
            "select reset_tenant()",
            "select my_func()",
            "insert into \"x\" values ('ä')",
        ] {
            assert_eq!(known.effects_in(text.as_bytes()), Effects::NONE, "{text}");
        }
    }

    #[test]
    fn a_name_without_ascii_letters_may_be_in_any_text_that_has_such_letters() {
        let known = known(&["функция"]);
        assert_eq!(known.effects_in("select функция()".as_bytes()), Effects::SETTINGS);
        assert_eq!(known.effects_in(b"select \"\xd0\"()"), Effects::SETTINGS);
        assert_eq!(known.effects_in(b"select f()"), Effects::NONE);
    }

    #[test]
    fn triggers_matter_to_statements_that_write() {
        let mut known = KnownNames::new();
        known.add(b"orders", Effects::NONE, Effects::LOCKS);
        assert_eq!(known.effects_in(b"select * from orders"), Effects::NONE);
        for text in [
            "INSERT INTO orders VALUES (1)",
            "with x as (delete from orders returning 1) table x",
        ] {
            assert_eq!(known.effects_in(text.as_bytes()), Effects::LOCKS, "{text}");
        }
        assert_eq!(known.len(), 1);
    }

    #[test]
    fn what_is_unknown_is_in_every_text() {
        assert_eq!(
            KnownNames::everything(Effects::CODE).effects_in(b"select 1"),
            Effects::CODE
        );
        assert!(KnownNames::new().is_empty());
    }

    proptest! {
        /// A name that slips through is state that is lost.
        #[test]
        fn no_name_slips_through(name in "[ -~äß]{1,63}", before in "([ -~]{0,9}[ .\"(])?", after in "[ .\"(,]?", upper: bool) {
            prop_assume!(name.len() <= WORD_BYTES_MAX);
            let known = known(&[&name]);
            let quoted = name.replace('"', "\"\"");
            let text = format!("{before}\"{quoted}\"{after}");
            let text = if upper { text.to_ascii_uppercase() } else { text };
            prop_assert!(known.effects_in(text.as_bytes()).contains(Effects::SETTINGS), "{}", text);
        }
    }
}
