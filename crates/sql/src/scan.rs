//! The effects of a whole text.

use crate::effects::Effects;

/// Words that may stand for an effect wherever they stand.
const WORDS: [(&str, Effects); 31] = [
    ("set_config", Effects::SETTINGS),
    ("temp", Effects::TEMPORARY),
    ("advisory", Effects::LOCKS.union(Effects::ENDS)),
    ("hold", Effects::CURSORS),
    ("prepare", Effects::PREPARE),
    ("execute", Effects::PREPARE),
    ("setseed", Effects::SEED),
    ("replication", Effects::SERVER_BOUND),
    ("backup", Effects::SERVER_BOUND),
    ("dblink", Effects::SERVER_BOUND),
    ("currval", Effects::SEQUENCE),
    ("lastval", Effects::SEQUENCE),
    ("set ", Effects::SETTINGS),
    ("set\t", Effects::SETTINGS),
    ("set\n", Effects::SETTINGS),
    ("set/", Effects::SETTINGS),
    ("set\"", Effects::SETTINGS),
    ("seed", Effects::SEED),
    ("default", Effects::RESETS),
    ("local", Effects::RESETS),
    ("reset", Effects::SETTINGS.union(Effects::RESETS)),
    ("discard", Effects::ALL),
    ("listen", Effects::LISTEN.union(Effects::ENDS)),
    ("deallocate", Effects::PREPARE.union(Effects::ENDS)),
    ("call", Effects::CODE),
    ("do", Effects::CODE),
    ("load", Effects::LOAD),
    ("drop", Effects::ENDS),
    ("close", Effects::ENDS),
    ("rollback", Effects::ENDS),
    ("abort", Effects::ENDS),
];

/// What this text may do to the session; empty for ordinary statements.
pub fn effects(text: &[u8]) -> Effects {
    let lower = text.to_ascii_lowercase();
    let within = |word: &str| lower.windows(word.len()).any(|w| w == word.as_bytes());
    WORDS
        .iter()
        .filter(|(word, _)| within(word))
        .fold(Effects::NONE, |all, (_, effect)| all | *effect)
}

/// Names of the settings in the SET, RESET and `set_config('literal', ..)` of this text that `pg_settings` does not show:
/// custom ones (with a dot), `role`, `session_authorization`; lower case, as the server keeps them.
pub fn hidden_settings(text: &[u8]) -> Vec<Box<str>> {
    let lower = text.to_ascii_lowercase();
    lower
        .split(|b| !(b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'$') || *b >= 0x80))
        .filter(|word| word.contains(&b'.') || [&b"role"[..], b"session_authorization"].contains(word))
        .filter_map(|word| std::str::from_utf8(word).ok().map(Box::from))
        .collect()
}
