//! Reading a catalog: what is sent to the server that reads it.

use crate::base::time::Time;
use crate::catalog::reading::Reading;
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

/// Gives the settings of the planner PostgreSQL's own defaults, where they have others: with those of a client, or of its
/// role, the two statements could take minutes. The list is longer than what one version has.
const PLANNER_DEFAULTS: &str = "SELECT pg_catalog.count(pg_catalog.set_config(s.name, s.boot_val, true)) \
    FROM pg_catalog.pg_show_all_settings() s WHERE s.setting OPERATOR(pg_catalog.<>) s.boot_val \
    AND (pg_catalog.left(s.name, 7) OPERATOR(pg_catalog.=) 'enable_' OR s.name OPERATOR(pg_catalog.=) ANY (ARRAY[\
        'client_min_messages', 'constraint_exclusion', 'cpu_index_tuple_cost', 'cpu_operator_cost', 'cpu_tuple_cost', \
        'cursor_tuple_fraction', 'debug_parallel_query', 'debug_print_parse', 'debug_print_plan', \
        'debug_print_rewritten', 'effective_cache_size', 'force_parallel_mode', 'from_collapse_limit', 'geqo', \
        'geqo_effort', 'geqo_threshold', 'hash_mem_multiplier', 'plan_cache_mode', 'random_page_cost', \
        'recursive_worktable_factor', 'seq_page_cost', 'work_mem']::pg_catalog.text[]))";

impl ServerSide<'_> {
    /// A statement calls a routine that the catalog does not know: it may have been created without the pooler.
    #[cold]
    pub(crate) fn catalog_may_be_old(&mut self, now: Time) {
        let database = self.pool.catalog_key().clone();
        if let Some(state) = self.shared.catalogs.of_mut(&database) {
            // Calls of a name that does not exist may come often: not each of them causes a reading.
            if state.due().is_none() && state.is_older_than(UNKNOWN_AGE_MAX, now) {
                state.wants(now);
                self.shared.catalogs.must_tell(database);
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
        server.reading = Some(Box::new(Reading::new(now, version)));
        let deferrable = server.session.shape().is_deferrable();
        if deferrable {
            self.begin_internal(Job::ReadCatalog);
        }
        let lifted = self.transaction_limit_lifted();
        for (name, value) in lifted.into_iter().chain(SETTINGS) {
            self.runs_for(Job::ReadCatalog, &set, &[Some(name.as_bytes()), Some(value.as_bytes())]);
        }
        self.runs_once_for(Job::ReadCatalog, PLANNER_DEFAULTS.as_bytes());
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
