//! The statements that clients send in every mode.

use super::Author;
use crate::simulation::topology::Mode;

/// Settings that follow a client in every mode.
pub(super) const SETTINGS: [(&str, &[&str]); 4] = [
    ("application_name", &["a", "b c", "weir"]),
    ("TimeZone", &["UTC", "Asia/Tokyo", "Europe/Paris", "Nowhere/Land"]),
    ("datestyle", &["ISO, DMY", "ISO, MDY", "SQL, YMD"]),
    ("IntervalStyle", &["iso_8601", "postgres"]),
];

/// The place of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// It is a whole Query.
    Query,
    /// It is one of several in a Query.
    List,
    /// It is executed from a portal.
    Execute,
}

impl Author {
    /// A statement for any place. Without session state, poolers know a DEALLOCATE of one name only if it is a whole
    /// Query.
    fn statement(&mut self) -> String {
        if self.has_session && !self.plain && self.random.percent(35) {
            return self.session_statement();
        }
        loop {
            let text = self.statement_alone();
            if self.keeps_sessions || !["deallocate a", "deallocate b"].contains(&text.as_str()) {
                return text;
            }
        }
    }

    /// A statement without rows to copy in.
    pub(super) fn statement_alone(&mut self) -> String {
        loop {
            let text = self.any_statement_alone();
            if !self.avoids_code || !is_code(&text) {
                return text;
            }
        }
    }

    fn any_statement_alone(&mut self) -> String {
        let (key, value) = (self.key(), self.value());
        if self.commits_fail && self.random.percent(15) {
            return format!("insert into later values (0 - {})", key + 1);
        }
        match self.random.below(32) {
            0..=4 => format!("select '{value}'"),
            5 => format!("select '{value}', 10/(3-g) from generate_series(1,5) g"),
            6 => "select 1/0".into(),
            7 => format!("selec '{value}'"),
            8..=10 => format!("insert into kv values ({key}, '{value}')"),
            11..=12 => format!("update kv set v = '{value}' where k = {key}"),
            13 => format!("delete from kv where k = {key}"),
            14..=16 => format!("select k, v from kv where k = {key}"),
            17 => {
                let (length, rows) = (self.random.between(1, 200), self.random.between(1, self.large_rows_max));
                format!("select '{value}', repeat('x', {length}) from generate_series(1, {rows}) g")
            }
            18..=20 => {
                let (name, values) = *self.random.pick(&SETTINGS);
                let value = self.pick(values);
                match self.random.below(3) {
                    0 => format!("set {name} = '{value}'"),
                    1 => format!("set local {name} = '{value}'"),
                    _ => format!("select set_config('{name}', '{value}', {})", self.random.percent(50)),
                }
            }
            21..=22 => format!("show {}", self.random.pick(&SETTINGS).0),
            23 if self.resets_settings => self.pick(&["reset all", "reset timezone", "discard all"]),
            24 => "deallocate all".into(),
            25 => self.pick(&["deallocate a", "deallocate b"]),
            26 => format!("do $$begin raise notice '{value}'; end$$"),
            27 => self.pick(&["", ";", "-- nothing"]),
            28 => format!("copy (select '{value}', g from generate_series(1,5) g) to stdout"),
            29 if self.mode == Mode::Session => {
                let kb = self.random.between(64, 9999);
                self.pick(&[&format!("set work_mem = '{kb}kB'"), "show work_mem"])
            }
            30 => self.transaction_control(),
            _ => format!("select '{value}'::text, current_setting('TimeZone')"),
        }
    }

    /// A statement for this place.
    pub(super) fn statement_for(&mut self, place: Place) -> String {
        loop {
            let text = self.statement();
            if self.may_stand(&text, place) {
                return text;
            }
        }
    }

    /// If clients have startup values that differ from the server's, the pooler sets them again after a reset, if it
    /// sees the reset in time (docs/differences.md).
    pub(super) fn may_stand(&self, text: &str, place: Place) -> bool {
        let resets = text.starts_with("reset") || text == "discard all" || text.ends_with("default");
        !self.startup_settings
            || !resets
            || self.keeps_sessions
                && match place {
                    Place::Query => true,
                    Place::List => false,
                    Place::Execute => self.mode != Mode::Session && text != "discard all",
                }
    }

    fn transaction_control(&mut self) -> String {
        if self.mode == Mode::Statement {
            return self.pick(&["commit", "rollback"]);
        }
        self.pick(&[
            "begin",
            "begin",
            "start transaction",
            "commit",
            "rollback",
            "end",
            "savepoint x",
            "rollback to x",
            "release x",
            "commit and chain",
        ])
    }
}

/// Whether a text runs or loads PL/pgSQL.
pub(super) fn is_code(text: &str) -> bool {
    text.contains("do $$") || text.starts_with("load")
}
