//! The modelled versions of PostgreSQL.

/// The version of PostgreSQL that is modelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// PostgreSQL 15.
    V15,
    /// PostgreSQL 18.
    V18,
}

impl Version {
    /// Major version number.
    pub fn major(self) -> u32 {
        match self {
            Version::V15 => 15,
            Version::V18 => 18,
        }
    }

    /// Whether the messages after a completed Execute belong to an implicit transaction block, which only Sync ends. In
    /// PostgreSQL 15 a Query commits what was executed before it without a Sync.
    pub(super) fn pipelines_are_blocks(self) -> bool {
        self.major() >= 18
    }

    /// The value of `server_version`.
    pub fn text(self) -> &'static str {
        match self {
            Version::V15 => "15.18",
            Version::V18 => "18.4",
        }
    }
}
