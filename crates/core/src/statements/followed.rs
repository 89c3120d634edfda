//! Statements that are followed in pools where prepared statements are not tracked: see
//! [`crate::preparing::untracked`].

use crate::statements::client_names::StatementName;
use crate::statements::ends::Ends;
use pgweir_sql::{Effects, Returns, Statement};
use pgweir_wire::frontend::Parse;

/// A name, and what it meant before a request: `None` is nothing that is followed.
pub(crate) type FollowedBefore = (StatementName, Option<Followed>);

/// A client's prepared statement, by name, that resets settings, ends all prepared statements or channels, or changes
/// code.
#[derive(Debug, Clone, pgweir_freeze::Freeze)]
pub(crate) struct Followed {
    name: Box<[u8]>,
    returns: Option<Returns>,
    /// All prepared statements, or channels.
    ends: Option<Ends>,
    /// It may change what code the database runs.
    defines: bool,
    /// It may change what names in statements mean.
    moves_names: bool,
}

impl Followed {
    /// `effects` are those of the text.
    pub(crate) fn of(parse: &Parse<'_>, verdict: &Statement, effects: Effects) -> Option<Followed> {
        let returns = Returns::of(verdict, parse.query);
        let ends = match verdict {
            Statement::DiscardAll | Statement::DeallocateAll => Some(Ends::All),
            Statement::Unlisten(channel) => Some(Ends::Channels(Some(channel.clone()))),
            Statement::UnlistenAll => Some(Ends::Channels(None)),
            _ => None,
        };
        let defines = effects.intersects(Effects::DEFINES) || pgweir_sql::is_commit_prepared(parse.query);
        let moves_names = effects.intersects(Effects::NAMES);
        (returns.is_some() || ends.is_some() || defines || moves_names).then(|| Followed {
            name: parse.name.into(),
            returns,
            ends,
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

    /// The prepared statements or channels that it ends.
    pub(crate) fn ends(&self) -> Option<&Ends> {
        self.ends.as_ref()
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
