//! What PostgreSQL's lists of built-in functions and key words say about a name before a parenthesis.

use crate::harmless_names::{DOUBTFUL, FREE_KEY_WORDS, FUNCTIONS, IN_C, KEY_WORDS};

/// What a word is in PostgreSQL's lists: a set of the four kinds below.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Known(u16);

impl Known {
    /// Neither a built-in function nor a word of the grammar.
    pub(crate) const NOTHING: Known = Known(0);
    const HARMLESS: Known = Known(1 << 12);
    const DOUBTFUL: Known = Known(1 << 13);
    const KEY_WORD: Known = Known(1 << 14);
    /// A key word that calls a function if a parenthesis follows.
    const FREE: Known = Known(1 << 15);

    /// A function that leaves nothing in the session, or whose effects [`crate::names`] knows.
    pub(crate) fn is_harmless(self) -> bool {
        self.0 & Known::HARMLESS.0 != 0
    }

    /// A function that may run other code than the text shows.
    pub(crate) fn is_doubtful(self) -> bool {
        self.0 & Known::DOUBTFUL.0 != 0
    }

    /// A word of the grammar.
    pub(crate) fn is_key_word(self) -> bool {
        self.0 & Known::KEY_WORD.0 != 0
    }

    /// Whether a parenthesis behind this word may be part of the grammar. Otherwise the word is a name.
    pub(crate) fn is_before_parenthesis(self) -> bool {
        self.is_key_word() && self.0 & Known::FREE.0 == 0
    }

    /// Whether, before a parenthesis, this is the name of something that is not built in.
    #[inline]
    pub(crate) fn is_foreign(self) -> bool {
        // FREE is the sign bit.
        self.0.cast_signed() <= 0
    }
}

/// Slots of the table; less than half of them are in use.
const SLOTS: usize = 8192;

/// The bits of a slot that hold the number of its word, counted from 1. The other bits say what the word is.
const NUMBER: u16 = (1 << 12) - 1;

/// Words by their hash. Each is in the first free slot from its hash on.
struct Table {
    slots: [u16; SLOTS],
}

static TABLE: Table = Table::new();

/// What this word is, in upper or lower case.
#[inline]
pub(crate) fn look_up(word: &[u8]) -> Known {
    look_up_by(word, hash_of(word))
}

/// Whether the name in C of a function built into the server is that of a function that is harmless, or whose effects
/// [`crate::names`] finds in it.
pub(crate) fn is_harmless_in_c(name: &[u8]) -> bool {
    look_up(name).is_harmless() || IN_C.binary_search_by(|known| known.as_bytes().cmp(name)).is_ok()
}

/// The last word of a text, the text before it, and what the word is.
#[inline]
pub(crate) fn last_word(text: &[u8]) -> (&[u8], &[u8], Known) {
    let mut start = text.len();
    let mut hash = HASH_START;
    while start > 0 && is_word_byte(text[start - 1]) {
        start -= 1;
        hash = hash_on(hash, text[start]);
    }
    let (rest, word) = text.split_at(start);
    (rest, word, look_up_by(word, hash))
}

/// Whether a byte may be part of an unquoted name.
#[inline]
pub(crate) fn is_word_byte(b: u8) -> bool {
    const WORD: [bool; 256] = {
        let mut word = [false; 256];
        let mut b = 0;
        while b < 256 {
            let byte = b as u8;
            word[b] = byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || byte >= 0x80;
            b += 1;
        }
        word
    };
    static TABLE: [bool; 256] = WORD;
    TABLE[usize::from(b)]
}

#[inline]
fn look_up_by(word: &[u8], hash: u32) -> Known {
    let mut at = slot_of(hash);
    loop {
        let slot = TABLE.slots[at];
        if slot == 0 {
            return Known::NOTHING;
        }
        if same(word_of(slot), word) {
            return Known(slot & !NUMBER);
        }
        at = (at + 1) & (SLOTS - 1);
    }
}

const HASH_START: u32 = 0x811c_9dc5;

/// FNV-1a of the letters in lower case, from the last to the first.
const fn hash_of(word: &[u8]) -> u32 {
    let mut hash = HASH_START;
    let mut at = word.len();
    while at > 0 {
        at -= 1;
        hash = hash_on(hash, word[at]);
    }
    hash
}

const fn hash_on(hash: u32, letter: u8) -> u32 {
    (hash ^ (letter | 0x20) as u32).wrapping_mul(0x0100_0193)
}

const fn slot_of(hash: u32) -> usize {
    (hash >> 19) as usize & (SLOTS - 1)
}

const fn word_of(slot: u16) -> &'static [u8] {
    let number = (slot & NUMBER) as usize - 1;
    if number < FUNCTIONS.len() {
        FUNCTIONS[number].as_bytes()
    } else if number < FUNCTIONS.len() + DOUBTFUL.len() {
        DOUBTFUL[number - FUNCTIONS.len()].as_bytes()
    } else {
        KEY_WORDS[number - FUNCTIONS.len() - DOUBTFUL.len()].as_bytes()
    }
}

const fn same(known: &[u8], word: &[u8]) -> bool {
    if known.len() != word.len() {
        return false;
    }
    let mut at = 0;
    while at < word.len() {
        if known[at] != word[at].to_ascii_lowercase() {
            return false;
        }
        at += 1;
    }
    true
}

impl Table {
    const fn new() -> Table {
        let mut table = Table { slots: [0; SLOTS] };
        let mut number = 1;
        while number as usize <= FUNCTIONS.len() + DOUBTFUL.len() + KEY_WORDS.len() {
            let kind = match number as usize {
                n if n <= FUNCTIONS.len() => Known::HARMLESS,
                n if n <= FUNCTIONS.len() + DOUBTFUL.len() => Known::DOUBTFUL,
                _ => Known::KEY_WORD,
            };
            table.add(number | kind.0);
            number += 1;
        }
        let mut free = 0;
        while free < FREE_KEY_WORDS.len() {
            table.add_kind(FREE_KEY_WORDS[free].as_bytes(), Known::FREE);
            free += 1;
        }
        table
    }

    /// Adds a kind to a word that is there.
    const fn add_kind(&mut self, word: &[u8], kind: Known) {
        let mut at = slot_of(hash_of(word));
        while !same(word_of(self.slots[at]), word) {
            at = (at + 1) & (SLOTS - 1);
        }
        self.slots[at] |= kind.0;
    }

    const fn add(&mut self, slot: u16) {
        let word = word_of(slot);
        let mut at = slot_of(hash_of(word));
        while self.slots[at] != 0 {
            if same(word_of(self.slots[at]), word) {
                self.slots[at] |= slot & !NUMBER;
                return;
            }
            at = (at + 1) & (SLOTS - 1);
        }
        self.slots[at] = slot;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_of_the_lists_is_known_in_either_case() {
        for word in FUNCTIONS {
            assert!(look_up(word.to_ascii_uppercase().as_bytes()).is_harmless(), "{word}");
        }
        for word in DOUBTFUL {
            let known = look_up(word.as_bytes());
            // TREAT is a word of the grammar.
            let is_name = word != "treat";
            assert!(
                known.is_doubtful() && !known.is_harmless() && known.is_key_word() != is_name,
                "{word}"
            );
        }
        for word in KEY_WORDS {
            let known = look_up(word.as_bytes());
            let is_free = FREE_KEY_WORDS.contains(&word);
            assert!(known.is_key_word(), "{word}");
            assert_eq!(known.is_before_parenthesis(), !is_free, "{word}");
            assert_eq!(known.is_foreign(), is_free, "{word}");
        }
        assert!(Known::NOTHING.is_foreign() && !look_up(b"abs").is_foreign());
        for word in ["", "x", "pgbench_history", "set_tenant", "ab\u{1}", "@bs"] {
            assert_eq!(look_up(word.as_bytes()), Known::NOTHING, "{word}");
        }
    }

    #[test]
    fn every_harmless_name_in_c_is_known() {
        for name in IN_C.iter().chain(&FUNCTIONS) {
            assert!(is_harmless_in_c(name.as_bytes()), "{name}");
        }
        for name in DOUBTFUL
            .iter()
            .chain(&["", "tsquery_rewrite_query", "ts_stat1", "textin2"])
        {
            assert!(!is_harmless_in_c(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn what_runs_sql_by_its_text_is_not_harmless() {
        for word in [
            "query_to_xml",
            "table_to_xml",
            "schema_to_xml_and_xmlschema",
            "cursor_to_xml",
            "ts_stat",
            "ts_rewrite",
        ] {
            assert!(look_up(word.as_bytes()).is_doubtful(), "{word}");
        }
        for word in [
            "count",
            "now",
            "coalesce",
            "gen_random_uuid",
            "jsonb_agg",
            "pg_sleep",
            "unnest",
            "nextval",
        ] {
            let known = look_up(word.as_bytes());
            assert!(known.is_harmless() || known.is_key_word(), "{word}");
        }
    }
}
