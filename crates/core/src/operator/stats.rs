//! Statistics: the counters of all pools, added up by database, and the line in the log for each `stats_period`.

use crate::base::pool_id::PoolId;
use crate::base::request::{LogLevel, Request};
use crate::base::stats::Stats;
use crate::base::time::Time;
use crate::catalog::catalogs::Needs;
use crate::operator::view::View;
use crate::pooler::Pooler;
use pgweir_config::{CONSOLE_DATABASE, PipelineDepth};
use std::collections::BTreeMap;
use std::sync::Arc;

impl View<'_> {
    /// Counters by database, the console's included.
    pub(super) fn stats_by_database(&self) -> BTreeMap<Arc<str>, Stats> {
        let mut totals: BTreeMap<Arc<str>, Stats> = BTreeMap::new();
        let alive = self.live_pools().map(|(_, pool)| (&pool.key().database, pool.stats()));
        for (database, stats) in alive.chain(self.orders.periods().gone()) {
            let total = totals.entry(database.clone()).or_default();
            *total = total.plus(stats);
        }
        totals.insert(CONSOLE_DATABASE.into(), *self.orders.console_stats());
        totals
    }

    /// Counters of the process; they never decrease.
    pub(super) fn stats_of_all(&self) -> Stats {
        let alive = self.stats_by_database();
        let gone = *self.orders.periods().gone_databases();
        alive.values().fold(gone, |sum, stats| sum.plus(stats))
    }

    /// Clients' transactions that were sent to servers as flights and are not answered.
    fn flights(&self) -> usize {
        let flights = self.servers.iter().filter_map(|(_, server)| server.flights.as_ref());
        flights.map(|flights| flights.len()).sum()
    }

    pub(super) fn average_of(&self, database: &str, total: &Stats) -> Stats {
        self.orders.periods().average(self.now, database, total)
    }

    pub(super) fn average_of_all(&self) -> Stats {
        self.orders.periods().average_of_all(self.now, &self.stats_of_all())
    }
}

impl Pooler {
    /// `stats_period` has passed.
    pub(crate) fn stats_round(&mut self, now: Time) {
        let totals = self.view(now).stats_by_database();
        if !self.admin.periods_mut().end(now, &totals) {
            return;
        }
        let average = self.view(now).average_of_all();
        if self.shared.settings.log_stats {
            let flights = match self.shared.settings.pipeline_depth {
                PipelineDepth::AtMost(1) => String::new(),
                _ => format!(", {} flights outstanding", self.view(now).flights()),
            };
            self.log(LogLevel::Log, averages_line(&average, "us") + &flights);
        }
        let status = averages_line(&average, "μs");
        self.shared.requests.push_back(Request::Status(status));
    }

    /// Drops a pool that has neither clients nor servers, but keeps its counters.
    pub(crate) fn drop_pool(&mut self, now: Time, pool_id: PoolId) {
        if let Some(Some(_)) = self.pools.get(pool_id as usize) {
            self.give_up_share(now, pool_id);
            let pool = self.pools[pool_id as usize].as_mut().expect("looked up above");
            self.databases.leaves_line(pool_id, pool);
            self.shared.some_are_in_line = self.databases.some_are_in_line();
        }
        let Some(pool) = self.pools[pool_id as usize].take() else {
            return;
        };
        debug_assert!(pool.servers() == 0 && pool.clients() == 0 && pool.waiting().is_empty());
        self.pool_index.remove(pool.key());
        let last = !self.pool_index.has_database(&pool.key().database);
        // If a RELOAD has removed the database, the log says so already. Names that clients have invented are not worth
        // a line each.
        let is_unused = pool.is_auto() && !pool.is_unproven();
        if last && is_unused && self.shared.config.database(&pool.key().database).is_some() {
            self.log_dropped_database(&pool.key().database);
        }
        let (catalogs, catalog) = (&mut self.shared.catalogs, pool.catalog_key());
        catalogs.count(pool.needs_of_catalog(), Needs::default());
        if catalogs.is_left_by(catalog, pool_id) {
            catalogs.forget(catalog, &pool.settings().server_database);
        }
        self.admin.periods_mut().keep(&pool.key().database, pool.stats(), last);
    }

    /// A database is not configured any more, or was made from `*` and is unused.
    pub(crate) fn log_dropped_database(&mut self, database: &str) {
        let why = "as it does not exist anymore or inactive auto-database";
        self.log(LogLevel::Warning, format!("dropping database '{database}' {why}"));
    }
}

/// The averages of a period in PgBouncer's words, which has two ways to write the unit of times.
fn averages_line(a: &Stats, unit: &str) -> String {
    format!(
        "stats: {} xacts/s, {} queries/s, {} client parses/s, {} server parses/s, {} binds/s, {} client logins/s, \
         in {} B/s, out {} B/s, xact {} {unit}, query {} {unit}, wait {} {unit}",
        a.xact_count,
        a.query_count,
        a.client_parse_count,
        a.server_parse_count,
        a.bind_count,
        a.client_login_count,
        a.bytes_received,
        a.bytes_sent,
        a.xact_time,
        a.query_time,
        a.wait_time
    )
}
