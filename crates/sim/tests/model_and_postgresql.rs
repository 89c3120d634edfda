//! Random scripts for the model and for real servers: any difference in their answers fails.

mod support;

use pgweir_sim::model::{Session, Shared, Version};
use pgweir_sim::random::Random;
use pgweir_sim::transcript::{frontend_from_text, normal_lines};
use pgweir_wire::{CancelKey, ProtocolVersion, StartupPacket};
use std::fmt::Write as _;
use support::{converse, lines, real_servers};

/// Scripts for each server; `PGWEIR_TEST_SCRIPTS` overrides it.
const SCRIPTS: u64 = 400;

const SETTINGS: [(&str, &[&str]); 9] = [
    ("application_name", &["a", "b c", ""]),
    ("TimeZone", &["UTC", "Asia/Tokyo", "Nowhere/Land"]),
    ("DateStyle", &["ISO, DMY", "sql", "ymd"]),
    ("intervalstyle", &["iso_8601", "postgres"]),
    ("search_path", &["public"]),
    ("work_mem", &["8MB", "100kB", "1GB"]),
    ("app.tenant", &["x", "y"]),
    ("plpgsql.no_such", &["x"]),
    ("nosuch", &["1"]),
];

/// Text, types and the end of a Bind.
const QUESTIONS: [(&str, &str, &str); 2] = [
    (
        "SELECT EXISTS (SELECT FROM pg_catalog.pg_depend d \
        WHERE d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_namespace'::pg_catalog.regclass \
        AND d.refobjid OPERATOR(pg_catalog.=) pg_catalog.pg_my_temp_schema()), \
        CASE WHEN $1 THEN EXISTS (SELECT FROM pg_catalog.pg_locks l \
        WHERE l.locktype OPERATOR(pg_catalog.=) 'advisory' \
        AND l.pid OPERATOR(pg_catalog.=) pg_catalog.pg_backend_pid()) ELSE false END, \
        EXISTS (SELECT FROM pg_catalog.pg_cursors c WHERE c.is_holdable), \
        EXISTS (SELECT FROM pg_catalog.pg_listening_channels()), \
        EXISTS (SELECT FROM pg_catalog.pg_prepared_statements p \
        WHERE p.from_sql AND p.name OPERATOR(pg_catalog.<>) ALL ($2)), \
        pg_catalog.pg_my_temp_schema() OPERATOR(pg_catalog.<>) 0",
        "16 1009",
        "values \"t\" \"{\\\"s1\\\"}\"",
    ),
    (
        "SELECT s.name, s.setting FROM pg_catalog.pg_settings s \
        WHERE s.source OPERATOR(pg_catalog.=) 'session' \
        UNION ALL SELECT n, pg_catalog.current_setting(n, true) FROM pg_catalog.unnest($1) AS u(n)",
        "1009",
        "values \"{\\\"app.tenant\\\"}\"",
    ),
];

struct Script {
    random: Random,
    lines: Vec<String>,
}

impl Script {
    fn new(seed: u64) -> Self {
        let mut script = Script {
            random: Random::new(seed),
            lines: Vec::new(),
        };
        for _ in 0..script.random.between(5, 40) {
            script.step();
        }
        if script.random.percent(80) {
            // These lines show the state in which the script has ended.
            for line in [
                "CopyFail \"end\"",
                "Sync",
                "Query \"rollback\"",
                "Query \"select k, v from kv order by k\"",
            ] {
                script.lines.push(line.into());
            }
            script.questions();
        }
        script.lines.push("Terminate".into());
        script
    }

    fn pick(&mut self, list: &[&str]) -> String {
        self.random.pick(list).to_string()
    }

    fn name(&mut self) -> String {
        self.pick(&["", "", "s1", "s2"])
    }

    fn portal(&mut self) -> String {
        self.pick(&["", "", "p1", "p2"])
    }

    fn statement(&mut self) -> String {
        let key = self.random.below(6);
        let n = self.random.below(1000);
        let (name, values) = SETTINGS[self.random.below(SETTINGS.len() as u64) as usize];
        let value = self.pick(values);
        match self.random.below(46) {
            0..=3 => format!("select '{n}'"),
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
            25 => format!("update kv set v = 'u{n}' where k = {key}"),
            26 => self.pick(&["update kv set v = 'all'", "delete from kv", "update kv set v = v"]),
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
                "do $$begin raise warning 'hm'; end$$",
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
            _ => "copy kv from stdin".into(),
        }
    }

    /// Session state that outlives its transaction, and questions about it.
    fn session_statement(&mut self) -> String {
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
            10..=11 => format!("select pg_advisory_unlock({key})"),
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

    /// The pooler's questions about settings and pins.
    fn questions(&mut self) {
        for (text, types, bind) in QUESTIONS {
            self.push(
                format!("Parse \"\" \"{text}\" types {types}")
                    .trim_end_matches(" types ")
                    .into(),
            );
            self.push(format!("Bind \"\" \"\" {bind}").trim_end().into());
            self.push("Execute \"\" 0".into());
            self.push("Sync".into());
        }
    }

    fn text(&mut self) -> String {
        let mut text = self.statement();
        if self.random.percent(25) {
            for _ in 0..self.random.between(1, 3) {
                text.push_str("; ");
                text.push_str(&self.statement());
            }
        }
        text
    }

    fn push(&mut self, line: String) {
        self.lines.push(line);
    }

    fn copy_data(&mut self) {
        for _ in 0..self.random.below(4) {
            let key = self.random.below(8);
            let data = match self.random.below(12) {
                0 => "x\\tbad\\n".into(),
                1 => "1\\n".into(),
                2 => "1\\t2\\t3\\n".into(),
                3 => format!("{key}\\t"),
                4 => "half".into(),
                5 => format!("{key}\\t\\\\N\\n"),
                6 => format!("{key}\\ta\\n{}\\tb\\n", key + 10),
                _ => format!("{key}\\tv{key}\\n"),
            };
            self.push(format!("CopyData \"{data}\""));
            if self.random.percent(10) {
                let line = self.pick(&["Sync", "Flush"]);
                self.push(line);
            }
        }
        match self.random.below(12) {
            0..=7 => self.push("CopyDone".into()),
            8..=10 => self.push("CopyFail \"no more\"".into()),
            _ => {}
        }
    }

    fn parameters(&mut self) -> (&'static str, &'static str, &'static str) {
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

    fn step(&mut self) {
        match self.random.below(36) {
            30..=35 => {
                let mut text = self.session_statement();
                if self.random.percent(20) {
                    text = format!("{text}; {}", self.session_statement());
                }
                self.push(format!("Query \"{text}\""));
            }
            0..=6 => {
                let text = self.text();
                self.push(format!("Query \"{text}\""));
                if text.contains("from stdin") && self.random.percent(95) {
                    self.copy_data();
                }
            }
            7..=10 => {
                // The usual flight.
                let (statement, portal) = (self.name(), self.portal());
                let (text, types, bind) = if self.random.percent(50) {
                    self.parameters()
                } else {
                    ("", "", "")
                };
                let text = if text.is_empty() { self.statement() } else { text.into() };
                if self.random.percent(85) {
                    self.push(format!("Parse \"{statement}\" \"{text}\"{types}"));
                }
                if self.random.percent(20) {
                    self.push(format!("Describe S \"{statement}\""));
                }
                self.push(format!("Bind \"{portal}\" \"{statement}\" {bind}").trim_end().into());
                if self.random.percent(40) {
                    self.push(format!("Describe P \"{portal}\""));
                }
                let rows = self.pick(&["0", "0", "0", "1", "2", "5", "-1"]);
                self.push(format!("Execute \"{portal}\" {rows}"));
                if text.contains("from stdin") {
                    self.copy_data();
                }
                if self.random.percent(20) {
                    self.push(format!("Execute \"{portal}\" {rows}"));
                }
                if self.random.percent(60) {
                    self.push("Sync".into());
                }
            }
            11..=12 => {
                let (statement, text) = (self.name(), self.text());
                self.push(format!("Parse \"{statement}\" \"{text}\""));
            }
            13..=14 => {
                let (portal, statement) = (self.portal(), self.name());
                self.push(format!("Bind \"{portal}\" \"{statement}\""));
            }
            15..=16 => {
                let (portal, rows) = (self.portal(), self.random.below(3));
                self.push(format!("Execute \"{portal}\" {rows}"));
            }
            17..=18 => {
                let (what, name) = if self.random.percent(50) {
                    ("S", self.name())
                } else {
                    ("P", self.portal())
                };
                let message = self.pick(&["Describe", "Close"]);
                self.push(format!("{message} {what} \"{name}\""));
            }
            19..=23 => self.push("Sync".into()),
            24..=25 => self.push("Flush".into()),
            26 => {
                let line = self.pick(&[
                    "FunctionCall 177 values \"1\" \"2\"",
                    "FunctionCall 177 formats 1 values \"\\x00\\x00\\x00\\x01\" \"\\x00\\x00\\x00\\x02\" result 1",
                    "FunctionCall 177 values \"1\" NULL",
                    "FunctionCall 177 values \"1\"",
                    "FunctionCall 4711",
                ]);
                self.push(line);
            }
            27 => self.copy_data(),
            28 => {
                let line = self.pick(&["CopyDone", "CopyFail \"stray\"", "CopyData \"stray\""]);
                self.push(line);
            }
            _ => {
                if self.random.percent(10) {
                    let line = self.pick(&[
                        "Raw \"P\\x00\\x00\\x00\\x05x\"",
                        "Raw \"D\\x00\\x00\\x00\\x06Q\\x00\"",
                        "Raw \"C\\x00\\x00\\x00\\x06Q\\x00\"",
                        "Raw \"Q\\x00\\x00\\x00\\x05x\"",
                        "Raw \"y\\x00\\x00\\x00\\x04\"",
                        "Raw \"E\\x00\\x00\\x00\\x02\"",
                        "Raw \"B\\x00\\x00\\x00\\x08\\x00\\x00\\x00\\x01\"",
                        "Raw \"S\\x00\\x00\\x00\\x05x\"",
                        "Password \"x\"",
                    ]);
                    self.push(line);
                }
            }
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = startup();
        for line in &self.lines {
            frontend_from_text(line, &mut bytes).unwrap_or_else(|e| panic!("{line}: {e}"));
        }
        bytes
    }
}

fn startup() -> Vec<u8> {
    let mut bytes = Vec::new();
    let parameters = [
        (&b"user"[..], &b"postgres"[..]),
        (b"database", b"postgres"),
        (b"application_name", b"script"),
    ];
    StartupPacket::write_startup(&mut bytes, ProtocolVersion::V3_0, parameters);
    bytes
}

/// The model's answer to bytes in pieces of random sizes; `None` for a script that could crash a real
/// server.
fn model_answer(version: Version, bytes: &[u8], random: &mut Random) -> Option<Vec<u8>> {
    let key = CancelKey {
        process_id: 1,
        secret: vec![0; 4].into(),
    };
    let mut session = Session::new(version, key);
    let mut shared = Shared::new();
    let mut answer = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let (piece, behind) = rest.split_at((random.between(1, 300) as usize).min(rest.len()));
        session.receive(&mut shared, 0, piece);
        answer.extend(session.take_sent());
        rest = behind;
    }
    assert!(session.is_closed(), "every script ends in Terminate");
    (!session.met_undefined()).then_some(answer)
}

fn query(port: u16, text: &str) -> Vec<String> {
    let mut bytes = startup();
    frontend_from_text(&format!("Query \"{text}\""), &mut bytes).unwrap();
    frontend_from_text("Terminate", &mut bytes).unwrap();
    lines(&converse(port, &bytes))
}

#[allow(clippy::disallowed_methods)]
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn the_model_answers_as_postgresql_does() {
    for (major, port) in real_servers() {
        let version = if major == 15 { Version::V15 } else { Version::V18 };
        query(port, "create table if not exists kv (k int primary key, v text)");
        let seeds = match number("PGWEIR_TEST_SCRIPT_SEED") {
            Some(seed) => seed..seed + 1,
            None => 0..number("PGWEIR_TEST_SCRIPTS").unwrap_or(SCRIPTS),
        };
        let mut failed = Vec::new();
        for seed in seeds {
            let script = Script::new(seed);
            let bytes = script.bytes();
            let Some(model) = model_answer(version, &bytes, &mut Random::new(seed)) else {
                continue;
            };
            let model = normal_lines(lines(&model));
            query(port, "truncate kv");
            let real = normal_lines(lines(&converse(port, &bytes)));
            if real != model {
                failed.push(seed);
                if failed.len() <= 4 {
                    println!("{}", difference(seed, major, &script, &real, &model));
                }
            }
        }
        assert!(
            failed.is_empty(),
            "{} scripts differ from PostgreSQL {major}, seeds {:?}; replay one with PGWEIR_TEST_SCRIPT_SEED={}",
            failed.len(),
            &failed[..failed.len().min(10)],
            failed[0],
        );
    }
}

fn difference(seed: u64, major: u32, script: &Script, real: &[String], model: &[String]) -> String {
    let mut text = format!("seed {seed}, PostgreSQL {major}\n");
    for line in &script.lines {
        let _ = writeln!(text, "C> {line}");
    }
    let same = real.iter().zip(model).take_while(|(a, b)| a == b).count();
    for line in &real[..same] {
        let _ = writeln!(text, "   {line}");
    }
    for line in real[same..].iter().take(8) {
        let _ = writeln!(text, "real  {line}");
    }
    for line in model[same..].iter().take(8) {
        let _ = writeln!(text, "model {line}");
    }
    text
}
