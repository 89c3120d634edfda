//! What clients send.

use super::topology::{Mode, Topology};
use crate::random::Random;
use crate::transcript::frontend_from_text;

/// One exchange: bytes to send, and what answers them.
#[derive(Debug, Default)]
pub struct Flight {
    /// Parts that are sent one after the other, each after all answers to the one before have come.
    pub stages: Vec<Vec<u8>>,
    /// Lengths of the segments: each has exactly one ReadyForQuery, unless `certain`.
    pub segments: Vec<usize>,
    /// No cancel may be sent: the segments may have more or less than one ReadyForQuery each.
    pub certain: bool,
}

/// Makes the flights of one session.
#[derive(Debug)]
pub struct Author {
    random: Random,
    mode: Mode,
    tracked_statements: bool,
    resets_settings: bool,
    keeps_sessions: bool,
    startup_settings: bool,
    /// It uses session state that outlives its transactions.
    has_session: bool,
    /// It only reads.
    reads: bool,
    /// It has prepared the statement by which it reads.
    has_prepared: bool,
    /// At present it uses none.
    plain: bool,
    /// It has used some, and may be pinned to its server.
    may_be_tied: bool,
    large_rows_max: u64,
    reserved_names: bool,
    /// It runs no code, so that its servers may stay without loaded libraries.
    avoids_code: bool,
    /// A setting that it sets first, and that is restored from then on.
    begins_with: Option<String>,
    /// It has sent its first flight.
    has_begun: bool,
    /// There is a connect_query.
    connect_query: bool,
    /// Settings for which roles and databases have defaults.
    defaults: Vec<&'static str>,
    /// Messages longer than 64 KiB that it may still send.
    long_messages: u64,
    /// It sends messages of a COPY when there is none.
    stray_copies: bool,
    /// The first of the keys that this session uses.
    keys: u64,
    token: String,
    count: u64,
    lines: Vec<String>,
}

/// The number of keys of one session.
const KEYS: u64 = 10;

/// Settings that follow a client in every mode.
const SETTINGS: [(&str, &[&str]); 4] = [
    ("application_name", &["a", "b c", "weir"]),
    ("TimeZone", &["UTC", "Asia/Tokyo", "Europe/Paris", "Nowhere/Land"]),
    ("datestyle", &["ISO, DMY", "ISO, MDY", "SQL, YMD"]),
    ("IntervalStyle", &["iso_8601", "postgres"]),
];

/// The place of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// It is a whole Query.
    Query,
    /// It is one of several in a Query.
    List,
    /// It is executed from a portal.
    Execute,
}

/// EXECUTE by code of a statement that was made by PREPARE: code may not find others (docs/differences.md).
const BY_CODE: &str = "do $$begin execute 'execute sp'; end$$";

/// Settings that the server does not report, as the default of all versions.
const UNREPORTED: [(&str, &[&str]); 6] = [
    ("work_mem", &["1MB", "100kB", "4MB"]),
    ("extra_float_digits", &["0", "3", "99"]),
    ("search_path", &["public", "a"]),
    ("statement_timeout", &["6s", "0"]),
    ("lock_timeout", &["200ms", "0"]),
    ("default_transaction_deferrable", &["on", "off"]),
];

/// Custom settings.
const CUSTOM: [&str; 2] = ["app.tenant", "app.user"];

/// The setting that neither a view nor ParameterStatus shows.
const ROLE: &str = "role";

/// A setting of connect_query.
const OF_THE_POOL: &str = "app.pool";

impl Author {
    /// For the session with this number in the whole run.
    pub fn new(mut random: Random, topology: &Topology, session_number: u64) -> Self {
        let defaults: Vec<&str> = topology.role_defaults.iter().map(|d| d.name).collect();
        let begins_with = match session_number % 3 {
            0 if defaults.contains(&ROLE) => Some("set role none".into()),
            1 if topology.lock_percent > 0 => Some(format!(
                "set lock_timeout = '200ms'; set app.user = 'tok{session_number}x'"
            )),
            _ => None,
        };
        let reads = topology.reader_percent > 0 && random.percent(topology.reader_percent);
        Author {
            reads,
            has_prepared: false,
            random,
            mode: topology.mode,
            tracked_statements: topology.max_prepared_statements > 0,
            resets_settings: topology.keeps_sessions || !topology.startup_settings,
            keeps_sessions: topology.keeps_sessions,
            startup_settings: topology.startup_settings,
            has_session: topology.has_sessions() && topology.reader_percent == 0,
            plain: false,
            may_be_tied: false,
            large_rows_max: topology.large_rows_max,
            reserved_names: topology.reserved_names,
            avoids_code: topology.reserved_names && !session_number.is_multiple_of(3),
            begins_with: begins_with.filter(|_| topology.has_sessions() && topology.reader_percent == 0),
            has_begun: false,
            connect_query: !topology.connect_settings.is_empty(),
            defaults,
            long_messages: if topology.long_messages { 2 } else { 0 },
            stray_copies: topology.stray_copies,
            keys: session_number * KEYS,
            token: format!("tok{session_number}x"),
            count: 0,
            lines: Vec::new(),
        }
    }

    /// The token that every value of this session contains.
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

    /// A statement for any place. Without session state, poolers know a DEALLOCATE of one name only as a Query of its
    /// own.
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
    fn statement_alone(&mut self) -> String {
        loop {
            let text = self.any_statement_alone();
            if !self.avoids_code || !is_code(&text) {
                return text;
            }
        }
    }

    fn any_statement_alone(&mut self) -> String {
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

    /// A statement for this place.
    fn statement_for(&mut self, place: Place) -> String {
        loop {
            let text = self.statement();
            if self.may_stand(&text, place) {
                return text;
            }
        }
    }

    /// If clients have startup values of their own, the pooler sets them again after a reset, if it sees the reset in
    /// time (docs/differences.md).
    fn may_stand(&self, text: &str, place: Place) -> bool {
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

    /// A statement that changes or shows state that outlives its transaction. Prepared statements are shared, so every
    /// text that names something which other sessions may lack contains a value of this session.
    fn session_statement(&mut self) -> String {
        loop {
            let text = if self.reserved_names && self.random.percent(30) {
                self.reserved_name()
            } else if self.connect_query && self.random.percent(10) {
                self.setting_of_the_pool()
            } else if !self.defaults.is_empty() && self.random.percent(50) {
                self.setting_of_the_role()
            } else {
                self.any_session_statement()
            };
            if !self.avoids_code || !is_code(&text) {
                return text;
            }
        }
    }

    fn any_session_statement(&mut self) -> String {
        self.may_be_tied = true;
        let (key, value) = (self.key(), self.value());
        let lock = self.keys + self.random.below(3);
        let table = self.pick(&["tmp_a", "tmp_a", "tmp_b"]);
        let (name, values) = *self.random.pick(&UNREPORTED);
        let setting = self.pick(values);
        match self.random.below(40) {
            0..=2 => format!("set {name} = '{setting}'"),
            3 => format!("set local {name} = '{setting}'"),
            4 => format!("select set_config('{name}', '{setting}', {})", self.random.percent(50)),
            5 => format!("set {name} to default"),
            6..=9 => self.shown(),
            10..=11 => {
                let custom = self.pick(&CUSTOM);
                format!("set {custom} = '{value}'")
            }
            12 => {
                let custom = self.pick(&CUSTOM);
                self.pick(&[
                    &format!("set local {custom} = '{value}'"),
                    &format!("select set_config('{custom}', '{value}', false)"),
                    &format!("set {custom} to default"),
                ])
            }
            13 if self.resets_settings && self.random.percent(50) => {
                self.pick(&["reset all", "reset work_mem", "discard all", "discard all"])
            }
            // Only this session has this setting, so a statement that runs under it must be this session's.
            13 => self.own_setting(),
            14..=15 => format!("create temp table {table} (v text)"),
            16 => format!("create temp table {table} (v text) on commit drop"),
            17..=18 => format!("insert into {table} values ('{value}')"),
            19..=20 => format!("select '{value}' from {table}"),
            21..=22 => format!("drop table {table}"),
            23 => self.pick(&["discard temp", "discard plans", "discard sequences"]),
            24 => format!("select '{value}', pg_advisory_lock({lock})"),
            25 => format!("select pg_try_advisory_lock({lock}), 10/(3-g) from generate_series(1,5) g"),
            26 => format!("select '{value}', pg_try_advisory_lock(0-{})", key + 1),
            27..=28 => format!("select '{value}', pg_advisory_unlock({lock})"),
            29 => self.pick(&["select pg_advisory_unlock_all()", "select pg_advisory_xact_lock(1)"]),
            30 => format!("declare hc cursor with hold for select '{value}', g from generate_series(1, 4) g"),
            31 => self.pick(&["close hc", "close all"]),
            32 => format!("listen {}", self.token),
            33 => format!("notify {}, '{value}'", self.token),
            34 => {
                let one = format!("unlisten {}", self.token);
                self.pick(&["unlisten *", &one])
            }
            // SQL-level and protocol-level statements share their names.
            35 => {
                let name = self.pick(&["sp", "sp", "a", "b"]);
                self.pick(&[
                    &format!("prepare {name} as select '{value}'"),
                    &format!("prepare {name} as select k, v from kv where k = {key}"),
                    &format!("prepare {name} as insert into kv values ({key}, '{value}')"),
                    // A text that all sessions share.
                    &format!("prepare {name} as select current_setting('TimeZone')"),
                    &format!("prepare {name} as select current_setting('TimeZone')"),
                    &format!("prepare {name} as select set_config('DateStyle', 'SQL, DMY', false)"),
                ])
            }
            36 => self.pick(&[
                "deallocate sp",
                "deallocate all",
                "deallocate a",
                "deallocate b",
                // The internal statements are deallocated, too, and the pooler is not told.
                "deallocate all; do $$begin execute 'deallocate all'; end$$",
                "deallocate all; do $$begin execute 'deallocate all'; end$$",
            ]),
            37 => format!("do $$begin perform set_config('{name}', '{setting}', false); end$$"),
            38 => {
                let quoted = setting.replace('\'', "''");
                self.pick(&[
                    &format!("do $$begin execute 'create temp table {table} (v text)'; end$$"),
                    &format!("do $$begin execute 'set {name} = ''{quoted}'''; end$$"),
                    &format!("do $$begin perform pg_advisory_lock({lock}); end$$"),
                    &format!("do $$begin perform set_config('app.tenant', '{value}', false); end$$"),
                ])
            }
            _ => format!("select '{value}', nullif(current_setting('app.tenant', true), '')"),
        }
    }

    /// A setting that servers know until code has run on them, or code.
    fn reserved_name(&mut self) -> String {
        self.may_be_tied = true;
        let value = self.value();
        self.pick(&[
            &format!("set plpgsql.no_such = '{value}'"),
            &format!("set plpgsql.no_such = '{value}'"),
            &format!("set plpgsql.no_such = '{value}'"),
            &format!("set local plpgsql.no_such = '{value}'"),
            &format!("select set_config('plpgsql.no_such', '{value}', false)"),
            "set plpgsql.no_such to default",
            &format!("select '{value}', nullif(current_setting('plpgsql.no_such', true), '')"),
            &format!("select '{value}', nullif(current_setting('plpgsql.no_such', true), '')"),
            &format!("select '{value}', nullif(current_setting('plpgsql.no_such', true), '')"),
            &format!("do $$begin raise notice '{value}'; end$$"),
            &format!("do $$begin raise notice '{value}'; end$$"),
            "load 'plpgsql'",
        ])
    }

    /// Uses a setting of connect_query.
    fn setting_of_the_pool(&mut self) -> String {
        self.may_be_tied = true;
        let value = self.value();
        let statements = [
            format!("set {OF_THE_POOL} = '{value}'"),
            format!("select set_config('{OF_THE_POOL}', '{value}', false)"),
            format!("set {OF_THE_POOL} to default"),
            "set work_mem to default".into(),
            "set TimeZone to default".into(),
            format!("select '{value}', current_setting('work_mem')"),
            format!("select '{value}', nullif(current_setting('{OF_THE_POOL}', true), '')"),
        ];
        let (resets, shows) = (2..5, 5..7);
        let range = match self.random.below(10) {
            0..=2 => 0..2,
            3..=5 if self.resets_settings => resets,
            _ => shows,
        };
        statements[self.random.between(range.start, range.end - 1) as usize].clone()
    }

    /// Sets, resets or shows a setting for which a role or a database has a default.
    fn setting_of_the_role(&mut self) -> String {
        self.may_be_tied = true;
        let (value, mut name) = (self.value(), *self.random.pick(&self.defaults));
        if self.defaults.contains(&ROLE) && self.random.percent(50) {
            name = ROLE;
        }
        let made = match name {
            ROLE => self.pick(&["none", "none", "team", &self.token.clone()]),
            "app.tenant" | "app.user" | "application_name" => value.clone(),
            _ => {
                let known = SETTINGS
                    .iter()
                    .chain(&UNREPORTED)
                    .find(|(n, _)| n.eq_ignore_ascii_case(name));
                let values = known.map_or(&["on"][..], |(_, values)| values);
                self.pick(values)
            }
        };
        let makes = [
            format!("set {name} = '{made}'"),
            format!("set local {name} = '{made}'"),
            format!("select set_config('{name}', '{made}', false)"),
            format!("do $$begin perform set_config('{name}', '{made}', false); end$$"),
        ];
        let resets = [
            format!("set {name} to default"),
            format!("reset {name}"),
            "reset all".into(),
            "discard all".into(),
        ];
        match self.random.below(10) {
            0..=3 => self.random.pick(&makes).clone(),
            4..=5 if self.resets_settings => self.random.pick(&resets).clone(),
            _ => format!("select '{value}', nullif(current_setting('{name}', true), '')"),
        }
    }

    /// A role or a schema of this session's own.
    fn own_setting(&mut self) -> String {
        let own = self.token.clone();
        self.pick(&[
            &format!("set role {own}"),
            &format!("set role {own}"),
            "set role none",
            "reset role",
            &format!("select set_config('role', '{own}', false)"),
            &format!("set search_path = '{own}'"),
            &format!("set search_path = '{own}'"),
            &format!("select '{own}', current_setting('role')"),
            &format!("select '{own}', current_setting('search_path')"),
        ])
    }

    /// Shows a setting that the server does not report.
    fn shown(&mut self) -> String {
        let value = self.value();
        let (name, custom) = (self.random.pick(&UNREPORTED).0, self.pick(&CUSTOM));
        self.pick(&[
            &format!("show {name}"),
            &format!("select '{value}', current_setting('{name}')"),
            // Whether an unset name is unknown or empty depends on the server's earlier sessions (F2).
            &format!("select '{value}', nullif(current_setting('{custom}', true), '')"),
        ])
    }

    /// Works only on the server with the session's objects. Only as a Query, because its columns are not known before
    /// it runs.
    fn use_of_session(&mut self) -> String {
        match self.random.below(6) {
            0 => {
                let value = self.value();
                let again = format!("prepare lost as select '{value}'");
                self.pick(&[
                    "execute sp",
                    "execute sp",
                    "execute a",
                    "execute b",
                    "execute lost",
                    &again,
                ])
            }
            1 => BY_CODE.into(),
            2..=3 => self.pick(&["fetch from hc", "fetch 2 from hc"]),
            4 => self.pick(&["select count(*) from tmp_a", "select count(*) from tmp_b"]),
            _ => self.shown(),
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
        let mut text = match self.random.below(20) {
            0..=5 if self.has_session => loop {
                let text = self.session_statement();
                if self.may_stand(&text, Place::Query) {
                    break text;
                }
            },
            6..=8 if self.has_session => self.use_of_session(),
            _ => self.statement_alone(),
        };
        if self.random.percent(15) {
            text = self.statement_for(Place::List);
            for _ in 0..self.random.between(1, 2) {
                text = format!("{text}; {}", self.statement_for(Place::List));
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

    /// Text, types and the end of a matching Bind.
    fn parameters(&mut self) -> (String, String, String) {
        let (key, value) = (self.key(), self.value());
        let (text, types, bind) = match self.random.below(8) {
            // Texts that all clients use, so that they share statements.
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
            (self.statement_for(Place::Execute), String::new(), String::new())
        };
        let named = self.tracked_statements || self.mode == Mode::Session;
        let (text, copies) = match self.random.below(30) {
            0 if named => ("copy kv from stdin".to_string(), true),
            _ => (text, false),
        };
        if copies {
            // A name that is not bound again: a later Bind would be asked for data.
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
                // A Sync is ignored only if the copy-in has begun.
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
        if self.stray_copies && self.random.percent(30) {
            self.stray_copy();
        }
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
                match self.random.below(6) {
                    0 => self.push(format!("Query \"select pg_sleep(0.{ms:03}); select '{value}'\"")),
                    1 => self.push(format!("Query \"select '{value}'; select pg_sleep(0.{ms:03})\"")),
                    // If it is cancelled, it has set nothing.
                    2..=4 => {
                        let (name, values) = *self.random.pick(&SETTINGS);
                        let made = self.pick(values);
                        self.push(format!("Query \"set {name} = '{made}'; select pg_sleep(0.{ms:03})\""));
                    }
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

    /// A segment that only reads, in one of the forms that clients send most.
    fn read(&mut self) -> Vec<u8> {
        let (key, value) = (self.key(), self.value());
        match self.random.below(12) {
            0..=2 => self.push(format!("Query \"select '{value}'\"")),
            3 => self.push(format!("Query \"select k, v from kv where k = {key}\"")),
            4 => self.push(format!(
                "Query \"select '{value}', 10/(3-g) from generate_series(1,5) g\""
            )),
            5 => {
                let ms = self.random.between(1, 50);
                self.push(format!("Query \"select pg_sleep(0.{ms:03}), '{value}'\""));
            }
            6 => self.push(format!("Query \"selec '{value}'\"")),
            7..=9 if self.tracked_statements => {
                if !std::mem::replace(&mut self.has_prepared, true) {
                    self.push("Parse \"r\" \"select $1\"");
                    if self.random.percent(50) {
                        self.push("Describe S \"r\"");
                    }
                    self.push("Sync");
                    return self.take_bytes();
                }
                self.push(format!("Bind \"\" \"r\" values \"{value}\""));
                self.described_at_times();
            }
            _ => {
                let text = self.pick(&[
                    "select $1::text",
                    "select $1::text, 10/0",
                    "select k, v from kv where v = $1",
                ]);
                self.push(format!("Parse \"\" \"{text}\""));
                self.push(format!("Bind \"\" \"\" values \"{value}\""));
                self.described_at_times();
            }
        }
        self.take_bytes()
    }

    fn described_at_times(&mut self) {
        if self.random.percent(50) {
            self.push("Describe P \"\"");
        }
        self.push("Execute \"\" 0");
        self.push("Sync");
    }

    /// Messages of a COPY that has ended or never began: servers ignore them.
    fn stray_copy(&mut self) {
        for _ in 0..self.random.between(1, 3) {
            let value = self.value();
            let bytes = "y".repeat(self.random.below(400) as usize);
            match self.random.below(3) {
                0 => self.push(format!("CopyData \"{value}{bytes}\"")),
                1 => self.push("CopyDone"),
                _ => self.push(format!("CopyFail \"{value}{bytes}\"")),
            }
        }
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
        if self.has_session && self.random.percent(15) {
            self.push(format!("Query \"{BY_CODE}\""));
            segments.push(self.take_bytes());
        }
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
        if self.reads {
            let count = *self.random.pick(&[1, 1, 1, 2, 4]);
            return Flight::of((0..count).map(|_| self.read()).collect());
        }
        let is_first = !std::mem::replace(&mut self.has_begun, true);
        if is_first && let Some(text) = self.begins_with.take() {
            self.may_be_tied = true;
            self.push(format!("Query \"{text}\""));
            return Flight::of(vec![self.take_bytes()]);
        }
        if is_first && self.reserved_names {
            let value = self.value();
            let text = match self.avoids_code {
                true => format!("set plpgsql.no_such = '{value}'"),
                false => format!("do $$begin raise notice '{value}'; end$$"),
            };
            self.may_be_tied = true;
            self.push(format!("Query \"{text}\""));
            return Flight::of(vec![self.take_bytes()]);
        }
        if self.long_messages > 0 && self.random.percent(25) {
            self.long_messages -= 1;
            return self.long_flight();
        }
        let transactions = self.mode != Mode::Statement;
        if self.has_session && self.random.percent(4) {
            return self.prepared_on_gone();
        }
        match self.random.below(20) {
            0..=6 => Flight::of(vec![self.segment(true)]),
            7..=10 => {
                let count = self.random.between(2, 5);
                Flight::of((0..count).map(|_| self.segment(true)).collect())
            }
            11..=13 if transactions => Flight::of(self.transaction()),
            14..=16 if transactions => {
                // The same with one round trip each: the client thinks in between, while the server waits.
                let segments = self.transaction();
                let mut flight = Flight::of(segments.clone());
                flight.stages = segments;
                flight.certain = true;
                flight
            }
            17 => self.flushed(),
            // A client that keeps its server gets PostgreSQL 18's error, as on a private server; other clients do not.
            18 if transactions && !self.may_be_tied => self.query_without_sync(),
            _ => {
                // All kinds together: the number of ReadyForQuery depends on what fails.
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

    /// A message that is too long to be kept and sets a setting, and other messages after it.
    fn long_flight(&mut self) -> Flight {
        self.may_be_tied = true;
        let (value, shown) = (self.value(), self.value());
        let custom = self.pick(&CUSTOM);
        let pad = "x".repeat(self.random.between(64 * 1024 - 200, 70_000) as usize);
        let makes = match self.has_session {
            true => self.pick(&[
                &format!("set {custom} = '{value}'"),
                "set work_mem = '1MB'",
                "set TimeZone = 'Asia/Tokyo'",
                &format!("select set_config('{custom}', '{value}', false)"),
            ]),
            false => "set TimeZone = 'Asia/Tokyo'".into(),
        };
        let mut segments = Vec::new();
        let in_block = self.mode != Mode::Statement && self.random.percent(50);
        if in_block {
            self.push("Query \"begin\"");
            segments.push(self.take_bytes());
        }
        match self.random.below(5) {
            0 => self.push(format!("Query \"/* {pad} */ {makes}; select '{shown}'\"")),
            1 => self.push(format!("Query \"{makes}; select '{shown}', nullif('{pad}', '{pad}')\"")),
            2 => self.push(format!("Query \"select '{shown}', nullif('{pad}', '{pad}'); {makes}\"")),
            3 => {
                self.push(format!("Parse \"\" \"{makes} /* {pad} */\""));
                self.push("Bind \"\" \"\"");
                self.push("Execute \"\" 0");
                self.push("Sync");
            }
            _ => {
                let name = if self.has_session { custom } else { "TimeZone".into() };
                let value = if self.has_session { value } else { "Asia/Tokyo".into() };
                self.push(format!(
                    "Parse \"\" \"select set_config('{name}', $1, false), nullif($2, $2)\""
                ));
                self.push(format!("Bind \"\" \"\" values \"{value}\" \"{pad}\""));
                self.push("Execute \"\" 0");
                self.push("Sync");
            }
        }
        segments.push(self.take_bytes());
        for _ in 0..self.random.below(3) {
            segments.push(self.segment(true));
        }
        if in_block {
            let end = self.pick(&["commit", "rollback"]);
            self.push(format!("Query \"{end}\""));
            segments.push(self.take_bytes());
        }
        Flight::of(segments)
    }

    /// Prepares a statement that cannot be prepared again on another server, because its table is gone. No text names
    /// it among other statements: see docs/differences.md.
    fn prepared_on_gone(&mut self) -> Flight {
        let value = self.value();
        let texts = [
            "deallocate lost",
            "create temp table tmp_gone (v text)",
            &format!("prepare lost as select '{value}' from tmp_gone"),
            "drop table tmp_gone",
        ];
        let mut segments = Vec::new();
        for text in texts {
            self.push(format!("Query \"{text}\""));
            segments.push(self.take_bytes());
        }
        Flight::of(segments)
    }

    /// A Query after an Execute without Sync: PostgreSQL 15 commits it, 18 does not.
    fn query_without_sync(&mut self) -> Flight {
        self.plain = true;
        let (key, value) = (self.key(), self.value());
        let text = match self.random.below(3) {
            0 => format!("insert into kv values ({key}, '{value}')"),
            1 => format!("select '{value}'"),
            _ => self.statement_for(Place::Execute),
        };
        // PostgreSQL 18 loses these settings with the open transaction, and does not report that.
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
        self.plain = false;
        self.push("Sync");
        let mut flight = Flight::of(vec![self.take_bytes()]);
        flight.certain = true;
        flight
    }

    /// An extended segment in pieces. Each ends with Flush, and the client waits for its answers.
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

    /// The end of a session: no transaction may be open, and everything that was written must exist.
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

/// Whether a text runs or loads PL/pgSQL.
fn is_code(text: &str) -> bool {
    text.contains("do $$") || text.starts_with("load")
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
