//! When a database's catalog is read, and by which server (see [`crate::catalog::code`]).
//!
//! The first server of a database reads it before it serves anyone; later readings are done by a server that has become
//! free, behind the clients that wait for one. As long as nothing is known, or not any more, every statement of the database
//! counts as code of which nothing is known: its transaction is followed by a probe. So no statement waits for a reading but
//! those that the first server of a database would serve.
//!
//! A catalog belongs to a database of a server, however many entries of [databases] lead there.
//!
//! What is known counts no more behind a transaction that made functions, triggers, views or extensions which may matter,
//! when a server was lost, and after RECONNECT and KILL. It is read again for what others may have changed when a server
//! logs in and what is known is older than [`AGE_MAX`].

use crate::base::deeds::Deed;
use crate::base::ids::ServerId;
use crate::base::pool_id::PoolId;
use crate::base::request::LogLevel;
use crate::base::time::Time;
use crate::catalog::code::{Catalog, Draft};
use crate::catalog::known_code::Known;
use crate::pooler::Pooler;
use crate::pools::pool::Pool;
use crate::reply::Reply;
use crate::server_side::ServerSide;
use crate::upstream::phase::ServerPhase;
use crate::upstream::reply_queue::{Entry, Expect};
use foldhash::fast::RandomState;
use pgweir_wire::{HEADER_BYTES, backend};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// What is known of a catalog counts for this long when another server logs in.
const AGE_MAX: Duration = Duration::from_secs(60);

/// The shortest pause between two readings of a database; a migration changes its functions one by one.
const PAUSE_MIN: Duration = Duration::from_millis(250);

/// Pauses are this many times as long as the reading before them, up to [`AGE_MAX`].
const PAUSE_TIMES: u32 = 20;

/// A call of what the catalog does not know has it read again if it is older than this.
const UNKNOWN_AGE_MAX: Duration = Duration::from_secs(5);

/// A reading that is due lets the clients that wait for a server go first, for this long.
const PATIENCE: Duration = Duration::from_secs(1);

/// Readings that fail in a row before what was known last must do.
const FAILURES_MAX: u32 = 3;

/// What holds while a catalog is read. Either statement takes milliseconds as a rule, and 150 where there are 50,000
/// functions; its plan looks so expensive to PostgreSQL that it would spend a second on compiling it.
const SETTINGS: [(&str, &str); 5] = [
    ("search_path", "pg_catalog, pg_temp"),
    ("statement_timeout", "4000"),
    ("lock_timeout", "1000"),
    ("jit", "off"),
    ("max_parallel_workers_per_gather", "0"),
];

/// SQLSTATEs, or classes of them, that another try will not help against: no privilege, no such table or function, a server
/// that is not PostgreSQL.
const HOPELESS: [&str; 2] = ["42", "0A"];

/// Catalogs of all databases that clients have used.
#[derive(Debug, Default)]
pub(crate) struct Catalogs {
    by_database: HashMap<Arc<str>, State, RandomState>,
    /// Whether some pool's statements must be looked at for names: one look for all that need not be.
    pub(crate) any_known: bool,
    /// Whether some pool's servers are to read.
    pub(crate) any_due: bool,
    /// A database whose pools have not been told yet that it is to be read.
    untold: Option<Arc<str>>,
}

/// What is known of one database.
#[derive(Debug)]
struct State {
    /// As it was last read.
    read: Arc<Catalog>,
    /// Whether `read` is what counts; if not, everything is code.
    holds: bool,
    /// Counts what has made the catalog another.
    version: u64,
    /// The server that reads it.
    reader: Option<ServerId>,
    /// When the last reading ended, well or not.
    tried_at: Option<Time>,
    /// How long to let it be after that, unless what is known is merely old.
    pause: Duration,
    /// When it is to be read again.
    due: Option<Time>,
    /// Since when clients that waited have gone before it.
    put_off: Option<Time>,
    /// Failed readings in a row.
    failures: u32,
    /// The log has been told that it is too large.
    told_too_much: bool,
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
        }
    }
}

/// A server's reading of the catalog that has not been answered to the end.
#[derive(Debug)]
pub(crate) struct Reading {
    version: u64,
    began: Time,
    draft: Draft,
    rows: u64,
    /// Why it failed: SQLSTATE, where the server gave one, and message.
    failed: Option<(Box<str>, Box<str>)>,
}

impl Reading {
    /// The server refused one of its statements; the first reason counts.
    pub(crate) fn fails(&mut self, sqlstate: &[u8], message: &[u8]) {
        let text = |bytes| String::from_utf8_lossy(bytes).into();
        self.failed.get_or_insert_with(|| (text(sqlstate), text(message)));
    }
}

impl State {
    /// It is to be read, as soon as the pause is over.
    fn wants(&mut self, now: Time) {
        let from = self.tried_at.map_or(now, |at| now.max(at + self.pause));
        self.due = Some(self.due.map_or(from, |due| due.min(from)));
    }

    /// What is known may not be so any more.
    fn doubts(&mut self, now: Time) {
        self.version += 1;
        self.holds = false;
        self.failures = 0;
        self.wants(now);
    }
}

impl Catalogs {
    /// The last pool of a database is gone.
    pub(crate) fn forget(&mut self, database: &str) {
        self.by_database.remove(database);
    }

    /// Whether any of them is being read.
    pub(crate) fn any_is_read(&self) -> bool {
        self.by_database.values().any(|state| state.reader.is_some())
    }
}

/// How long a reading that is due leaves alone a server that waits for its client: see [`crate::session::sequences`].
const CLAIMS_RESPECTED: Duration = Duration::from_secs(1);

impl ServerSide<'_> {
    /// Something is called that the catalog does not know: others may have made it, not through us.
    #[cold]
    pub(crate) fn catalog_may_be_old(&mut self, now: Time) {
        let database = self.pool.catalog_key();
        if let Some(state) = self.shared.catalogs.by_database.get_mut(&database) {
            // A name that does not exist is called again and again: not a reading each time.
            if state.due.is_none()
                && state.reader.is_none()
                && state.tried_at.is_none_or(|at| now - at > UNKNOWN_AGE_MAX)
            {
                state.wants(now);
                self.shared.catalogs.untold = Some(database);
            }
        }
    }

    /// A segment that reads the catalog, with settings of its own that end with it.
    fn send_catalog_reading(&mut self, now: Time, version: u64) {
        let own = &self.shared.own_statements;
        let (set, objects, sources) = (
            own.set_config_local.clone(),
            own.catalog_objects.clone(),
            own.catalog_sources.clone(),
        );
        let server = &mut *self.server;
        server.phase = ServerPhase::Reading;
        server.since = now;
        server.request_time = now;
        server.reading = Some(Box::new(Reading {
            version,
            began: now,
            draft: Draft::default(),
            rows: 0,
            failed: None,
        }));
        let deferrable = server.shape.is_deferrable();
        if deferrable {
            self.own_begin();
        }
        for (name, value) in SETTINGS {
            self.probe_with(&set, &[Some(name.as_bytes()), Some(value.as_bytes())]);
        }
        self.probe_with(&objects, &[]);
        self.probe_with(&sources, &[]);
        // Their plans would take most of a megabyte of the server's memory until the next time.
        self.inject_close(&objects);
        self.inject_close(&sources);
        if deferrable {
            self.own_commit();
        }
        self.server.queue.push(Entry::probe(Expect::Sync));
        self.send(|w| w.sync());
        self.shared.state_stats.catalog_reads += 1;
    }
}

impl Reading {
    /// A whole row of the catalog.
    pub(crate) fn row(&mut self, message: &[u8]) {
        self.rows += 1;
        let understood = backend::data_row(&message[HEADER_BYTES..]).is_ok_and(|row| self.draft.add_row(&row));
        if !understood {
            self.fails(b"", b"a row of another shape than expected");
        }
    }
}

impl Reply<'_> {
    /// A transaction has ended that may have made something that runs code.
    #[cold]
    pub(crate) fn note_definitions(&mut self) {
        // Requests behind it may make more.
        self.server.defines = !self.server.queue.is_empty();
        if self.shared.settings.keeps_sessions && self.pool.shares_sessions() {
            self.deeds.push(Deed::DoubtCatalog);
        }
    }
}

impl Pooler {
    /// Whether a reading is due and a free server may do it, which may be claimed by the client that had it last.
    pub(crate) fn may_read_now(&self, now: Time, pool_id: PoolId, claimed: bool) -> bool {
        let due = self.pool(pool_id).reading_due;
        due.is_some_and(|due| !claimed || now >= due + CLAIMS_RESPECTED)
    }

    /// Whether the servers of a pool pass from session to session, each of which is kept.
    pub(crate) fn shares_sessions(&self, pool_id: PoolId) -> bool {
        self.shared.settings.keeps_sessions && self.pool(pool_id).shares_sessions()
    }

    /// A server of this pool has logged in, or the pool has other settings: what is known of its database may be too old.
    pub(crate) fn look_after_catalog(&mut self, now: Time, pool_id: PoolId) {
        if self.shares_sessions(pool_id) {
            let database = self.pool(pool_id).catalog_key();
            let state = self.shared.catalogs.by_database.entry(database).or_default();
            if state.reader.is_none() && state.tried_at.is_none_or(|at| now - at > AGE_MAX) {
                state.wants(now);
            }
        }
        self.tell_pool(pool_id);
    }

    /// What is known of a database is not to be relied on: its servers are others, or were changed.
    pub(crate) fn doubt_catalog(&mut self, now: Time, pool_id: PoolId) {
        let database = self.pool(pool_id).catalog_key();
        let identity = match self.shared.catalogs.by_database.get(&database) {
            Some(state) => state.read.identity.clone(),
            None => return,
        };
        // Other names of its host may lead to the same database.
        let mut doubted = Vec::new();
        for (other, state) in &mut self.shared.catalogs.by_database {
            if *other == database || identity.is_some() && state.read.identity == identity {
                state.doubts(now);
                doubted.push(other.clone());
            }
        }
        for database in doubted {
            self.tell_pools(&database);
        }
    }

    /// A server without a client is free: it reads the catalog, if that is due. Says whether it does.
    #[cold]
    pub(crate) fn read_catalog(&mut self, now: Time, server_id: ServerId) -> bool {
        let pool_id = self.server_mut(server_id).pool;
        if !self.shares_sessions(pool_id) || self.pool_takes_no_clients_now(pool_id) || self.admin.is_ending() {
            return false;
        }
        let pool = self.pools[pool_id as usize].as_ref().expect("a server's pool lives");
        let Some(state) = self.shared.catalogs.by_database.get_mut(&pool.catalog_key()) else {
            return false;
        };
        if state.reader.is_some() || state.due.is_none_or(|due| due > now) {
            return false;
        }
        let has_time = state.tried_at.is_some() && !pool.waiting.is_empty();
        if has_time && now - *state.put_off.get_or_insert(now) < PATIENCE {
            return false;
        }
        state.due = None;
        state.put_off = None;
        state.reader = Some(server_id);
        let (version, database) = (state.version, pool.catalog_key());
        self.tell_pools(&database);
        self.at(server_id).send_catalog_reading(now, version);
        true
    }

    /// The segment that reads the catalog has ended: the server is free.
    pub(crate) fn catalog_read(&mut self, now: Time, server_id: ServerId) {
        let server = self.server_mut(server_id);
        let pool_id = server.pool;
        if let Some(reading) = server.reading.take() {
            self.reading_ended(now, pool_id, *reading);
        }
        // What failed in a transaction block of the pooler's own is rolled back first.
        self.server_mut(server_id).phase = ServerPhase::Draining;
        self.drained(now, server_id);
    }

    /// A server is gone, and the reading with it.
    pub(crate) fn catalog_lost(&mut self, now: Time, pool_id: PoolId, mut reading: Reading) {
        if self.admin.is_ending() {
            return;
        }
        reading.fails(b"", b"the server connection was closed");
        self.reading_ended(now, pool_id, reading);
    }

    fn reading_ended(&mut self, now: Time, pool_id: PoolId, reading: Reading) {
        let database = &self.pool(pool_id).catalog_key();
        let Some(state) = self.shared.catalogs.by_database.get_mut(database) else {
            return;
        };
        state.reader = None;
        state.due = None;
        state.tried_at = Some(now);
        state.pause = ((now - reading.began) * PAUSE_TIMES).clamp(PAUSE_MIN, AGE_MAX);
        match reading.failed {
            None => {
                state.failures = 0;
                state.holds = reading.version == state.version;
                if !state.holds {
                    state.wants(now);
                }
                self.catalog_known(database, reading.draft, reading.rows);
            }
            Some((sqlstate, message)) => {
                let hopeless = HOPELESS.iter().any(|class| sqlstate.starts_with(class));
                state.failures += 1;
                if hopeless || state.failures >= FAILURES_MAX {
                    state.holds = true;
                } else {
                    state.wants(now);
                }
                let level = if state.failures == 1 {
                    LogLevel::Warning
                } else {
                    LogLevel::Debug
                };
                let text = format!("{database}: cannot tell what functions do to sessions: {message}");
                self.log(level, text);
            }
        }
        self.tell_pools(database);
    }

    fn catalog_known(&mut self, database: &Arc<str>, draft: Draft, rows: u64) {
        let too_much = draft.too_much;
        let read = Arc::new(draft.finish());
        let text = format!(
            "{database}: read what {rows} functions, tables and views do to sessions: {} names matter",
            read.names.len()
        );
        self.log(LogLevel::Debug, text);
        let Some(state) = self.shared.catalogs.by_database.get_mut(database) else {
            return;
        };
        state.read = read;
        if too_much && !std::mem::replace(&mut state.told_too_much, too_much) {
            let text = format!(
                "{database}: has too many functions to know what they do to sessions; every transaction will be followed \
                 by a probe"
            );
            self.log(LogLevel::Warning, text);
        }
    }

    /// Tells the pools of a database that a message has shown it to be known too little of.
    pub(crate) fn tell_untold_pools(&mut self) {
        if let Some(database) = self.shared.catalogs.untold.take() {
            self.tell_pools(&database);
        }
    }

    /// Gives all pools of a database what is known of it.
    fn tell_pools(&mut self, database: &Arc<str>) {
        for pool_id in self.pool_ids() {
            if self.pool(pool_id).catalog_key() == *database {
                self.tell_pool(pool_id);
            }
        }
    }

    fn tell_pool(&mut self, pool_id: PoolId) {
        self.tell_one_pool(pool_id);
        let told = |tells: fn(&Pool) -> bool| self.pools.iter().flatten().any(tells);
        let (any_known, any_due) = (
            told(|p| p.catalog.as_ref().is_some_and(|known| known.matters())),
            told(|p| p.reading_due.is_some()),
        );
        (self.shared.catalogs.any_known, self.shared.catalogs.any_due) = (any_known, any_due);
    }

    fn tell_one_pool(&mut self, pool_id: PoolId) {
        let reads = self.shares_sessions(pool_id);
        let pool = self.pools[pool_id as usize].as_mut().expect("looked up by the caller");
        let state = self
            .shared
            .catalogs
            .by_database
            .get(&pool.catalog_key())
            .filter(|_| reads);
        pool.reading_due = state.and_then(|state| state.due.filter(|_| state.reader.is_none()));
        let Some(state) = state else {
            pool.catalog = None;
            return;
        };
        if !pool
            .catalog
            .as_ref()
            .is_some_and(|known| known.is(&state.read, state.holds))
        {
            pool.catalog = Some(Box::new(Known::new(state.read.clone(), state.holds)));
        }
    }
}
