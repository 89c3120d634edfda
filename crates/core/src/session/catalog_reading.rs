//! Reading a catalog: what is sent to the server that reads it.

use crate::base::time::Time;
use crate::catalog::code::Draft;
use crate::catalog::replicas::Position;
use crate::catalog::schedule::Reading;
use crate::server_side::ServerSide;
use crate::upstream::job::Job;
use crate::upstream::phase::ServerPhase;
use std::time::Duration;

/// If a statement calls a routine that the catalog does not know, and the last reading is older than this, the
/// catalog is read again.
const UNKNOWN_AGE_MAX: Duration = Duration::from_secs(5);

/// Settings while a catalog is read. Each of the two statements usually takes milliseconds, and 150 ms with 50,000
/// functions. But their estimated cost is so high that PostgreSQL would spend a second on compiling them. Their joins
/// are written in a good order: finding another one doubles the time of planning.
const SETTINGS: [(&str, &str); 6] = [
    ("search_path", "pg_catalog, pg_temp"),
    ("statement_timeout", "4000"),
    ("lock_timeout", "1000"),
    ("jit", "off"),
    ("join_collapse_limit", "1"),
    ("max_parallel_workers_per_gather", "0"),
];

impl ServerSide<'_> {
    /// A statement calls a routine that the catalog does not know: it may have been created without the pooler.
    #[cold]
    pub(crate) fn catalog_may_be_old(&mut self, now: Time) {
        let database = self.pool.catalog_key();
        if let Some(state) = self.shared.catalogs.by_database.get_mut(&database) {
            // Calls of a name that does not exist may come often: not each of them causes a reading.
            if state.due.is_none()
                && state.reader.is_none()
                && state.tried_at.is_none_or(|at| now - at > UNKNOWN_AGE_MAX)
            {
                state.wants(now);
                self.shared.catalogs.untold = Some(database);
            }
        }
    }

    /// Sends a segment that reads the catalog. Its settings end with it.
    pub(crate) fn send_catalog_reading(&mut self, now: Time, version: u64) {
        let internal = &self.shared.internal;
        let (set, position, objects, sources) = (
            internal.set_config_local.clone(),
            internal.catalog_position.clone(),
            internal.catalog_objects.clone(),
            internal.catalog_sources.clone(),
        );
        let server = &mut *self.server;
        server.phase = ServerPhase::Reading;
        server.since = now;
        server.conversation.query_begins(now);
        server.reading = Some(Box::new(Reading {
            version,
            began: now,
            position: Position::UNKNOWN,
            draft: Draft::default(),
            rows: 0,
            failed: None,
        }));
        let deferrable = server.session.shape().is_deferrable();
        if deferrable {
            self.begin_internal(Job::ReadCatalog);
        }
        for (name, value) in SETTINGS {
            self.runs_for(Job::ReadCatalog, &set, &[Some(name.as_bytes()), Some(value.as_bytes())]);
        }
        // The position comes first: what a standby replays later may be missing in the rows.
        self.runs_for(Job::ReadPosition, &position, &[]);
        self.runs_for(Job::ReadObjects, &objects, &[]);
        self.runs_for(Job::ReadSources, &sources, &[]);
        // Until the next reading, their plans would take most of a megabyte of the server's memory.
        self.close_held(&objects);
        self.close_held(&sources);
        if deferrable {
            self.commit_internal(Job::ReadCatalog);
        }
        self.sync_for(Job::ReadCatalog);
        self.shared.state_stats.catalog_reads += 1;
    }
}
