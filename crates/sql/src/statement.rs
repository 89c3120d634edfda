//! The statements a pooler must know from their text.

use crate::lexer::{Lexer, Token};

/// Identifiers are cut to this many bytes (`NAMEDATALEN - 1`).
const IDENTIFIER_BYTES_MAX: usize = 63;

/// What a text is, as a whole. A text with two statements is [`Statement::Other`], whatever they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Statement {
    /// Nothing of ours.
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
    /// PREPARE of a statement, whatever the rest of the text; the name as the catalog would hold it.
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

/// Longest text that can be a statement of ours: a DEALLOCATE with a long quoted name and room for comments. Longer texts
/// are [`Statement::Other`] unseen, so a caller need not wait for the rest of a longer message.
pub const STATEMENT_BYTES_MAX: usize = 512;

/// Classifies a text. Ordinary statements cost a look at their first letter.
#[inline]
pub fn classify(text: &[u8]) -> Statement {
    match text.first() {
        // No statement of ours begins with S but START, with D but DEALLOCATE and DISCARD, with I, U, W at all.
        Some(b'i' | b'I' | b'u' | b'U' | b'w' | b'W' | b'v' | b'V') | None => return Statement::Other,
        Some(b's' | b'S') if !matches!(text.get(1), Some(b't' | b'T')) => return Statement::Other,
        _ => {}
    }
    if text.len() > STATEMENT_BYTES_MAX {
        Statement::Other
    } else {
        classify_words(text)
    }
}

fn classify_words(text: &[u8]) -> Statement {
    let mut lexer = Lexer::new(text);
    let Some(Token::Word(verb)) = lexer.next() else {
        return Statement::Other;
    };
    let is = |word: &str| verb.eq_ignore_ascii_case(word.as_bytes());
    if is("begin") {
        transaction_end(lexer, Statement::Begin)
    } else if is("start") {
        match lexer.next() {
            Some(Token::Word(w)) if w.eq_ignore_ascii_case(b"transaction") => end(lexer, Statement::StartTransaction),
            _ => Statement::Other,
        }
    } else if is("commit") || is("end") {
        transaction_end(lexer, Statement::Commit)
    } else if is("rollback") || is("abort") {
        transaction_end(lexer, Statement::Rollback)
    } else if is("discard") {
        match lexer.next() {
            Some(Token::Word(w)) if w.eq_ignore_ascii_case(b"all") => end(lexer, Statement::DiscardAll),
            _ => Statement::Other,
        }
    } else if is("deallocate") {
        deallocate(lexer)
    } else {
        Statement::Other
    }
}

/// An optional WORK or TRANSACTION, then the end.
fn transaction_end(mut lexer: Lexer<'_>, found: Statement) -> Statement {
    let before = lexer.clone();
    match lexer.next() {
        Some(Token::Word(w)) if w.eq_ignore_ascii_case(b"work") || w.eq_ignore_ascii_case(b"transaction") => {
            end(lexer, found)
        }
        _ => end(before, found),
    }
}

/// `found` if nothing but semicolons follows.
fn end(mut lexer: Lexer<'_>, found: Statement) -> Statement {
    loop {
        match lexer.next() {
            None => return found,
            Some(Token::Semicolon) => {}
            Some(_) => return Statement::Other,
        }
    }
}

/// DEALLOCATE [ PREPARE ] { name | ALL }. A statement may itself be called "prepare".
fn deallocate(mut lexer: Lexer<'_>) -> Statement {
    let mut token = lexer.next();
    if matches!(&token, Some(Token::Word(w)) if w.eq_ignore_ascii_case(b"prepare")) {
        let before = lexer.clone();
        match lexer.next() {
            next @ Some(Token::Word(_) | Token::Quoted(_)) => token = next,
            _ => lexer = before,
        }
    }
    match token {
        Some(Token::Word(w)) if w.eq_ignore_ascii_case(b"all") => end(lexer, Statement::DeallocateAll),
        Some(Token::Word(w)) => end(lexer, Statement::Deallocate(identifier(w.to_ascii_lowercase()))),
        Some(Token::Quoted(name)) if !name.is_empty() => end(lexer, Statement::Deallocate(identifier(name))),
        _ => Statement::Other,
    }
}

fn identifier(mut name: Vec<u8>) -> Box<[u8]> {
    name.truncate(IDENTIFIER_BYTES_MAX);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transaction_statements_in_all_their_spellings() {
        for text in [
            "begin",
            "BEGIN;",
            " begin work ;",
            "Begin Transaction",
            "/* a /* b */ */ begin -- x",
        ] {
            assert_eq!(classify(text.as_bytes()), Statement::Begin, "{text}");
        }
        for text in ["commit", "COMMIT WORK;", "end", "end transaction"] {
            assert_eq!(classify(text.as_bytes()), Statement::Commit, "{text}");
        }
        for text in ["rollback", "abort", "ROLLBACK TRANSACTION"] {
            assert_eq!(classify(text.as_bytes()), Statement::Rollback, "{text}");
        }
    }

    #[test]
    fn start_transaction_is_a_begin_with_another_tag() {
        for text in ["start transaction;;", "START /* x */ TRANSACTION"] {
            assert_eq!(classify(text.as_bytes()), Statement::StartTransaction, "{text}");
        }
    }

    #[test]
    fn what_only_looks_like_one_is_other() {
        for text in [
            "",
            "begin isolation level serializable",
            "begin; select 1",
            "begin read only",
            "start",
            "start transaction read only",
            "commit and chain",
            "commit prepared 'x'",
            "rollback to a",
            "rollback prepared 'x'",
            "beginning",
            "\"begin\"",
            "select 1",
            "update t set a = 1",
            "discard plans",
            "discard",
            "deallocate",
            "deallocate \"\"",
            "deallocate a b",
            "deallocate U&\"x\"",
            "/* open begin",
            "begin $1",
        ] {
            assert_eq!(classify(text.as_bytes()), Statement::Other, "{text}");
        }
    }

    #[test]
    fn deallocate_names_fold_as_in_the_catalog() {
        let name = |t: &str| match classify(t.as_bytes()) {
            Statement::Deallocate(name) => String::from_utf8(name.into()).unwrap(),
            other => panic!("{t}: {other:?}"),
        };
        assert_eq!(name("DEALLOCATE Foo"), "foo");
        assert_eq!(name("deallocate prepare \"Foo \"\"x\"\"\";"), "Foo \"x\"");
        assert_eq!(name("deallocate prepare"), "prepare");
        assert_eq!(name("deallocate prepare prepare"), "prepare");
        assert_eq!(name("deallocate \"all\""), "all");
        assert_eq!(name(&format!("deallocate {}", "x".repeat(80))).len(), 63);
        assert_eq!(classify(b"deallocate all;"), Statement::DeallocateAll);
        assert_eq!(classify(b"DEALLOCATE PREPARE ALL"), Statement::DeallocateAll);
        assert_eq!(classify(b"discard ALL ;"), Statement::DiscardAll);
    }

    #[test]
    fn every_prefix_and_every_byte_is_survived() {
        let text = b"/* x */ deallocate prepare \"a\"\"b\" ; -- end";
        for cut in 0..text.len() {
            classify(&text[..cut]);
        }
        for b in 0..=255u8 {
            classify(&[b]);
            classify(&[b'b', b, b'"', b]);
        }
    }
}
