//! Counters, compared with a recount.

use super::{is_count, must};
use crate::pooler::Pooler;
use crate::pools::opening::SharedLimit;
use crate::pools::pool;
use crate::server::Server;
use crate::upstream::phase::ServerPhase;
use std::collections::HashMap;
use std::sync::Arc;

impl Pooler {
    /// Which servers count for the limits on servers at work.
    pub(super) fn check_sizings(&self) -> Result<(), String> {
        for (_, server) in self.servers.iter() {
            let shares = self.pool(server.pool).share().is_some();
            must(shares || server.work.is_none(), || "works without a limit".into())?;
            let may_work = server.link.is_some() || !server.is_idle();
            must(server.work.is_none() || may_work, || {
                "idle, and counts as working".into()
            })?;
        }
        for (id, sizing) in self.shared.sizings.iter() {
            let shares = |s: &Server| self.pool(s.pool).shares(id);
            let servers = self.servers.iter().filter(|(_, s)| shares(s));
            is_count("servers of a limit", sizing.servers(), servers.count())?;
            let up = self.servers.iter().filter(|(_, s)| s.is_up() && shares(s));
            is_count("servers of a limit that are up", sizing.servers_up(), up.count())?;
            let working = self.servers.iter().filter(|(_, s)| s.work.is_some() && shares(s));
            is_count("servers at work", sizing.working(), working.count())?;
            let long = self
                .servers
                .iter()
                .filter(|(_, s)| s.work.is_some_and(|w| w.is_long()) && shares(s));
            is_count("servers with long work", sizing.long(), long.count())?;
            let pools = || pool::live(&self.pools).filter(|(_, p)| p.shares(id));
            is_count("pools of a limit", sizing.pools().len() as u32, pools().count())?;
            let holders = pools().filter(|(_, p)| p.servers() > 0).map(|(id, _)| id);
            must(holders.eq(sizing.holders()), || {
                "other pools of a limit have servers than those that are known to".into()
            })?;
        }
        Ok(())
    }

    /// Which pools have servers, and which wait for a place under a limit that several share.
    pub(super) fn check_places(&self) -> Result<(), String> {
        must(
            self.shared.some_are_in_line == self.databases.some_are_in_line(),
            || "whether pools wait for places is noted wrongly".into(),
        )?;
        for (id, pool) in pool::live(&self.pools) {
            for limit in [SharedLimit::Database, SharedLimit::User] {
                let is_holder = self.databases.holders(limit, pool.key()).any(|holder| holder == id);
                must(is_holder == (pool.servers() > 0), || {
                    format!("pool {id} has {} servers, and is known to: {is_holder}", pool.servers())
                })?;
            }
            let phases = pool
                .members()
                .iter()
                .filter_map(|id| Some(&self.servers.get(id.0)?.phase));
            let closing = phases.filter(|phase| matches!(phase, ServerPhase::Closing)).count();
            is_count("servers that make room", pool.closing(), closing)?;
            must(self.databases.knows_place_of(id, pool), || {
                format!("pool {id} is not in the line in which it waits")
            })?;
        }
        Ok(())
    }

    /// Counts over several pools.
    pub(super) fn check_counts(&self) -> Result<(), String> {
        let counted = self.clients.iter().filter(|(_, c)| c.counted).count();
        is_count("clients", self.client_count, counted)?;
        let mut databases: HashMap<&Arc<str>, (usize, usize)> = HashMap::new();
        for (_, pool) in pool::live(&self.pools) {
            let (servers, clients) = databases.entry(&pool.key().database).or_default();
            *servers += pool.servers() as usize;
            *clients += pool.clients() as usize;
        }
        for (name, (servers, clients)) in databases {
            let counts = self.databases.of_database(name);
            is_count("servers of a database", counts.servers(), servers)?;
            is_count("clients of a database", counts.clients(), clients)?;
        }
        let mut users: HashMap<&str, (usize, usize)> = HashMap::new();
        for (_, pool) in pool::live(&self.pools) {
            users.entry(&*pool.key().user).or_default().0 += pool.servers() as usize;
        }
        for (_, client) in self.clients.iter().filter(|(_, c)| c.counted) {
            let of_pool = client.pool.map(|id| &*self.pool(id).key().user);
            let user = client.login_user.as_deref().or(of_pool);
            users.entry(user.ok_or("counted, and of no pool")?).or_default().1 += 1;
        }
        for (name, (servers, clients)) in users {
            let counts = self.databases.of_user(name);
            is_count("servers of a user", counts.servers(), servers)?;
            is_count("clients of a user", counts.clients(), clients)?;
        }
        Ok(())
    }
}
