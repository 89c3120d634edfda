//! The texts of random statements.

use crate::script::Script;

const SETTINGS: [(&str, &[&str]); 11] = [
    ("application_name", &["a", "b c", ""]),
    ("TimeZone", &["UTC", "Asia/Tokyo", "Nowhere/Land"]),
    ("DateStyle", &["ISO, DMY", "sql", "ymd"]),
    ("intervalstyle", &["iso_8601", "postgres"]),
    ("search_path", &["public"]),
    ("work_mem", &["8MB", "100kB", "1GB"]),
    ("app.tenant", &["x", "\u{fc}"]),
    ("client_encoding", &["LATIN1", "latin-1", "UTF8", "nope"]),
    ("plpgsql.no_such", &["x"]),
    ("idle_session_timeout", &["100s", "90s", "0", "x"]),
    ("nosuch", &["1"]),
];

impl Script {
    pub fn statement(&mut self) -> String {
        let key = self.random.below(6);
        let n = self.random.below(1000);
        let (name, values) = SETTINGS[self.random.below(SETTINGS.len() as u64) as usize];
        let value = self.pick(values);
        match self.random.below(49) {
            0..=2 => format!("select '{n}'"),
            3 => format!("select '{n}\u{fc}'"),
            4 => "select 1, 'a', null, true".into(),
            5 => "select 1/0".into(),
            6 => "select 10/(3-g) from generate_series(1,5) g".into(),
            7 => "select generate_series(1,5)".into(),
            8 => format!("select g, g+{n}, repeat('x',g) as-is from generate_series(1,4) g").replace(" as-is", ""),
            9..=11 => "begin".into(),
            12..=13 => "commit".into(),
            14..=15 => "rollback".into(),
            16 => self.pick(&[
                "commit and chain",
                "rollback and chain",
                "end",
                "abort",
                "start transaction",
            ]),
            17..=18 => self.pick(&["savepoint a", "savepoint b"]),
            19..=20 => self.pick(&["rollback to a", "rollback to savepoint b"]),
            21 => self.pick(&["release a", "release savepoint b"]),
            22..=24 => format!("insert into kv values ({key}, 'v{n}')"),
            25 => format!("update kv set v = 'u{n}\u{e0}' where k = {key}"),
            26 => self.pick(&["update kv set v = 'all'", "delete from kv", "update kv set v = v"]),
            27 if self.random.percent(50) => "insert into later values (0 - 5)".into(),
            27 => format!("delete from kv where k = {key}"),
            28 => "select k, v from kv order by k".into(),
            29 => format!("select v from kv where k = {key}"),
            30 => "select count(*) from kv".into(),
            31..=32 => format!("set {name} = '{value}'"),
            33 => format!("set local {name} to '{value}'"),
            34 => self.pick(&[
                "reset all",
                "reset timezone",
                "set datestyle to default",
                "reset app.tenant",
            ]),
            35 => format!("show {name}"),
            36 => format!("select current_setting('{name}', true)"),
            37 => format!("select set_config('{name}', '{value}', {})", self.random.percent(50)),
            38 => self.pick(&["deallocate s1", "deallocate s2", "deallocate all"]),
            39 => self.pick(&["discard all", "discard all", "discard all", "load 'plpgsql'"]),
            40 => "vacuum kv".into(),
            41 => self.pick(&[
                "do $$begin raise notice 'hi'; end$$",
                "do $$begin raise warning 'hm \u{fc}'; end$$",
                "do $$begin raise exception 'no'; end$$",
            ]),
            42 => self.pick(&[
                "selec 1",
                "select 1 2 3",
                "select * from",
                "select 1 from nosuch",
                "select x",
            ]),
            43 => self.pick(&["", ";", " -- nothing", "/* x */ ;"]),
            44 => self.pick(&[
                "copy (select k, v from kv order by k) to stdout",
                "copy (select g from generate_series(1,3) g) to stdout",
            ]),
            45 => format!("select setval('seq', {})", n + 1),
            46 => self.pick(&["select 1, currval('seq')", "select currval('nosuch')"]),
            47 => self.pick(&["discard sequences", "select currval('seq')"]),
            _ => "copy kv from stdin".into(),
        }
    }

    /// Session state that outlives its transaction, and questions about it.
    pub fn session_statement(&mut self) -> String {
        let n = self.random.below(1000);
        let key = self.random.below(2);
        let table = self.pick(&["tmp_a", "tmp_b"]);
        match self.random.below(26) {
            0..=1 => format!("create temp table {table} (v text)"),
            2 => format!("create temp table {table} (v text) on commit drop"),
            3 => format!("insert into {table} values ('{n}')"),
            4 => format!("select count(*) from {table}"),
            5 => format!("select '{n}' from {table}"),
            6 => format!("drop table {table}"),
            7 => self.pick(&["discard temp", "discard plans", "discard sequences", "discard all"]),
            8 => format!("select pg_advisory_lock({key})"),
            9 => format!("select pg_try_advisory_lock({key}), 10/(3-g) from generate_series(1,5) g"),
            10 => format!("select pg_advisory_unlock({key})"),
            11 => self.pick(&[
                "select pg_advisory_unlock(0)",
                "select pg_cancel_backend(5000000), true as pg_cancel_backend",
                "select pg_catalog.pg_terminate_backend(5000001)",
            ]),
            12 => self.pick(&["select pg_advisory_unlock_all()", "select pg_advisory_xact_lock(7)"]),
            13 => format!("declare c cursor with hold for select '{n}', g from generate_series(1, 4) g"),
            14..=15 => self.pick(&["fetch from c", "fetch 2 from c"]),
            16 => self.pick(&["close c", "close all"]),
            17 => self.pick(&["listen a", "listen b"]),
            18 => format!("notify a, '{n}'"),
            19 => self.pick(&["unlisten *", "unlisten a", "notify b, 'x'; notify b, 'x'"]),
            20 => format!("prepare {} as select '{n}'", self.pick(&["sp", "s1"])),
            21 => self.pick(&["execute sp", "deallocate sp"]),
            22 => self.pick(&[
                "do $$begin perform set_config('work_mem', '64kB', false); end$$",
                "do $$begin perform pg_advisory_lock(1); end$$",
                "do $$begin execute 'create temp table tmp_a (v text)'; end$$",
            ]),
            23 => "select nullif(current_setting('app.tenant', true), '')".into(),
            24 => self.pick(&[
                "begin",
                "savepoint a",
                "rollback to a",
                "release a",
                "commit",
                "rollback",
            ]),
            _ => self.pick(&[
                "set lock_timeout = '5s'",
                "set default_transaction_deferrable = on",
                "reset all",
            ]),
        }
    }

    pub fn text(&mut self) -> String {
        let mut text = self.statement();
        if self.random.percent(25) {
            for _ in 0..self.random.between(1, 3) {
                text.push_str("; ");
                text.push_str(&self.statement());
            }
        }
        text
    }

    pub fn parameters(&mut self) -> (&'static str, &'static str, &'static str) {
        // Text, types and the end of a Bind, which usually matches.
        *self.random.pick(&[
            ("select $1", "", "values \"a\""),
            ("select $1, $2::int", "", "values \"a\" \"7\""),
            ("select $1", " types 23", "values \"7\""),
            (
                "select $1",
                " types 23",
                "formats 1 values \"\\x00\\x00\\x00\\x07\" results 1",
            ),
            ("select $1", " types 23", "values \"x\""),
            ("select $1::int + 1", "", "values \"41\" results 0"),
            ("select $2", "", "values \"a\""),
            ("select 1", " types 25 25", "values \"a\" NULL"),
            ("insert into kv values ($1, $2)", "", "values \"3\" \"three\""),
            ("insert into kv values ($1, $2)", " types 23 25", "values \"4\" NULL"),
            ("select v from kv where k = $1", "", "values \"3\""),
            (
                "select pg_catalog.set_config($1, $2, false)",
                "",
                "values \"DateStyle\" \"ISO, YMD\"",
            ),
            (
                "select pg_catalog.set_config($1, $2, false)",
                "",
                "values \"TimeZone\" NULL",
            ),
            ("select set_config($1, $2, $3)", "", "values \"work_mem\" \"9MB\" \"t\""),
            (
                "select g, g * $1 from generate_series(1, $2) g",
                "",
                "values \"2\" \"6\" results 1 0",
            ),
            ("select 1, 2", "", "results 0 0 0"),
            ("select k, v from kv where k = $1", "", "formats 0 0 values \"1\""),
        ])
    }
}
