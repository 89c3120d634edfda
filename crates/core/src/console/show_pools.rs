//! SHOW POOLS.

use crate::client::{ClientPhase, Waiting};
use crate::console::rows::{Rows, Value};
use crate::pool::{Pool, PoolId, PoolKind};
use crate::pooler::Pooler;
use crate::server::{Server, ServerPhase};
use crate::time::Time;
use pgweir_config::{CONSOLE_DATABASE, Config, LoadBalanceHosts};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What one row counts.
#[derive(Debug, Default)]
struct Counts {
    cl_active: u32,
    cl_waiting: u32,
    sv_active: u32,
    sv_active_cancel: u32,
    sv_being_canceled: u32,
    sv_idle: u32,
    sv_used: u32,
    sv_tested: u32,
    sv_login: u32,
    longest_wait_us: u64,
    mode: &'static str,
    load_balance_hosts: Option<&'static str>,
}

/// The mode PgBouncer shows for its console's own pool.
const CONSOLE_POOL_MODE: &str = "statement";

impl Pooler {
    /// One row for each database and user: pools for clients, auth_query and replication of the same two are one row,
    /// because exporters take both for a key.
    pub(super) fn show_pools(&self, now: Time, rows: &mut Rows<'_>) {
        let mut counts: BTreeMap<(Arc<str>, Arc<str>), Counts> = BTreeMap::new();
        for (_, pool) in self.live_pools() {
            let row = counts.entry(row_key(pool)).or_default();
            if row.mode.is_empty() || pool.key.kind == PoolKind::Clients {
                row.mode = pool.settings.mode.word();
            }
            row.load_balance_hosts = self.load_balance_hosts(&pool.key.database);
            let waited = pool.first_waiter().map_or(0, |(_, since)| now.us_since(since));
            row.longest_wait_us = row.longest_wait_us.max(waited);
        }
        for (_, server) in self.servers.iter() {
            let row = counts.entry(row_key(self.pool(server.pool))).or_default();
            *self.server_count(now, row, server) += 1;
            row.sv_active_cancel += server.cancels_in_flight;
        }
        for (_, client) in self.clients.iter() {
            let Some(pool) = client.pool.and_then(|id| self.existing_pool(id)) else {
                continue;
            };
            let row = counts.entry(row_key(pool)).or_default();
            match (&client.phase, client.waiting) {
                (_, Waiting::ForServer { .. }) => row.cl_waiting += 1,
                (ClientPhase::Session, _) => row.cl_active += 1,
                _ => {}
            }
        }
        let console = Counts {
            cl_active: self.console_clients() as u32,
            mode: CONSOLE_POOL_MODE,
            ..Counts::default()
        };
        counts.insert((CONSOLE_DATABASE.into(), CONSOLE_DATABASE.into()), console);
        for ((database, user), c) in &counts {
            rows.push(&[
                Value::from(&**database),
                Value::from(&**user),
                c.cl_active.into(),
                c.cl_waiting.into(),
                // A cancel request on its way is a client and a server connection.
                c.sv_active_cancel.into(),
                0u32.into(),
                c.sv_active.into(),
                c.sv_active_cancel.into(),
                c.sv_being_canceled.into(),
                c.sv_idle.into(),
                c.sv_used.into(),
                c.sv_tested.into(),
                c.sv_login.into(),
                (c.longest_wait_us / 1_000_000).into(),
                (c.longest_wait_us % 1_000_000).into(),
                c.mode.into(),
                c.load_balance_hosts.into(),
            ]);
        }
    }

    /// Rows of SHOW POOLS.
    pub(super) fn pool_rows(&self) -> usize {
        let keys: std::collections::BTreeSet<_> = self.live_pools().map(|(_, pool)| row_key(pool)).collect();
        keys.len() + 1
    }

    pub(super) fn console_clients(&self) -> usize {
        let on_console = |phase: &ClientPhase| matches!(phase, ClientPhase::Console(_));
        self.clients.iter().filter(|(_, c)| on_console(&c.phase)).count()
    }

    fn existing_pool(&self, id: PoolId) -> Option<&Pool> {
        self.pools.get(id as usize)?.as_ref()
    }

    fn server_count<'c>(&self, now: Time, counts: &'c mut Counts, server: &Server) -> &'c mut u32 {
        match server.phase {
            ServerPhase::Connecting | ServerPhase::Login(_) | ServerPhase::ConnectQuery => &mut counts.sv_login,
            ServerPhase::Idle if self.needs_check(now, server) => &mut counts.sv_used,
            ServerPhase::Idle => &mut counts.sv_idle,
            ServerPhase::Testing | ServerPhase::Resetting => &mut counts.sv_tested,
            ServerPhase::Linked | ServerPhase::Draining => &mut counts.sv_active,
            ServerPhase::CancelPending => &mut counts.sv_being_canceled,
        }
    }

    /// Whether an idle server is tested before it is handed out: PgBouncer calls it "used".
    pub(super) fn needs_check(&self, now: Time, server: &Server) -> bool {
        server.is_idle()
            && self.settings.server_check_query.is_some()
            && now - server.since > self.settings.server_check_delay
    }

    /// PgBouncer shows it for databases with several hosts only.
    pub(super) fn load_balance_hosts(&self, database: &str) -> Option<&'static str> {
        load_balance_word(&self.config, database)
    }
}

fn load_balance_word(config: &Config, database: &str) -> Option<&'static str> {
    let entry = config.database(database)?;
    let several = entry.hosts.len() > 1;
    several.then_some(match entry.load_balance_hosts {
        LoadBalanceHosts::RoundRobin => "round-robin",
        LoadBalanceHosts::Disable => "disable",
    })
}

fn row_key(pool: &Pool) -> (Arc<str>, Arc<str>) {
    (pool.key.database.clone(), pool.key.user.clone())
}
