//! Statements that are followed in pools where prepared statements are not tracked: see
//! [`crate::preparing::untracked`].

use crate::statements::client_names::StatementName;
use pgweir_sql::{Effects, Returns, Statement};
use pgweir_wire::frontend::Parse;

/// A name, and what it meant before a request: `None` is nothing that is followed.
pub(crate) type FollowedBefore = (StatementName, Option<Followed>);

/// A client's prepared statement, by name, that resets settings, ends all prepared statements, or changes code.
#[derive(Debug, Clone, pgweir_freeze::Freeze)]
pub(crate) struct Followed {
    name: Box<[u8]>,
    returns: Option<Returns>,
    ends_all: bool,
    /// It may change what code the database runs.
    defines: bool,
    /// It may change what names in statements mean.
    moves_names: bool,
}

impl Followed {
    /// `effects` are those of the text.
    pub(crate) fn of(parse: &Parse<'_>, verdict: &Statement, effects: Effects) -> Option<Followed> {
        let returns = Returns::of(verdict, parse.query);
        let ends_all = matches!(verdict, Statement::DiscardAll | Statement::DeallocateAll);
        let defines = effects.intersects(Effects::DEFINES) || pgweir_sql::is_commit_prepared(parse.query);
        let moves_names = effects.intersects(Effects::NAMES);
        (returns.is_some() || ends_all || defines || moves_names).then(|| Followed {
            name: parse.name.into(),
            returns,
            ends_all,
            defines,
            moves_names,
        })
    }

    /// The client's name for it.
    pub(crate) fn name(&self) -> &[u8] {
        &self.name
    }

    /// The settings that it resets.
    pub(crate) fn returns(&self) -> Option<&Returns> {
        self.returns.as_ref()
    }

    /// Whether it ends all prepared statements.
    pub(crate) fn ends_all(&self) -> bool {
        self.ends_all
    }

    /// Whether it may change what names in statements mean.
    pub(crate) fn moves_names(&self) -> bool {
        self.moves_names
    }

    /// Whether it may change what code the database runs.
    pub(crate) fn defines(&self) -> bool {
        self.defines
    }
}
