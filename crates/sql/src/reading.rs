//! Statements that only read, and the class that a text belongs to.
//!
//! Texts of one class differ in their constants alone. So the time that the statements of a class have taken, and
//! the bytes that they have returned, predict those of the next statement.

use crate::lexer::{Lexer, Token};

/// The first words of statements that only read.
const READING: [&[u8]; 4] = [b"select", b"values", b"table", b"with"];

/// Words after which a statement may write, lock rows, or make a table. If a word has another meaning
/// (`substring(x for 3)`), the statement has no class either, which does no harm.
const WRITING: [&[u8]; 6] = [b"for", b"into", b"insert", b"update", b"delete", b"merge"];

/// How the names of PostgreSQL's own functions begin that act outside of transactions, such as
/// `pg_logical_emit_message()`, `pg_logical_slot_get_changes()`, `pg_switch_wal()` and `lo_export()`. A statement that was
/// cancelled must not call them again.
const ACTS_OUTSIDE: [&[u8]; 2] = [b"pg_", b"lo_"];

/// Names that begin so and do nothing of this kind; `pg_catalog` is a schema.
const ONLY_TELLS: [&[u8]; 13] = [
    b"pg_backend_pid",
    b"pg_catalog",
    b"pg_column_size",
    b"pg_database_size",
    b"pg_indexes_size",
    b"pg_relation_size",
    b"pg_size_pretty",
    b"pg_sleep",
    b"pg_sleep_for",
    b"pg_sleep_until",
    b"pg_table_size",
    b"pg_total_relation_size",
    b"pg_typeof",
];

/// Whether a name may be that of such a function.
fn may_act_outside(name: &[u8]) -> bool {
    let begins = |start: &[u8]| {
        name.get(..start.len())
            .is_some_and(|head| head.eq_ignore_ascii_case(start))
    };
    ACTS_OUTSIDE.into_iter().any(begins) && !is_one_of(name, &ONLY_TELLS)
}

/// The class of a text that is one statement which only reads rows and locks none: SELECT, VALUES, TABLE, WITH. `None`
/// if the text may do more, or if that cannot be told.
///
/// Functions that the text calls are not looked at: see [`crate::effects`].
pub fn class_of_read(text: &[u8]) -> Option<u64> {
    let mut lexer = Lexer::new(text);
    let mut class = Hash::default();
    match lexer.next()? {
        Token::Word(word) if is_one_of(word, &READING) => class.word(word),
        _ => return None,
    }
    while let Some(token) = lexer.next() {
        match token {
            Token::Word(word) if is_one_of(word, &WRITING) => return None,
            Token::Word(name) | Token::Quoted(name) if may_act_outside(name) => return None,
            Token::Word(word) => class.word(word),
            Token::Quoted(name) => class.bytes(b'"', name),
            Token::Text(_) | Token::Number => class.byte(b'?'),
            Token::Parameter(number) => class.bytes(b'$', &number.to_be_bytes()),
            Token::Byte(b';') => return ends_behind(lexer).then_some(class.0),
            Token::Byte(byte) => class.byte(byte),
            Token::UnicodeQuoted(_) | Token::Unterminated => return None,
        }
    }
    (!lexer.is_ambiguous()).then_some(class.0)
}

/// Tokens that [`cost_class`] reads.
const COST_CLASS_TOKENS: usize = 48;

/// A number that is equal for texts that cost about the same: they differ only in constants, or after their first
/// [`COST_CLASS_TOKENS`] tokens.
pub fn cost_class(text: &[u8]) -> u64 {
    let (mut lexer, mut class) = (Lexer::new(text), Hash::default());
    for _ in 0..COST_CLASS_TOKENS {
        match lexer.next() {
            Some(Token::Word(word)) => class.word(word),
            Some(Token::Quoted(name)) => class.bytes(b'"', name),
            Some(Token::Text(_) | Token::Number) => class.byte(b'?'),
            Some(Token::Parameter(_)) => class.byte(b'$'),
            Some(Token::Byte(byte)) => class.byte(byte),
            Some(Token::UnicodeQuoted(_) | Token::Unterminated) | None => break,
        }
    }
    class.0
}

fn ends_behind(mut lexer: Lexer<'_>) -> bool {
    lexer.next().is_none() && !lexer.is_ambiguous()
}

fn is_one_of(word: &[u8], words: &[&[u8]]) -> bool {
    words.iter().any(|other| word.eq_ignore_ascii_case(other))
}

/// FNV-1a. If a client makes different texts with the same hash, they are in one class, and nothing else happens.
struct Hash(u64);

impl Default for Hash {
    fn default() -> Self {
        Hash(0xcbf2_9ce4_8422_2325)
    }
}

impl Hash {
    fn byte(&mut self, byte: u8) {
        self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }

    fn bytes(&mut self, mark: u8, bytes: &[u8]) {
        self.byte(mark);
        bytes.iter().for_each(|byte| self.byte(*byte));
        self.byte(0);
    }

    fn word(&mut self, word: &[u8]) {
        word.iter().for_each(|byte| self.byte(byte.to_ascii_lowercase()));
        self.byte(0);
    }
}

#[cfg(test)]
mod tests {
    use super::{class_of_read, cost_class};

    #[test]
    fn texts_that_differ_in_constants_cost_the_same() {
        let class = |text: &str| cost_class(text.as_bytes());
        assert_eq!(
            class("update t set v = 1 where k = 'a'"),
            class("UPDATE t SET v = 22 WHERE k = 'b''c'")
        );
        assert_ne!(class("update t set v = 1"), class("update u set v = 1"));
        assert_ne!(class("commit"), class("begin"));
        assert_eq!(class(""), class("-- nothing"));
    }

    fn class(text: &str) -> Option<u64> {
        class_of_read(text.as_bytes())
    }

    #[test]
    fn a_class_does_not_depend_on_constants_nor_on_spelling() {
        let one = class("select v from kv where k = 17 and n = 'a''b'");
        assert!(one.is_some());
        assert_eq!(one, class("SELECT v\n FROM kv /* x */ where k=3.5 and n = $$q$$;  "));
        assert_ne!(one, class("select v from kv where k = 17 and m = 'a'"));
        assert_ne!(one, class("select v from kv where k = $1 and n = 'a'"));
        assert_ne!(class("select \"A\""), class("select \"a\""));
        assert_ne!(class("select ab"), class("select a b"));
    }

    #[test]
    fn what_may_write_or_lock_has_no_class() {
        for text in [
            "insert into t values (1)",
            "with x as (delete from t returning *) select * from x",
            "select 1 into t",
            "select * from t for update",
            "select * from t for key share",
            "explain select 1",
            "select 1; select 2",
            "select 'open",
            "begin",
            "select pg_logical_emit_message(false, 'p', 'x')",
            "select \"pg_switch_wal\"()",
            "select * from PG_LOGICAL_SLOT_GET_CHANGES('s', null, null)",
            "select pg_catalog.lo_export(1, '/tmp/x')",
            "",
        ] {
            assert_eq!(class(text), None, "{text}");
        }
        // Where the constant ends depends on a setting.
        assert_eq!(class("select 'a\\', '; delete from t; --'"), None);
        for text in [
            "values (1), (2)",
            "table t",
            "select pg_catalog.now(), page, long from pgs",
            "select pg_typeof(a), PG_SLEEP(0) from t",
            "with x as (select 1) select * from x",
            "select 1;",
        ] {
            assert!(class(text).is_some(), "{text}");
        }
    }
}
