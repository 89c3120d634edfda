//! SHOW POOLS.

use crate::base::pool_id::PoolKind;
use crate::client::ClientPhase;
use crate::console::rows::{Rows, Value};
use crate::operator::view::View;
use crate::pools::pool::Pool;
use crate::server::Server;
use crate::upstream::phase::ServerPhase;
use pgweir_config::{CONSOLE_DATABASE, Config, LoadBalanceHosts};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The counts of one row.
#[derive(Debug, Default)]
struct Counts {
    cl_active: u32,
    cl_waiting: u32,
    cl_active_cancel_req: u32,
    cl_waiting_cancel_req: u32,
    sv_active: u32,
    sv_active_cancel: u32,
    sv_being_canceled: u32,
    sv_idle: u32,
    sv_used: u32,
    sv_tested: u32,
    sv_login: u32,
    cl_pinned: u32,
    sv_pinned: u32,
    longest_wait_us: u64,
    mode: &'static str,
    load_balance_hosts: Option<&'static str>,
}

impl Counts {
    fn add(&mut self, other: &Counts) {
        self.cl_active += other.cl_active;
        self.cl_waiting += other.cl_waiting;
        self.cl_active_cancel_req += other.cl_active_cancel_req;
        self.cl_waiting_cancel_req += other.cl_waiting_cancel_req;
        self.sv_active += other.sv_active;
        self.sv_active_cancel += other.sv_active_cancel;
        self.sv_being_canceled += other.sv_being_canceled;
        self.sv_idle += other.sv_idle;
        self.sv_used += other.sv_used;
        self.sv_tested += other.sv_tested;
        self.sv_login += other.sv_login;
        self.cl_pinned += other.cl_pinned;
        self.sv_pinned += other.sv_pinned;
        self.longest_wait_us = self.longest_wait_us.max(other.longest_wait_us);
    }
}

/// The mode that PgBouncer shows for its console.
const CONSOLE_POOL_MODE: &str = "statement";

impl View<'_> {
    /// One row for each database and user. Pools for clients, auth_query and replication share a row, because
    /// exporters use database and user as the key.
    pub(super) fn show_pools(&self, rows: &mut Rows<'_>, extended: bool) {
        let mut counts: BTreeMap<(Arc<str>, Arc<str>), Counts> = BTreeMap::new();
        for ((_, pool), counted) in self.live_pools().zip(self.count_by_pool()) {
            // Listeners are in SHOW LISTENERS.
            if pool.key().kind == PoolKind::Listener {
                continue;
            }
            let row = counts.entry(row_key(pool)).or_default();
            row.add(&counted);
            if row.mode.is_empty() || pool.key().kind == PoolKind::Clients {
                row.mode = pool.settings().mode.word();
            }
            row.load_balance_hosts = load_balance_hosts(self.config, &pool.key().database);
            let waited = pool.first_waiter().map_or(0, |(_, since)| self.now.us_since(since));
            row.longest_wait_us = row.longest_wait_us.max(waited);
        }
        let console = Counts {
            cl_active: self.console_clients() as u32,
            mode: CONSOLE_POOL_MODE,
            ..Counts::default()
        };
        counts.insert((CONSOLE_DATABASE.into(), CONSOLE_DATABASE.into()), console);
        for ((database, user), c) in &counts {
            let mut values = vec![
                Value::from(&**database),
                Value::from(&**user),
                c.cl_active.into(),
                c.cl_waiting.into(),
                c.cl_active_cancel_req.into(),
                c.cl_waiting_cancel_req.into(),
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
            ];
            if extended {
                values.extend([c.cl_pinned.into(), c.sv_pinned.into()]);
            }
            rows.push(&values);
        }
    }

    /// The number of rows of SHOW POOLS.
    pub(super) fn pool_rows(&self) -> usize {
        let keys: std::collections::BTreeSet<_> = self.live_pools().map(|(_, pool)| row_key(pool)).collect();
        keys.len() + 1
    }

    pub(super) fn console_clients(&self) -> usize {
        let on_console = |phase: &ClientPhase| matches!(phase, ClientPhase::Console(_));
        self.clients.iter().filter(|(_, c)| on_console(&c.phase)).count()
    }

    /// Counts of each pool, in the order of [`View::live_pools`]. One pass over all connections, because there may
    /// be many.
    fn count_by_pool(&self) -> impl Iterator<Item = Counts> {
        let mut counts: Vec<Option<Counts>> = self
            .pools
            .iter()
            .map(|p| p.as_ref().map(|_| Counts::default()))
            .collect();
        for (_, server) in self.servers.iter() {
            if let Some(Some(pool)) = counts.get_mut(server.pool as usize) {
                *self.server_count(pool, server) += 1;
                pool.sv_active_cancel += server.cancels.on_their_way();
                let requests = match server.cancels.on_their_way() {
                    0 => &mut pool.cl_waiting_cancel_req,
                    _ => &mut pool.cl_active_cancel_req,
                };
                *requests += server.cancels.asking() as u32;
                let riders = server.flights.iter().flat_map(|flights| flights.riders());
                let waits = riders.map(|(_, since)| self.now.us_since(since));
                pool.longest_wait_us = waits.fold(pool.longest_wait_us, u64::max);
                let client = server.link.and_then(|c| self.clients.get(c.0));
                pool.sv_pinned += u32::from(client.is_some_and(|c| c.session.pinned().is_some()));
            }
        }
        for (_, client) in self.clients.iter() {
            let Some(Some(pool)) = client.pool.and_then(|id| counts.get_mut(id as usize)) else {
                continue;
            };
            pool.cl_pinned += u32::from(client.session.pinned().is_some());
            match client.phase {
                _ if client.waits_to_begin() => pool.cl_waiting += 1,
                ClientPhase::Session => pool.cl_active += 1,
                _ => {}
            }
        }
        counts.into_iter().flatten()
    }

    fn server_count<'c>(&self, counts: &'c mut Counts, server: &Server) -> &'c mut u32 {
        match server.phase {
            ServerPhase::Connecting | ServerPhase::Securing | ServerPhase::Login(_) | ServerPhase::ConnectQuery => {
                &mut counts.sv_login
            }
            ServerPhase::Idle if self.needs_check(server) => &mut counts.sv_used,
            ServerPhase::Idle => &mut counts.sv_idle,
            ServerPhase::Testing
            | ServerPhase::Resetting
            | ServerPhase::LiftingLimit
            | ServerPhase::Reading
            | ServerPhase::Closing => &mut counts.sv_tested,
            ServerPhase::Linked | ServerPhase::Draining | ServerPhase::Listening => &mut counts.sv_active,
            ServerPhase::CancelPending(_) => &mut counts.sv_being_canceled,
        }
    }

    /// Whether an idle server is checked before a client gets it. PgBouncer calls this state "used".
    pub(super) fn needs_check(&self, server: &Server) -> bool {
        server.is_idle()
            && self.settings.server_check_query.is_some()
            && self.now - server.since > self.settings.server_check_delay
    }
}

/// The column load_balance_hosts: like PgBouncer, only for databases with several hosts.
pub(super) fn load_balance_hosts(config: &Config, database: &str) -> Option<&'static str> {
    let entry = config.database(database)?;
    let several = entry.hosts.len() > 1;
    several.then_some(match entry.load_balance_hosts {
        LoadBalanceHosts::RoundRobin => "round-robin",
        LoadBalanceHosts::Disable => "disable",
    })
}

fn row_key(pool: &Pool) -> (Arc<str>, Arc<str>) {
    (pool.key().database.clone(), pool.key().user.clone())
}
