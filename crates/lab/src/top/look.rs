//! One look at a console: what its tables say at one moment.

use crate::Result;
use crate::console::{DATABASE, Row, number, show, text};
use postgres::Client;
use std::time::Duration;

/// With more clients than this SHOW CLIENTS is not asked for: the pooler would be busy with the answer each second.
pub(super) const CLIENTS_MAX: u64 = 2000;

/// What a console said.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Look {
    /// When, since the first look.
    pub(super) at: Duration,
    /// The same as a time of day.
    pub(super) clock: String,
    /// What SHOW STATE says other than `active`: `paused`, `suspended`.
    pub(super) stopped: Vec<String>,
    /// SHOW STATS.
    pub(super) totals: Vec<(String, Totals)>,
    /// SHOW POOLS.
    pub(super) pools: Vec<Pool>,
    /// SHOW SIZING; empty with PgBouncer, and where no pool has the size `auto`.
    pub(super) sizings: Vec<Row>,
    /// SHOW CLIENTS, where it was asked for.
    pub(super) clients: Clients,
}

/// The clients, where they are shown.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) enum Clients {
    /// Nobody wants to see them.
    #[default]
    NotAsked,
    /// More than [`CLIENTS_MAX`].
    TooMany(u64),
    /// Rows of SHOW CLIENTS.
    Rows(Vec<Row>),
}

/// What a database has done since the pooler was started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) transactions: u64,
    pub(super) queries: u64,
    pub(super) transaction_us: u64,
    pub(super) query_us: u64,
    pub(super) wait_us: u64,
    /// Servers given to clients; an older PgBouncer does not count them.
    pub(super) assignments: Option<u64>,
    pub(super) received_bytes: u64,
    pub(super) sent_bytes: u64,
}

/// One pool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Pool {
    pub(super) database: String,
    pub(super) user: String,
    pub(super) mode: String,
    /// Clients that have a server. The console counts them together with idle ones; each has a server of its own, but
    /// with `pipeline_depth` above 1, where several may share one.
    pub(super) clients_active: u64,
    /// Clients without a request.
    pub(super) clients_idle: u64,
    pub(super) waiting: u64,
    pub(super) servers_active: u64,
    pub(super) servers_idle: u64,
    /// Servers that are connecting, logging in or being cleaned up.
    pub(super) servers_other: u64,
    /// How long the first client in the queue has waited.
    pub(super) wait_longest_us: u64,
}

impl Pool {
    /// All its clients.
    pub(super) fn clients(&self) -> u64 {
        self.clients_active
            .saturating_add(self.clients_idle)
            .saturating_add(self.waiting)
    }

    /// Counts the other one, too.
    pub(super) fn add(&mut self, other: &Pool) {
        for (count, more) in [
            (&mut self.clients_active, other.clients_active),
            (&mut self.clients_idle, other.clients_idle),
            (&mut self.waiting, other.waiting),
            (&mut self.servers_active, other.servers_active),
            (&mut self.servers_idle, other.servers_idle),
            (&mut self.servers_other, other.servers_other),
        ] {
            *count = count.saturating_add(more);
        }
        self.wait_longest_us = self.wait_longest_us.max(other.wait_longest_us);
    }
}

/// A console, and what it is known to answer.
pub(super) struct Console {
    client: Client,
    /// SHOW VERSION.
    pub(super) version: String,
    has_state: bool,
    has_sizing: bool,
}

impl Console {
    /// Asks for the version, which every console tells and no other server.
    pub(super) fn new(mut client: Client) -> Result<Self> {
        let rows = show(&mut client, "VERSION").map_err(|e| {
            e.hint("only the console of a pgweir or PgBouncer, its database \"pgbouncer\", can be watched")
        })?;
        Ok(Console {
            client,
            version: rows
                .first()
                .and_then(|row| row.values().next().cloned())
                .unwrap_or_default(),
            has_state: true,
            has_sizing: true,
        })
    }

    /// Asks for everything that is shown.
    pub(super) fn look(&mut self, at: Duration, with_clients: bool) -> Result<Look> {
        let stats = show(&mut self.client, "STATS")?;
        let pools = show(&mut self.client, "POOLS")?;
        let state = optional(&mut self.client, "STATE", &mut self.has_state)?;
        let sizings = optional(&mut self.client, "SIZING", &mut self.has_sizing)?;
        let pools: Vec<Pool> = pools.iter().map(pool).filter(|p| p.database != DATABASE).collect();
        let count = pools.iter().map(Pool::clients).fold(0, u64::saturating_add);
        let clients = match with_clients {
            false => Clients::NotAsked,
            true if count > CLIENTS_MAX => Clients::TooMany(count),
            true => Clients::Rows(show(&mut self.client, "CLIENTS")?),
        };
        Ok(Look {
            at,
            clock: jiff::Zoned::now().strftime("%Y-%m-%d %H:%M:%S").to_string(),
            stopped: stopped(&state),
            totals: stats
                .iter()
                .map(|row| (text(row, "database"), totals(row)))
                .filter(|(database, _)| database != DATABASE)
                .collect(),
            pools,
            sizings,
            clients,
        })
    }
}

/// What the console may not know: then it is not asked again.
fn optional(client: &mut Client, what: &str, is_known: &mut bool) -> Result<Vec<Row>> {
    if !*is_known {
        return Ok(Vec::new());
    }
    match show(client, what) {
        Err(e) if client.is_closed() => Err(e),
        Err(_) => {
            *is_known = false;
            Ok(Vec::new())
        }
        rows => rows,
    }
}

fn stopped(state: &[Row]) -> Vec<String> {
    state
        .iter()
        .filter(|row| text(row, "value") == "yes" && text(row, "key") != "active")
        .map(|row| text(row, "key"))
        .collect()
}

fn totals(row: &Row) -> Totals {
    let total = |name: &str| number(row, &format!("total_{name}"));
    Totals {
        transactions: total("xact_count").unwrap_or(0),
        queries: total("query_count").unwrap_or(0),
        transaction_us: total("xact_time").unwrap_or(0),
        query_us: total("query_time").unwrap_or(0),
        wait_us: total("wait_time").unwrap_or(0),
        assignments: total("server_assignment_count"),
        received_bytes: total("received").unwrap_or(0),
        sent_bytes: total("sent").unwrap_or(0),
    }
}

fn pool(row: &Row) -> Pool {
    let count = |name: &str| number(row, name).unwrap_or(0);
    let sum = |names: &[&str]| names.iter().map(|name| count(name)).fold(0, u64::saturating_add);
    let (clients, servers_active) = (count("cl_active"), count("sv_active"));
    let clients_active = clients.min(servers_active);
    Pool {
        database: text(row, "database"),
        user: text(row, "user"),
        mode: text(row, "pool_mode"),
        clients_active,
        clients_idle: clients - clients_active,
        waiting: count("cl_waiting"),
        servers_active,
        servers_idle: sum(&["sv_idle", "sv_used"]),
        servers_other: sum(&["sv_tested", "sv_login", "sv_being_canceled"]),
        wait_longest_us: count("maxwait")
            .saturating_mul(1_000_000)
            .saturating_add(count("maxwait_us")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(pairs: &[(&str, &str)]) -> Row {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn a_pool_of_any_version() {
        let pool = pool(&row(&[
            ("database", "shop"),
            ("cl_active", "12"),
            ("sv_active", "5"),
            ("sv_idle", "1"),
            ("sv_used", "2"),
            ("sv_login", "1"),
            ("maxwait", "2"),
            ("maxwait_us", "125884"),
        ]));
        assert_eq!((pool.servers_idle, pool.servers_other), (3, 1));
        assert_eq!(pool.wait_longest_us, 2_125_884);
        assert_eq!((pool.clients_active, pool.clients_idle), (5, 7));
    }

    #[test]
    fn servers_without_clients_of_their_own() {
        let pool = pool(&row(&[("cl_active", "1"), ("sv_active", "5")]));
        assert_eq!((pool.clients_active, pool.clients_idle), (1, 0));
    }

    #[test]
    fn totals_of_an_older_version_count_no_assignments() {
        let totals = totals(&row(&[("total_xact_count", "7"), ("total_wait_time", "9")]));
        assert_eq!((totals.transactions, totals.wait_us, totals.assignments), (7, 9, None));
    }

    #[test]
    fn what_is_stopped() {
        let state = |paused| {
            [
                row(&[("key", "active"), ("value", "yes")]),
                row(&[("key", "paused"), ("value", paused)]),
            ]
        };
        assert_eq!(stopped(&state("no")), Vec::<String>::new());
        assert_eq!(stopped(&state("yes")), ["paused"]);
    }
}
