//! The database and user columns.

use crate::expression;
use crate::problem::Fault;
use crate::rules::Connection;
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
    /// `+group`: the members of a role, and the role itself. Only in the user column.
    Members(String),
    /// `samerole`, `samegroup`: the members of the role that has the database's name. Only in the database column.
    SameRole,
}

/// Whether a user is a member of a role, directly or indirectly, or is that role; `None` if this is not known.
pub(crate) type IsMember<'a> = &'a dyn Fn(&str) -> Option<bool>;

/// Whether a column, or a line, matches a client.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Match<'a> {
    Yes,
    No,
    /// It depends on whether the client's user is a member of these roles.
    Depends(Vec<&'a str>),
}

impl<'a> Match<'a> {
    fn of(is_match: bool) -> Match<'a> {
        if is_match { Match::Yes } else { Match::No }
    }

    fn of_role(role: &'a str, is_member: IsMember<'_>) -> Match<'a> {
        is_member(role).map_or_else(|| Match::Depends(vec![role]), Match::of)
    }

    /// Both must match.
    pub(crate) fn and(self, other: Match<'a>) -> Match<'a> {
        match (self, other) {
            (Match::No, _) | (_, Match::No) => Match::No,
            (Match::Yes, other) => other,
            (one, Match::Yes) => one,
            (Match::Depends(one), Match::Depends(two)) => Match::Depends([one, two].concat()),
        }
    }

    /// One of both must match.
    fn or(self, other: Match<'a>) -> Match<'a> {
        match (self, other) {
            (Match::Yes, _) | (_, Match::Yes) => Match::Yes,
            (Match::No, other) => other,
            (one, Match::No) => one,
            (Match::Depends(one), Match::Depends(two)) => Match::Depends([one, two].concat()),
        }
    }
}

/// Compiles what follows the slash of a word.
pub(crate) fn regex(text: &str) -> Result<Pattern, Fault> {
    expression::compile(text).map(Pattern)
}

fn common(word: Word) -> Result<Name, Fault> {
    if let Some(text) = word.regex() {
        return regex(text).map(Name::Regex);
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
        "samerole" | "samegroup" => Name::SameRole,
        _ => return common(word),
    })
}

/// A word of the user column.
pub(crate) fn user(word: Word) -> Result<Name, Fault> {
    match word.behind('+') {
        Some(role) => Ok(Name::Members(role.into())),
        None => common(word),
    }
}

/// Whether the database column matches. As in PostgreSQL, a physical replication connection, which has no database,
/// matches only `replication`.
pub(crate) fn match_database<'a>(names: &'a [Name], connection: &Connection<'a>, is_member: IsMember<'_>) -> Match<'a> {
    let look = |name: &'a Name| match name {
        Name::Replication => Match::of(connection.is_physical_replication),
        _ if connection.is_physical_replication => Match::No,
        Name::SameUser => Match::of(connection.database == connection.user),
        Name::SameRole => Match::of_role(connection.database, is_member),
        name => Match::of(matches(name, connection.database)),
    };
    names.iter().map(look).fold(Match::No, Match::or)
}

/// Whether the user column matches.
pub(crate) fn match_user<'a>(names: &'a [Name], user: &str, is_member: IsMember<'_>) -> Match<'a> {
    let look = |name: &'a Name| match name {
        Name::Members(role) => Match::of_role(role, is_member),
        name => Match::of(matches(name, user)),
    };
    names.iter().map(look).fold(Match::No, Match::or)
}

/// Whether the database column may match a client of this database, if it is not one for physical replication.
pub(crate) fn may_match_database(names: &[Name], database: &str) -> bool {
    let mut names = names.iter();
    names.any(|name| matches!(name, Name::SameUser | Name::SameRole) || matches(name, database))
}

fn matches(name: &Name, text: &str) -> bool {
    match name {
        Name::All => true,
        Name::Exact(exact) => exact == text,
        Name::Regex(regex) => regex.0.is_match(text),
        Name::SameUser | Name::Replication | Name::Members(_) | Name::SameRole => false,
    }
}
