//! What a text may do to the session beyond its transaction.

use std::fmt;
use std::ops::{BitOr, BitOrAssign};

/// What a text may do to the session beyond its transaction: a set of bits, empty for ordinary statements.
///
/// A bit means *may*: one bit too many costs the pooler a probe, a missing bit costs the client its session.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, pgweir_freeze::Freeze)]
pub struct Effects(u64);

impl Effects {
    /// Nothing that outlives the transaction.
    pub const NONE: Effects = Effects(0);
    /// A setting of the session may change: SET, RESET, `set_config()`, DISCARD ALL. Not SET LOCAL, and not the SET of
    /// other statements (UPDATE, ALTER, SET TRANSACTION, SET CONSTRAINTS).
    pub const SETTINGS: Effects = Effects(1);
    /// A setting may return to its startup value: RESET, SET .. TO DEFAULT, SET TIME ZONE LOCAL, DISCARD ALL.
    pub const RESETS: Effects = Effects(1 << 1);
    /// Temporary objects may be made: CREATE TEMP, SELECT INTO TEMP, anything in `pg_temp` (recording E11).
    pub const TEMPORARY: Effects = Effects(1 << 2);
    /// Session-level advisory locks may be taken or released: `pg_advisory_lock()` and similar functions, not the
    /// `_xact_` ones.
    pub const LOCKS: Effects = Effects(1 << 3);
    /// A cursor that outlives its transaction: DECLARE .. WITH HOLD.
    pub const CURSORS: Effects = Effects(1 << 4);
    /// LISTEN, UNLISTEN.
    pub const LISTEN: Effects = Effects(1 << 5);
    /// Makes, uses or ends SQL-level prepared statements: PREPARE, EXECUTE (also EXPLAIN EXECUTE and CREATE TABLE .. AS
    /// EXECUTE), DEALLOCATE, DISCARD.
    pub const PREPARE: Effects = Effects(1 << 6);
    /// Runs code that is not read here: DO, CALL.
    pub const CODE: Effects = Effects(1 << 7);
    /// Loads a library into the server process: LOAD.
    pub const LOAD: Effects = Effects(1 << 8);
    /// Seeds `random()`: `setseed()`, the setting `seed` however it is set (recordings E18, E25).
    pub const SEED: Effects = Effects(1 << 9);
    /// Binds the session to its server process: temporary replication slots, `pg_backup_start()`, replication origins,
    /// dblink connections.
    pub const SERVER_BOUND: Effects = Effects(1 << 10);
    /// Asks for the value that this session's last nextval() returned: `currval()`, `lastval()`.
    pub const SEQUENCE: Effects = Effects(1 << 11);
    /// May end a reason for which a client is pinned to its server: DROP, DISCARD, CLOSE, UNLISTEN, DEALLOCATE,
    /// ROLLBACK, ABORT, advisory unlocks.
    pub const ENDS: Effects = Effects(1 << 12);
    /// Calls `nextval()` or `setval()` by name, so that `currval()` may be called later.
    pub const DRAWS: Effects = Effects(1 << 13);
    /// Looks at the session's prepared statements: `pg_prepared_statements`, `pg_prepared_statement()`.
    pub const STATEMENTS: Effects = Effects(1 << 14);
    /// Makes, changes or drops objects that run code (functions, triggers, views, extensions, ...), and that code may
    /// do something to the session.
    pub const DEFINES: Effects = Effects(1 << 15);
    /// Runs, or makes, a function in C. Nothing is known of the state that it keeps.
    pub const NATIVE: Effects = Effects(1 << 16);
    /// May show whether the session has a schema for temporary objects: `pg_my_temp_schema()`, `current_schemas(true)`,
    /// `pg_temp` anywhere but in a CREATE, `temp_buffers`. Such questions in functions of the database are not found.
    pub const TEMPORARY_SCHEMA: Effects = Effects(1 << 17);
    /// Asks for a setting by name: `current_setting()`.
    pub const CURRENT_SETTING: Effects = Effects(1 << 18);
    /// A setting may change until the transaction ends: SET LOCAL. A statement that is parsed in between may depend on
    /// it.
    pub const LOCAL: Effects = Effects(1 << 19);
    /// May make a setting whose name the text does not show. No view shows custom settings, so a server can be asked
    /// only for those whose names are known.
    pub const UNTOLD: Effects = Effects(1 << 20);
    /// Calls a routine that is not built in: the catalog of the database tells its effects. A routine that the catalog
    /// does not know was made after the catalog was read, or is a function of a later PostgreSQL.
    pub const ROUTINES: Effects = Effects(1 << 21);
    /// For routines only: passes an argument on as the name of a setting, so the caller names the setting.
    pub const PASSES: Effects = Effects(1 << 22);
    /// For routines only: draws from sequences, and asks for the last value. Usually the routine itself has drawn that
    /// value, so this is no reason for a pin.
    pub const DRAWN: Effects = Effects(1 << 23);
    /// A setting that constants are read under ([`crate::READ_UNDER`]) may change, at least until the transaction ends.
    /// Functions that run meanwhile keep plans with constants that were read under its other value.
    pub const READING: Effects = Effects(1 << 24);
    /// May seed `random()` by a setting whose name the text does not show, and that ends with its transaction. The seed
    /// stays.
    pub const MAY_SEED: Effects = Effects(1 << 25);
    /// May create, rename or move objects that other statements name. Afterwards a name may mean one object in
    /// statements that were prepared before, and another in statements that are prepared later.
    pub const NAMES: Effects = Effects(1 << 26);
    /// May trap a cancel and go on, with another result: a cancel that is meant for another client must not hit it.
    pub const TRAPS_CANCEL: Effects = Effects(1 << 27);
    /// Calls a routine that is declared immutable but reads a setting or the role: plans keep its result.
    pub const FOLDS: Effects = Effects(1 << 28);
    /// Every effect: the verdict on text that cannot be read.
    pub const ALL: Effects = Effects((1 << 29) - 1);

    /// One of the bits that a caller never sees. They mark findings that are no effect by themselves.
    pub(crate) const fn private(number: u32) -> Effects {
        Effects(1 << (29 + number))
    }

    /// Without the private bits.
    pub(crate) const fn public(self) -> Effects {
        Effects(self.0 & Effects::ALL.0)
    }

    /// Whether the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether all bits of `other` are in the set.
    pub const fn contains(self, other: Effects) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether any bit of `other` is in the set.
    pub const fn intersects(self, other: Effects) -> bool {
        self.0 & other.0 != 0
    }

    /// The bits of both sets.
    pub const fn union(self, other: Effects) -> Effects {
        Effects(self.0 | other.0)
    }

    /// The bits that are not in `other`.
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
const NAMES: [&str; 29] = [
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
    "DRAWN",
    "READING",
    "MAY_SEED",
    "NAMES",
    "TRAPS_CANCEL",
    "FOLDS",
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
