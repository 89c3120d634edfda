//! What a text may do to the session beyond its own transaction.

use std::fmt;
use std::ops::{BitOr, BitOrAssign};

/// What a text may do to the session beyond its transaction: a set of bits, empty for ordinary statements.
///
/// A bit means *may*: one too many costs the pooler a probe, one too few costs the client its session.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Effects(u32);

impl Effects {
    /// Nothing that outlives the transaction.
    pub const NONE: Effects = Effects(0);
    /// A setting of the session may change: SET, RESET, `set_config()`, DISCARD ALL. Neither SET LOCAL nor the SET of other
    /// statements (UPDATE, ALTER, SET TRANSACTION, SET CONSTRAINTS).
    pub const SETTINGS: Effects = Effects(1);
    /// A setting may return to its startup value: RESET, SET .. TO DEFAULT, SET TIME ZONE LOCAL, DISCARD ALL.
    pub const RESETS: Effects = Effects(1 << 1);
    /// Temporary objects may come into being: CREATE TEMP, SELECT INTO TEMP, anything in `pg_temp` (recording E11).
    pub const TEMPORARY: Effects = Effects(1 << 2);
    /// Session-level advisory locks may be taken or released: `pg_advisory_lock()` and its kin, not the `_xact_` ones.
    pub const LOCKS: Effects = Effects(1 << 3);
    /// A cursor that outlives its transaction: DECLARE .. WITH HOLD.
    pub const CURSORS: Effects = Effects(1 << 4);
    /// LISTEN, UNLISTEN.
    pub const LISTEN: Effects = Effects(1 << 5);
    /// SQL-level prepared statements are made, used or ended: PREPARE, EXECUTE (EXPLAIN EXECUTE and CREATE TABLE .. AS
    /// EXECUTE as well), DEALLOCATE, DISCARD.
    pub const PREPARE: Effects = Effects(1 << 6);
    /// Runs code whose text is not here: DO, CALL.
    pub const CODE: Effects = Effects(1 << 7);
    /// Loads a library into the server process: LOAD.
    pub const LOAD: Effects = Effects(1 << 8);
    /// Seeds `random()`: `setseed()`, SET SEED (recording E18).
    pub const SEED: Effects = Effects(1 << 9);
    /// Ties the session to its server process: temporary replication slots, `pg_backup_start()`, replication origins, dblink
    /// connections.
    pub const SERVER_BOUND: Effects = Effects(1 << 10);
    /// Asks for what this session last drew from a sequence: `currval()`, `lastval()`.
    pub const SEQUENCE: Effects = Effects(1 << 11);
    /// May end what ties a client to its server: DROP, DISCARD, CLOSE, UNLISTEN, DEALLOCATE, ROLLBACK, ABORT, advisory
    /// unlocks.
    pub const ENDS: Effects = Effects(1 << 12);
    /// Draws from a sequence by name, so that `currval()` may be asked for later: `nextval()`, `setval()`.
    pub const DRAWS: Effects = Effects(1 << 13);
    /// Looks at the session's prepared statements: `pg_prepared_statements`, `pg_prepared_statement()`.
    pub const STATEMENTS: Effects = Effects(1 << 14);
    /// Makes, changes or drops what runs code (functions, triggers, views, extensions, ...), and that code may do something
    /// to the session.
    pub const DEFINES: Effects = Effects(1 << 15);
    /// Runs, or makes, a function in C of whose state nothing is known.
    pub const NATIVE: Effects = Effects(1 << 16);
    /// May show whether the session has a schema for temporary objects: `pg_my_temp_schema()`, `current_schemas(true)`,
    /// `pg_temp` anywhere but in a CREATE, `temp_buffers`. What functions of the database ask is not known.
    pub const TEMPORARY_SCHEMA: Effects = Effects(1 << 17);
    /// Asks for a setting by name: `current_setting()`.
    pub const CURRENT_SETTING: Effects = Effects(1 << 18);
    /// A setting may change until the transaction ends: SET LOCAL. What is parsed meanwhile may be read by it.
    pub const LOCAL: Effects = Effects(1 << 19);
    /// May make a setting whose name cannot be told from the text. A custom setting is in no view, so that a server can be
    /// asked only for those whose names are known.
    pub const UNTOLD: Effects = Effects(1 << 20);
    /// Calls a routine that is none of PostgreSQL's own: the catalog of the database tells what it does. One that the
    /// catalog does not know was made since it was read, or is a function of a later PostgreSQL.
    pub const ROUTINES: Effects = Effects(1 << 21);
    /// Passes an argument on as the name of a setting (a routine only): whoever calls it names the setting.
    pub const PASSES: Effects = Effects(1 << 22);
    /// Everything: the verdict on text that cannot be read.
    pub const ALL: Effects = Effects((1 << 23) - 1);

    /// One of the bits that a caller never sees, for what is no effect by itself.
    pub(crate) const fn private(number: u32) -> Effects {
        Effects(1 << (24 + number))
    }

    /// Without the private bits.
    pub(crate) const fn public(self) -> Effects {
        Effects(self.0 & Effects::ALL.0)
    }

    /// Nothing in it.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether all of `other` is in it.
    pub const fn contains(self, other: Effects) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether any of `other` is in it.
    pub const fn intersects(self, other: Effects) -> bool {
        self.0 & other.0 != 0
    }

    /// What is in either.
    pub const fn union(self, other: Effects) -> Effects {
        Effects(self.0 | other.0)
    }

    /// What is in it and not in `other`.
    pub const fn without(self, other: Effects) -> Effects {
        Effects(self.0 & !other.0)
    }
}

impl BitOr for Effects {
    type Output = Effects;

    fn bitor(self, other: Effects) -> Effects {
        self.union(other)
    }
}

impl BitOrAssign for Effects {
    fn bitor_assign(&mut self, other: Effects) {
        *self = self.union(other);
    }
}

/// Names of the bits, lowest first, as [`Effects`] prints them.
const NAMES: [&str; 23] = [
    "SETTINGS",
    "RESETS",
    "TEMPORARY",
    "LOCKS",
    "CURSORS",
    "LISTEN",
    "PREPARE",
    "CODE",
    "LOAD",
    "SEED",
    "SERVER_BOUND",
    "SEQUENCE",
    "ENDS",
    "DRAWS",
    "STATEMENTS",
    "DEFINES",
    "NATIVE",
    "TEMPORARY_SCHEMA",
    "CURRENT_SETTING",
    "LOCAL",
    "UNTOLD",
    "ROUTINES",
    "PASSES",
];

/// `SETTINGS | RESETS`, and `NONE` for nothing.
impl fmt::Debug for Effects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut between = "";
        for (bit, name) in NAMES.iter().enumerate() {
            if self.0 & (1 << bit) != 0 {
                write!(f, "{between}{name}")?;
                between = " | ";
            }
        }
        if self.is_empty() { f.write_str("NONE") } else { Ok(()) }
    }
}
