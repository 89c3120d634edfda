//! Flights that are sent for one special case each.

use super::session_statements::CUSTOM;
use super::statements::Place;
use super::{Author, Flight};
use crate::simulation::topology::Mode;

impl Author {
    /// A message that is too long to be kept and sets a setting, and other messages after it.
    pub(super) fn long_flight(&mut self) -> Flight {
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
    pub(super) fn prepared_on_gone(&mut self) -> Flight {
        self.may_be_tied |= !self.tracked_statements;
        let runs_code = self.tracked_statements && !self.avoids_code && self.random.percent(30);
        let mut segments = Vec::new();
        if runs_code {
            self.may_be_tied = true;
            segments.push(self.code_behind_set());
        }
        let value = self.value();
        let texts = [
            "deallocate lost",
            "create temp table tmp_gone (v text)",
            &format!("prepare lost as select '{value}' from tmp_gone"),
            "drop table tmp_gone",
        ];
        for text in texts {
            self.push(format!("Query \"{text}\""));
            segments.push(self.take_bytes());
        }
        if runs_code {
            self.runs("a");
            self.push("Sync");
            segments.push(self.take_bytes());
        }
        Flight::of(segments)
    }

    /// Prepares code that may use any name, and that only this client's server knows, because a SET stands before its
    /// Parse.
    fn code_behind_set(&mut self) -> Vec<u8> {
        let value = self.value();
        self.push("Close S \"a\"");
        self.push("Parse \"\" \"set timezone = 'UTC'\"");
        self.runs("");
        self.push(format!("Parse \"a\" \"do $$begin raise notice '{value}'; end$$\""));
        self.runs("a");
        self.push("Sync");
        self.take_bytes()
    }

    /// Binds a statement without parameters, and executes it.
    pub(super) fn runs(&mut self, statement: &str) {
        self.push(format!("Bind \"\" \"{statement}\""));
        self.push("Execute \"\" 0");
    }

    /// A Query whose commit fails behind a DEALLOCATE, and what shows whether the statement is gone.
    pub(super) fn deallocates_in_vain(&mut self) -> Flight {
        let (key, values) = (self.key() + 1, [self.value(), self.value()]);
        let name = self.pick(&["a", "b"]);
        let last = self.pick(&["deallocate all", &format!("deallocate {name}")]);
        let [before, behind] = values.map(|value| format!("Parse \"{name}\" \"select '{value}'\""));
        let segments = [
            vec![before, "Sync".into()],
            vec![format!("Query \"insert into later values (0 - {key}); {last}\"")],
            vec![behind, "Sync".into()],
            vec![format!("Bind \"\" \"{name}\""), "Execute \"\" 0".into(), "Sync".into()],
        ];
        let bytes = segments.map(|lines| {
            lines.into_iter().for_each(|line| self.push(line));
            self.take_bytes()
        });
        match self.random.percent(50) {
            true => Flight::of(bytes.into()),
            false => Flight::in_stages(bytes.into()),
        }
    }

    /// A Query after an Execute without Sync: PostgreSQL 15 commits it, 18 does not.
    pub(super) fn query_without_sync(&mut self) -> Flight {
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
    pub(super) fn flushed(&mut self) -> Flight {
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
}
