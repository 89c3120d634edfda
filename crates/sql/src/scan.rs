//! The effects of a whole text.

use crate::calls::{self, UNREAD};
use crate::definitions;
use crate::effects::Effects;
use crate::lexer::Lexer;
use crate::moved_names;
use crate::names::{self, PG_TEMP, SETTINGS_VIEW, TEMP_WORD};
use crate::prefilter::is_harmless;
use crate::set_config;
use crate::signals::is_signal;
use crate::split::Statements;
use crate::verbs::{begins_ordinary, begins_with_rows, effects_of_verb};

/// The effects of this text on the session beyond its transaction; empty for ordinary statements.
///
/// The text must be in an encoding in which bytes below 128 are ASCII. This holds for every server encoding, and for
/// all client encodings except BIG5, GB18030, GBK, JOHAB, SJIS, SHIFT_JIS_2004 and UHC. For text in these in which
/// [`may_hide_ascii`] sees such a character, assume the effects of code that is not read.
///
/// A text that the server refuses does nothing, but may have any effects here. The effects of functions of the
/// database, and of texts that run later, are not included: the query of a cursor when rows are fetched, a prepared
/// statement when it is executed.
#[inline]
pub fn effects(text: &[u8]) -> Effects {
    if begins_ordinary(text) && is_harmless(text) {
        return Effects::NONE;
    }
    effects_of_statements(text)
}

/// Whether a byte of this text that looks like ASCII may be the second half of a character, in one of the client
/// encodings that [`effects`] does not understand. In those, 0x30 to 0x7E may follow a byte above 127.
pub fn may_hide_ascii(text: &[u8]) -> bool {
    text.windows(2)
        .any(|pair| pair[0] >= 0x80 && matches!(pair[1], 0x30..=0x7e))
}

/// The beginnings of the names of client encodings in which every byte below 128 is ASCII, without punctuation.
const PLAIN_ENCODINGS: [&str; 15] = [
    "UTF8",
    "UNICODE",
    "SQLASCII",
    "LATIN",
    "WIN125",
    "WIN866",
    "WIN874",
    "WINDOWS125",
    "WINDOWS866",
    "WINDOWS874",
    "KOI8",
    "ISO8859",
    "EUC",
    "MULEINTERNAL",
    "TCVN",
];

/// Whether text in this client encoding may be one that [`effects`] does not understand.
pub fn encoding_hides_ascii(name: &str) -> bool {
    let name: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    let name = name.to_ascii_uppercase();
    !PLAIN_ENCODINGS.iter().any(|plain| name.starts_with(plain))
}

/// Whether a text is one statement that reads or writes rows, calls only functions that are surely harmless, and
/// changes neither this session nor another one. Nearly all texts of applications are. `false` proves nothing.
#[inline]
pub fn is_plain(text: &[u8]) -> bool {
    begins_with_rows(text) && is_harmless(text) && !is_signal(text)
}

#[cold]
#[inline(never)]
fn effects_of_statements(text: &[u8]) -> Effects {
    // Comments before ordinary statements are frequent.
    let mut lexer = Lexer::new(text);
    lexer.skip_space();
    let ordinary = begins_ordinary(&text[lexer.position()..]);
    if ordinary && is_harmless(text) {
        return Effects::NONE;
    }
    let found = names::search(text);
    let first = text[lexer.position()..].get(..6);
    let begins = |verb: &[u8]| first.is_some_and(|word| word.eq_ignore_ascii_case(verb));
    let begins_create = begins(b"create");
    let single = memchr::memchr(b';', text).is_none_or(|at| text[at + 1..].trim_ascii().is_empty());
    let mut effects = Effects::NONE;
    if found.intersects(Effects::SETTINGS) {
        effects |= set_config::effects(text);
    }
    let calls = calls::effects_of_both(text);
    effects |= calls;
    if ordinary && single && !found.intersects(TEMP_WORD | SETTINGS_VIEW) {
        if begins(b"commit") {
            effects |= moved_names::effects(text, false) | moved_names::effects(text, true);
        }
        return (effects | asking(found)).public();
    }
    // If a statement creates something in a schema, it does not show whether the schema existed before.
    effects |= if single && begins_create { found } else { asking(found) };
    for backslashes in [false, true] {
        let mut statements = Statements::new(text, backslashes);
        for statement in statements.by_ref() {
            let of_verb = effects_of_verb(statement, backslashes, found);
            effects |= of_verb;
            let unread = calls.contains(UNREAD) || of_verb.contains(UNREAD);
            effects |= definitions::effects(statement, backslashes, found, unread);
            effects |= moved_names::effects(statement, backslashes);
        }
        if !statements.is_ambiguous() {
            break;
        }
    }
    (effects | definitions::native(text)).public()
}

/// Adds the effect of `pg_temp` in a statement that creates nothing in it.
fn asking(found: Effects) -> Effects {
    match found.contains(PG_TEMP) {
        true => found | Effects::TEMPORARY_SCHEMA,
        false => found,
    }
}

#[cfg(test)]
mod random_tests;
#[cfg(test)]
mod settings_tests;
#[cfg(test)]
mod tests;
