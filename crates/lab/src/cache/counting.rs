//! What is read between two moments.

use super::reads::{BlockCounters, Reads};
use super::survey::{self, Accesses};
use crate::Result;
use postgres::Client;
use std::thread;
use std::time::{Duration, Instant};

/// The least time over which misses are counted: a backend tells its counters once in a second.
const TIME: Duration = Duration::from_secs(2);

/// Below this nothing was counted.
const TIME_LEAST: Duration = Duration::from_millis(500);

/// Counters at the first of the two moments.
pub(crate) struct Counting {
    began: Instant,
    blocks: BlockCounters,
    relations: Accesses,
    active: u32,
}

/// What was counted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Counted {
    /// Between the two moments; None where there is no time between them.
    pub(crate) reads_now: Option<Reads>,
    /// Since the counters began.
    pub(crate) reads_before: Option<Reads>,
    /// Size of the connected database's tables and indexes that were read meanwhile; None where most blocks are of others.
    pub(crate) read_relations_bytes: Option<u64>,
    /// Client sessions at work, the mean of the two moments.
    pub(crate) active_mean: f64,
}

impl Counting {
    pub(crate) fn begin(client: &mut Client) -> Result<Self> {
        Ok(Counting {
            began: Instant::now(),
            blocks: BlockCounters::ask(client)?,
            relations: survey::accesses(client)?,
            active: survey::active_sessions(client)?,
        })
    }

    /// Until it has been long enough.
    pub(crate) fn wait(&self) {
        thread::sleep(TIME.saturating_sub(self.began.elapsed()));
    }

    pub(crate) fn end(&self, client: &mut Client) -> Result<Counted> {
        let active = self.active + survey::active_sessions(client)?;
        let (blocks, time) = (BlockCounters::ask(client)?, self.began.elapsed());
        let reads_now = self.blocks.until(&blocks, time.as_secs_f64());
        Ok(Counted {
            reads_now: reads_now.filter(|_| time >= TIME_LEAST),
            reads_before: blocks.rates(),
            read_relations_bytes: survey::read_since(&self.relations, &survey::accesses(client)?)
                .filter(|_| self.blocks.mostly_here(&blocks)),
            active_mean: f64::from(active) / 2.0,
        })
    }
}
