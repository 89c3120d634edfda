//! Counters of one pool; SHOW STATS adds them up by database, and averages them over `stats_period`.

use crate::base::time::Time;
use foldhash::fast::RandomState;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

pub(crate) type ByDatabase = HashMap<Arc<str>, Stats, RandomState>;

/// Counts since the start, times in microseconds. Field names are those of SHOW STATS_TOTALS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, pgweir_freeze::Freeze)]
pub struct Stats {
    /// Servers given to clients.
    pub server_assignment_count: u64,
    /// Transactions, single statements included.
    pub xact_count: u64,
    /// Queries: one for each ReadyForQuery a client got.
    pub query_count: u64,
    /// Bytes from clients.
    pub bytes_received: u64,
    /// Bytes to clients.
    pub bytes_sent: u64,
    /// Time clients held servers in transactions.
    pub xact_time: u64,
    /// Time servers worked on queries.
    pub query_time: u64,
    /// Time clients waited for servers.
    pub wait_time: u64,
    /// Named prepared statements clients made.
    pub client_parse_count: u64,
    /// Prepared statements made on servers.
    pub server_parse_count: u64,
    /// Bind messages for named prepared statements.
    pub bind_count: u64,
    /// Logins.
    pub client_login_count: u64,
}

impl Stats {
    /// Number of counters.
    pub const FIELDS: usize = 12;

    /// All counters in the order of the console's columns.
    pub fn values(&self) -> [u64; Self::FIELDS] {
        [
            self.server_assignment_count,
            self.xact_count,
            self.query_count,
            self.bytes_received,
            self.bytes_sent,
            self.xact_time,
            self.query_time,
            self.wait_time,
            self.client_parse_count,
            self.server_parse_count,
            self.bind_count,
            self.client_login_count,
        ]
    }

    /// Counters from values in the order of [`Stats::values`].
    pub fn from_values(v: [u64; Self::FIELDS]) -> Self {
        let [
            server_assignment_count,
            xact_count,
            query_count,
            bytes_received,
            bytes_sent,
            xact_time,
            query_time,
            wait_time,
            client_parse_count,
            server_parse_count,
            bind_count,
            client_login_count,
        ] = v;
        Stats {
            server_assignment_count,
            xact_count,
            query_count,
            bytes_received,
            bytes_sent,
            xact_time,
            query_time,
            wait_time,
            client_parse_count,
            server_parse_count,
            bind_count,
            client_login_count,
        }
    }

    /// The sum of both.
    pub fn plus(&self, other: &Stats) -> Stats {
        self.zip(other, |a, b| a + b)
    }

    /// What has been counted since `earlier`.
    pub fn since(&self, earlier: &Stats) -> Stats {
        self.zip(earlier, u64::saturating_sub)
    }

    /// Averages of what was counted in a period of this `length`: counts and bytes per second, times in
    /// microseconds per transaction, query and assignment of a server.
    pub(crate) fn average(&self, length: Duration) -> Stats {
        let us = length.as_micros().max(1);
        let mut average = Stats::from_values(self.values().map(|count| {
            let per_second = u128::from(count) * 1_000_000 / us;
            u64::try_from(per_second).unwrap_or(u64::MAX)
        }));
        average.xact_time = self.xact_time / self.xact_count.max(1);
        average.query_time = self.query_time / self.query_count.max(1);
        average.wait_time = self.wait_time / self.server_assignment_count.max(1);
        average
    }

    fn zip(&self, other: &Stats, f: impl Fn(u64, u64) -> u64) -> Stats {
        let (a, b) = (self.values(), other.values());
        Stats::from_values(std::array::from_fn(|i| f(a[i], b[i])))
    }
}

/// What each database's counters showed in each period of `stats_period`, and the counters of closed pools.
#[derive(Debug, Default, pgweir_freeze::Freeze)]
pub(crate) struct Periods {
    /// When the present period began; `None` before the first.
    began: Option<Time>,
    /// Totals at that time.
    at_beginning: ByDatabase,
    /// The last whole period: its length and its counts.
    last: Option<(Duration, ByDatabase)>,
    /// Counters of closed pools whose database has other pools.
    gone: ByDatabase,
    /// Counters of databases without a pool. They count in totals only.
    gone_databases: Stats,
}

impl Periods {
    /// Ends the period with these totals. `false`: this was the first call, so no period has ended.
    pub(crate) fn end(&mut self, now: Time, totals: &BTreeMap<Arc<str>, Stats>) -> bool {
        let length = self.began.map(|began| now - began).filter(|length| !length.is_zero());
        if let Some(length) = length {
            let none = Stats::default();
            let done = |(name, total): (&Arc<str>, &Stats)| {
                let before = self.at_beginning.get(name).unwrap_or(&none);
                (name.clone(), total.since(before))
            };
            self.last = Some((length, totals.iter().map(done).collect()));
            self.at_beginning = totals.iter().map(|(name, total)| (name.clone(), *total)).collect();
        }
        self.began = Some(now);
        length.is_some()
    }

    /// Averages of a database whose counters are now `total`: over the last whole period, or since the start if
    /// there is none.
    pub(crate) fn average(&self, now: Time, database: &str, total: &Stats) -> Stats {
        match &self.last {
            Some((length, done)) => done.get(database).copied().unwrap_or_default().average(*length),
            None => total.average(self.began.map_or(Duration::ZERO, |began| now - began)),
        }
    }

    /// Averages over all databases.
    pub(crate) fn average_of_all(&self, now: Time, total: &Stats) -> Stats {
        match &self.last {
            Some((length, done)) => {
                let sum = done.values().fold(Stats::default(), |sum, stats| sum.plus(stats));
                sum.average(*length)
            }
            None => total.average(self.began.map_or(Duration::ZERO, |began| now - began)),
        }
    }

    /// Keeps the counters of a pool that is being closed. `last_of_database`: its database has no other pool.
    pub(crate) fn keep(&mut self, database: &Arc<str>, stats: &Stats, last_of_database: bool) {
        if last_of_database {
            let others = self.gone.remove(database).unwrap_or_default();
            self.gone_databases = self.gone_databases.plus(stats).plus(&others);
            self.at_beginning.remove(database);
        } else {
            let kept = self.gone.entry(database.clone()).or_default();
            *kept = kept.plus(stats);
        }
    }

    /// Counters of closed pools, by database.
    pub(crate) fn gone(&self) -> impl Iterator<Item = (&Arc<str>, &Stats)> {
        self.gone.iter()
    }

    /// Counters of databases without a pool.
    pub(crate) fn gone_databases(&self) -> &Stats {
        &self.gone_databases
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(n: u64) -> Stats {
        Stats::from_values(std::array::from_fn(|i| n * (i as u64 + 1)))
    }

    #[test]
    fn averages_are_per_second_and_times_per_event() {
        let stats = Stats {
            server_assignment_count: 4,
            xact_count: 10,
            query_count: 20,
            bytes_received: 3_000,
            xact_time: 1_000,
            query_time: 600,
            wait_time: 400,
            ..Stats::default()
        };
        let a = stats.average(Duration::from_millis(500));
        assert_eq!((a.xact_count, a.query_count, a.bytes_received), (20, 40, 6_000));
        assert_eq!((a.xact_time, a.query_time, a.wait_time), (100, 30, 100));
        assert_eq!(Stats::default().average(Duration::ZERO), Stats::default());
    }

    #[test]
    fn a_period_counts_what_happened_in_it() {
        let mut periods = Periods::default();
        let totals = |n| BTreeMap::from([(Arc::from("d"), counted(n))]);
        assert!(!periods.end(Time(0), &totals(0)));
        let early = periods.average(Time(2_000_000), "d", &counted(10));
        assert_eq!(early.xact_count, 10);
        assert!(periods.end(Time(10_000_000), &totals(100)));
        assert!(periods.end(Time(20_000_000), &totals(150)));
        let average = periods.average(Time(25_000_000), "d", &counted(999));
        assert_eq!((average.xact_count, average.bytes_sent), (10, 25));
        assert_eq!(periods.average_of_all(Time(25_000_000), &counted(999)), average);
        assert_eq!(
            periods.average(Time(25_000_000), "other", &counted(1)),
            Stats::default()
        );
    }

    #[test]
    fn counters_of_a_gone_pool_stay_with_its_database_while_that_has_others() {
        let mut periods = Periods::default();
        let d: Arc<str> = "d".into();
        periods.keep(&d, &counted(1), false);
        assert_eq!(periods.gone().collect::<Vec<_>>(), [(&d, &counted(1))]);
        periods.keep(&d, &counted(2), true);
        assert_eq!(periods.gone().count(), 0);
        assert_eq!(*periods.gone_databases(), counted(3));
    }
}
