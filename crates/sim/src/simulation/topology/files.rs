//! The configuration of the pooler in a topology.

use super::super::hosts::address_of;
use super::{Mode, Topology};

/// What queues may go by.
pub(super) const FAIR_BY: [&str; 4] = ["client", "application", "user", "off"];

impl Topology {
    /// The configuration file after so many changes. Each one gives all databases other servers: the port and the
    /// connect_query take turns. The sizes of pools, and what the queues go by, change, too.
    pub fn ini(&self, changes: u64) -> String {
        let (port, query_number) = (5432 + changes.div_ceil(2), changes / 2);
        let mut text = String::from("[databases]\n");
        for n in 0..self.databases {
            let hosts: Vec<String> = (0..self.hosts).map(address_of).collect();
            text.push_str(&format!("db{n} = host={} port={port}", hosts.join(",")));
            if self.one_database {
                text.push_str(" dbname=db0");
            }
            if self.hosts > 1 {
                text.push_str(&format!(" load_balance_hosts={}", self.load_balance_hosts));
            }
            if self.hosts_differ {
                text.push_str(" target_session_attrs=read-write");
            }
            let statements = self.connect_settings.iter().map(|s| self.connect_statement(s));
            let number = (query_number > 0).then(|| format!("select {query_number}"));
            let query: Vec<String> = statements.chain(number).collect();
            if !query.is_empty() {
                text.push_str(&format!(" connect_query='{}'", query.join("; ").replace('\'', "''")));
            }
            text.push('\n');
        }
        let weight = if changes.is_multiple_of(2) { self.weight } else { 2 };
        text.push_str(&format!("[users]\nuser0 = weight={weight}\n"));
        text.push_str("[pgbouncer]\n");
        for (name, value) in self.settings(changes) {
            text.push_str(&format!("{name} = {value}\n"));
        }
        text
    }

    /// default_pool_size: at first the most that there is.
    fn pool_size_after(&self, changes: u64) -> u64 {
        1 + (self.pool_size - 1 + changes) % self.pool_size
    }

    fn fair_by_after(&self, changes: u64) -> &'static str {
        let first = FAIR_BY.iter().position(|by| *by == self.fair_by).unwrap_or_default();
        FAIR_BY[(first + changes as usize) % FAIR_BY.len()]
    }

    /// The pooler's settings.
    fn settings(&self, changes: u64) -> Vec<(&'static str, String)> {
        let pool_size = self.pool_size_after(changes);
        let seconds = |ms: u64| format!("{}.{:03}", ms / 1000, ms % 1000);
        let mode = match self.mode {
            Mode::Session => "session",
            Mode::Transaction => "transaction",
            Mode::Statement => "statement",
        };
        vec![
            ("listen_addr", "127.0.0.1".to_string()),
            ("auth_type", "trust".into()),
            ("auth_file", "users".into()),
            ("stats_users", "watcher".into()),
            ("pool_mode", mode.into()),
            (
                "session_state",
                if self.keeps_sessions { "full" } else { "pgbouncer" }.into(),
            ),
            ("session_state_probe", self.probe.into()),
            ("link", self.link.into()),
            ("pipeline_depth", self.pipeline_depth.into()),
            ("fair_by", self.fair_by_after(changes).into()),
            ("queue_target", seconds(self.queue_target_ms)),
            ("pin_idle_timeout", seconds(self.pin_idle_timeout_ms)),
            (
                "default_pool_size",
                self.pool_size_max.map_or(pool_size.to_string(), |_| "auto".into()),
            ),
            ("pool_size_max", self.pool_size_max.unwrap_or(0).to_string()),
            ("min_pool_size", self.min_pool_size.min(pool_size).to_string()),
            ("reserve_pool_size", self.reserve_pool_size.to_string()),
            ("reserve_pool_timeout", seconds(self.reserve_pool_timeout_ms)),
            ("max_db_connections", self.max_db_connections.to_string()),
            ("max_user_connections", self.max_user_connections.to_string()),
            ("max_client_conn", self.max_client_conn.to_string()),
            ("max_prepared_statements", self.max_prepared_statements.to_string()),
            ("deferred_begin", seconds(self.deferred_begin_ms)),
            ("query_wait_timeout", seconds(self.query_wait_timeout_ms)),
            ("query_wait_notify", "1".into()),
            ("server_lifetime", self.server_lifetime_s.to_string()),
            ("server_idle_timeout", self.server_idle_timeout_s.to_string()),
            ("server_check_delay", seconds(self.server_check_delay_ms)),
            ("server_check_query", "select 1".into()),
            ("server_round_robin", u64::from(self.round_robin).to_string()),
            ("server_reset_query_always", u64::from(self.reset_always).to_string()),
            ("server_login_retry", "1".into()),
            ("server_connect_timeout", "5".into()),
            ("query_timeout", self.client_limits_s.to_string()),
            ("server_tls_sslmode", "disable".to_string()),
            ("client_idle_timeout", self.client_limits_s.to_string()),
            ("idle_transaction_timeout", self.client_limits_s.to_string()),
        ]
    }

    /// The statement of connect_query that sets a setting.
    pub fn connect_statement(&self, (name, value): &(&str, &str)) -> String {
        match self.connects_by_function {
            true => format!("select set_config('{name}', '{value}', false)"),
            false => format!("set {name} = '{value}'"),
        }
    }

    /// The file of users.
    pub fn users_file(&self) -> String {
        let names = (0..self.users).map(|n| format!("user{n}"));
        let all = names.chain([String::from("watcher")]);
        all.map(|name| format!("\"{name}\" \"\"\n")).collect()
    }
}
