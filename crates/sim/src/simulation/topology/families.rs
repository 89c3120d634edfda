//! Topologies in which all clients do what shows one family of faults.

use super::{Hostility, Mode, Topology};
use crate::random::Random;

impl Topology {
    /// Whether clients keep their sessions on servers that they share.
    pub(super) fn shares_sessions(&self) -> bool {
        self.mode == Mode::Transaction && self.keeps_sessions && self.reader_percent == 0
    }

    /// Whether clients do what shows another family of faults, or are hostile.
    fn is_of_others(&self) -> bool {
        self.leave_behind
            || self.plans_beside_tables
            || self.refuses_texts
            || self.reserved_names
            || self.hostile_percent > 0
    }

    /// Clients that take turns on servers must not notice what others leave behind that no view shows.
    pub(super) fn choose_left_behind(&mut self, mut r: Random) {
        if self.shares_sessions() && self.hostile_percent == 0 && r.percent(6) {
            self.leave_behind = true;
            self.take_turns();
        }
    }

    /// Plans of functions must find the temporary tables of each client. Nothing but these tables makes the pooler discard
    /// plans.
    pub(super) fn choose_plans_beside_tables(&mut self, mut r: Random) {
        if self.shares_sessions() && !self.is_of_others() && r.percent(4) {
            self.plans_beside_tables = true;
            self.startup_settings = false;
            self.role_defaults.clear();
            self.connect_settings.clear();
            self.take_turns();
        }
    }

    /// Texts that servers refuse must not pin. Nothing may keep it unknown whether a text has run: no cancels, time
    /// limits and failed probes.
    pub(super) fn choose_refused_texts(&mut self, mut r: Random) {
        if !self.shares_sessions() || self.is_of_others() || r.percent(95) {
            return;
        }
        self.refuses_texts = true;
        (self.cancel_percent, self.refusal_percent, self.lock_percent) = (0, 0, 0);
        self.role_defaults.clear();
        self.take_turns();
    }

    /// Clients prepare statements whose parameters have the types of columns, and change these types. They must go on
    /// with other servers.
    pub(super) fn choose_changed_types(&mut self, mut r: Random) {
        if !self.shares_sessions() || self.is_of_others() || r.percent(93) {
            return;
        }
        self.changes_types = true;
        self.take_turns();
        self.pool_size = self.pool_size.max(2);
        if r.percent(70) {
            self.link = "adversarial";
        }
    }

    /// Some of the clients that take turns on servers limit the time for which their sessions are idle.
    pub(super) fn choose_idle_limits(&mut self, mut r: Random) {
        if self.shares_sessions() && !self.is_of_others() && r.percent(12) {
            self.idle_limits = true;
            self.take_turns();
            // Servers must be idle for longer than the limit.
            self.pool_size = self.pool_size.max(3);
        }
    }

    /// Clients that share servers name statements that the pooler does not track.
    pub(super) fn choose_untracked(&mut self, mut r: Random) {
        let is_of_others = self.is_of_others() || self.changes_types || self.beyond_ascii;
        if self.shares_sessions() && !is_of_others && r.percent(10) {
            self.max_prepared_statements = 0;
        }
    }

    /// Clients cancel and end others by the process ids that these were told, and try it with those of other users.
    pub(super) fn choose_signals(&mut self, mut r: Random) {
        let is_of_others = self.is_of_others() || self.changes_types || self.idle_limits;
        if self.mode != Mode::Statement && !is_of_others && r.percent(12) {
            self.signals = true;
            self.users = self.users.max(2);
        }
    }

    /// Visitors come, so many that there may be no place for a client.
    pub(super) fn choose_visitors(&mut self, mut r: Random) {
        let is_of_others = self.is_of_others() || self.changes_types || self.idle_limits || self.signals;
        if !self.crowds() && !is_of_others && r.percent(8) {
            self.visitors = true;
            self.max_client_conn = self.max_client_conn.min(self.clients);
        }
    }

    /// What transactions have done is undone when they commit.
    pub(super) fn choose_failing_commits(&mut self, mut r: Random) {
        self.commits_fail = !self.crowds() && r.percent(20);
    }

    /// Clients have prepared statements whose tables are gone, that only another role may prepare, or that run code.
    pub(super) fn choose_odd_names(&mut self, mut r: Random) {
        let is_of_others = self.is_of_others() || self.changes_types || self.idle_limits || self.beyond_ascii;
        if self.shares_sessions() && !is_of_others && self.max_prepared_statements > 0 && r.percent(12) {
            self.odd_names = true;
            self.take_turns();
        }
    }

    /// Clients whose code only the catalog shows, and who may share servers by flights.
    pub(super) fn choose_views(&mut self, mut r: Random) {
        if self.hostility != Hostility::Code || !r.percent(40) {
            return;
        }
        self.calls_by_view = true;
        self.code_sets_at_first = r.percent(60);
        self.pipeline_depth = r.pick::<&str>(&["auto", "2", "8", "64"]);
        self.pool_size = r.between(1, 2);
        (self.link, self.probe) = ("adversarial", "suspected");
        self.reset_always = false;
        self.max_prepared_statements = self.max_prepared_statements.max(5);
        if self.replaces_code_under_flights() {
            self.replace_code_under_flights(r);
        }
    }

    /// Whether flights may run code that is replaced: only calls of harmless code share servers.
    pub fn replaces_code_under_flights(&self) -> bool {
        self.calls_by_view && !self.code_sets_at_first
    }

    /// Code is replaced through one server while calls of it are on their way to another, where other clients' flights
    /// stand behind them. All clients look alike.
    fn replace_code_under_flights(&mut self, mut r: Random) {
        (self.users, self.pool_size, self.reader_percent) = (1, 2, 100);
        self.clients = 12;
        self.flights = self.flights.max(12);
        self.hostile_percent = r.between(20, 60);
        self.startup_settings = false;
        // A definition overtakes calls that were sent before it.
        (self.latency_us_max, self.slow_percent, self.slow_us_max) = (20_000, 30, 100_000);
    }

    /// Where clients replace code, two entries may lead to one database.
    pub(super) fn choose_entries(&mut self, mut r: Random) {
        let may_have_two = self.pool_size_max.is_none() && self.replica_lag == 0;
        if self.hostility == Hostility::Code && may_have_two && r.percent(25) {
            self.databases = 2;
            self.one_database = true;
            // Servers have the defaults of the database to which the entry leads.
            self.role_defaults.retain(|default| default.database.is_none());
        }
    }

    /// Whether the session with this number sets idle_session_timeout.
    pub fn limits_idle_time(&self, session_number: u64) -> bool {
        self.idle_limits && session_number.is_multiple_of(3)
    }
}
