//! Commands of the console that are answered later.

use crate::base::request::OrderId;

/// A command that is answered later.
#[derive(Debug, Clone, PartialEq, Eq, pgweir_freeze::Freeze)]
pub(crate) enum Waits {
    /// PAUSE: until the database, or every database, has no server connection.
    Paused(Option<String>),
    /// WAIT_CLOSE: until every server connection of the database, or of all databases, that was
    /// marked to be closed is closed.
    Closed(Option<String>),
    /// RELOAD: until the files have been read.
    Reloaded(OrderId),
    /// SET of a setting of TLS: until the files have been read.
    Set(OrderId),
}

impl Waits {
    /// The command, which is also the tag of its CommandComplete.
    pub(crate) fn verb(&self) -> &'static str {
        match self {
            Waits::Paused(_) => "PAUSE",
            Waits::Closed(_) => "WAIT_CLOSE",
            Waits::Reloaded(_) => "RELOAD",
            Waits::Set(_) => "SET",
        }
    }
}
