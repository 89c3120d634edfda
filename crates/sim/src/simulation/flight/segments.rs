//! Segments: messages up to one ReadyForQuery.

use super::session_statements::BY_CODE;
use super::statements::SETTINGS;
use super::{Author, Flight};

impl Author {
    /// One segment: exactly one ReadyForQuery, whatever happens in it.
    pub(super) fn segment(&mut self, may_sleep: bool) -> Vec<u8> {
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
    pub(super) fn read(&mut self) -> Vec<u8> {
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
            7..=9 if self.tracked_statements => return self.repeated(),
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

    /// The statement that it repeats is prepared at first, and executed afterwards.
    pub(super) fn repeated(&mut self) -> Vec<u8> {
        if !std::mem::replace(&mut self.has_prepared, true) {
            self.push("Parse \"r\" \"select $1\"");
            if self.random.percent(50) {
                self.push("Describe S \"r\"");
            }
            self.push("Sync");
        } else {
            let value = self.value();
            self.push(format!("Bind \"\" \"r\" values \"{value}\""));
            self.described_at_times();
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

    /// The unnamed statement is parsed behind a SET that changes how it is read, and bound in the next segment.
    pub(super) fn bound_behind_set(&mut self) -> Flight {
        self.may_be_tied = true;
        let value = self.value();
        let set = self.pick(&["set client_encoding = 'LATIN1'", "set client_encoding = 'UTF8'"]);
        for line in [
            format!("Parse \"\" \"{set}\""),
            "Bind \"\" \"\"".into(),
            "Execute \"\" 0".into(),
            format!("Parse \"\" \"select '{value}\u{fc}'\""),
            "Sync".into(),
        ] {
            self.push(line);
        }
        let mut segments = vec![self.take_bytes()];
        for line in ["Bind \"\" \"\"", "Execute \"\" 0", "Sync"] {
            self.push(line);
        }
        segments.push(self.take_bytes());
        let mut flight = Flight::of(segments.clone());
        if self.random.percent(50) {
            // The client waits for the first answer, and other clients may get its server.
            flight.stages = segments;
            flight.certain = true;
        }
        flight
    }

    /// A transaction from BEGIN to its end, one segment each.
    pub(super) fn transaction(&mut self) -> Vec<Vec<u8>> {
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
}
