//! What is shown: the figures of one look, and the rates since the one before.

use super::look::{Clients, Look, Pool, Totals};
use crate::console::{Row, number, text};
use clap::ValueEnum;
use std::cmp::Reverse;
use std::time::Duration;

/// What happened in each second between two looks.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Rates {
    pub(super) transactions: f64,
    pub(super) queries: f64,
    pub(super) received_bytes: f64,
    pub(super) sent_bytes: f64,
    /// Servers that worked on queries, on average.
    pub(super) working: f64,
    /// Means, microseconds; None where nothing happened.
    pub(super) transaction_us: Option<f64>,
    pub(super) query_us: Option<f64>,
    pub(super) wait_us: Option<f64>,
}

impl Rates {
    /// None if a count is less than before: the pooler was started anew.
    fn between(before: &Totals, now: &Totals, time: Duration) -> Option<Self> {
        let seconds = time.as_secs_f64();
        if seconds <= 0.0 {
            return None;
        }
        let grown = |of: fn(&Totals) -> u64| of(now).checked_sub(of(before)).map(|n| n as f64);
        let (transactions, queries) = (grown(|t| t.transactions)?, grown(|t| t.queries)?);
        let query_us = grown(|t| t.query_us)?;
        let waits = match (before.assignments, now.assignments) {
            (Some(before), Some(now)) => now.checked_sub(before)? as f64,
            _ => transactions,
        };
        let mean = |us: f64, count: f64| (count > 0.0).then(|| us / count);
        Some(Rates {
            transactions: transactions / seconds,
            queries: queries / seconds,
            received_bytes: grown(|t| t.received_bytes)? / seconds,
            sent_bytes: grown(|t| t.sent_bytes)? / seconds,
            working: query_us / 1e6 / seconds,
            transaction_us: mean(grown(|t| t.transaction_us)?, transactions),
            query_us: mean(query_us, queries),
            wait_us: mean(grown(|t| t.wait_us)?, waits),
        })
    }
}

/// A database with its pools. The console counts queries for each database, and not for each pool.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Database {
    pub(super) name: String,
    pub(super) rates: Option<Rates>,
    pub(super) pools: Vec<Pool>,
}

impl Database {
    /// All its pools as one.
    pub(super) fn together(&self) -> Pool {
        sum(&self.pools)
    }
}

/// What comes first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Order {
    /// Waiting clients, then the longest wait
    #[default]
    Waiting,
    /// Transactions per second
    Tps,
    /// Mean time of a query
    Query,
    /// Server connections
    Servers,
    /// Client connections
    Clients,
    /// Names of database and user
    Name,
}

impl Order {
    /// The next one.
    pub(super) fn next(self) -> Self {
        match self {
            Order::Waiting => Order::Tps,
            Order::Tps => Order::Query,
            Order::Query => Order::Servers,
            Order::Servers => Order::Clients,
            Order::Clients => Order::Name,
            Order::Name => Order::Waiting,
        }
    }

    /// `waiting`
    pub(super) fn word(self) -> &'static str {
        match self {
            Order::Waiting => "waiting",
            Order::Tps => "tps",
            Order::Query => "query",
            Order::Servers => "servers",
            Order::Clients => "clients",
            Order::Name => "name",
        }
    }

    /// What is compared, the larger first.
    fn key(self, pool: &Pool, rates: Option<&Rates>) -> (u64, u64) {
        let rate = |of: fn(&Rates) -> f64| rates.map_or(0, |rates| (of(rates) * 1000.0) as u64);
        match self {
            Order::Waiting => (pool.waiting, pool.wait_longest_us),
            Order::Tps => (rate(|r| r.transactions), 0),
            Order::Query => (rate(|r| r.query_us.unwrap_or(0.0)), 0),
            Order::Servers => (pool.servers_active, pool.servers_idle),
            Order::Clients => (pool.clients(), 0),
            Order::Name => (0, 0),
        }
    }
}

/// All that one page shows.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct View {
    pub(super) clock: String,
    pub(super) stopped: Vec<String>,
    /// Of all databases together; None before the second look.
    pub(super) rates: Option<Rates>,
    /// All pools as one.
    pub(super) together: Pool,
    pub(super) databases: Vec<Database>,
    pub(super) sizings: Vec<Row>,
    pub(super) clients: Clients,
}

impl View {
    /// The present look, and the one before it.
    pub(super) fn new(before: Option<&Look>, now: &Look, order: Order) -> Self {
        let mut databases: Vec<Database> = Vec::new();
        for pool in &now.pools {
            match databases.iter_mut().find(|database| database.name == pool.database) {
                Some(database) => database.pools.push(pool.clone()),
                None => databases.push(Database {
                    name: pool.database.clone(),
                    rates: rates_of(&pool.database, before, now),
                    pools: vec![pool.clone()],
                }),
            }
        }
        for database in &mut databases {
            database.pools.sort_by(|a, b| a.user.cmp(&b.user));
            database.pools.sort_by_key(|pool| Reverse(order.key(pool, None)));
        }
        databases.sort_by(|a, b| a.name.cmp(&b.name));
        databases.sort_by_key(|database| Reverse(order.key(&database.together(), database.rates.as_ref())));
        View {
            clock: now.clock.clone(),
            stopped: now.stopped.clone(),
            rates: rates_of_all(before, now),
            together: sum(&now.pools),
            databases,
            sizings: now.sizings.clone(),
            clients: in_order(&now.clients),
        }
    }
}

fn rates_of(database: &str, before: Option<&Look>, now: &Look) -> Option<Rates> {
    let totals = |look: &Look| look.totals.iter().find(|(name, _)| name == database).map(|(_, t)| *t);
    let (before, time) = (before?, now.at.checked_sub(before?.at)?);
    // A database that is new has done nothing before.
    Rates::between(&totals(before).unwrap_or_default(), &totals(now)?, time)
}

/// A database that has gone does not count, or the sum would be less than before.
fn rates_of_all(before: Option<&Look>, now: &Look) -> Option<Rates> {
    let before = before?;
    let (mut earlier, mut later) = (Totals::default(), Totals::default());
    for (name, totals) in &now.totals {
        add(&mut later, totals);
        if let Some((_, totals)) = before.totals.iter().find(|(other, _)| other == name) {
            add(&mut earlier, totals);
        }
    }
    // Where servers given are counted at all, they are for all databases.
    if later.assignments.is_some() {
        earlier.assignments = Some(earlier.assignments.unwrap_or(0));
    }
    Rates::between(&earlier, &later, now.at.checked_sub(before.at)?)
}

fn add(sum: &mut Totals, one: &Totals) {
    for (count, more) in [
        (&mut sum.transactions, one.transactions),
        (&mut sum.queries, one.queries),
        (&mut sum.transaction_us, one.transaction_us),
        (&mut sum.query_us, one.query_us),
        (&mut sum.wait_us, one.wait_us),
        (&mut sum.received_bytes, one.received_bytes),
        (&mut sum.sent_bytes, one.sent_bytes),
    ] {
        *count = count.saturating_add(more);
    }
    if let Some(assignments) = one.assignments {
        sum.assignments = Some(sum.assignments.unwrap_or(0).saturating_add(assignments));
    }
}

fn sum(pools: &[Pool]) -> Pool {
    let mut sum = Pool::default();
    pools.iter().for_each(|pool| sum.add(pool));
    sum
}

/// Who waits longest comes first, then whose request is the oldest, then idle clients.
fn in_order(clients: &Clients) -> Clients {
    let Clients::Rows(rows) = clients else {
        return clients.clone();
    };
    let mut rows: Vec<Row> = rows
        .iter()
        .filter(|row| text(row, "database") != crate::console::DATABASE)
        .cloned()
        .collect();
    let rank = |row: &Row| match &*text(row, "state") {
        "waiting" => 0,
        "active" => 1,
        _ => 2,
    };
    rows.sort_by_cached_key(|row| (rank(row), Reverse(waited_us(row)), text(row, "request_time")));
    Clients::Rows(rows)
}

/// How long a client has waited, microseconds; 0 if it does not wait.
pub(super) fn waited_us(client: &Row) -> u64 {
    if text(client, "state") != "waiting" {
        return 0;
    }
    let count = |name: &str| number(client, name).unwrap_or(0);
    count("wait").saturating_mul(1_000_000).saturating_add(count("wait_us"))
}

#[cfg(test)]
#[path = "view_tests.rs"]
mod tests;
