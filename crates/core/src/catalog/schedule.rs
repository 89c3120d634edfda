//! When the catalog of a database is read, and whether what is known of it holds.

use crate::base::ids::ServerId;
use crate::base::request::Endpoint;
use crate::base::time::Time;
use crate::catalog::code::Catalog;
use crate::catalog::debt::Debt;
use crate::catalog::reading::Failure;
use crate::catalog::replicas::{Awaited, Position};
use std::sync::Arc;
use std::time::Duration;

/// How long knowledge of a catalog is valid when another server logs in.
pub(crate) const AGE_MAX: Duration = Duration::from_secs(60);

/// The shortest pause between two readings of one catalog: a migration changes functions one by one.
const PAUSE_MIN: Duration = Duration::from_millis(250);

/// A pause is this many times as long as the reading before it, up to [`AGE_MAX`].
const PAUSE_TIMES: u32 = 20;

/// How long a reading that is due lets waiting clients go first.
const PATIENCE: Duration = Duration::from_secs(1);

/// After this many failed readings in a row the next one comes after [`AGE_MAX`].
const FAILURES_MAX: u32 = 3;

/// What is known of one database.
#[derive(Debug, pgweir_freeze::Freeze)]
pub(crate) struct State {
    /// The catalog as it was last read.
    read: Arc<Catalog>,
    /// Whether `read` is up to date. If not, every statement counts as code that is not read.
    holds: bool,
    /// The number of changes that may have made the catalog outdated.
    version: u64,
    /// The server that is reading it.
    reader: Option<ServerId>,
    /// When the latest reading ended, with or without success.
    tried_at: Option<Time>,
    /// The pause after the latest reading. It does not apply if the catalog is only old.
    pause: Duration,
    /// When the next reading is due.
    due: Option<Time>,
    /// Since when waiting clients have delayed the reading.
    put_off: Option<Time>,
    /// Number of failed readings in a row.
    failures: u32,
    /// The log already says that the catalog is too large.
    told_too_much: bool,
    /// What a standby must have replayed before its catalog counts.
    awaited: Awaited,
    /// The server that was read last is a standby.
    of_standby: bool,
    /// Hosts that have been read since the last change.
    hosts_read: Vec<Endpoint>,
    /// What definitions have cost other clients.
    debt: Debt,
}

impl Default for State {
    fn default() -> Self {
        State {
            read: Arc::default(),
            holds: false,
            version: 0,
            reader: None,
            tried_at: None,
            pause: PAUSE_MIN,
            due: None,
            put_off: None,
            failures: 0,
            told_too_much: false,
            awaited: Awaited::Nothing,
            of_standby: false,
            hosts_read: Vec::new(),
            debt: Debt::default(),
        }
    }
}

/// What is known.
impl State {
    /// The catalog as it was last read, and whether that is up to date.
    pub(crate) fn known(&self) -> (&Arc<Catalog>, bool) {
        (&self.read, self.holds)
    }

    /// The server that is reading the catalog.
    pub(crate) fn reader(&self) -> Option<ServerId> {
        self.reader
    }

    /// When the next reading is due, if no server is reading.
    pub(crate) fn due(&self) -> Option<Time> {
        self.due.filter(|_| self.reader.is_none())
    }

    /// Whether the server that was read last is a standby.
    pub(crate) fn is_of_standby(&self) -> bool {
        self.of_standby
    }

    /// Whether definitions were made, so that each host must be read.
    pub(crate) fn has_definitions(&self) -> bool {
        self.awaited != Awaited::Nothing
    }

    /// What a standby must have replayed before its catalog counts.
    pub(super) fn awaited(&self) -> Awaited {
        self.awaited
    }

    /// Whether this host has been read since the last change.
    pub(crate) fn has_read(&self, host: &Endpoint) -> bool {
        self.hosts_read.contains(host)
    }

    /// Whether no server is reading, and none has read within this time.
    pub(crate) fn is_older_than(&self, age: Duration, now: Time) -> bool {
        self.reader.is_none() && self.tried_at.is_none_or(|at| now - at > age)
    }

    /// Whether it is not up to date, and some host has been read since the last change.
    pub(crate) fn is_read_in_part(&self) -> bool {
        !self.holds && !self.hosts_read.is_empty()
    }
}

/// When it must be read.
impl State {
    /// A reading is due after the pause, which is short while definitions wait.
    pub(crate) fn wants(&mut self, now: Time) {
        let pause = match self.debt.is_high(now) {
            true => PAUSE_MIN,
            false => self.pause,
        };
        let from = self.tried_at.map_or(now, |at| now.max(at + pause));
        self.due = Some(self.due.map_or(from, |due| due.min(from)));
    }

    /// The catalog may be outdated.
    pub(crate) fn doubts(&mut self, now: Time) {
        self.changes();
        self.failures = 0;
        self.wants(now);
    }

    /// The catalog is being changed: a reading now would come too early.
    fn changes(&mut self) {
        self.version += 1;
        self.holds = false;
        self.hosts_read.clear();
    }

    /// A request was sent that may commit definitions. The catalog is read after the answer.
    pub(crate) fn definitions_come(&mut self, now: Time) {
        self.changes();
        self.awaited = Awaited::Since(now);
        self.debt.definition_comes(now);
    }

    /// Definitions were made on the database under another address.
    pub(super) fn awaits_at_least(&mut self, awaited: Awaited) {
        self.awaited = self.awaited.max(awaited);
    }

    /// What is known does not hold: a host has not been read.
    pub(crate) fn lacks_host(&mut self, now: Time) {
        self.holds = false;
        self.wants(now);
    }

    /// Every host that is left has been read: what is known holds, and no reading is due.
    pub(crate) fn lacks_no_host(&mut self) {
        self.holds = true;
        (self.due, self.put_off) = (None, None);
    }

    /// A client's transaction is followed by a probe because the catalog is not up to date. Returns whether definitions
    /// must wait from now on.
    pub(crate) fn costs_a_probe(&mut self, now: Time) -> bool {
        let must_wait = self.debt.one_more(now);
        if must_wait && self.due.is_some() {
            self.wants(now);
        }
        must_wait
    }

    /// Whether definitions must wait.
    pub(crate) fn must_definitions_wait(&mut self, now: Time) -> bool {
        self.debt.is_high(now)
    }
}

/// Readings.
impl State {
    /// Whether a reading may begin now. `is_being_changed`: an unanswered request may commit definitions.
    pub(crate) fn may_be_read(&self, now: Time, is_being_changed: bool) -> bool {
        self.due().is_some_and(|due| due <= now) && (!is_being_changed || self.tried_at.is_none())
    }

    /// Whether the reading leaves the server to clients that wait.
    pub(crate) fn lets_clients_go_first(&mut self, now: Time) -> bool {
        self.holds && now - *self.put_off.get_or_insert(now) < PATIENCE
    }

    /// A server reads the catalog. Returns the version that it reads.
    pub(super) fn begin_reading(&mut self, by: ServerId) -> u64 {
        self.due = None;
        self.put_off = None;
        self.reader = Some(by);
        self.version
    }

    /// The reading of this version, which began at `began`, has ended. Returns whether nothing has changed meanwhile.
    pub(crate) fn reading_ends(&mut self, now: Time, (version, began): (u64, Time)) -> bool {
        self.reader = None;
        self.due = None;
        self.tried_at = Some(now);
        self.pause = ((now - began) * PAUSE_TIMES).clamp(PAUSE_MIN, AGE_MAX);
        version == self.version
    }

    /// The reading has failed. Returns whether the log must warn of it.
    pub(crate) fn reading_failed(&mut self, now: Time, failure: &Failure) -> bool {
        self.failures += 1;
        if failure.is_hopeless() || self.failures >= FAILURES_MAX {
            self.pause = AGE_MAX;
        }
        self.wants(now);
        // If the server was lost, that says nothing about its functions, so it is worth a warning only after some
        // attempts.
        let told_at = match failure {
            Failure::ServerLost => FAILURES_MAX,
            Failure::Refused { .. } | Failure::NotUnderstood => 1,
        };
        self.failures == told_at
    }

    /// The reading has succeeded.
    pub(crate) fn reading_succeeded(&mut self) {
        self.failures = 0;
    }

    /// Whether the catalog of a server at this position counts: see [`Awaited`].
    pub(crate) fn counts(&self, now: Time, position: Position) -> bool {
        self.awaited.is_in(now, position)
    }

    /// Whether no host has been read since the last change.
    pub(crate) fn has_read_no_host(&self) -> bool {
        self.hosts_read.is_empty()
    }

    /// What was read replaces what is known. `too_much`: the database is larger than the limits. Returns whether the log
    /// must warn of that.
    pub(super) fn learns(&mut self, catalog: Catalog, too_much: bool) -> bool {
        self.read = Arc::new(catalog);
        too_much && !std::mem::replace(&mut self.told_too_much, true)
    }

    /// A server at this position has been read. `holds`: what is known holds for its host. Returns whether it is a
    /// standby that has replayed definitions.
    pub(crate) fn host_is_read(&mut self, position: Position, holds: bool) -> bool {
        self.of_standby = position.of_primary().is_none();
        self.holds = holds;
        self.holds && self.has_definitions() && self.of_standby
    }

    /// What is known holds for this host.
    pub(crate) fn holds_for(&mut self, host: &Endpoint) {
        if !self.has_read(host) {
            self.hosts_read.push(host.clone());
        }
    }

    /// A primary has been read behind all definitions: standbys count when they have replayed as much.
    pub(crate) fn primary_is_read(&mut self, lsn: u64) {
        if let Awaited::Since(_) = self.awaited {
            self.awaited = Awaited::Position(lsn);
        }
    }
}
