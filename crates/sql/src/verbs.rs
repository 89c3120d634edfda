//! The effects of one statement that follow from its first words.

use crate::bodies::{Language, body_effects};
use crate::calls::UNREAD;
use crate::effects::Effects;
use crate::lexer::{Lexer, Token};
use crate::names::{SETTINGS_VIEW, TEMP_WORD};
use crate::set_config::SEED;
use crate::settings::{Scope, Target, read_set, read_setting};
use crate::type_names::type_of_name_text;
use crate::validators;
use std::borrow::Cow;

/// Whether a text begins with a verb that does nothing to the session by itself, and is a query or a short command. It
/// is a cheap test, and not exhaustive.
///
/// Four letters decide: no other statement of the grammar begins with them.
#[inline]
pub(crate) fn begins_ordinary(text: &[u8]) -> bool {
    begins_with(text, &ORDINARY)
}

/// Whether a text begins with these letters, in either case.
#[inline]
fn begins_with(text: &[u8], verbs: &[&[u8; 4]]) -> bool {
    let Some(first) = text.first_chunk::<4>() else {
        return false;
    };
    // A letter in either case becomes the letter in lower case, and nothing else becomes a letter.
    let folded = u32::from_le_bytes(*first) | 0x2020_2020;
    verbs.iter().any(|verb| u32::from_le_bytes(**verb) == folded)
}

/// SELECT, INSERT, UPDATE, DELETE, BEGIN, COMMIT (and COMMENT), END, WITH, VALUES, MERGE, FETCH, TABLE, COPY,
/// SAVEPOINT, RELEASE, SHOW, LOCK, START, NOTIFY.
const ORDINARY: [&[u8; 4]; 20] = [
    b"sele", b"inse", b"upda", b"dele", b"begi", b"comm", b"end;", b"end ", b"with", b"valu", b"merg", b"fetc",
    b"tabl", b"copy", b"save", b"rele", b"show", b"lock", b"star", b"noti",
];

/// Whether a text begins with SELECT, INSERT, UPDATE, DELETE, WITH, VALUES, MERGE or TABLE.
#[inline]
pub(crate) fn begins_with_rows(text: &[u8]) -> bool {
    begins_with(text, &ROWS)
}

/// The beginnings in [`ORDINARY`] of statements that read or write rows.
const ROWS: [&[u8; 4]; 8] = [b"sele", b"inse", b"upda", b"dele", b"with", b"valu", b"merg", b"tabl"];

/// Whether the meaning of a statement, and the rows that it returns, depend on cursors and prepared statements of the
/// session that parses it: FETCH, MOVE, EXECUTE, EXPLAIN EXECUTE.
///
/// PostgreSQL crashes when a prepared FETCH is described in a session without the cursor (FetchStatementTargetList
/// follows a null pointer), so such a statement must not be shared between sessions.
pub fn belongs_to_session(text: &[u8]) -> bool {
    is_first_word(text, &[b"fetch", b"move", b"execute", b"explain"])
}

/// Whether a text begins with a statement that must be the first of its transaction or pipeline: behind another one
/// PostgreSQL refuses it or gives it another meaning.
pub fn must_come_first(text: &[u8]) -> bool {
    let verbs: [&[u8]; 5] = [b"discard", b"vacuum", b"cluster", b"reindex", b"checkpoint"];
    begins_without_snapshot(text) || is_first_word(text, &verbs)
}

/// Whether a text consists of the same characters under all settings: it is ASCII, and nothing in it is escaped, also not
/// as in `U&'!0061' UESCAPE '!'`.
pub fn is_unescaped_ascii(text: &[u8]) -> bool {
    let has_escapes = text.contains(&b'\\') || text.windows(2).any(|pair| pair.eq_ignore_ascii_case(b"u&"));
    text.is_ascii() && !has_escapes
}

/// Whether the first statement that is not empty begins with one of these words.
fn is_first_word(text: &[u8], verbs: &[&[u8]]) -> bool {
    let first = Lexer::new(text).find(|token| *token != Token::Byte(b';'));
    matches!(first, Some(Token::Word(word)) if verbs.iter().any(|verb| word.eq_ignore_ascii_case(verb)))
}

/// Whether a text begins with a statement that runs no code and for which PostgreSQL takes no snapshot. After it, the
/// isolation level of the transaction may still be set. The locks that it takes come before the snapshot.
pub fn begins_without_snapshot(text: &[u8]) -> bool {
    let verbs: [&[u8]; 15] = [
        b"set",
        b"show",
        b"reset",
        b"lock",
        b"begin",
        b"start",
        b"commit",
        b"end",
        b"rollback",
        b"abort",
        b"savepoint",
        b"release",
        b"listen",
        b"unlisten",
        b"notify",
    ];
    is_first_word(text, &verbs)
}

/// The effects of this statement that its verb and key words show. `found` are the names found in the whole text.
pub(crate) fn effects_of_verb(statement: &[u8], backslashes: bool, found: Effects) -> Effects {
    let mut lexer = Lexer::with_backslashes(statement, backslashes);
    let Some(first) = lexer.next() else {
        return Effects::NONE;
    };
    let Token::Word(word) = first else {
        // `(SELECT ..)`, or not SQL.
        return query(lexer, first, found);
    };
    // No verb is longer.
    let mut buffer = [0; 12];
    let word = &word[..word.len().min(buffer.len())];
    let verb = &mut buffer[..word.len()];
    verb.copy_from_slice(word);
    verb.make_ascii_lowercase();
    match &*verb {
        b"select" | b"insert" | b"update" | b"delete" | b"with" | b"values" | b"table" | b"merge" | b"copy" => {
            query(lexer, first, found)
        }
        b"set" => set(lexer),
        b"reset" => reset(lexer),
        b"discard" => discard(lexer),
        b"create" => create(lexer),
        b"declare" => declare(lexer, found),
        b"explain" => explain(lexer, found),
        b"prepare" => prepare(lexer, found),
        b"execute" => Effects::PREPARE,
        b"deallocate" => Effects::PREPARE | Effects::ENDS,
        b"listen" => Effects::LISTEN,
        b"unlisten" => Effects::LISTEN | Effects::ENDS,
        b"load" => Effects::LOAD,
        b"do" => block(lexer),
        b"call" => Effects::CODE,
        b"refresh" => refresh(lexer),
        b"alter" => type_of_name_text(lexer),
        b"drop" | b"close" | b"rollback" | b"abort" => Effects::ENDS,
        b"begin" | b"start" | b"commit" | b"end" | b"savepoint" | b"release" | b"fetch" | b"move" | b"show"
        | b"lock" | b"notify" | b"analyze" | b"analyse" | b"vacuum" | b"cluster" | b"checkpoint" | b"reindex"
        | b"truncate" | b"grant" | b"revoke" | b"comment" | b"security" | b"reassign" | b"import" => Effects::NONE,
        _ if begins_ordinary(verb) => Effects::NONE,
        // A statement of a later PostgreSQL, or not SQL.
        _ => Effects::ALL,
    }
}

/// SELECT .. INTO [ LOCAL | GLOBAL ] { TEMPORARY | TEMP } .., and UPDATE of pg_settings.
fn query(lexer: Lexer<'_>, first: Token<'_>, found: Effects) -> Effects {
    let mut effects = Effects::NONE;
    if !found.intersects(TEMP_WORD | SETTINGS_VIEW) {
        return effects;
    }
    // The token before: in INSERT INTO temp, "temp" is the table.
    let mut last = first;
    let mut into = false;
    let mut updates = first.is("update");
    let mut settings = updates && updates_settings(lexer.clone());
    let mut rest = lexer;
    while let Some(token) = rest.next() {
        if into && (token.is("temp") || token.is("temporary")) {
            effects |= Effects::TEMPORARY;
        }
        into = match () {
            () if token.is("into") => !(last.is("insert") || last.is("merge")),
            () => into && (token.is("local") || token.is("global")),
        };
        if token.is("update") {
            updates = true;
            settings |= updates_settings(rest.clone());
        }
        last = token;
    }
    if updates && found.contains(SETTINGS_VIEW) {
        effects |= of_update(settings);
    }
    effects
}

/// The effects of an UPDATE in a text that names `pg_settings`; `settings`: the UPDATE may be one of that view, and so
/// change settings whose names the text does not show. The session may not see them.
pub(crate) fn of_update(settings: bool) -> Effects {
    let changed = Effects::SETTINGS | Effects::READING;
    if settings { changed | Effects::UNTOLD } else { changed }
}

/// Whether what follows UPDATE may be `pg_settings`.
pub(crate) fn updates_settings(mut behind: Lexer<'_>) -> bool {
    let mut table = behind.find(|token| !token.is("only") && *token != Token::Byte(b'('));
    while behind.peek() == Some(Token::Byte(b'.')) {
        behind.next();
        table = behind.next();
    }
    match table.map(|token| token.identifier()) {
        Some(Some(name)) => *name == *b"pg_settings",
        _ => !matches!(table, None | Some(Token::Byte(b';' | b')'))),
    }
}

fn set(mut lexer: Lexer<'_>) -> Effects {
    let Some((scope, target)) = read_set(&mut lexer) else {
        // The name cannot be read: U&"..", or an error.
        return Effects::SETTINGS | Effects::RESETS | Effects::SEED | Effects::READING;
    };
    let reading = match target.may_be_read_under() {
        true => Effects::READING,
        false => Effects::NONE,
    };
    let mut effects = match target {
        Target::Transaction | Target::Constraints => return Effects::NONE,
        Target::Setting(name) if scope == Scope::Transaction && &*name == SEED => {
            return Effects::LOCAL | Effects::SEED;
        }
        _ if scope == Scope::Transaction => return Effects::LOCAL | reading,
        Target::Characteristics => return Effects::SETTINGS,
        Target::Setting(name) if &*name == SEED => Effects::SETTINGS | Effects::SEED,
        Target::Setting(_) => Effects::SETTINGS | reading,
    };
    // SET NAMES without a value resets.
    let mut last = None;
    for token in lexer {
        if token.is("default") || token.is("local") {
            effects |= Effects::RESETS;
        }
        last = Some(token);
    }
    if last.is_none() {
        effects |= Effects::RESETS;
    }
    effects
}

/// RESET of a setting, or of all.
fn reset(mut lexer: Lexer<'_>) -> Effects {
    let others = matches!(read_setting(&mut lexer), Some(target) if !target.may_be_read_under() && !target.is_all());
    let reading = if others { Effects::NONE } else { Effects::READING };
    Effects::SETTINGS | Effects::RESETS | reading
}

fn discard(mut lexer: Lexer<'_>) -> Effects {
    if lexer.accept("plans") || lexer.accept("sequences") || lexer.accept("temp") || lexer.accept("temporary") {
        Effects::ENDS
    } else {
        Effects::SETTINGS | Effects::RESETS | Effects::PREPARE | Effects::LISTEN | Effects::ENDS
    }
}

/// CREATE [ OR REPLACE ] [ LOCAL | GLOBAL ] { TEMPORARY | TEMP } .., CREATE TABLE .. AS EXECUTE, CREATE FUNCTION in any
/// language.
fn create(mut lexer: Lexer<'_>) -> Effects {
    if lexer.accept("or") {
        lexer.accept("replace");
    }
    let validated = validators::effects(lexer.clone()) | type_of_name_text(lexer.clone());
    let _ = lexer.accept("local") || lexer.accept("global");
    let temporary = lexer.accept("temp") || lexer.accept("temporary");
    let mut effects = if temporary { Effects::TEMPORARY } else { validated };
    let _ = lexer.accept("unlogged");
    if lexer.accept("table") {
        let mut last = Token::Number;
        for token in lexer {
            if last.is("as") && token.is("execute") {
                effects |= Effects::PREPARE;
            }
            last = token;
        }
    }
    effects
}

/// REFRESH MATERIALIZED VIEW CONCURRENTLY makes a temporary table.
fn refresh(mut lexer: Lexer<'_>) -> Effects {
    match lexer.any(|token| token.is("concurrently")) {
        true => Effects::TEMPORARY,
        false => Effects::NONE,
    }
}

/// DECLARE .. WITH HOLD FOR ..
fn declare(mut lexer: Lexer<'_>, found: Effects) -> Effects {
    let mut effects = Effects::NONE;
    let mut last = Token::Number;
    while let Some(token) = lexer.next() {
        if last.is("with") && token.is("hold") {
            effects |= Effects::CURSORS;
        }
        if token.is("for") {
            return effects | query(lexer, token, found);
        }
        last = token;
    }
    effects
}

/// EXPLAIN runs its statement if ANALYZE is among its options.
fn explain(mut lexer: Lexer<'_>, found: Effects) -> Effects {
    let mut effects = Effects::NONE;
    while let Some(token) = lexer.next() {
        if token.is("execute") {
            effects |= Effects::PREPARE;
        } else if token.is("temp") || token.is("temporary") {
            effects |= Effects::TEMPORARY;
        } else if token.is("update") {
            // The text may update pg_settings. To find out is not worth the cost.
            effects |= Effects::SETTINGS;
            if found.contains(SETTINGS_VIEW) {
                effects |= of_update(updates_settings(lexer.clone()));
            }
        }
    }
    effects
}

/// DO [ LANGUAGE name ] 'code': PL/pgSQL is read like the body of a function.
fn block(lexer: Lexer<'_>) -> Effects {
    let Some(code) = code_of_block(lexer) else {
        return UNREAD;
    };
    let effects = code.iter().fold(Effects::CODE, |effects, code| {
        effects | body_effects(Language::Plpgsql, code)
    });
    effects.without(SEEN)
}

/// The code of a DO, whose rest is given, in each spelling that it may have; `None` if it is not read.
pub(crate) fn code_of_block(lexer: Lexer<'_>) -> Option<Vec<Cow<'_, [u8]>>> {
    let mut code = None;
    let mut language = None;
    let mut last = Token::Number;
    for token in lexer {
        match token {
            Token::Text(_) if last.is("language") => language = Some(token),
            Token::Text(text) if code.is_none() => code = Some(text),
            Token::Word(_) if token.is("language") => {}
            Token::Word(_) | Token::Quoted(_) if last.is("language") => language = Some(token),
            _ => return None,
        }
        last = token;
    }
    let is_read = match language {
        Some(Token::Text(name) | Token::Word(name)) => name.eq_ignore_ascii_case(b"plpgsql"),
        Some(Token::Quoted(name)) => name == b"plpgsql",
        _ => language.is_none(),
    };
    let code = code.filter(|code| is_read && !code.contains(&b'\\'))?;
    // In a plain constant, quotes are doubled. In dollar quotes, two quotes are an empty constant, or mean the same.
    let doubled = code.windows(2).any(|pair| pair == b"''");
    let mut spellings = vec![Cow::from(code)];
    spellings.extend(doubled.then(|| undoubled(code).into()));
    Some(spellings)
}

/// The effects that a probe asks for after any code.
const SEEN: Effects = Effects::LISTEN
    .union(Effects::PREPARE)
    .union(Effects::RESETS)
    .union(Effects::ENDS)
    .union(Effects::CURSORS)
    .union(Effects::TEMPORARY)
    .union(Effects::SETTINGS)
    .union(Effects::LOCKS);

/// With one quote for each doubled one.
fn undoubled(code: &[u8]) -> Vec<u8> {
    let mut single = Vec::with_capacity(code.len());
    let mut rest = code;
    while let [first, behind @ ..] = rest {
        single.push(*first);
        rest = match behind {
            [b'\'', behind @ ..] if *first == b'\'' => behind,
            _ => behind,
        };
    }
    single
}

/// PREPARE TRANSACTION 'name' prepares no statement; a statement may itself be called "transaction".
fn prepare(mut lexer: Lexer<'_>, found: Effects) -> Effects {
    let name = lexer.next();
    if name.is_some_and(|t| t.is("transaction")) && matches!(lexer.peek(), Some(Token::Text(_))) {
        return Effects::NONE;
    }
    Effects::PREPARE | query(lexer, Token::Number, found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_concurrent_refresh_makes_a_temporary_table() {
        let makes = |text: &str| crate::effects(text.as_bytes()).contains(Effects::TEMPORARY);
        assert!(makes("refresh materialized view /* x */ CONCURRENTLY m"));
        assert!(!makes("refresh materialized view m with no data"));
        for language in [Language::Plpgsql, Language::Sql] {
            let body = match language {
                Language::Plpgsql => "begin refresh materialized view concurrently m; end",
                _ => "refresh materialized view concurrently m",
            };
            let judged = crate::judge_body(language, body.as_bytes(), &[]);
            assert!(judged.effects.contains(Effects::TEMPORARY), "{body}");
            assert!(crate::may_create(language, body.as_bytes()), "{body}");
        }
    }

    #[test]
    fn what_takes_no_snapshot_is_known_by_its_verb() {
        for text in [
            "SET transaction isolation level serializable",
            "/* a */ ; show x",
            "lock t",
            "rollback to a",
        ] {
            assert!(begins_without_snapshot(text.as_bytes()), "{text}");
        }
        for text in [
            "",
            "select 1",
            "do $$begin end$$",
            "call p()",
            "fetch c",
            "\"set\"",
            "settle",
        ] {
            assert!(!begins_without_snapshot(text.as_bytes()), "{text}");
        }
    }
}
