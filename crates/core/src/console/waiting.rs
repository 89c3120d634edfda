//! What a console client waits for.

/// A command that is answered later.
#[derive(Debug, Clone, PartialEq, Eq, pgweir_freeze::Freeze)]
pub(crate) enum Waits {
    /// PAUSE: until the database, or every database, has no server connection.
    Paused(Option<String>),
    /// WAIT_CLOSE: until no server connection of the database, or of any, is marked to be closed.
    Closed(Option<String>),
    /// RELOAD: until the files have been read.
    Reloaded,
}

impl Waits {
    /// The command, which is the tag of its CommandComplete, too.
    pub(crate) fn verb(&self) -> &'static str {
        match self {
            Waits::Paused(_) => "PAUSE",
            Waits::Closed(_) => "WAIT_CLOSE",
            Waits::Reloaded => "RELOAD",
        }
    }
}
