//! Statements that are followed in pools where prepared statements are not tracked: see
//! [`crate::preparing::untracked`].

use pgweir_sql::Returns;
use pgweir_sql::Statement;
use pgweir_wire::frontend::Parse;

/// A client's prepared statement, by name, that resets settings or ends all prepared statements.
#[derive(Debug, pgweir_freeze::Freeze)]
pub(crate) struct Followed {
    pub(crate) name: Box<[u8]>,
    pub(crate) returns: Option<Returns>,
    pub(crate) ends_all: bool,
}

impl Followed {
    pub(crate) fn of(parse: &Parse<'_>, verdict: &Statement) -> Option<Followed> {
        let returns = Returns::of(verdict, parse.query);
        let ends_all = matches!(verdict, Statement::DiscardAll | Statement::DeallocateAll);
        (returns.is_some() || ends_all).then(|| Followed {
            name: parse.name.into(),
            returns,
            ends_all,
        })
    }
}
