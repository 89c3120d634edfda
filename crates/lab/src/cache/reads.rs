//! How often a block is not found in shared_buffers, and what that costs.

use super::extension::failed;
use super::io::{IoCounters, MissDetails};
use crate::Result;
use postgres::Client;
use serde::{Deserialize, Serialize};

/// PostgreSQL's counters of all databases together (pg_stat_database), at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct BlockCounters {
    hits: f64,
    reads: f64,
    /// Both, in the connected database.
    here: f64,
    /// 0 where track_io_timing is off.
    read_ms: f64,
    /// Since they were reset; 0 where they never were (from PostgreSQL 15 on), because then nobody knows since when they count.
    seconds: f64,
    timed: bool,
    io: Option<IoCounters>,
}

/// How blocks were asked for over some time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Reads {
    /// Found in shared_buffers, in a second.
    pub hits_per_second: f64,
    /// Not found, in a second.
    pub misses_per_second: f64,
    /// Mean time of a miss, as track_io_timing measures it; None where it is off.
    pub miss_ms: Option<f64>,
    /// Over how long that was counted.
    pub seconds: f64,
    /// What pg_stat_io says of the misses, where there is one.
    pub details: Option<MissDetails>,
}

impl BlockCounters {
    /// Asks.
    pub(crate) fn ask(client: &mut Client) -> Result<Self> {
        let row = client
            .query_one(
                "select coalesce(sum(blks_hit), 0)::float8, coalesce(sum(blks_read), 0)::float8, \
                 coalesce(sum(blk_read_time), 0)::float8, \
                 case when bool_or(datid <> 0 and stats_reset is null and blks_hit + blks_read > 0) then 0 \
                   else coalesce(extract(epoch from clock_timestamp() - min(stats_reset)), 0) end::float8, \
                 current_setting('track_io_timing')::bool, \
                 coalesce(sum(blks_hit + blks_read) filter (where datname = pg_catalog.current_database()), 0)::float8 \
                 from pg_catalog.pg_stat_database",
                &[],
            )
            .map_err(|e| failed(&e))?;
        Ok(BlockCounters {
            hits: row.get(0),
            reads: row.get(1),
            here: row.get(5),
            read_ms: row.get(2),
            seconds: row.get(3),
            timed: row.get(4),
            io: IoCounters::ask(client)?,
        })
    }

    /// Between that moment and a later one; None where no time lies between.
    pub(crate) fn until(&self, later: &BlockCounters, seconds: f64) -> Option<Reads> {
        let counted = BlockCounters {
            hits: (later.hits - self.hits).max(0.0),
            reads: (later.reads - self.reads).max(0.0),
            here: (later.here - self.here).max(0.0),
            read_ms: (later.read_ms - self.read_ms).max(0.0),
            seconds,
            timed: self.timed && later.timed,
            io: self.io.zip(later.io).map(|(before, after)| before.until(&after)),
        };
        counted.rates()
    }

    /// Whether most blocks that were asked for between that moment and a later one are the connected database's.
    pub(crate) fn mostly_here(&self, later: &BlockCounters) -> bool {
        let asked = later.hits + later.reads - self.hits - self.reads;
        later.here - self.here > asked / 2.0
    }

    /// Since the counters began; None where they have just begun.
    pub(crate) fn rates(&self) -> Option<Reads> {
        (self.seconds >= 0.5 && self.seconds.is_finite()).then(|| Reads {
            hits_per_second: self.hits / self.seconds,
            misses_per_second: self.reads / self.seconds,
            miss_ms: (self.timed && self.reads >= 1.0 && self.read_ms > 0.0).then(|| self.read_ms / self.reads),
            seconds: self.seconds,
            details: self.io.and_then(|io| io.details()),
        })
    }
}

impl Reads {
    /// Blocks asked for, in a second.
    pub fn asked_per_second(&self) -> f64 {
        self.hits_per_second + self.misses_per_second
    }

    /// Share found in shared_buffers, 0 to 1.
    pub fn hit_share(&self) -> f64 {
        self.hits_per_second / self.asked_per_second().max(f64::MIN_POSITIVE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_between_two_moments_and_since_the_beginning() {
        let counters = |hits, reads, read_ms| BlockCounters {
            hits,
            reads,
            here: hits,
            read_ms,
            seconds: 100.0,
            timed: true,
            io: None,
        };
        let (before, after) = (counters(1000.0, 200.0, 50.0), counters(4000.0, 1200.0, 300.0));
        let reads = before.until(&after, 2.0).unwrap();
        assert_eq!(
            (reads.hits_per_second, reads.misses_per_second, reads.miss_ms),
            (1500.0, 500.0, Some(0.25))
        );
        assert_eq!((reads.hit_share(), before.until(&after, 0.0)), (0.75, None));
        assert_eq!(after.rates().unwrap().misses_per_second, 12.0);
        // 3,000 of 4,000 blocks are the connected database's, and then 1,000.
        assert!(before.mostly_here(&after));
        assert!(!before.mostly_here(&BlockCounters { here: 2000.0, ..after }));
        // track_io_timing is off, or the counters were reset meanwhile.
        let untimed = BlockCounters { timed: false, ..after };
        assert_eq!(before.until(&untimed, 2.0).unwrap().miss_ms, None);
        assert_eq!(after.until(&before, 2.0).unwrap().misses_per_second, 0.0);
    }
}
