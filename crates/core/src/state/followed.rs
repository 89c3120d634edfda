//! Statements that are followed in pools where prepared statements are not tracked: see
//! [`crate::preparing::untracked`].

use pgweir_sql::{Effects, Returns, Statement};
use pgweir_wire::frontend::Parse;

/// A client's prepared statement, by name, that resets settings, ends all prepared statements, or changes code.
#[derive(Debug, pgweir_freeze::Freeze)]
pub(crate) struct Followed {
    pub(crate) name: Box<[u8]>,
    pub(crate) returns: Option<Returns>,
    pub(crate) ends_all: bool,
    /// It may change what code the database runs.
    pub(crate) defines: bool,
    /// It may change what names in statements mean.
    pub(crate) moves_names: bool,
}

impl Followed {
    /// `effects` are those of the text.
    pub(crate) fn of(parse: &Parse<'_>, verdict: &Statement, effects: Effects) -> Option<Followed> {
        let returns = Returns::of(verdict, parse.query);
        let ends_all = matches!(verdict, Statement::DiscardAll | Statement::DeallocateAll);
        let commits = parse
            .query
            .get(..6)
            .is_some_and(|word| word.eq_ignore_ascii_case(b"commit"));
        let defines = effects.intersects(Effects::DEFINES) || commits && pgweir_sql::commits_prepared(parse.query);
        let moves_names = effects.intersects(Effects::NAMES);
        (returns.is_some() || ends_all || defines || moves_names).then(|| Followed {
            name: parse.name.into(),
            returns,
            ends_all,
            defines,
            moves_names,
        })
    }
}
