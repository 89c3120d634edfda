//! What the console of a PgBouncer or pgweir says, looked at once or again and again.

use crate::Result;
use crate::console::{Row, number, show, text};
use crate::server::Server;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Between two looks at a console.
const LOOK_INTERVAL: Duration = Duration::from_secs(2);

/// What a console says.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct PoolerFacts {
    /// SHOW VERSION, such as `PgBouncer 1.26.1`.
    pub version: String,
    /// SHOW POOLS, the console's own left out.
    pub pools: Vec<PoolFacts>,
    /// SHOW CONFIG.
    pub config: BTreeMap<String, String>,
    /// Client connections, of SHOW LISTS.
    pub clients: Option<u64>,
    /// SHOW SIZING, which pgweir alone has: hosts whose pools find their sizes by experiment.
    pub sizings: Vec<SizingFacts>,
    /// Servers of all pools together: the most at one look.
    pub servers_most: u64,
}

/// What pgweir has found of one host by experiment.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct SizingFacts {
    /// The host, or the list of hosts.
    pub hosts: String,
    /// The search was stopped by `sizing = hold`.
    pub is_held: bool,
    /// Servers that may work at once.
    pub settled: u64,
    /// Servers that clients hold with nothing for them to do.
    pub held: u64,
    /// Servers that the host allows.
    pub servers_max: u64,
    /// Why the limit is what it is; empty before the first step.
    pub reason: String,
}

impl SizingFacts {
    /// Whether the search has made a step, so that its limit is more than where it begins.
    pub fn has_found(&self) -> bool {
        !self.reason.is_empty()
    }

    /// Whether a row of SHOW DATABASES leads to its hosts.
    fn is_of(&self, database: &Row) -> bool {
        let port = text(database, "port");
        let endpoint = |host: &str| match (host.is_empty() || host.starts_with(['/', '@']), host.contains(':')) {
            (true, _) => format!("unix:{port}"),
            (false, true) => format!("[{host}]:{port}"),
            (false, false) => format!("{host}:{port}"),
        };
        let mut hosts = self.hosts.split(',');
        text(database, "host")
            .split(',')
            .all(|host| hosts.next() == Some(&endpoint(host)))
            && hosts.next().is_none()
    }
}

/// One pool.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct PoolFacts {
    /// Its database.
    pub database: String,
    /// Its user.
    pub user: String,
    /// Its mode.
    pub mode: String,
    /// Clients with a server.
    pub clients_active: u64,
    /// Clients that wait for one: the most of all looks.
    pub clients_waiting: u64,
    /// Looks at which clients waited.
    pub looks_waiting: u32,
    /// All looks.
    pub looks: u32,
    /// Servers with a client.
    pub servers_active: u64,
    /// Servers without.
    pub servers_idle: u64,
    /// How long the first in the queue has waited, microseconds: the most of all looks.
    pub wait_longest_us: u64,
    /// The host of its database, as SHOW DATABASES says; `None` where that is a directory of Unix-domain sockets.
    pub host: Option<String>,
    /// pool_size of its database, as SHOW DATABASES says.
    pub size: Option<u64>,
    /// pgweir finds its size by experiment.
    pub finds_size: bool,
    /// Mean time that a client waited for a server, microseconds (SHOW STATS, over the database).
    pub wait_mean_us: Option<u64>,
    /// Mean time of a transaction, microseconds (SHOW STATS, over the database).
    pub transaction_mean_us: Option<u64>,
}

impl PoolFacts {
    /// Its servers.
    pub fn servers(&self) -> u64 {
        self.servers_active.saturating_add(self.servers_idle)
    }

    /// The most servers that it may have; those that it has, where the console does not say.
    pub fn size(&self) -> u64 {
        self.size.unwrap_or(self.servers())
    }

    /// Whether it has more servers at work than this, and is allowed to. The size that pgweir has found is never too large.
    pub(super) fn is_too_large(&self, most_at_work: u64) -> bool {
        !self.finds_size && self.size.is_some_and(|size| size > most_at_work) && self.servers_active > most_at_work
    }

    /// `database "shop", user "bob"`
    pub fn name(&self) -> String {
        format!("database \"{}\", user \"{}\"", self.database, self.user)
    }
}

impl PoolerFacts {
    /// A setting.
    pub fn setting(&self, name: &str) -> Option<&str> {
        self.config.get(name).map(String::as_str)
    }

    /// A setting that is a number.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.setting(name)?.parse().ok()
    }

    /// Whether some of its pools find their sizes by experiment, so that `default_pool_size` may be `auto`.
    pub fn finds_sizes(&self) -> bool {
        !self.sizings.is_empty()
    }

    /// Whether no pool holds a server for each client.
    pub fn is_in_transaction_mode(&self) -> bool {
        !self.pools.is_empty() && self.pools.iter().all(|pool| pool.mode != "session")
    }

    /// How many servers pgweir has found to be best. None where it has not searched yet, and where there are several hosts,
    /// because nothing tells which of them the server is.
    pub fn found(&self) -> Option<u32> {
        match &self.sizings[..] {
            [one] if one.has_found() => u32::try_from(one.settled).ok(),
            _ => None,
        }
    }

    /// Servers that the pools of a fixed size may have together, each as many as `size` says: those of a database no more
    /// than max_db_connections, and reserve pools on top.
    pub(super) fn servers_allowed(&self, size: impl Fn(&PoolFacts) -> u64) -> u64 {
        let reserve = self.number("reserve_pool_size").unwrap_or(0);
        let most = self
            .number("max_db_connections")
            .filter(|most| *most > 0)
            .unwrap_or(u64::MAX);
        let mut databases: BTreeMap<&str, u64> = BTreeMap::new();
        for pool in self.pools.iter().filter(|pool| !pool.finds_size) {
            let servers = databases.entry(&pool.database).or_default();
            *servers = servers.saturating_add(size(pool)).saturating_add(reserve).min(most);
        }
        databases.into_values().fold(0, u64::saturating_add)
    }

    /// The later look, with the longest queues and the most servers of all.
    pub(super) fn with_later(self, mut later: PoolerFacts) -> Self {
        later.servers_most = later.servers_most.max(self.servers_most);
        for pool in &mut later.pools {
            let same = |p: &&PoolFacts| p.database == pool.database && p.user == pool.user;
            if let Some(before) = self.pools.iter().find(same) {
                pool.clients_waiting = pool.clients_waiting.max(before.clients_waiting);
                pool.wait_longest_us = pool.wait_longest_us.max(before.wait_longest_us);
                pool.looks_waiting += before.looks_waiting;
                pool.looks += before.looks;
            }
        }
        later
    }
}

/// A console that is asked again and again, for queues that come and go.
pub(super) struct Watching {
    server: Server,
    stop: Arc<AtomicBool>,
    seen: JoinHandle<Result<PoolerFacts>>,
}

impl Watching {
    /// Asks the console once, so that a console that does not answer is an error at once. Then another thread goes on
    /// asking.
    pub(super) fn begin(server: &Server) -> Result<Self> {
        let first = ask(server)?;
        let stop = Arc::new(AtomicBool::new(false));
        let (console, stopped) = (server.clone(), Arc::clone(&stop));
        let seen = thread::spawn(move || {
            let mut seen = first;
            loop {
                thread::park_timeout(LOOK_INTERVAL);
                if stopped.load(Ordering::Relaxed) {
                    return Ok(seen);
                }
                seen = seen.with_later(ask(&console)?);
            }
        });
        Ok(Watching {
            server: server.clone(),
            stop,
            seen,
        })
    }

    /// What was seen, a last look included.
    pub(super) fn end(self) -> Result<PoolerFacts> {
        self.stop.store(true, Ordering::Relaxed);
        self.seen.thread().unpark();
        let seen = self.seen.join().expect("asking a console does not panic")?;
        Ok(seen.with_later(ask(&self.server)?))
    }
}

/// Asks a console.
fn ask(server: &Server) -> Result<PoolerFacts> {
    let mut client = server.connect().map_err(|e| e.context("console"))?;
    let version = show(&mut client, "VERSION")?;
    let pools = show(&mut client, "POOLS")?;
    let databases = show(&mut client, "DATABASES")?;
    let stats = show(&mut client, "STATS")?;
    let lists = show(&mut client, "LISTS")?;
    let config = show(&mut client, "CONFIG")?;
    // PgBouncer does not know it.
    let sizings: Vec<SizingFacts> = show(&mut client, "SIZING")
        .unwrap_or_default()
        .iter()
        .map(sizing)
        .collect();
    let pools: Vec<PoolFacts> = pools
        .iter()
        .filter(|row| text(row, "database") != "pgbouncer")
        .map(|row| pool(row, &databases, &stats, &sizings))
        .collect();
    Ok(PoolerFacts {
        version: version
            .first()
            .and_then(|row| row.values().next().cloned())
            .unwrap_or_default(),
        servers_most: pools.iter().map(PoolFacts::servers).sum(),
        pools,
        config: config
            .iter()
            .map(|row| (text(row, "key"), text(row, "value")))
            .collect(),
        clients: lists
            .iter()
            .find(|row| text(row, "list") == "used_clients")
            .and_then(|row| number(row, "items")),
        sizings,
    })
}

fn sizing(row: &Row) -> SizingFacts {
    SizingFacts {
        hosts: text(row, "host"),
        is_held: text(row, "sizing") == "hold",
        settled: number(row, "settled").unwrap_or(0),
        held: number(row, "held").unwrap_or(0),
        servers_max: number(row, "servers_max").unwrap_or(0),
        reason: text(row, "reason"),
    }
}

fn pool(row: &Row, databases: &[Row], stats: &[Row], sizings: &[SizingFacts]) -> PoolFacts {
    let database = text(row, "database");
    let entry = databases.iter().find(|row| text(row, "name") == database);
    let stats = stats.iter().find(|row| text(row, "database") == database);
    let waiting = number(row, "cl_waiting").unwrap_or(0);
    PoolFacts {
        user: text(row, "user"),
        mode: text(row, "pool_mode"),
        clients_active: number(row, "cl_active").unwrap_or(0),
        clients_waiting: waiting,
        looks_waiting: u32::from(waiting > 0),
        looks: 1,
        servers_active: number(row, "sv_active").unwrap_or(0),
        servers_idle: number(row, "sv_idle").unwrap_or(0) + number(row, "sv_used").unwrap_or(0),
        wait_longest_us: number(row, "maxwait").unwrap_or(0) * 1_000_000 + number(row, "maxwait_us").unwrap_or(0),
        host: entry
            .map(|row| text(row, "host"))
            .filter(|host| !host.is_empty() && !host.starts_with(['/', '@'])),
        size: entry.and_then(|row| number(row, "pool_size")),
        finds_size: entry.is_some_and(|row| sizings.iter().any(|sizing| sizing.is_of(row))),
        wait_mean_us: stats.and_then(|row| number(row, "avg_wait_time")),
        transaction_mean_us: stats.and_then(|row| number(row, "avg_xact_time")),
        database,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pools_of_a_host_are_known_by_its_endpoint() {
        let leads_there = |hosts: &str, host: &str, port: &str| {
            let entry = [("host", host), ("port", port)].map(|(name, value)| (name.to_owned(), value.to_owned()));
            let sizing = SizingFacts {
                hosts: hosts.to_owned(),
                ..SizingFacts::default()
            };
            sizing.is_of(&Row::from(entry))
        };
        assert!(leads_there("db:5432", "db", "5432"));
        assert!(leads_there("db:5432,other:5432", "db,other", "5432"));
        assert!(!leads_there("db:5432,other:5432", "db", "5432"), "another list");
        assert!(leads_there("[::1]:5432", "::1", "5432"));
        assert!(leads_there("unix:5433", "/run/postgresql", "5433") && leads_there("unix:5433", "", "5433"));
        assert!(!leads_there("db:5432", "db", "5433") && !leads_there("db:5432", "b", "5432"));
    }

    #[test]
    fn a_queue_seen_once_is_remembered() {
        let look = |waiting| PoolerFacts {
            pools: vec![PoolFacts {
                clients_waiting: waiting,
                wait_longest_us: 10 * waiting,
                looks_waiting: u32::from(waiting > 0),
                looks: 1,
                ..PoolFacts::default()
            }],
            ..PoolerFacts::default()
        };
        let mut first = look(80);
        first.servers_most = 20;
        let all = first.with_later(look(3)).with_later(look(0));
        assert_eq!(all.servers_most, 20);
        let pool = &all.pools[0];
        assert_eq!((pool.clients_waiting, pool.wait_longest_us), (80, 800));
        assert_eq!((pool.looks_waiting, pool.looks), (2, 3));
    }

    #[test]
    fn maxwait_is_seconds_and_microseconds() {
        let row = |pairs: &[(&str, &str)]| {
            pairs
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                .collect::<Row>()
        };
        let pools = row(&[
            ("database", "d"),
            ("maxwait", "2"),
            ("maxwait_us", "125884"),
            ("sv_idle", "1"),
            ("sv_used", "2"),
        ]);
        let databases = [row(&[("name", "d"), ("pool_size", "20")])];
        let stats = [row(&[("database", "d"), ("avg_wait_time", "7")])];
        let pool = pool(&pools, &databases, &stats, &[]);
        assert_eq!(
            (pool.wait_longest_us, pool.servers_idle, pool.size),
            (2_125_884, 3, Some(20))
        );
        assert_eq!((pool.wait_mean_us, pool.transaction_mean_us), (Some(7), None));
    }
}
