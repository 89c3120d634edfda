//! Transactions: blocks, savepoints and the one table.

use super::code::Code;
use super::numbers::NumberTypes;
use super::objects::{Announcement, Temporary};
use super::settings::Snapshot;
use super::value::Value;
use std::collections::BTreeMap;
use std::rc::Rc;

/// The state that all sessions of one model server share.
#[derive(Debug)]
pub struct Shared {
    pub(super) table: BTreeMap<i32, Value>,
    pub(super) number_types: NumberTypes,
    /// What the function `changing()` was, first to last.
    code: Vec<Code>,
    /// How many of these the replicas have replayed.
    replayed: usize,
    /// For so many steps of all sessions a replica lags.
    lag: u64,
    /// Steps since it began to lag.
    lagging: u64,
    /// All committed notifications, in the order of their commits.
    pub(super) notifications: Vec<Notification>,
}

/// A notification.
#[derive(Debug)]
pub(super) struct Notification {
    pub(super) process_id: u32,
    pub(super) channel: String,
    pub(super) payload: String,
}

impl Default for Shared {
    fn default() -> Self {
        Shared::new()
    }
}

impl Shared {
    /// An empty table.
    pub fn new() -> Self {
        Shared {
            table: BTreeMap::new(),
            number_types: NumberTypes::new(),
            code: vec![Code::Harmless],
            replayed: 1,
            lag: 0,
            lagging: 0,
            notifications: Vec::new(),
        }
    }

    /// The same, and the function `changing()` sets a setting.
    pub fn with_code_that_sets(self) -> Self {
        Shared {
            code: vec![Code::Told],
            ..self
        }
    }

    /// The same, and for so many steps of all sessions replicas lag.
    pub fn with_lag(self, lag: u64) -> Self {
        Shared { lag, ..self }
    }

    /// A session takes a step.
    pub fn step(&mut self) {
        if self.replayed < self.code.len() {
            self.lagging += 1;
            if self.lagging > self.lag {
                (self.replayed, self.lagging) = (self.replayed + 1, 0);
            }
        }
    }

    /// How much of the write-ahead log a primary has written, or a replica replayed.
    pub(super) fn position(&self, on_replica: bool) -> usize {
        if on_replica { self.replayed } else { self.code.len() }
    }

    /// The function as sessions see it.
    pub(super) fn code(&self, on_replica: bool) -> Code {
        self.code[self.position(on_replica) - 1]
    }

    /// The function is replaced.
    pub(super) fn replace_code(&mut self, code: Code) {
        self.code.push(code);
    }

    /// Whether a notification was ever committed.
    pub fn has_notifications(&self) -> bool {
        !self.notifications.is_empty()
    }

    /// Rows of the table, for checkers.
    pub fn rows(&self) -> usize {
        self.table.len()
    }
}

/// The state of a session (`TBlockState`, without the states that last no longer than one command).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Block {
    /// No transaction.
    Default,
    /// The transaction of a single command.
    Started,
    /// The transaction of several commands: a multi-statement Query, or a pipeline.
    Implicit,
    /// BEGIN.
    InProgress,
    /// BEGIN and an error.
    Failed,
}

/// Changes to the table that are not committed: `None` is a deleted row.
pub(super) type Writes = BTreeMap<i32, Option<Value>>;

/// The state to which a rollback returns.
#[derive(Debug)]
pub(super) struct Level {
    /// The name of a savepoint; the transaction itself has none.
    pub(super) name: Option<String>,
    /// Subtransaction id: never used twice in a transaction.
    pub(super) id: u32,
    pub(super) settings: Snapshot,
    pub(super) writes: Rc<Writes>,
    pub(super) code: Option<Code>,
    pub(super) lacking: Option<i32>,
    pub(super) number_types: Rc<NumberTypes>,
    pub(super) temporary: Rc<Temporary>,
    pub(super) temporary_schema: bool,
    pub(super) announced: Rc<Vec<Announcement>>,
}

#[derive(Debug)]
pub(super) struct Transaction {
    pub(super) block: Block,
    /// An Execute has completed since the transaction began (`XACT_FLAGS_PIPELINING`): the next command makes it an
    /// implicit block.
    pub(super) pipelining: bool,
    /// A command has started and not finished (`xact_started`).
    pub(super) command_started: bool,
    /// The transaction and its savepoints, outermost first; empty outside a transaction.
    pub(super) levels: Vec<Level>,
    pub(super) writes: Rc<Writes>,
    /// The function, if the transaction has replaced it.
    pub(super) code: Option<Code>,
    /// A key in `later` that kv lacks: the commit fails.
    pub(super) lacking: Option<i32>,
    /// The types that the transaction has changed.
    pub(super) number_types: Rc<NumberTypes>,
    /// Temporary tables. They are rolled back with the transaction, and stay after a commit.
    pub(super) temporary: Rc<Temporary>,
    /// There is a schema for them, since the first one that was not rolled back.
    pub(super) temporary_schema: bool,
    /// Commands that take effect at commit.
    pub(super) announced: Rc<Vec<Announcement>>,
    pub(super) next_level_id: u32,
}

impl Transaction {
    pub(super) fn new() -> Self {
        Transaction {
            block: Block::Default,
            pipelining: false,
            command_started: false,
            levels: Vec::new(),
            writes: Rc::default(),
            code: None,
            lacking: None,
            number_types: Rc::default(),
            temporary: Rc::default(),
            temporary_schema: false,
            announced: Rc::default(),
            next_level_id: 0,
        }
    }

    pub(super) fn push(&mut self, name: Option<String>, settings: Snapshot) {
        self.levels.push(Level {
            name,
            id: self.next_level_id,
            settings,
            writes: self.writes.clone(),
            code: self.code,
            lacking: self.lacking,
            number_types: self.number_types.clone(),
            temporary: self.temporary.clone(),
            temporary_schema: self.temporary_schema,
            announced: self.announced.clone(),
        });
        self.next_level_id += 1;
    }

    /// The id of the innermost level.
    pub(super) fn level_id(&self) -> u32 {
        self.levels.last().map_or(0, |level| level.id)
    }

    pub(super) fn row<'a>(&'a self, shared: &'a Shared, key: i32) -> Option<&'a Value> {
        match self.writes.get(&key) {
            Some(written) => written.as_ref(),
            None => shared.table.get(&key),
        }
    }

    /// All rows as this transaction sees them, by key.
    pub(super) fn rows(&self, shared: &Shared) -> BTreeMap<i32, Value> {
        let mut rows = shared.table.clone();
        for (key, value) in self.writes.iter() {
            match value {
                Some(value) => rows.insert(*key, value.clone()),
                None => rows.remove(key),
            };
        }
        rows
    }

    pub(super) fn write(&mut self, key: i32, value: Option<Value>) {
        Rc::make_mut(&mut self.writes).insert(key, value);
    }
}
