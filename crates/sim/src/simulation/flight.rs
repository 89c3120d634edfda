//! What clients send.

use super::topology::{Mode, Topology};
use crate::random::Random;
use crate::transcript::frontend_from_text;

/// One exchange: bytes to send, and what answers them.
#[derive(Debug, Default)]
pub struct Flight {
    /// Sent one after the other; the next only when all that the one before must bring has come.
    pub stages: Vec<Vec<u8>>,
    /// Lengths of the segments: each has exactly one ReadyForQuery, unless `certain`.
    pub segments: Vec<usize>,
    /// No cancel may be sent: the segments answer more or less than one ReadyForQuery each.
    pub certain: bool,
}

/// Makes the flights of one session.
#[derive(Debug)]
pub struct Author {
    random: Random,
    mode: Mode,
    tracked_statements: bool,
    resets_settings: bool,
    large_rows_max: u64,
    /// First of the keys this session uses.
    keys: u64,
    token: String,
    count: u64,
    lines: Vec<String>,
}

/// Keys of one session.
const KEYS: u64 = 10;

/// Settings that follow a client in every mode.
const SETTINGS: [(&str, &[&str]); 4] = [
    ("application_name", &["a", "b c", "weir"]),
    ("TimeZone", &["UTC", "Asia/Tokyo", "Europe/Paris", "Nowhere/Land"]),
    ("datestyle", &["ISO, DMY", "ISO, MDY", "SQL, YMD"]),
    ("IntervalStyle", &["iso_8601", "postgres"]),
];

impl Author {
    /// For session `session_number` of the whole run.
    pub fn new(random: Random, topology: &Topology, session_number: u64) -> Self {
        Author {
            random,
            mode: topology.mode,
            tracked_statements: topology.max_prepared_statements > 0,
            resets_settings: !topology.startup_settings,
            large_rows_max: topology.large_rows_max,
            keys: session_number * KEYS,
            token: format!("tok{session_number}x"),
            count: 0,
            lines: Vec::new(),
        }
    }

    /// The mark that every value of this session bears.
    pub fn token(&self) -> &str {
        &self.token
    }

    fn pick(&mut self, list: &[&str]) -> String {
        self.random.pick(list).to_string()
    }

    fn value(&mut self) -> String {
        self.count += 1;
        format!("{}{}", self.token, self.count)
    }

    fn key(&mut self) -> u64 {
        self.keys + self.random.below(KEYS)
    }

    fn push(&mut self, line: impl Into<String>) {
        self.lines.push(line.into());
    }

    /// A statement that may stand anywhere: DEALLOCATE of one name is known to poolers only as a Query of its own.
    fn statement(&mut self) -> String {
        loop {
            let text = self.statement_alone();
            if !["deallocate a", "deallocate b"].contains(&text.as_str()) {
                return text;
            }
        }
    }

    /// A statement without rows to copy in.
    fn statement_alone(&mut self) -> String {
        let (key, value) = (self.key(), self.value());
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

    fn query(&mut self) {
        let mut text = self.statement_alone();
        if self.random.percent(15) {
            text = self.statement();
            for _ in 0..self.random.between(1, 2) {
                text = format!("{text}; {}", self.statement());
            }
        }
        self.push(format!("Query \"{text}\""));
    }

    fn copy_in_lines(&mut self) {
        for _ in 0..self.random.below(4) {
            let (key, value) = (self.key(), self.value());
            let data = match self.random.below(8) {
                0 => format!("{value}\\n"),
                1 => format!("{key}\\t{value}\\n{}\\t", self.key()),
                _ => format!("{key}\\t{value}\\n"),
            };
            self.push(format!("CopyData \"{data}\""));
        }
        if self.random.percent(80) {
            self.push("CopyDone");
        } else {
            self.push("CopyFail \"enough\"");
        }
    }

    /// Text, types and the end of a Bind that fits.
    fn parameters(&mut self) -> (String, String, String) {
        let (key, value) = (self.key(), self.value());
        let (text, types, bind) = match self.random.below(8) {
            // Texts that all clients share, so that they meet in one table.
            0..=2 => ("select $1", "", format!("values \"{value}\"")),
            3 => ("select $1", " types 25", format!("values \"{value}\" results 1")),
            4 => ("select k, v from kv where k = $1", "", format!("values \"{key}\"")),
            5 => (
                "insert into kv values ($1, $2)",
                "",
                format!("values \"{key}\" \"{value}\""),
            ),
            6 => (
                "select $1, g from generate_series(1, $2) g",
                "",
                format!("values \"{value}\" \"4\""),
            ),
            _ => ("select $1::int", "", format!("values \"{value}\"")),
        };
        (text.into(), types.into(), bind)
    }

    fn statement_name(&mut self) -> String {
        if self.tracked_statements || self.mode == Mode::Session {
            self.pick(&["", "", "a", "b", "c"])
        } else {
            String::new()
        }
    }

    /// Parse, Bind, Describe, Execute, Close in many orders, without a Sync.
    fn extended(&mut self, certain: bool) {
        let mut name = self.statement_name();
        let portal = self.pick(&["", "", "", "p"]);
        let (text, types, bind) = if self.random.percent(60) {
            self.parameters()
        } else {
            (self.statement(), String::new(), String::new())
        };
        let named = self.tracked_statements || self.mode == Mode::Session;
        let (text, copies) = match self.random.below(30) {
            0 if named => ("copy kv from stdin".to_string(), true),
            _ => (text, false),
        };
        if copies {
            // A name that nobody binds again: who did would be asked for data it has not got.
            name = "copy".into();
            self.push("Close S \"copy\"");
        }
        let bind = if copies { String::new() } else { bind };
        let types = if copies { String::new() } else { types };
        if self.random.percent(10) {
            self.push(format!("Close S \"{name}\""));
        }
        if copies || self.random.percent(75) {
            self.push(format!("Parse \"{name}\" \"{text}\"{types}"));
        }
        if self.random.percent(20) {
            self.push(format!("Describe S \"{name}\""));
        }
        if self.random.percent(95) {
            self.push(format!("Bind \"{portal}\" \"{name}\" {bind}").trim_end().to_string());
        }
        if self.random.percent(30) {
            self.push(format!("Describe P \"{portal}\""));
        }
        let rows = if copies {
            0
        } else {
            *self.random.pick(&[0, 0, 0, 0, 1, 2])
        };
        self.push(format!("Execute \"{portal}\" {rows}"));
        if copies {
            if self.random.percent(20) {
                // A Sync means nothing only if the copy-in has begun.
                let line = if certain {
                    self.pick(&["Sync", "Flush"])
                } else {
                    "Flush".into()
                };
                self.push(line);
            }
            self.copy_in_lines();
        }
        if self.random.percent(10) {
            self.push(format!("Execute \"{portal}\" {rows}"));
        }
        if self.random.percent(10) {
            let what = self.pick(&["S \"a\"", "S \"\"", "P \"\"", "P \"p\"", "S \"nosuch\""]);
            self.push(format!("Close {what}"));
        }
    }

    fn take_bytes(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for line in self.lines.drain(..) {
            frontend_from_text(&line, &mut bytes).unwrap_or_else(|e| panic!("{line}: {e}"));
        }
        bytes
    }

    /// One segment: exactly one ReadyForQuery, whatever happens in it.
    fn segment(&mut self, may_sleep: bool) -> Vec<u8> {
        match self.random.below(20) {
            0..=7 => self.query(),
            8..=15 => {
                for _ in 0..self.random.between(1, 3) {
                    self.extended(false);
                }
                self.push("Sync");
            }
            16 => {
                self.push("Query \"copy kv from stdin\"");
                self.copy_in_lines();
            }
            17 => self.push("FunctionCall 177 values \"20\" \"22\""),
            18 => self.push("Sync"),
            _ if may_sleep => {
                let ms = self.random.between(1, 400);
                let value = self.value();
                match self.random.below(3) {
                    0 => self.push(format!("Query \"select pg_sleep(0.{ms:03}); select '{value}'\"")),
                    1 => self.push(format!("Query \"select '{value}'; select pg_sleep(0.{ms:03})\"")),
                    _ => {
                        self.push(format!("Parse \"\" \"select pg_sleep(0.{ms:03})\""));
                        self.push("Bind \"\" \"\"");
                        self.push("Execute \"\" 0");
                        self.push("Sync");
                    }
                }
            }
            _ => self.query(),
        }
        self.take_bytes()
    }

    /// A transaction from BEGIN to its end, one segment each.
    fn transaction(&mut self) -> Vec<Vec<u8>> {
        let mut segments = Vec::new();
        let begin = self.pick(&["begin", "BEGIN", "start transaction", "begin work"]);
        if self.random.percent(60) {
            self.push(format!("Query \"{begin}\""));
        } else {
            self.push(format!("Parse \"\" \"{begin}\""));
            self.push("Bind \"\" \"\"");
            self.push("Execute \"\" 0");
            self.push("Sync");
        }
        segments.push(self.take_bytes());
        for _ in 0..self.random.below(4) {
            segments.push(self.segment(true));
        }
        let end = self.pick(&["commit", "rollback", "end"]);
        self.push(format!("Query \"{end}\""));
        segments.push(self.take_bytes());
        segments
    }

    /// The next flight.
    pub fn flight(&mut self) -> Flight {
        let transactions = self.mode != Mode::Statement;
        match self.random.below(20) {
            0..=6 => Flight::of(vec![self.segment(true)]),
            7..=10 => {
                let count = self.random.between(2, 5);
                Flight::of((0..count).map(|_| self.segment(true)).collect())
            }
            11..=13 if transactions => Flight::of(self.transaction()),
            14..=16 if transactions => {
                // The same, one round trip each: the client thinks in between, and the server waits with it.
                let segments = self.transaction();
                let mut flight = Flight::of(segments.clone());
                flight.stages = segments;
                flight.certain = true;
                flight
            }
            17 => self.flushed(),
            18 if transactions => self.query_without_sync(),
            _ => {
                // All kinds at once: how many ReadyForQuery it brings depends on what fails.
                for _ in 0..self.random.between(1, 4) {
                    self.extended(true);
                    if self.random.percent(50) {
                        self.push("Sync");
                    }
                }
                self.push("Sync");
                let mut flight = Flight::of(vec![self.take_bytes()]);
                flight.certain = true;
                flight
            }
        }
    }

    /// A Query behind an Execute that no Sync has ended: PostgreSQL 15 commits it, 18 does not.
    fn query_without_sync(&mut self) -> Flight {
        let (key, value) = (self.key(), self.value());
        let text = match self.random.below(3) {
            0 => format!("insert into kv values ({key}, '{value}')"),
            1 => format!("select '{value}'"),
            _ => self.statement(),
        };
        // Settings made here are lost with the transaction that PostgreSQL 18 leaves behind, and it tells nobody.
        let text = if text.contains("set") {
            "select 1/0".into()
        } else {
            text
        };
        self.push(format!("Parse \"\" \"{text}\""));
        self.push("Bind \"\" \"\"");
        self.push("Execute \"\" 0");
        let row = self.value();
        self.push(format!("Query \"select '{row}'\""));
        if self.random.percent(50) {
            self.extended(false);
        }
        self.push("Sync");
        let mut flight = Flight::of(vec![self.take_bytes()]);
        flight.certain = true;
        flight
    }

    /// An extended segment in pieces, each ended by Flush, and the client waits for each.
    fn flushed(&mut self) -> Flight {
        let mut stages = Vec::new();
        for _ in 0..self.random.between(1, 3) {
            self.extended(true);
            self.push("Flush");
            stages.push(self.take_bytes());
        }
        self.push("Sync");
        stages.push(self.take_bytes());
        Flight {
            segments: vec![stages.iter().map(Vec::len).sum()],
            stages,
            certain: true,
        }
    }

    /// What ends a session: nothing may be left open, and what was written must be there.
    pub fn last_flight(&mut self) -> Flight {
        let mut segments = Vec::new();
        self.push("Query \"rollback\"");
        segments.push(self.take_bytes());
        for key in self.keys..self.keys + 3 {
            self.push(format!("Query \"select k, v from kv where k = {key}\""));
            segments.push(self.take_bytes());
        }
        let mut flight = Flight::of(segments);
        flight.certain = true;
        flight
    }
}

impl Flight {
    fn of(segments: Vec<Vec<u8>>) -> Flight {
        Flight {
            segments: segments.iter().map(Vec::len).collect(),
            stages: vec![segments.concat()],
            certain: false,
        }
    }
}
