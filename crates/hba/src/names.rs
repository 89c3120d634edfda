//! The database and user columns.

use crate::expression;
use crate::problem::Fault;
use crate::token::Word;
use regex::Regex;

/// A regular expression; two are the same if their texts are.
#[derive(Clone, Debug)]
pub(crate) struct Pattern(pub(crate) Regex);

impl PartialEq for Pattern {
    fn eq(&self, other: &Pattern) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

/// One word of a database or user column.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Name {
    All,
    /// `sameuser`: the database has the user's name. Only in the database column.
    SameUser,
    /// `replication`: matches physical replication connections. Only in the database column.
    Replication,
    Exact(String),
    Regex(Pattern),
    /// `+group`, `samerole`, `samegroup`: only servers know who is a member of a role, so these match no client.
    Unanswerable(String),
}

/// Compiles what follows the slash of a word.
pub(crate) fn regex(text: &str) -> Result<Pattern, Fault> {
    expression::compile(text).map(Pattern)
}

fn common(word: Word) -> Result<Name, Fault> {
    if let Some(text) = word.regex() {
        return regex(text).map(Name::Regex);
    }
    if word.behind('+').is_some() {
        return Ok(Name::Unanswerable(word.text));
    }
    Ok(if word.is("all") {
        Name::All
    } else {
        Name::Exact(word.text)
    })
}

/// A word of the database column.
pub(crate) fn database(word: Word) -> Result<Name, Fault> {
    Ok(match word.text.as_str() {
        _ if word.quoted => return common(word),
        "sameuser" => Name::SameUser,
        "replication" => Name::Replication,
        "samerole" | "samegroup" => Name::Unanswerable(word.text),
        _ => return common(word),
    })
}

/// A word of the user column.
pub(crate) fn user(word: Word) -> Result<Name, Fault> {
    common(word)
}

/// Whether the database column matches. As in PostgreSQL, a physical replication connection, which has no database,
/// matches only `replication`.
pub(crate) fn matches_database(names: &[Name], database: &str, user: &str, is_physical_replication: bool) -> bool {
    names.iter().any(|name| match name {
        Name::Replication => is_physical_replication,
        _ if is_physical_replication => false,
        Name::SameUser => database == user,
        name => matches(name, database),
    })
}

/// Whether the user column matches.
pub(crate) fn matches_user(names: &[Name], user: &str) -> bool {
    names.iter().any(|name| matches(name, user))
}

fn matches(name: &Name, text: &str) -> bool {
    match name {
        Name::All => true,
        Name::Exact(exact) => exact == text,
        Name::Regex(regex) => regex.0.is_match(text),
        Name::SameUser | Name::Replication | Name::Unanswerable(_) => false,
    }
}
