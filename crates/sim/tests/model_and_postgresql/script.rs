//! Random scripts: what a client sends, as lines of a transcript.

use pgweir_sim::random::Random;
use pgweir_sim::transcript::frontend_from_text;
use pgweir_wire::{ProtocolVersion, StartupPacket};

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
        WHERE (p.from_sql OR $3) AND p.name OPERATOR(pg_catalog.<>) ALL ($2)), \
        pg_catalog.pg_my_temp_schema() OPERATOR(pg_catalog.<>) 0",
        "16 1009 16",
        "values \"t\" \"{\\\"s1\\\"}\" \"t\"",
    ),
    (
        "SELECT s.name, s.setting, s.context OPERATOR(pg_catalog.=) 'superuser' \
        AND NOT pg_catalog.has_parameter_privilege(session_user, s.name, 'SET') \
        OR current_user OPERATOR(pg_catalog.<>) session_user AND (s.name OPERATOR(pg_catalog.=) 'temp_tablespaces' \
        OR s.name OPERATOR(pg_catalog.=) 'default_text_search_config' \
        AND s.setting OPERATOR(pg_catalog.!~~) 'pg_catalog.%') FROM pg_catalog.pg_settings s \
        WHERE s.source OPERATOR(pg_catalog.=) 'session' \
        UNION ALL SELECT n, pg_catalog.current_setting(n, true), false FROM pg_catalog.unnest($1) AS u(n)",
        "1009",
        "values \"{\\\"app.tenant\\\"}\"",
    ),
];

/// What a client sends in one session.
pub struct Script {
    pub random: Random,
    pub lines: Vec<String>,
}

impl Script {
    pub fn new(seed: u64) -> Self {
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

    pub fn pick(&mut self, list: &[&str]) -> String {
        self.random.pick(list).to_string()
    }

    fn name(&mut self) -> String {
        self.pick(&["", "", "s1", "s2"])
    }

    fn portal(&mut self) -> String {
        self.pick(&["", "", "p1", "p2"])
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

    /// Something about a column whose type changes after statements were prepared.
    fn number(&mut self) {
        let of = self.pick(&["int4", "int8"]);
        let alter = format!("alter table num1 alter n type {of}");
        match self.random.below(6) {
            0 => self.push(format!("Query \"{alter}\"")),
            1 => {
                self.push(format!("Parse \"s2\" \"{alter}\""));
                self.push("Bind \"\" \"s2\"".into());
                self.push("Execute \"\" 0".into());
            }
            2..=3 => {
                let name = self.name();
                self.push(format!("Parse \"{name}\" \"insert into num1 values ($1)\""));
                self.push(format!("Describe S \"{name}\""));
            }
            _ => {
                let name = self.name();
                let value = self.pick(&[
                    "formats 1 values \"\\x00\\x00\\x00\\x07\"",
                    "formats 1 values \"\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x07\"",
                    "values \"12\"",
                ]);
                self.push(format!("Bind \"\" \"{name}\" {value}"));
                self.push("Execute \"\" 0".into());
            }
        }
        if self.random.percent(70) {
            self.push("Sync".into());
        }
    }

    fn step(&mut self) {
        match self.random.below(40) {
            36..=39 => self.number(),
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

    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = startup();
        for line in &self.lines {
            frontend_from_text(line, &mut bytes).unwrap_or_else(|e| panic!("{line}: {e}"));
        }
        bytes
    }
}

/// The startup packet of every script.
pub fn startup() -> Vec<u8> {
    let mut bytes = Vec::new();
    let parameters = [
        (&b"user"[..], &b"postgres"[..]),
        (b"database", b"postgres"),
        (b"application_name", b"script"),
    ];
    StartupPacket::write_startup(&mut bytes, ProtocolVersion::V3_0, parameters);
    bytes
}
