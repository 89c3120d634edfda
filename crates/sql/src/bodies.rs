//! What the source of a function may do to the session. It is judged like the text of a statement.

use crate::built_in::is_harmless_in_c;
use crate::calls;
use crate::definitions;
use crate::effects::Effects;
use crate::known_names::words;
use crate::lexer::{Lexer, Token};
use crate::moved_names;
use crate::names::{self, SETTINGS_VIEW};
use crate::passed_names;
use crate::read_under;
use crate::scan::effects;
use crate::set_config;
use crate::settings;
use crate::trapping;
use crate::verbs::{effects_of_verb, of_update, updates_settings};

/// The language of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// SQL: a text of statements.
    Sql,
    /// SQL: the whole CREATE FUNCTION statement of a function with BEGIN ATOMIC or RETURN.
    SqlStandard,
    /// PL/pgSQL.
    Plpgsql,
    /// `internal`: the body is the name of a function built into the server.
    Internal,
}

/// Words of PL/pgSQL after which another statement begins without a semicolon before it.
pub(crate) const OPENING: [&str; 8] = ["begin", "then", "else", "loop", "declare", "exception", "do", "atomic"];

/// At most this many times the length of a body is read.
const PARTS_READ_MAX: usize = 16;

/// Commands that have the same effect in a body as at the top level.
const COMMANDS: [&str; 25] = [
    "set",
    "reset",
    "discard",
    "create",
    "listen",
    "unlisten",
    "load",
    "prepare",
    "deallocate",
    "drop",
    "do",
    "call",
    "select",
    "insert",
    "update",
    "delete",
    "with",
    "merge",
    "values",
    "table",
    "copy",
    "explain",
    "alter",
    "import",
    "refresh",
];

/// Effects of code that only asks for something. They matter only at the beginning of a transaction, where only the
/// statement itself is looked at, not the functions that it calls.
const ASKS: Effects = Effects::TEMPORARY_SCHEMA.union(Effects::CURRENT_SETTING);

/// What the source of a routine shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Body {
    /// What running it may do to the session beyond its transaction; [`Effects::PASSES`] where `passes` is not 0.
    pub effects: Effects,
    /// Its parameters whose values become the names of settings: bit 0 is the first parameter.
    pub passes: u64,
}

/// Judges a body. `parameters` are the names of its parameters, in order, as far as they have names. Dynamic SQL counts
/// as code that is not read, except for the names in its constants. The effects of other routines that the body calls
/// are not included.
pub fn judge_body(language: Language, body: &[u8], parameters: &[&[u8]]) -> Body {
    let judged = judge_with_routines(language, body, parameters);
    Body {
        effects: judged.effects.without(Effects::ROUTINES) | trapping::effects(language, body),
        ..judged
    }
}

/// [`judge_body`], with [`Effects::ROUTINES`] if the body calls other routines ([`crate::called`]).
fn judge_with_routines(language: Language, body: &[u8], parameters: &[&[u8]]) -> Body {
    let found = names::search(body);
    let readable = match language {
        // The body is the function's name in C, which is often not its name in SQL.
        Language::Internal => return plain(found.public().without(ASKS) | internal(body)),
        // Queries only.
        Language::SqlStandard => found.public(),
        Language::Sql => effects(body),
        Language::Plpgsql => effects_of_plpgsql(body),
    };
    // A statement that the parser does not know may be one of a later PostgreSQL.
    let unread = readable.contains(Effects::ALL) || readable.contains(calls::UNREAD);
    let dynamic = dynamic(language, body);
    let readable = if readable.contains(Effects::ALL) {
        found.public()
    } else {
        readable
    };
    let mut effects = readable.without(Effects::DEFINES | Effects::NATIVE | Effects::UNTOLD | ASKS);
    let calls = calls::effects_of_both(body);
    effects |= calls;
    if found.contains(SETTINGS_VIEW) && words(body).any(|word| word.eq_ignore_ascii_case(b"update")) {
        // The UPDATE may be a part of another statement of the body.
        effects |= of_update(readings(body).any(|backslashes| may_update_settings(body, backslashes)));
    }
    if read_under::sets_reading(body) {
        effects |= Effects::READING;
    }
    // Whether the caller can tell the name of a setting is decided below.
    effects |= set_config::effects(body).without(Effects::UNTOLD);
    if language != Language::SqlStandard {
        effects |= definitions::effects_of_body(body, calls, unread || dynamic.is_none());
        for backslashes in readings(body) {
            effects |= moved_names::effects(body, backslashes);
        }
    }
    effects |= match dynamic {
        Some(effects) if !unread => effects.without(ASKS),
        _ => calls::UNREAD,
    };
    if settings::is_set_far(body) {
        effects |= Effects::UNTOLD;
    }
    let passes = readings(body).try_fold(0, |all, backslashes| {
        Some(all | passed_names::passes(language, body, parameters, backslashes)?)
    });
    match passes {
        None => effects |= Effects::UNTOLD,
        Some(0) => {}
        Some(_) => effects |= Effects::PASSES,
    }
    Body {
        effects,
        passes: passes.unwrap_or_default(),
    }
}

/// Whether a body has an UPDATE that may be one of `pg_settings`, apart from its constants.
fn may_update_settings(body: &[u8], backslashes: bool) -> bool {
    let mut lexer = Lexer::with_backslashes(body, backslashes);
    while let Some(token) = lexer.next() {
        if token.is("update") && updates_settings(lexer.clone()) {
            return true;
        }
    }
    false
}

/// Whether a body may make a table without the word TEMP, apart from what it calls. In PL/pgSQL, INTO is an assignment;
/// BEGIN ATOMIC has queries only.
pub fn may_create(language: Language, body: &[u8]) -> bool {
    let mut inserts = false;
    language != Language::SqlStandard
        && words(body).any(|word| {
            let is = |list: &[&str]| list.iter().any(|w| word.eq_ignore_ascii_case(w.as_bytes()));
            let selects_into = is(&["into"]) && !inserts && language != Language::Plpgsql;
            inserts = is(&["insert", "merge"]);
            selects_into || is(&["create", "import", "execute", "concurrently"])
        })
}

fn plain(effects: Effects) -> Body {
    Body { effects, passes: 0 }
}

/// The effects of a block without parameters: DO. The catalog must know the routines that it calls, as for any
/// text: [`Effects::ROUTINES`].
pub(crate) fn body_effects(language: Language, body: &[u8]) -> Effects {
    let judged = judge_with_routines(language, body, &[]);
    match judged.passes {
        0 => judged.effects,
        _ => judged.effects.without(Effects::PASSES) | Effects::UNTOLD,
    }
}

/// What the name in C of a function built into the server adds to the effects of the names that it contains. A name
/// that is not known to be harmless may be one of a later PostgreSQL.
fn internal(name: &[u8]) -> Effects {
    match name.trim_ascii() {
        name if name.starts_with(b"set_config") => Effects::UNTOLD | Effects::READING,
        name if is_harmless_in_c(name) => Effects::NONE,
        _ => calls::UNREAD,
    }
}

/// In PL/pgSQL, the effects of EXECUTE, FOR .. IN EXECUTE, OPEN .. FOR EXECUTE and RETURN QUERY EXECUTE. If each of
/// them executes a single constant, these are the effects of the constants; otherwise, and for a body that cannot be
/// read, `None`. It is also `None` where an EXECUTE in SQL may run a prepared statement.
fn dynamic(language: Language, body: &[u8]) -> Option<Effects> {
    readings(body).try_fold(Effects::NONE, |found, backslashes| {
        Some(found | dynamic_read(language, body, backslashes)?)
    })
}

/// The settings of `standard_conforming_strings` under which a body may be read: whether backslashes escape.
fn readings(body: &[u8]) -> impl Iterator<Item = bool> {
    [false].into_iter().chain(body.contains(&b'\\').then_some(true))
}

fn dynamic_read(language: Language, body: &[u8], backslashes: bool) -> Option<Effects> {
    let mut found = Effects::NONE;
    let mut lexer = Lexer::with_backslashes(body, backslashes);
    while let Some(token) = lexer.next() {
        let runs_prepared = language == Language::Sql && token.is("execute") && !is_privilege(&lexer);
        if token == Token::Unterminated || runs_prepared {
            return None;
        } else if language == Language::Plpgsql && token.is("execute") {
            let Some(Token::Text(text)) = lexer.next() else {
                return None;
            };
            let ends = lexer
                .peek()
                .is_some_and(|t| t == Token::Byte(b';') || ["into", "using", "loop"].iter().any(|word| t.is(word)));
            // With escapes or doubled quotes, the text may differ from its spelling.
            let is_block = words(text).any(|word| word.eq_ignore_ascii_case(b"do"));
            let plain = !text.is_empty() && !text.contains(&b'\\') && !text.contains(&b'\'') && !is_block;
            if !ends || !plain {
                return None;
            }
            let of_text = effects(text);
            if of_text.contains(Effects::ALL) {
                return None;
            }
            found |= of_text | Effects::CODE;
        }
    }
    Some(found)
}

/// Whether an EXECUTE before this is the privilege: GRANT EXECUTE ON.
fn is_privilege(behind: &Lexer<'_>) -> bool {
    behind.peek().is_some_and(|token| token.is("on"))
}

fn effects_of_plpgsql(body: &[u8]) -> Effects {
    let found = names::search(body);
    let mut effects = found.public();
    for backslashes in readings(body) {
        let all_seen = each_command(body, backslashes, |statement| {
            // A DO within code is not followed, or the work would double with each level.
            let is_block = Lexer::with_backslashes(statement, backslashes).accept("do");
            effects |= match is_block {
                true => calls::UNREAD,
                false => effects_of_verb(statement, backslashes, found),
            };
        });
        if !all_seen {
            effects |= calls::UNREAD;
        }
    }
    effects.public()
}

/// Calls `look` with every part of a PL/pgSQL body that may be one of [`COMMANDS`], up to its semicolon. A part may
/// begin within another (THEN is also in CASE). `false` if this would read more than [`PARTS_READ_MAX`] times the body.
fn each_command(body: &[u8], backslashes: bool, mut look: impl FnMut(&[u8])) -> bool {
    let mut lexer = Lexer::with_backslashes(body, backslashes);
    let mut begins = true;
    let mut bytes_left = PARTS_READ_MAX * body.len();
    loop {
        lexer.skip_space();
        let start = lexer.position();
        let Some(token) = lexer.next() else { return true };
        if begins && COMMANDS.iter().any(|word| token.is(word)) {
            let mut rest = lexer.clone();
            let mut end = rest.position();
            while let Some(token) = rest.next() {
                if token == Token::Byte(b';') {
                    break;
                }
                end = rest.position();
            }
            let Some(left) = bytes_left.checked_sub(end - start) else {
                return false;
            };
            bytes_left = left;
            look(&body[start..end]);
        }
        // `<<label>>` comes before a statement.
        begins = OPENING.iter().any(|word| token.is(word)) || matches!(token, Token::Byte(b';' | b'<' | b'>'));
    }
}

#[cfg(test)]
#[path = "bodies_tests.rs"]
mod tests;
