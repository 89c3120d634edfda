//! Tables and indexes of the connected database with what is cached of them.

use serde::{Deserialize, Serialize};

/// What kind of relation it is, as far as caching cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RelationKind {
    /// An index, of a table or of its TOAST table. First: it is what warming begins with.
    Index,
    /// A table, materialized view or sequence.
    Table,
    /// Where a table's long values are.
    Toast,
}

impl RelationKind {
    /// From pg_class.relkind; None for what has no blocks.
    pub fn from_relkind(relkind: char) -> Option<Self> {
        match relkind {
            'i' => Some(RelationKind::Index),
            'r' | 'm' | 'S' => Some(RelationKind::Table),
            't' => Some(RelationKind::Toast),
            _ => None,
        }
    }

    /// One word for a table's column.
    pub fn word(self) -> &'static str {
        match self {
            RelationKind::Index => "index",
            RelationKind::Table => "table",
            RelationKind::Toast => "toast",
        }
    }
}

/// A relation with blocks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Relation {
    /// Its object identifier in this database.
    pub oid: u32,
    /// Name as regclass takes it, with the schema, quoted where it has to be.
    pub name: String,
    /// For an index or TOAST table the name of the table; its own otherwise.
    pub table: String,
    /// Its kind.
    pub kind: RelationKind,
    /// Whether it belongs to PostgreSQL itself (pg_catalog, information_schema and their TOAST tables).
    pub system: bool,
    /// Blocks of the main fork.
    pub blocks: u64,
    /// Block accesses since the statistics began (hits and reads of pg_statio_all_tables and _indexes).
    pub accesses: u64,
    /// Blocks in shared_buffers; None where that could not be seen.
    pub buffered_blocks: Option<u64>,
    /// How many of those are dirty.
    pub dirty_blocks: Option<u64>,
    /// Their mean usage count.
    pub usage_mean: Option<f64>,
    /// Bytes in the operating system's page cache; None where that could not be seen.
    pub page_cache_bytes: Option<u64>,
}

impl Relation {
    /// The name that people know: TOAST tables go by the table that they belong to.
    pub fn shown_name(&self) -> String {
        match (self.name.starts_with("pg_toast."), self.kind) {
            (true, RelationKind::Index) => format!("{} (index of its TOAST table)", self.table),
            (true, _) => format!("{} (its TOAST table)", self.table),
            (false, _) => self.name.clone(),
        }
    }

    /// Accesses for each block: what a block of shared_buffers is worth here.
    pub fn density(&self) -> f64 {
        self.accesses as f64 / self.blocks.max(1) as f64
    }
}
