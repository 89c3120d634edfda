//! What sessions wait for, sampled from `pg_stat_activity` (manual, "The Cumulative Statistics System", wait events).

use crate::server::Server;
use crate::{Error, Result};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How often to look. Rare enough that looking at a thousand idle sessions takes little from what is measured.
const INTERVAL: Duration = Duration::from_millis(200);

/// What a session is at that is active and waits for nothing: PostgreSQL cannot tell running from waiting for a
/// processor.
pub const RUNNING: &str = "running, or waiting for a processor";

/// Between two statements of a transaction it is the client that is waited for.
const IN_TRANSACTION: &str = "Client: between two statements";

/// Sessions of this database that are inside a transaction, by what they wait for.
const QUERY: &str = "select case when state not like 'idle%' then coalesce(wait_event_type || ': ' || wait_event, $1) else $2 end, count(*)
    from pg_stat_activity
    where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()
      and state in ('active', 'fastpath function call', 'idle in transaction', 'idle in transaction (aborted)')
    group by 1";

/// Sums of many looks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WaitEvents {
    looks: u64,
    sessions: BTreeMap<String, u64>,
}

impl WaitEvents {
    /// One look: sessions for each event.
    fn add_look(&mut self, seen: impl IntoIterator<Item = (String, u64)>) {
        self.looks += 1;
        for (event, sessions) in seen {
            *self.sessions.entry(event).or_default() += sessions;
        }
    }

    /// Adds the looks of another round.
    pub fn add(&mut self, other: &WaitEvents) {
        self.looks += other.looks;
        for (event, sessions) in &other.sessions {
            *self.sessions.entry(event.clone()).or_default() += sessions;
        }
    }

    /// Mean number of sessions at each event.
    pub fn means(&self) -> BTreeMap<String, f64> {
        let mean = |(event, sessions): (&String, &u64)| (event.clone(), *sessions as f64 / self.looks.max(1) as f64);
        self.sessions.iter().map(mean).collect()
    }
}

/// Samples in a thread with a connection of its own, until stopped.
#[derive(Debug)]
pub struct Sampler {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<WaitEvents>>>,
}

impl Sampler {
    /// Begins to sample the sessions in the server's database.
    pub fn start(server: &Server) -> Result<Self> {
        let mut client = server.connect()?;
        let stop = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let query = client.prepare(QUERY).map_err(|e| crate::server::query_error(&e))?;
            let mut events = WaitEvents::default();
            while !asked.load(Ordering::Relaxed) {
                let rows = client.query(&query, &[&RUNNING, &IN_TRANSACTION]);
                let rows = rows.map_err(|e| crate::server::query_error(&e))?;
                let seen = rows
                    .iter()
                    .map(|row| (row.get(0), u64::try_from(row.get::<_, i64>(1)).unwrap_or(0)));
                events.add_look(seen);
                thread::park_timeout(INTERVAL);
            }
            Ok(events)
        });
        Ok(Sampler {
            stop,
            thread: Some(thread),
        })
    }

    /// Ends it, and gives what it saw.
    pub fn finish(mut self) -> Result<WaitEvents> {
        self.end()
            .unwrap_or_else(|| Err(Error::new("the sampling of wait events has failed")))
    }

    fn end(&mut self) -> Option<Result<WaitEvents>> {
        let thread = self.thread.take()?;
        self.stop.store(true, Ordering::Relaxed);
        thread.thread().unpark();
        thread.join().ok()
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_of_looks_and_not_of_sightings() {
        let mut events = WaitEvents::default();
        events.add_look([("IO: DataFileRead".to_owned(), 3), (RUNNING.to_owned(), 2)]);
        events.add_look([(RUNNING.to_owned(), 4)]);
        let mut other = WaitEvents::default();
        other.add_look([]);
        other.add_look([("IO: DataFileRead".to_owned(), 1)]);
        events.add(&other);
        let means = events.means();
        assert_eq!(means["IO: DataFileRead"], 1.0);
        assert_eq!(means[RUNNING], 1.5);
        assert!(WaitEvents::default().means().is_empty());
    }
}
