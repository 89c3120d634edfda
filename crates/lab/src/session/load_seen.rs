//! Whether other sessions use the server: a short look at its activity.

use crate::interrupt::Interrupt;
use crate::server::{Facts, query_error};
use crate::{Error, Result};
use postgres::Client;
use std::time::{Duration, Instant};

/// The number of looks, and the time between two.
const LOOKS: usize = 6;
const LOOK_INTERVAL: Duration = Duration::from_millis(200);

/// In how many looks other sessions may be active: one query of a monitoring system is no load.
const ACTIVE_LOOKS_MAX: usize = 1;

/// Up to this many transactions per second of other sessions count as no load, if their activity cannot be seen.
const TPS_MAX: f64 = 20.0;

/// Fails if other sessions are at work.
pub(super) fn refuse_foreign_load(client: &mut Client, facts: &Facts, interrupt: &Interrupt) -> Result<()> {
    let started = Instant::now();
    let (mut active_looks, mut active_max, mut hidden_max) = (0, 0, 0);
    let before = transactions(client)?;
    for look in 0..LOOKS {
        if look > 0 {
            interrupt.sleep(LOOK_INTERVAL)?;
        }
        let row = client
            .query_one(
                "select count(*) filter (where state in ('active', 'fastpath function call')), count(*) filter (where state is null)
                 from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()",
                &[],
            )
            .map_err(|e| query_error(&e))?;
        let (active, hidden): (i64, i64) = (row.get(0), row.get(1));
        active_looks += usize::from(active > 0);
        active_max = active_max.max(active);
        hidden_max = hidden_max.max(hidden);
    }
    if active_looks > ACTIVE_LOOKS_MAX {
        return Err(busy(&format!(
            "up to {active_max} other sessions were active within {:.0} s",
            started.elapsed().as_secs_f64().ceil()
        )));
    }
    if !facts.sees_all_activity && hidden_max > 0 {
        #[expect(clippy::cast_precision_loss, reason = "a count of a second")]
        let tps = (transactions(client)? - before) as f64 / started.elapsed().as_secs_f64();
        // Statistics arrive up to a second late. Each look is a transaction too.
        if tps > TPS_MAX {
            return Err(busy(&format!("others made {tps:.0} transactions per second")));
        }
    }
    Ok(())
}

fn transactions(client: &mut Client) -> Result<i64> {
    let row = client
        .query_one(
            "select coalesce(sum(xact_commit + xact_rollback), 0)::int8 from pg_stat_database",
            &[],
        )
        .map_err(|e| query_error(&e))?;
    Ok(row.get(0))
}

fn busy(evidence: &str) -> Error {
    Error::new(format!("the server is in use: {evidence}"))
        .hint("measuring would disturb them, and they the measurement; --force measures all the same")
}
