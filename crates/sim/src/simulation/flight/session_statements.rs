//! Statements that change or show session state.

use super::Author;
use super::statements::{SETTINGS, is_code};
use crate::model::rights;

/// EXECUTE by code of a statement that was made by PREPARE: code may not find others (docs/differences.md).
pub(super) const BY_CODE: &str = "do $$begin execute 'execute sp'; end$$";

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
pub(super) const CUSTOM: [&str; 2] = ["app.tenant", "app.user"];

/// The setting that neither a view nor ParameterStatus shows.
pub(super) const ROLE: &str = "role";

/// A setting of connect_query.
const OF_THE_POOL: &str = "app.pool";

impl Author {
    /// A statement that changes or shows state that outlives its transaction. Prepared statements are shared, so every
    /// text that names something which other sessions may lack contains a value of this session.
    pub(super) fn session_statement(&mut self) -> String {
        loop {
            let text = if self.reserved_names && self.random.percent(30) {
                self.reserved_name()
            } else if self.connect_query && self.random.percent(10) {
                self.setting_of_the_pool()
            } else if !self.defaults.is_empty() && self.random.percent(50) {
                self.setting_of_the_role()
            } else if self.beyond_ascii && self.random.percent(20) {
                self.encoding_statement()
            } else if self.sequences && self.random.percent(40) {
                self.sequence_statement()
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
            12 => self.custom_setting(&value),
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
            35 => self.sql_prepare(key, &value),
            36 => self.sql_deallocate(),
            37 => format!("do $$begin perform set_config('{name}', '{setting}', false); end$$"),
            38 => self.made_by_code([name, &setting, &table, &value], lock),
            _ => format!("select '{value}', nullif(current_setting('app.tenant', true), '')"),
        }
    }

    /// Changes client_encoding.
    fn encoding_statement(&mut self) -> String {
        self.may_be_tied = true;
        self.pick(&[
            "set client_encoding = 'LATIN1'",
            "set client_encoding = 'LATIN1'",
            "set client_encoding = 'UTF8'",
            "set client_encoding to default",
            "set local client_encoding = 'LATIN1'",
            "select set_config('client_encoding', 'LATIN1', false)",
            "do $$begin perform set_config('client_encoding', 'LATIN1', false); end$$",
        ])
    }

    /// Sets or resets a custom setting.
    fn custom_setting(&mut self, value: &str) -> String {
        let custom = self.pick(&CUSTOM);
        self.pick(&[
            &format!("set local {custom} = '{value}'"),
            &format!("select set_config('{custom}', '{value}', false)"),
            &format!("set {custom} to default"),
        ])
    }

    /// Draws a value that no other session draws, or asks for it. setval() draws as nextval() does, and the value does
    /// not depend on other sessions.
    fn sequence_statement(&mut self) -> String {
        self.may_be_tied = true;
        let value = self.value();
        match self.random.below(5) {
            0..=1 => format!("select '{value}', setval('seq', {})", self.keys * 100 + self.count),
            2..=3 => format!("select '{value}', currval('seq')"),
            _ => "discard sequences".into(),
        }
    }

    /// PREPARE. SQL-level and protocol-level statements share their names.
    fn sql_prepare(&mut self, key: u64, value: &str) -> String {
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

    fn sql_deallocate(&mut self) -> String {
        self.pick(&[
            "deallocate sp",
            "deallocate all",
            "deallocate a",
            "deallocate b",
            // The internal statements are deallocated, too, and the pooler is not told.
            "deallocate all; do $$begin execute 'deallocate all'; end$$",
            "deallocate all; do $$begin execute 'deallocate all'; end$$",
        ])
    }

    /// Code that makes a temporary table, sets a setting or takes a lock.
    fn made_by_code(&mut self, [name, setting, table, value]: [&str; 4], lock: u64) -> String {
        let quoted = setting.replace('\'', "''");
        self.pick(&[
            &format!("do $$begin execute 'create temp table {table} (v text)'; end$$"),
            &format!("do $$begin execute 'set {name} = ''{quoted}'''; end$$"),
            &format!("do $$begin perform pg_advisory_lock({lock}); end$$"),
            &format!("do $$begin perform set_config('app.tenant', '{value}', false); end$$"),
        ])
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

    /// A role or a schema that only this session uses.
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

    /// A statement that only some roles may prepare. The path is fixed, and other clients have it, too.
    pub(super) fn as_another_role(&mut self) -> Vec<Vec<u8>> {
        let role = self.token.clone();
        self.push("Query \"set search_path = public\"");
        let path = self.take_bytes();
        self.push(format!("Query \"set role {role}\""));
        let role = self.take_bytes();
        self.push(format!("Parse \"v\" \"{}\"", rights::text()));
        for message in ["Bind \"\" \"v\"", "Execute \"\" 0", "Close S \"v\"", "Sync"] {
            self.push(message);
        }
        vec![path, role, self.take_bytes()]
    }

    /// An EXECUTE of a prepared EXECUTE, whose text does not show the setting that it changes.
    pub(super) fn nested_execute(&mut self) -> Vec<Vec<u8>> {
        self.may_be_tied = true;
        let value = self.value();
        let (name, values) = *self.random.pick(&UNREPORTED);
        let (setting, custom) = (self.pick(values), self.pick(&CUSTOM));
        let text = self.pick(&[
            &format!("select set_config('{custom}', '{value}', false)"),
            &format!("select set_config('{name}', '{setting}', false)"),
        ]);
        self.push(format!("Parse \"n\" \"{text}\""));
        self.push("Parse \"e\" \"execute n\"");
        self.push("Sync");
        let prepared = self.take_bytes();
        self.push("Query \"execute e\"");
        let executed = self.take_bytes();
        self.push("Query \"deallocate all\"");
        vec![prepared, executed, self.take_bytes()]
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
    pub(super) fn use_of_session(&mut self) -> String {
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
}
