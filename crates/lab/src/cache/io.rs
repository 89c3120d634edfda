//! What pg_stat_io says of misses. PostgreSQL has it from version 16 on.
//!
//! It counts apart what pg_stat_database adds up: blocks that a large scan, VACUUM or COPY reads go through a small
//! ring of buffers, so a larger shared_buffers does not save these reads. It also counts the dirty buffers that
//! sessions had to write before they could use them for another block.

use super::extension::failed;
use crate::Result;
use postgres::Client;
use serde::{Deserialize, Serialize};

/// Counters of the whole server at one moment, relations only.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct IoCounters {
    /// Blocks read into any buffer.
    pub(super) reads: f64,
    pub(super) read_ms: f64,
    /// Blocks read into a ring of buffers.
    pub(super) ring_reads: f64,
    /// Dirty buffers written by sessions, which is neither the checkpointer nor the background writer.
    pub(super) writes: f64,
    pub(super) write_ms: f64,
}

/// What is known of the misses between two moments.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct MissDetails {
    /// Share of the blocks that were read into a ring of buffers, 0 to 1.
    pub ring_share: f64,
    /// Dirty buffers that a session had to write, for each block read into any buffer.
    pub writes_per_miss: f64,
    /// Mean time of a read into any buffer; None where track_io_timing is off.
    pub read_ms: Option<f64>,
    /// Mean time of such a write; None where track_io_timing is off, or nothing was written.
    pub write_ms: Option<f64>,
}

/// Version 18 counts operations and bytes, the ones before it operations of op_bytes each: the row as JSON has both.
const SQL: &str = "\
    select coalesce(sum(reads) filter (where normal), 0)::float8, coalesce(sum(read_ms) filter (where normal), 0)::float8, \
      coalesce(sum(reads) filter (where not normal), 0)::float8, \
      coalesce(sum(writes) filter (where normal and session), 0)::float8, \
      coalesce(sum(write_ms) filter (where normal and session), 0)::float8 \
    from (select j->>'context' = 'normal' as normal, \
        j->>'backend_type' not in ('checkpointer', 'background writer') as session, \
        coalesce((j->>'read_bytes')::float8, (j->>'reads')::float8 * (j->>'op_bytes')::float8) \
          / current_setting('block_size')::float8 as reads, (j->>'read_time')::float8 as read_ms, \
        coalesce((j->>'write_bytes')::float8, (j->>'writes')::float8 * (j->>'op_bytes')::float8) \
          / current_setting('block_size')::float8 as writes, (j->>'write_time')::float8 as write_ms \
      from pg_catalog.pg_stat_io i, to_jsonb(i) j where j->>'object' = 'relation') b";

impl IoCounters {
    /// Asks; None where the server has no such view.
    pub(crate) fn ask(client: &mut Client) -> Result<Option<Self>> {
        let exists = client.query_one("select to_regclass('pg_catalog.pg_stat_io') is not null", &[]);
        if !exists.map_err(|e| failed(&e))?.get::<_, bool>(0) {
            return Ok(None);
        }
        let row = client.query_one(SQL, &[]).map_err(|e| failed(&e))?;
        Ok(Some(IoCounters {
            reads: row.get(0),
            read_ms: row.get(1),
            ring_reads: row.get(2),
            writes: row.get(3),
            write_ms: row.get(4),
        }))
    }

    /// Between that moment and a later one.
    pub(super) fn until(&self, later: &IoCounters) -> IoCounters {
        IoCounters {
            reads: (later.reads - self.reads).max(0.0),
            read_ms: (later.read_ms - self.read_ms).max(0.0),
            ring_reads: (later.ring_reads - self.ring_reads).max(0.0),
            writes: (later.writes - self.writes).max(0.0),
            write_ms: (later.write_ms - self.write_ms).max(0.0),
        }
    }

    /// None where nothing was read.
    pub(super) fn details(&self) -> Option<MissDetails> {
        let all = self.reads + self.ring_reads;
        let mean = |ms: f64, count: f64| (count >= 1.0 && ms > 0.0).then(|| ms / count);
        (all >= 1.0).then(|| MissDetails {
            ring_share: self.ring_reads / all,
            writes_per_miss: self.writes / self.reads.max(1.0),
            read_ms: mean(self.read_ms, self.reads),
            write_ms: mean(self.write_ms, self.writes),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn details_of_what_was_counted_between_two_moments() {
        let before = IoCounters {
            reads: 1000.0,
            read_ms: 500.0,
            ring_reads: 10.0,
            writes: 7.0,
            write_ms: 1.0,
        };
        let after = IoCounters {
            reads: 1300.0,
            read_ms: 530.0,
            ring_reads: 110.0,
            writes: 157.0,
            write_ms: 4.0,
        };
        let details = before.until(&after).details().unwrap();
        assert_eq!((details.ring_share, details.writes_per_miss), (0.25, 0.5));
        assert_eq!((details.read_ms, details.write_ms), (Some(0.1), Some(0.02)));
        assert_eq!(after.until(&after).details(), None);
        // Without track_io_timing, and with the counters reset meanwhile.
        let untimed = IoCounters {
            read_ms: 0.0,
            write_ms: 0.0,
            ..after
        };
        let details = untimed.details().unwrap();
        assert_eq!((details.read_ms, details.write_ms), (None, None));
        assert_eq!(after.until(&before).details(), None);
    }
}
