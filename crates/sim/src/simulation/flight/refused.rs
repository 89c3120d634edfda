//! Flights with one statement that servers refuse before anything of it runs.

use super::{Author, Flight};

impl Author {
    /// A text whose effects would pin for good if it ran, or a harmless one.
    pub(super) fn refused(&mut self) -> Flight {
        let (key, value) = (self.key(), self.value());
        let text = self.pick(&[
            &format!("slect '{value}'"),
            &format!("select '{value}'; slect 1"),
            "load nosuch",
            "set seed to",
            "select set_config(nullif('seed', 'x'), '0.5', true) from",
            &format!("select '{value}'"),
            &format!("insert into kv values ({key}, '{value}')"),
        ]);
        let is_one = !text.contains(';');
        let in_block = self.random.percent(30);
        if in_block {
            self.push("Query \"begin\"");
        }
        let mut segments = if in_block { vec![self.take_bytes()] } else { Vec::new() };
        if is_one && self.random.percent(50) {
            self.push(format!("Parse \"\" \"{text}\""));
            if self.random.percent(50) {
                self.push("Bind \"\" \"\"");
                self.push("Execute \"\" 0");
            }
            self.push("Sync");
        } else {
            self.push(format!("Query \"{text}\""));
        }
        segments.push(self.take_bytes());
        if in_block {
            let end = self.pick(&["commit", "rollback"]);
            self.push(format!("Query \"{end}\""));
            segments.push(self.take_bytes());
        }
        match self.random.percent(50) {
            true => Flight::of(segments),
            false => Flight::in_stages(segments),
        }
    }
}
