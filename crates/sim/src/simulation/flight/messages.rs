//! The messages that carry the statements.

use super::Author;
use super::statements::Place;

impl Author {
    pub(super) fn query(&mut self) {
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

    pub(super) fn copy_in_lines(&mut self) {
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

    /// What follows an Execute of COPY FROM.
    fn copy_in(&mut self, certain: bool) {
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

    /// Messages of a COPY that has ended or never began: servers ignore them.
    pub(super) fn stray_copy(&mut self) {
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

    /// Whether named statements are the client's own: they are tracked, or the client keeps its server.
    fn names_statements(&self) -> bool {
        self.tracked_statements || self.has_session
    }

    fn statement_name(&mut self) -> String {
        if self.names_statements() {
            self.may_be_tied |= !self.tracked_statements;
            self.pick(&["", "", "a", "b", "c"])
        } else {
            String::new()
        }
    }

    /// Whether a statement may be used that was not parsed in the same segment. Where statements are not tracked, the
    /// unnamed one of an earlier transaction is gone.
    fn may_use_earlier(&self, name: &str) -> bool {
        self.tracked_statements || !self.has_session || !name.is_empty()
    }

    /// A Query ends the unnamed statement. The next segment, perhaps on another server, must find none.
    pub(super) fn uses_no_statement(&mut self) -> Vec<Vec<u8>> {
        let value = self.value();
        self.push(format!("Query \"select '{value}'\""));
        let first = self.take_bytes();
        let uses = self.pick(&["Bind \"\" \"\"", "Describe S \"\""]);
        self.push(uses);
        self.push("Execute \"\" 0");
        self.push("Sync");
        vec![first, self.take_bytes()]
    }

    /// An EXECUTE is described, perhaps on another server than the one where its statement was prepared.
    pub(super) fn described_execute(&mut self) -> Vec<Vec<u8>> {
        let value = self.value();
        self.push("Query \"deallocate all\"");
        let first = self.take_bytes();
        self.push(format!("Parse \"n\" \"select '{value}'\""));
        self.push("Parse \"e\" \"execute n\"");
        self.push("Sync");
        let prepared = self.take_bytes();
        self.push("Describe S \"e\"");
        self.push("Sync");
        let described = self.take_bytes();
        self.push("Query \"deallocate all\"");
        vec![first, prepared, described, self.take_bytes()]
    }

    /// A portal lists the client's statements after one of them is parsed or used; sometimes in a transaction, one
    /// segment each.
    pub(super) fn lists_later(&mut self) -> Vec<Vec<u8>> {
        let (value, one_segment) = (self.value(), self.random.percent(50));
        let list = "select name from pg_prepared_statements order by name collate \\\"C\\\"";
        let mut segments = Vec::new();
        let ends = |author: &mut Self, segments: &mut Vec<Vec<u8>>| {
            if !one_segment {
                author.push("Sync");
                segments.push(author.take_bytes());
            }
        };
        // Behind another message of its segment, the list would fail for a statement whose table is gone; behind a Query
        // in a pipeline it would lack names.
        let name = self.pick(&["", "list"]);
        self.push(format!("Close S \"{name}\""));
        self.push("Sync");
        segments.push(self.take_bytes());
        if !one_segment {
            self.push("Query \"begin\"");
            segments.push(self.take_bytes());
        }
        self.push(format!("Parse \"{name}\" \"{list}\""));
        if self.random.percent(30) {
            self.push("Sync");
            segments.push(self.take_bytes());
            self.push(format!("Describe S \"{name}\""));
        }
        self.push(format!("Bind \"p\" \"{name}\""));
        ends(self, &mut segments);
        if self.random.percent(70) {
            self.push("Close S \"b\"");
            self.push("Parse \"b\" \"select $1\"");
        }
        if self.random.percent(70) {
            self.push(format!("Bind \"\" \"b\" values \"{value}\""));
        }
        ends(self, &mut segments);
        self.push("Execute \"p\" 0");
        self.push("Sync");
        segments.push(self.take_bytes());
        if !one_segment {
            self.push("Query \"commit\"");
            segments.push(self.take_bytes());
        }
        if name.is_empty() {
            // Other flights use it behind other messages.
            self.push("Close S \"\"");
            self.push("Sync");
            segments.push(self.take_bytes());
        }
        segments
    }

    /// Parse, Bind, Describe, Execute, Close in many orders, without a Sync.
    pub(super) fn extended(&mut self, certain: bool) {
        let mut name = self.statement_name();
        let portal = self.pick(&["", "", "", "p"]);
        let (text, types, bind) = if self.random.percent(60) {
            self.parameters()
        } else {
            (self.statement_for(Place::Execute), String::new(), String::new())
        };
        let named = self.names_statements();
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
        if copies || self.random.percent(75) || !self.may_use_earlier(&name) {
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
            if self.random.percent(20) {
                // The pooler may answer this itself, perhaps while the row's description comes.
                let other = self.statement_name();
                self.push(format!("Close S \"{other}\""));
            }
        }
        let rows = if copies {
            0
        } else {
            *self.random.pick(&[0, 0, 0, 0, 1, 2])
        };
        self.push(format!("Execute \"{portal}\" {rows}"));
        if copies {
            self.copy_in(certain);
        }
        if self.random.percent(10) {
            self.push(format!("Execute \"{portal}\" {rows}"));
        }
        if self.random.percent(10) {
            let what = self.pick(&["S \"a\"", "S \"\"", "P \"\"", "P \"p\"", "S \"nosuch\""]);
            self.push(format!("Close {what}"));
        }
    }
}
