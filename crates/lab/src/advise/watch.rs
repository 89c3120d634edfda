//! Watching the sessions: one look after the other, for seconds or for hours.

use super::facts::Sessions;
use crate::Result;
use crate::cache::extension::failed;
use crate::interrupt::EarlyEnd;
use crate::progress::{Progress, duration_words};
use pgweir_maths::number_words;
use postgres::{Client, Row};
use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::{Duration, Instant};

/// Between two looks, where the whole time is short and where it is long.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);
const LONG_LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// A time that is long.
const LONG: Duration = Duration::from_secs(61);

/// Rates of a shorter time say nothing.
const RATE_LEAST: Duration = Duration::from_millis(500);

/// All looks so far.
#[derive(Default)]
struct Looks {
    count: u32,
    /// Connections at work, summed over the looks, and by wait event type.
    active: f64,
    waits: BTreeMap<String, f64>,
    active_most: u32,
    /// The most, the fewest and the longest of the looks, as [`Sessions`] says of each field.
    sessions: Sessions,
}

/// What one look sees.
#[derive(Default)]
struct Look {
    sessions: Sessions,
    active: u32,
    /// Processes of the clients.
    pids: Vec<i32>,
}

/// Looks at the sessions again and again, and for the last time when the time is over, or when a signal ends it early;
/// returns the processes of the last look.
pub(super) fn watch(client: &mut Client, time: Duration, early: Option<&EarlyEnd>) -> Result<(Sessions, Vec<i32>)> {
    let interval = if time < LONG { LOOK_INTERVAL } else { LONG_LOOK_INTERVAL };
    let mut progress = early.map(|_| begin(time));
    let started = Instant::now();
    let before = totals(client)?;
    let mut looks = Looks::default();
    loop {
        let ended_early = early.is_some_and(EarlyEnd::is_asked);
        let pids = looks.add(client)?;
        let Some(pause) = pause(started.elapsed(), time, interval).filter(|_| !ended_early) else {
            let watched = started.elapsed();
            let after = totals(client)?;
            let mut sessions = looks.end(watched);
            sessions.ended_early = ended_early && watched < time;
            if watched >= RATE_LEAST {
                let seconds = watched.as_secs_f64();
                sessions.transactions_per_second = Some((after.0 - before.0).max(0.0) / seconds);
                sessions.opened_per_second = after.1.zip(before.1).map(|(a, b)| (a - b).max(0.0) / seconds);
            }
            if let Some(progress) = &mut progress {
                progress.done(&format!("{} looks", number_words(f64::from(sessions.looks))));
            }
            return Ok((sessions, pids));
        };
        if let Some(progress) = &mut progress {
            progress.live(&format!("{} at work at most", looks.active_most));
        }
        match early {
            Some(early) => early.sleep(pause),
            None => thread::sleep(pause),
        }
    }
}

/// Until the next look; None after the last one, which is at the end of the time.
fn pause(elapsed: Duration, time: Duration, interval: Duration) -> Option<Duration> {
    let left = time.checked_sub(elapsed)?;
    (!left.is_zero()).then(|| left.min(interval))
}

fn begin(time: Duration) -> Progress {
    let mut progress = Progress::new();
    progress.plan(1, time);
    let what = format!(
        "watching the server for {}; Ctrl-C ends it with a report on what was seen",
        duration_words(time)
    );
    progress.begin(&what, time);
    progress
}

impl Looks {
    /// Looks once more; returns the clients' processes.
    fn add(&mut self, client: &mut Client) -> Result<Vec<i32>> {
        let Look { sessions, active, pids } = look(client, &mut self.waits)?;
        let first = self.count == 0;
        self.count += 1;
        self.active += f64::from(active);
        self.active_most = self.active_most.max(active);
        let all = &mut self.sessions;
        all.total = all.total.max(sessions.total);
        all.pools = all.pools.max(sessions.pools);
        all.hidden = sessions.hidden;
        all.idle = if first {
            sessions.idle
        } else {
            all.idle.min(sessions.idle)
        };
        all.idle_longest = all.idle_longest.max(sessions.idle_longest);
        all.idle_in_transaction = all.idle_in_transaction.max(sessions.idle_in_transaction);
        if sessions.idle_in_transaction_longest >= all.idle_in_transaction_longest && sessions.idle_in_transaction > 0 {
            all.idle_in_transaction_longest = sessions.idle_in_transaction_longest;
            all.idle_in_transaction_who = sessions.idle_in_transaction_who;
        }
        Ok(pids)
    }

    fn end(self, watched: Duration) -> Sessions {
        let looks = f64::from(self.count.max(1));
        Sessions {
            looks: self.count,
            watched,
            active_most: self.active_most,
            active_mean: self.active / looks,
            active_waits: self
                .waits
                .into_iter()
                .map(|(event, sum)| (event, sum / looks))
                .collect(),
            ..self.sessions
        }
    }
}

/// Transactions ended, and sessions begun where the server counts them (from PostgreSQL 14 on).
fn totals(client: &mut Client) -> Result<(f64, Option<f64>)> {
    // The row as JSON, because older servers do not have the column.
    let row = client
        .query_one(
            "select coalesce(sum(d.xact_commit + d.xact_rollback), 0)::float8, \
             sum((to_jsonb(d)->>'sessions')::float8) from pg_catalog.pg_stat_database d",
            &[],
        )
        .map_err(|e| failed(&e))?;
    Ok((row.get(0), row.get(1)))
}

/// One look: of other users' sessions who lacks pg_monitor sees no type and no state, but their database.
fn look(client: &mut Client, waits: &mut BTreeMap<String, f64>) -> Result<Look> {
    let rows = client
        .query(
            "select pid, state, coalesce(wait_event_type, 'CPU'), \
             coalesce(extract(epoch from clock_timestamp() - state_change), 0)::float8, \
             coalesce(extract(epoch from clock_timestamp() - xact_start), 0)::float8, \
             format('pid %s, user %s, application \"%s\"', pid, usename, application_name), \
             format('%s.%s', datname, usename) \
             from pg_catalog.pg_stat_activity where pid <> pg_catalog.pg_backend_pid() \
             and (backend_type = 'client backend' or backend_type is null and datname is not null)",
            &[],
        )
        .map_err(|e| failed(&e))?;
    let pools: BTreeSet<&str> = rows.iter().map(|row| row.get(6)).collect();
    let mut look = Look::default();
    look.sessions.total = rows.len() as u32;
    look.sessions.pools = pools.len() as u32;
    rows.iter().for_each(|row| look.add(row, waits));
    Ok(look)
}

impl Look {
    /// One connection.
    fn add(&mut self, row: &Row, waits: &mut BTreeMap<String, f64>) {
        let sessions = &mut self.sessions;
        self.pids.push(row.get(0));
        let since = |i: usize| Duration::from_secs_f64(row.get::<_, f64>(i).max(0.0));
        match row.get::<_, Option<&str>>(1) {
            // Other users' sessions show no state to who may not see it.
            None => sessions.hidden += 1,
            Some("idle") => {
                sessions.idle += 1;
                sessions.idle_longest = sessions.idle_longest.max(since(3));
            }
            Some(state) if state.starts_with("idle in transaction") => {
                sessions.idle_in_transaction += 1;
                if since(4) >= sessions.idle_in_transaction_longest {
                    sessions.idle_in_transaction_longest = since(4);
                    sessions.idle_in_transaction_who = row.get(5);
                }
            }
            Some("active" | "fastpath function call") => {
                self.active += 1;
                *waits.entry(row.get(2)).or_default() += 1.0;
            }
            Some(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Guards against a queue or a transaction that began in the last second and was not seen.
    #[test]
    fn the_last_look_is_at_the_end_of_the_time() {
        for (milliseconds, looks) in [(0, 1), (2_000, 11), (14_500, 74), (61_500, 63)] {
            let time = Duration::from_millis(milliseconds);
            let interval = if time < LONG { LOOK_INTERVAL } else { LONG_LOOK_INTERVAL };
            let (mut now, mut count) = (Duration::ZERO, 1);
            while let Some(pause) = pause(now, time, interval) {
                now += pause;
                count += 1;
            }
            assert_eq!((now, count), (time, looks));
        }
        let late = Duration::from_secs(3);
        assert_eq!(pause(late, Duration::from_secs(2), LOOK_INTERVAL), None);
    }
}
