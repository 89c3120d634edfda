//! The functions that a text calls by name.
//!
//! A call must be proven harmless. The word before a parenthesis is one of: a word of the grammar; a built-in function
//! that is on the list of harmless ones ([`crate::harmless_names`]) or has known effects ([`crate::names`]); the name
//! that a list of columns belongs to; something else. The catalog of the database judges the last kind.

use crate::built_in::{Known, look_up};
use crate::effects::Effects;
use crate::lexer::{Lexer, Token};
use crate::names;

/// The effects of code that is not read. No server can tell afterwards which seed and which custom settings the code
/// has set.
pub const UNREAD: Effects = Effects::CODE
    .union(Effects::UNTOLD)
    .union(Effects::SEED)
    .union(Effects::READING)
    .union(Effects::NAMES);

/// Words before a name that is not a function's, although a parenthesis with columns, arguments or options follows.
const NAMING: [&str; 28] = [
    "into",
    "as",
    "table",
    "view",
    "function",
    "procedure",
    "routine",
    "aggregate",
    "references",
    "copy",
    "analyze",
    "analyse",
    "vacuum",
    "exists",
    "only",
    "type",
    "collation",
    "statistics",
    "recursive",
    "with",
    "ordinality",
    "configuration",
    "dictionary",
    "parser",
    "template",
    "execute",
    "prepare",
    "of",
];

/// Further such words in CREATE INDEX: its table and its access method. In other statements a condition may follow ON.
const NAMING_IN_INDEX: [&str; 2] = ["on", "using"];

/// Words before a parenthesis behind which an expression follows: `OPERATOR(s.+) f(a)`, `DISTINCT ON (a) f(a)`,
/// `RETURNING WITH (OLD AS o) f(a)` of PostgreSQL 18. Behind all other parentheses a name is an alias.
const BEFORE_EXPRESSIONS: [[&str; 2]; 2] = [["distinct", "on"], ["returning", "with"]];

/// The words that can follow the parenthesis of a WITH query.
const QUERIES: [&str; 8] = [
    "select", "values", "insert", "update", "delete", "merge", "table", "with",
];

/// The effects of a built-in function on the session of its caller, for unknown arguments. [`Effects::DRAWS`],
/// [`Effects::CURRENT_SETTING`] and [`Effects::TEMPORARY_SCHEMA`] are left out. Calls of currval() and lastval() are
/// not: they must be known before they run.
pub fn effects_of_own(name: &[u8]) -> Effects {
    let found = names::search(name).public();
    let known = look_up(name);
    if found.intersects(Effects::SETTINGS) {
        found | Effects::UNTOLD | Effects::READING
    } else if !found.is_empty() {
        found.without(Effects::DRAWS | Effects::CURRENT_SETTING | Effects::TEMPORARY_SCHEMA)
    } else if known.is_harmless() {
        Effects::NONE
    } else {
        UNREAD
    }
}

/// The effects of a function in C of an extension that has been reviewed: those of its name, in SQL or in C.
pub fn effects_of_name(name: &[u8]) -> Effects {
    let found = names::search(name).public();
    found.without(Effects::CURRENT_SETTING | Effects::TEMPORARY_SCHEMA)
}

/// What comes before a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Front {
    /// A word that shows that the name is not a function's.
    Naming,
    /// A comma in a list of expressions or of WITH queries.
    Comma,
    Other,
}

/// A call of something that is not a built-in function, as far as the text shows.
pub(crate) struct Foreign<'a> {
    /// The name as the catalog holds it; `None` if it is written with escapes.
    pub(crate) name: Option<Box<[u8]>>,
    /// The text after the opening parenthesis.
    pub(crate) arguments: Lexer<'a>,
    /// Whether it must be a function, because no list of columns can stand here.
    pub(crate) is_call: bool,
    /// The token before the name and its schema.
    pub(crate) behind: Token<'a>,
}

impl<'a> Foreign<'a> {
    /// A call whose opening parenthesis has just been read.
    fn new(name: Option<Box<[u8]>>, lexer: &Lexer<'a>, is_call: bool, behind: Token<'a>) -> Self {
        Foreign {
            name,
            arguments: lexer.clone(),
            is_call,
            behind,
        }
    }
}

/// The effects of the built-in functions that a text calls, except those named in [`crate::names`]; and
/// [`Effects::ROUTINES`] if the text calls other functions.
pub(crate) fn effects(text: &[u8], backslashes: bool) -> Effects {
    let mut effects = Effects::NONE;
    each_foreign(text, backslashes, |doubtful, foreign| {
        if doubtful || foreign.name.is_none() {
            effects |= UNREAD;
        } else if foreign.is_call {
            effects |= Effects::ROUTINES;
        }
    });
    effects
}

/// [`effects`] under both readings of the text's strings.
pub(crate) fn effects_of_both(text: &[u8]) -> Effects {
    let one = effects(text, false);
    match memchr::memchr(b'\\', text) {
        Some(_) => one | effects(text, true),
        None => one,
    }
}

/// Calls `look` with every name before a parenthesis that is neither a word of the grammar nor a harmless built-in
/// function. The first argument says whether the name is doubtful.
pub(crate) fn each_foreign<'a>(text: &'a [u8], backslashes: bool, mut look: impl FnMut(bool, Foreign<'a>)) {
    let mut lexer = Lexer::with_backslashes(text, backslashes);
    let mut place = Place::Begin;
    // For each open parenthesis, and for the one that was closed last: whether an expression follows it.
    let mut open = Vec::new();
    let mut closed = false;
    let mut last = Token::Number;
    let mut before_last = Token::Number;
    let mut front = Front::Other;
    let mut behind = Token::Number;
    // Schema and name, with the token before each.
    let mut schema = None;
    let mut name: Option<Token<'a>> = None;
    let mut dotted = false;
    while let Some(token) = lexer.next() {
        match token {
            Token::Word(_) | Token::Quoted(_) | Token::UnicodeQuoted(_) => {
                if last == Token::Byte(b'.') && runs_as_column(token) {
                    look(true, Foreign::new(None, &lexer, true, behind));
                }
                if dotted {
                    schema = name;
                } else {
                    schema = None;
                    front = match last {
                        Token::Byte(b')') if closed => Front::Other,
                        // The strategy of a partitioned table. In a window, it would stand in parentheses.
                        _ if open.is_empty() && before_last.is("partition") && last.is("by") => Front::Naming,
                        _ => front_of(last, before_last, place),
                    };
                    behind = last;
                }
                name = Some(token);
                dotted = false;
            }
            Token::Byte(b'.') if name.is_some() && !dotted => dotted = true,
            Token::Byte(b'(') => {
                if let Some(name) = name.filter(|_| !dotted)
                    && let Some((doubtful, name)) = judged(schema, name)
                {
                    let names_query = || {
                        let ahead = lexer.clone();
                        front == Front::Comma && is_query_s(ahead)
                    };
                    let is_call = front != Front::Naming && !names_query();
                    look(doubtful, Foreign::new(name, &lexer, is_call, behind));
                }
                open.push(is_before_expression(before_last, last));
                (name, dotted) = (None, false);
            }
            Token::Byte(b')') => {
                closed = open.pop().unwrap_or_default();
                (name, dotted) = (None, false);
            }
            _ => (name, dotted) = (None, false),
        }
        place = place.behind(token);
        before_last = last;
        last = token;
    }
}

/// How much of CREATE [ UNIQUE ] INDEX has been read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Nothing of the statement.
    Begin,
    Create,
    Index,
    /// Another statement.
    Other,
}

impl Place {
    fn behind(self, token: Token<'_>) -> Place {
        match self {
            _ if token == Token::Byte(b';') => Place::Begin,
            Place::Begin if token.is("create") => Place::Create,
            Place::Create if token.is("unique") => Place::Create,
            Place::Create if token.is("index") => Place::Index,
            Place::Index => Place::Index,
            _ => Place::Other,
        }
    }
}

/// Whether an expression follows the parenthesis that opens behind these two tokens.
fn is_before_expression(before_last: Token<'_>, last: Token<'_>) -> bool {
    let is_pair = |[one, other]: &[&str; 2]| before_last.is(one) && last.is(other);
    last.is("operator") || BEFORE_EXPRESSIONS.iter().any(is_pair)
}

/// Whether a name behind a dot may call a built-in function that runs code. A function with one argument may be called
/// like a column of that argument: `('select 1').ts_stat`. The catalog knows the names of other functions wherever they
/// are.
fn runs_as_column(name: Token<'_>) -> bool {
    let is = |name: &[u8]| {
        ONE_ARGUMENT
            .iter()
            .any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
    };
    match name {
        Token::Word(name) | Token::Quoted(name) => is(name),
        Token::UnicodeQuoted(_) => true,
        _ => false,
    }
}

/// The built-in functions that may run code and can be called with one argument. [`names::NAMES`] has them too, so that
/// the quick look finds them.
pub(crate) const ONE_ARGUMENT: [&str; 9] = [
    "ts_stat",
    "gin_clean_pending_list",
    "brin_summarize_new_values",
    "fmgr_sql_validator",
    "fmgr_internal_validator",
    "fmgr_c_validator",
    "plpgsql_validator",
    "pg_restore_relation_stats",
    "pg_restore_attribute_stats",
];

/// `None` for a word of the grammar and a harmless function; otherwise whether the name is doubtful, and the name.
fn judged(schema: Option<Token<'_>>, name: Token<'_>) -> Option<(bool, Option<Box<[u8]>>)> {
    if matches!(name, Token::UnicodeQuoted(_)) || matches!(schema, Some(Token::UnicodeQuoted(_))) {
        return Some((true, None));
    }
    let own_schema = schema.and_then(|s| s.identifier());
    let own = match &own_schema {
        None => schema.is_none(),
        Some(schema) => matches!(&**schema, b"pg_catalog" | b"information_schema"),
    };
    let identifier = name.identifier()?;
    let known = match name {
        // Quoted letters keep their case.
        Token::Quoted(_) if identifier.iter().any(u8::is_ascii_uppercase) => Known::NOTHING,
        _ => look_up(&identifier),
    };
    let key_word = known.is_before_parenthesis() && schema.is_none() && matches!(name, Token::Word(_));
    // TREAT(x AS f) calls the built-in function f.
    let key_word = key_word && !known.is_doubtful();
    // If the name only contains one of [`crate::names`], it belongs to another function.
    if key_word || own && known.is_harmless() {
        return None;
    }
    Some((known.is_doubtful(), Some(identifier)))
}

fn front_of(last: Token<'_>, before_last: Token<'_>, place: Place) -> Front {
    match last {
        Token::Byte(b',') => Front::Comma,
        // A cast to a type with modifiers, or an alias.
        Token::Byte(b':') if before_last == Token::Byte(b':') => Front::Naming,
        Token::Byte(b')' | b']') | Token::Quoted(_) | Token::UnicodeQuoted(_) => Front::Naming,
        Token::Word(word) => {
            let is = |words: &[&str]| words.iter().any(|w| word.eq_ignore_ascii_case(w.as_bytes()));
            let in_index = place == Place::Index && is(&NAMING_IN_INDEX);
            // EXCLUDE USING gist (..)
            let excludes = last.is("using") && before_last.is("exclude");
            if is(&NAMING) || in_index || excludes || !look_up(word).is_key_word() && !is(&CODE_WORDS) {
                Front::Naming
            } else {
                Front::Other
            }
        }
        _ => Front::Other,
    }
}

/// Words of PL/pgSQL that SQL does not have, and that an expression follows.
const CODE_WORDS: [&str; 10] = [
    "perform", "elsif", "elseif", "while", "assert", "raise", "exit", "slice", "reverse", "strict",
];

/// Whether the text after a parenthesis is the list of columns of a WITH query: `a, b) AS (SELECT`.
fn is_query_s(mut lexer: Lexer<'_>) -> bool {
    loop {
        match lexer.next() {
            Some(Token::Word(_) | Token::Quoted(_) | Token::Byte(b',')) => {}
            Some(Token::Byte(b')')) => break,
            _ => return false,
        }
    }
    if !lexer.accept("as") {
        return false;
    }
    lexer.accept("not");
    lexer.accept("materialized");
    let opens = lexer.next() == Some(Token::Byte(b'('));
    opens
        && lexer
            .next()
            .is_some_and(|t| t == Token::Byte(b'(') || QUERIES.iter().any(|q| t.is(q)))
}

#[cfg(test)]
#[path = "calls_tests.rs"]
mod tests;
