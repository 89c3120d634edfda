//! The statements that a pooler must recognise by their text.

use crate::lexer::{Lexer, Token};
use crate::settings::{Scope, Target, read_set, read_setting};
use crate::split::Statements;

/// What a text is as a whole. A text with two statements is always [`Statement::Other`].
#[derive(Debug, Clone, PartialEq, Eq, pgweir_freeze::Freeze)]
pub enum Statement {
    /// No statement that the pooler must recognise.
    Other,
    /// BEGIN without modes.
    Begin,
    /// START TRANSACTION without modes: BEGIN with another command tag.
    StartTransaction,
    /// COMMIT or END, without AND CHAIN and not PREPARED.
    Commit,
    /// ROLLBACK or ABORT, without AND CHAIN, not PREPARED and not TO SAVEPOINT.
    Rollback,
    /// DEALLOCATE of one statement; the name as the catalog would hold it (folded, cut to 63 bytes).
    Deallocate(Box<[u8]>),
    /// DEALLOCATE ALL.
    DeallocateAll,
    /// DISCARD ALL.
    DiscardAll,
    /// DISCARD PLANS.
    DiscardPlans,
    /// DISCARD TEMP or TEMPORARY.
    DiscardTemp,
    /// DISCARD SEQUENCES.
    DiscardSequences,
    /// PREPARE of a statement; the name as the catalog would hold it. The rest of the text may be anything.
    Prepare(Box<[u8]>),
    /// EXECUTE of a statement; the name as the catalog would hold it.
    Execute(Box<[u8]>),
    /// RESET ALL.
    ResetAll,
    /// RESET of one setting; its name in lower case.
    Reset(Box<[u8]>),
    /// SET or SET SESSION of one setting; its name in lower case, `timezone` for SET TIME ZONE and so on.
    Set(Box<[u8]>),
    /// SET LOCAL of one setting; its name as in [`Statement::Set`].
    SetLocal(Box<[u8]>),
    /// CLOSE ALL.
    CloseAll,
    /// LISTEN; the channel as the server would know it.
    Listen(Box<[u8]>),
    /// UNLISTEN of one channel.
    Unlisten(Box<[u8]>),
    /// UNLISTEN *.
    UnlistenAll,
    /// SAVEPOINT; its name, folded.
    Savepoint(Box<[u8]>),
    /// RELEASE of a savepoint; its name, folded.
    Release(Box<[u8]>),
    /// ROLLBACK TO a savepoint; its name, folded.
    RollbackTo(Box<[u8]>),
    /// COMMIT AND CHAIN.
    CommitAndChain,
    /// ROLLBACK AND CHAIN.
    RollbackAndChain,
}

/// The longest text that is recognised, bytes, except for PREPARE and EXECUTE: a DEALLOCATE with a long quoted name,
/// and room for comments. A longer text is [`Statement::Other`], PREPARE or EXECUTE. So a caller that treats PREPARE
/// and EXECUTE like any other statement need not wait for the rest of a longer message.
pub const STATEMENT_BYTES_MAX: usize = 512;

/// Classifies a text. For ordinary statements only the first letters are read.
#[inline]
pub fn classify(text: &[u8]) -> Statement {
    match begins_otherwise(text) {
        true => Statement::Other,
        false => classify_in_full(text),
    }
}

fn classify_in_full(text: &[u8]) -> Statement {
    if let Some(statement) = one_word(text) {
        return statement;
    }
    let mut lexer = Lexer::new(text);
    match lexer.next() {
        Some(Token::Word(verb)) if verb.eq_ignore_ascii_case(b"prepare") => prepare(text, lexer),
        Some(Token::Word(verb)) if verb.eq_ignore_ascii_case(b"execute") => execute(text, lexer),
        Some(Token::Word(verb)) if text.len() <= STATEMENT_BYTES_MAX => classify_verb(verb, lexer),
        _ => Statement::Other,
    }
}

/// Whether the first letters belong to no statement that is recognised: SELECT, INSERT, UPDATE, DELETE, WITH, VALUES
/// and others.
#[inline]
fn begins_otherwise(text: &[u8]) -> bool {
    let Some(first) = text.first_chunk::<4>() else {
        return text.is_empty();
    };
    match first[0] | 0x20 {
        b'i' | b'w' | b'v' | b'm' | b't' | b'f' => true,
        // SELECT and SHOW. SET, START and SAVEPOINT are recognised.
        b's' => matches!(first[2] | 0x20, b'l' | b'o'),
        // UPDATE. UNLISTEN is recognised.
        b'u' => first[1] | 0x20 == b'p',
        // DELETE. DEALLOCATE and DISCARD are recognised.
        b'd' => first[2] | 0x20 == b'l',
        _ => false,
    }
}

/// The most frequent statements in their most frequent spellings, which need no lexer.
fn one_word(text: &[u8]) -> Option<Statement> {
    let word = text.strip_suffix(b";").unwrap_or(text);
    let (spelled, statement) = match word.len() {
        3 => (&b"end"[..], Statement::Commit),
        5 => (&b"begin"[..], Statement::Begin),
        6 => (&b"commit"[..], Statement::Commit),
        8 => (&b"rollback"[..], Statement::Rollback),
        _ => return None,
    };
    word.eq_ignore_ascii_case(spelled).then_some(statement)
}

fn classify_verb(verb: &[u8], mut lexer: Lexer<'_>) -> Statement {
    let mut buffer = [0; 12];
    let Some(lower) = buffer.get_mut(..verb.len()) else {
        return Statement::Other;
    };
    lower.copy_from_slice(verb);
    lower.make_ascii_lowercase();
    match &*lower {
        b"begin" => {
            work(&mut lexer);
            end(lexer, Statement::Begin)
        }
        b"start" if lexer.accept("transaction") => end(lexer, Statement::StartTransaction),
        b"commit" | b"end" => {
            work(&mut lexer);
            match chain(&mut lexer) {
                true => end(lexer, Statement::CommitAndChain),
                false => end(lexer, Statement::Commit),
            }
        }
        b"rollback" | b"abort" => rollback(lexer),
        b"savepoint" => named(lexer, Statement::Savepoint),
        b"release" => {
            optional(&mut lexer, "savepoint");
            named(lexer, Statement::Release)
        }
        b"discard" if lexer.accept("all") => end(lexer, Statement::DiscardAll),
        b"discard" if lexer.accept("plans") => end(lexer, Statement::DiscardPlans),
        b"discard" if lexer.accept("sequences") => end(lexer, Statement::DiscardSequences),
        b"discard" if lexer.accept("temp") || lexer.accept("temporary") => end(lexer, Statement::DiscardTemp),
        b"deallocate" => {
            optional(&mut lexer, "prepare");
            if lexer.accept("all") {
                return end(lexer, Statement::DeallocateAll);
            }
            match lexer.next().and_then(|token| token.spelled_identifier()) {
                Some(name) => end(lexer, Statement::Deallocate(name)),
                None => Statement::Other,
            }
        }
        b"set" => set(lexer),
        b"reset" if lexer.accept("all") => end(lexer, Statement::ResetAll),
        b"reset" => match read_setting(&mut lexer) {
            Some(Target::Setting(name)) => end(lexer, Statement::Reset(name)),
            _ => Statement::Other,
        },
        b"close" if lexer.accept("all") => end(lexer, Statement::CloseAll),
        b"listen" => named(lexer, Statement::Listen),
        b"unlisten" if lexer.peek() == Some(Token::Byte(b'*')) => {
            lexer.next();
            end(lexer, Statement::UnlistenAll)
        }
        b"unlisten" => named(lexer, Statement::Unlisten),
        _ => Statement::Other,
    }
}

/// An optional WORK or TRANSACTION.
fn work(lexer: &mut Lexer<'_>) {
    let _ = lexer.accept("work") || lexer.accept("transaction");
}

/// AND CHAIN. AND NO CHAIN is the default.
fn chain(lexer: &mut Lexer<'_>) -> bool {
    let before = lexer.clone();
    if lexer.accept("and") {
        let no = lexer.accept("no");
        if lexer.accept("chain") {
            return !no;
        }
        *lexer = before;
    }
    false
}

/// ROLLBACK [ WORK | TRANSACTION ] [ AND [ NO ] CHAIN | TO [ SAVEPOINT ] name ].
fn rollback(mut lexer: Lexer<'_>) -> Statement {
    work(&mut lexer);
    if lexer.accept("to") {
        optional(&mut lexer, "savepoint");
        return named(lexer, Statement::RollbackTo);
    }
    match chain(&mut lexer) {
        true => end(lexer, Statement::RollbackAndChain),
        false => end(lexer, Statement::Rollback),
    }
}

/// Skips a key word that may be left out. The key word may also be the name that must follow, because it is not
/// reserved; then it is not skipped.
fn optional(lexer: &mut Lexer<'_>, word: &str) {
    let before = lexer.clone();
    if lexer.accept(word)
        && !matches!(
            lexer.peek(),
            Some(Token::Word(_) | Token::Quoted(_) | Token::UnicodeQuoted(_))
        )
    {
        *lexer = before;
    }
}

/// A name, then the end.
fn named(mut lexer: Lexer<'_>, found: fn(Box<[u8]>) -> Statement) -> Statement {
    match lexer.next().and_then(|token| token.identifier()) {
        Some(name) => end(lexer, found(name)),
        None => Statement::Other,
    }
}

/// `found` if only semicolons follow.
fn end(mut lexer: Lexer<'_>, found: Statement) -> Statement {
    match lexer.all(|token| token == Token::Byte(b';')) {
        true => found,
        false => Statement::Other,
    }
}

fn set(mut lexer: Lexer<'_>) -> Statement {
    let Some((scope, Target::Setting(name))) = read_set(&mut lexer) else {
        return Statement::Other;
    };
    let mut rest = lexer.clone().skip_while(|token| *token != Token::Byte(b';'));
    if lexer.any(|token| token == Token::Unterminated) || rest.any(|token| token != Token::Byte(b';')) {
        return Statement::Other;
    }
    if lexer.is_ambiguous() {
        return Statement::Other;
    }
    match scope {
        Scope::Session => Statement::Set(name),
        Scope::Transaction => Statement::SetLocal(name),
    }
}

/// The name of a prepared statement, which is not followed by UESCAPE.
fn spelled_name(lexer: &mut Lexer<'_>) -> Option<Box<[u8]>> {
    let name = lexer.next()?.spelled_identifier();
    name.filter(|_| !lexer.peek().is_some_and(|token| token.is("uescape")))
}

/// PREPARE name [ ( types ) ] AS statement.
fn prepare(text: &[u8], mut lexer: Lexer<'_>) -> Statement {
    let name = spelled_name(&mut lexer);
    // PREPARE TRANSACTION 'name' prepares no statement; a statement may itself be called "transaction".
    match (name, lexer.peek()) {
        (_, Some(Token::Text(_))) => Statement::Other,
        (Some(name), _) if is_one_statement(text) => Statement::Prepare(name),
        _ => Statement::Other,
    }
}

/// EXECUTE name [ ( parameters ) ].
fn execute(text: &[u8], mut lexer: Lexer<'_>) -> Statement {
    match spelled_name(&mut lexer) {
        Some(name) if is_one_statement(text) => Statement::Execute(name),
        _ => Statement::Other,
    }
}

/// Whether this is one whole statement, whatever `standard_conforming_strings` is.
fn is_one_statement(text: &[u8]) -> bool {
    let is_one = |backslashes| {
        let mut statements = Statements::new(text, backslashes);
        let one = statements.next().is_some() && statements.next().is_none() && !statements.is_unterminated();
        (one, statements.is_ambiguous())
    };
    match is_one(false) {
        (true, true) => is_one(true).0,
        (one, _) => one,
    }
}

#[cfg(test)]
#[path = "statement_tests.rs"]
mod tests;
