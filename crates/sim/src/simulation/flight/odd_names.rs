//! Flights of sessions whose prepared statements are odd: their tables are gone, only another role may prepare them, or
//! they run code. The session uses, describes, closes and prepares them in any order, behind settings that change
//! meanwhile.

use super::session_statements::BY_CODE;
use super::{Author, Flight};
use crate::model::rights;

/// Names of statements without parameters. Code that runs EXECUTE knows `sp`.
const NAMES: [&str; 4] = ["lost", "gone", "a", "sp"];

impl Author {
    /// Steps in any order. Each segment has one ReadyForQuery.
    pub(super) fn with_odd_names(&mut self) -> Flight {
        self.may_be_tied = true;
        let mut segments = Vec::new();
        if self.random.percent(30) {
            self.odd_query(&mut segments, "begin");
        }
        for _ in 0..self.random.between(2, 7) {
            self.odd_step(&mut segments);
        }
        self.ends_segment(&mut segments);
        if self.random.percent(50) {
            let end = self.pick(&["commit", "rollback"]);
            self.odd_query(&mut segments, &end);
        }
        match self.random.percent(50) {
            true => Flight::of(segments),
            false => Flight::in_stages(segments),
        }
    }

    fn odd_step(&mut self, segments: &mut Vec<Vec<u8>>) {
        let name = self.pick(&NAMES);
        let value = self.value();
        match self.random.below(24) {
            0 => self.loses_its_table(segments),
            1 => self.loses_its_right(segments),
            2..=3 => self.odd_query_of_code(segments),
            4..=5 => self.code_by_messages(),
            6..=7 => self.set_by_messages(),
            8 => {
                let text = self.pick(&[
                    "set search_path = public",
                    &format!("set search_path = '{}'", self.token),
                    "set local timezone = 'UTC'",
                    "set timezone = 'UTC'",
                    &format!("set app.tenant = '{value}'"),
                ]);
                self.odd_query(segments, &text);
            }
            9..=12 => self.runs(&name),
            13 => self.push(format!("Describe S \"{name}\"")),
            14 => {
                // Two portals: the second one is bound while the first one may still run.
                self.push(format!("Bind \"p\" \"{name}\""));
                self.runs("");
                self.push("Execute \"p\" 0");
            }
            15 => self.prepares_anew(&name, &value),
            16 => self.push(format!("Close S \"{name}\"")),
            17 => self.odd_query(segments, &format!("execute {name}")),
            18 => self.odd_query(segments, &format!("deallocate {name}")),
            19 => self.odd_query(segments, &format!("prepare {name} as select '{value}'")),
            20 => {
                let text = self.pick(&[
                    "discard plans",
                    "deallocate all",
                    "savepoint x",
                    "rollback to x",
                    "rollback",
                ]);
                self.odd_query(segments, &text);
            }
            21 => {
                // EXECUTE of it would answer with the columns of the Parse: see docs/differences.md.
                self.push("Close S \"nested\"");
                self.push("Parse \"nested\" \"execute sp\"");
                self.runs("nested");
            }
            22 => self.odd_query(segments, &format!("select '{value}'")),
            _ => {
                self.push(format!("Parse \"\" \"select '{value}', current_setting('TimeZone')\""));
                self.runs("");
            }
        }
        if self.random.percent(50) {
            self.ends_segment(segments);
        }
    }

    /// A Query that is a segment of its own.
    fn odd_query(&mut self, segments: &mut Vec<Vec<u8>>, text: &str) {
        self.ends_segment(segments);
        self.push(format!("Query \"{text}\""));
        segments.push(self.take_bytes());
    }

    /// Sync, if there are messages that no Sync ends.
    fn ends_segment(&mut self, segments: &mut Vec<Vec<u8>>) {
        if !self.lines.is_empty() {
            self.push("Sync");
            segments.push(self.take_bytes());
        }
    }

    /// A statement whose table is dropped, by PREPARE or by Parse.
    fn loses_its_table(&mut self, segments: &mut Vec<Vec<u8>>) {
        let text = format!("select '{}' from tmp_gone", self.value());
        self.odd_query(segments, "create temp table tmp_gone (v text)");
        if self.random.percent(50) {
            self.odd_query(segments, "deallocate lost");
            self.odd_query(segments, &format!("prepare lost as {text}"));
        } else {
            self.push("Close S \"gone\"");
            self.push(format!("Parse \"gone\" \"{text}\""));
            self.ends_segment(segments);
        }
        if self.random.percent(80) {
            self.odd_query(segments, "drop table tmp_gone");
        }
    }

    /// A statement that only the session's own role may prepare. Nothing uses it under another role: see
    /// docs/differences.md.
    fn loses_its_right(&mut self, segments: &mut Vec<Vec<u8>>) {
        let own = format!("set role {}", self.token);
        self.odd_query(segments, "deallocate v");
        self.odd_query(segments, &own);
        match self.random.percent(50) {
            true => self.odd_query(segments, &format!("prepare v as {}", rights::text())),
            false => self.push(format!("Parse \"v\" \"{}\"", rights::text())),
        }
        self.odd_query(segments, "set role none");
    }

    fn odd_query_of_code(&mut self, segments: &mut Vec<Vec<u8>>) {
        let value = self.value();
        let text = self.pick(&[
            BY_CODE,
            &format!("do $$begin raise notice '{value}'; end$$"),
            &format!("do $$begin perform set_config('app.tenant', '{value}', false); end$$"),
            "do $$begin perform set_config('TimeZone', 'UTC', false); end$$",
        ]);
        self.odd_query(segments, &text);
    }

    /// Code that only this client's server knows if a SET stands before its Parse.
    fn code_by_messages(&mut self) {
        let value = self.value();
        let code = self.pick(&[
            &format!("do $$begin raise notice '{value}'; end$$"),
            "do $$begin perform set_config('work_mem', '1MB', false); end$$",
        ]);
        self.push("Close S \"a\"");
        if self.random.percent(70) {
            self.set_by_messages();
        }
        self.push(format!("Parse \"a\" \"{code}\""));
        self.runs("a");
    }

    fn set_by_messages(&mut self) {
        let value = self.value();
        let text = self.pick(&[
            "set timezone = 'UTC'",
            "set local timezone = 'Asia/Tokyo'",
            "set search_path = public",
            &format!("set app.user = '{value}'"),
        ]);
        self.push(format!("Parse \"\" \"{text}\""));
        self.runs("");
    }

    /// Parse, of a name that may exist. Code does not find `sp` if it was made so, and an EXECUTE that is made by Parse
    /// has errors of its own if its statement cannot be prepared: see docs/differences.md.
    fn prepares_anew(&mut self, name: &str, value: &str) {
        let name = if name == "sp" { "gone" } else { name };
        if self.random.percent(60) {
            self.push(format!("Close S \"{name}\""));
        }
        let text = self.pick(&[
            &format!("select '{value}'"),
            "select current_setting('TimeZone')",
            &format!("select '{value}' from tmp_gone"),
            "discard plans",
        ]);
        self.push(format!("Parse \"{name}\" \"{text}\""));
    }
}
