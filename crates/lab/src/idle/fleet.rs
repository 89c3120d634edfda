//! Idle connections that have filled their catalog caches.

use super::memory::SystemMemory;
use crate::interrupt::Interrupt;
use crate::server::{Server, query_error};
use crate::{Error, Result};
use postgres::Client;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Memory that is left alone: no connection is opened once less than this is available, as a share of all.
const SPARED_SHARE: f64 = 0.08;

/// Time for the server to end the backends of closed connections.
const CLOSE_MAX: Duration = Duration::from_secs(30);

/// How often to look at what the threads have done.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// Connections that stay open and do nothing.
pub struct Fleet {
    connections: Vec<Client>,
    /// Time until the last of them was there.
    pub opened_in: Duration,
    /// Memory was the reason for stopping early.
    pub short_of_memory: bool,
}

/// What each connection runs before it idles: in one transaction, a row of each table of information_schema, as an
/// application framework may that looks at its tables. Compiled queries would add their own memory, so there are none.
pub fn filling(server: &Server) -> Result<String> {
    let mut client = server.connect()?;
    let row = client.query_one(
        "select string_agg(format('select * from information_schema.%I limit 1;', table_name), ' ' order by table_name)
         from information_schema.tables where table_schema = 'information_schema'",
        &[],
    );
    let selects: String = row.and_then(|row| row.try_get(0)).map_err(|e| query_error(&e))?;
    Ok(format!(
        "begin; select set_config(name, 'off', true) from pg_settings where name = 'jit'; {selects} commit"
    ))
}

impl Fleet {
    /// Opens `wanted` connections and has each run `filling`, several at a time. Stops early, without an error, where
    /// the memory of this machine goes to its end and the server is on it.
    pub fn open(
        server: &Server,
        wanted: usize,
        filling: &str,
        server_is_local: bool,
        interrupt: &Interrupt,
        mut progress: impl FnMut(usize),
    ) -> Result<Self> {
        let threads = thread::available_parallelism().map_or(1, usize::from) * 2;
        let opened = Mutex::new(Vec::with_capacity(wanted));
        let failure: Mutex<Option<Error>> = Mutex::new(None);
        let (taken, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let (began, last_microseconds) = (Instant::now(), AtomicU64::new(0));
        let (stop, short_of_memory) = (AtomicBool::new(false), AtomicBool::new(false));
        let work = || {
            while !stop.load(Ordering::Relaxed) && taken.fetch_add(1, Ordering::Relaxed) < wanted {
                if server_is_local && memory_is_short() {
                    short_of_memory.store(true, Ordering::Relaxed);
                    stop.store(true, Ordering::Relaxed);
                    return;
                }
                match open_one(server, filling) {
                    Ok(client) => opened.lock().expect("no thread panics").push(client),
                    Err(e) => {
                        failure.lock().expect("no thread panics").get_or_insert(e);
                        stop.store(true, Ordering::Relaxed);
                        return;
                    }
                }
                done.fetch_add(1, Ordering::Relaxed);
                let now = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
                last_microseconds.fetch_max(now, Ordering::Relaxed);
            }
        };
        let interrupted = thread::scope(|scope| {
            let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            while workers.iter().any(|worker| !worker.is_finished()) {
                if let Err(e) = interrupt.sleep(LOOK_INTERVAL) {
                    stop.store(true, Ordering::Relaxed);
                    return Err(e);
                }
                progress(done.load(Ordering::Relaxed));
            }
            Ok(())
        });
        interrupted?;
        let connections = opened.into_inner().expect("no thread panics");
        match failure.into_inner().expect("no thread panics") {
            Some(e) => Err(e.context(format!("idle connection {}", connections.len() + 1))),
            None => Ok(Fleet {
                connections,
                opened_in: Duration::from_micros(last_microseconds.into_inner()),
                short_of_memory: short_of_memory.into_inner(),
            }),
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.connections.len()
    }

    /// Has all of them run `filling` once more, at the same time; returns how long that takes.
    pub fn fill_again(&mut self, filling: &str) -> Result<Duration> {
        let began = Instant::now();
        let fill = |client: &mut Client| client.batch_execute(filling).map_err(|e| query_error(&e));
        thread::scope(|scope| {
            let filling: Vec<_> = self
                .connections
                .iter_mut()
                .map(|client| scope.spawn(|| fill(client)))
                .collect();
            let done = filling
                .into_iter()
                .map(|thread| thread.join().expect("no thread panics"));
            done.collect::<Result<Vec<()>>>()
        })?;
        Ok(began.elapsed())
    }

    /// Memory contexts of the servers behind some of the connections, bytes each; empty where the role may not look,
    /// and before version 14.
    pub fn memory_contexts(&mut self, sample: usize) -> Vec<f64> {
        self.connections
            .iter_mut()
            .take(sample)
            .filter_map(memory_contexts)
            .collect()
    }

    /// Closes them, and waits until the server has no more connections in this database than `left`.
    pub fn close(self, server: &Server, left: usize, interrupt: &Interrupt) -> Result<()> {
        drop(self.connections);
        let mut client = server.connect()?;
        let started = Instant::now();
        while backends(&mut client)?.len() > left && started.elapsed() < CLOSE_MAX {
            interrupt.sleep(LOOK_INTERVAL)?;
        }
        Ok(())
    }
}

/// Processes of the clients of this database, the asking one left out.
pub fn backends(client: &mut Client) -> Result<Vec<u32>> {
    let rows = client.query(
        "select pid from pg_stat_activity
         where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()",
        &[],
    );
    let rows = rows.map_err(|e| query_error(&e))?;
    Ok(rows
        .iter()
        .filter_map(|row| u32::try_from(row.get::<_, i32>(0)).ok())
        .collect())
}

/// Of the session itself.
pub fn memory_contexts(client: &mut Client) -> Option<f64> {
    let row = client.query_one("select sum(total_bytes)::float8 from pg_backend_memory_contexts", &[]);
    row.ok()?.try_get(0).ok()
}

/// A connection with its caches filled.
pub fn open_one(server: &Server, filling: &str) -> Result<Client> {
    let mut client = server.connect()?;
    client.batch_execute(filling).map_err(|e| query_error(&e))?;
    Ok(client)
}

fn memory_is_short() -> bool {
    SystemMemory::now().is_some_and(|m| (m.available_bytes as f64) < m.total_bytes as f64 * SPARED_SHARE)
}
