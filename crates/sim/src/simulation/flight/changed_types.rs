//! Flights about a column whose type changes after statements were prepared: their parameters keep the types that the
//! client was told.

use super::{Author, Flight};

/// The table with this column, of which each session has its own.
#[derive(Debug)]
pub(super) struct Number {
    table: u64,
    /// The column has eight bytes, not four, as far as the session knows.
    is_long: bool,
    /// So had it when the named statement was prepared; `None`: the session has prepared none.
    was_long: Option<bool>,
}

/// The name of the statement.
const NAME: &str = "n";

impl Number {
    pub(super) fn of_session(number: u64) -> Self {
        Number {
            table: number,
            is_long: false,
            was_long: None,
        }
    }
}

impl Author {
    /// The client prepares a statement, changes the type, or uses the statement.
    pub(super) fn with_changed_types(&mut self) -> Flight {
        let Some(Number { was_long, is_long, .. }) = self.number else {
            return Flight::default();
        };
        let segments = match (was_long, self.random.below(12)) {
            (None, _) | (_, 0..=2) => vec![self.prepares_insert(NAME)],
            (Some(was), 3..=4) if was == is_long => self.changes_type(),
            (_, 3) => self.changes_type(),
            (_, 4) => self.unnamed_across_change(),
            (Some(was), _) => self.uses_insert(NAME, was),
        };
        Flight::in_stages(segments)
    }

    fn table_number(&self) -> u64 {
        self.number.as_ref().map_or(0, |number| number.table)
    }

    /// The client is told the type. It may use the statement at once.
    fn prepares_insert(&mut self, name: &str) -> Vec<u8> {
        let table = self.table_number();
        self.push(format!("Close S \"{name}\""));
        self.push(format!("Parse \"{name}\" \"insert into num{table} values ($1)\""));
        self.push(format!("Describe S \"{name}\""));
        self.push("Sync");
        if let Some(number) = self.number.as_mut().filter(|_| name == NAME) {
            number.was_long = Some(number.is_long);
        }
        self.take_bytes()
    }

    /// ALTER TABLE, which is rolled back now and then.
    fn changes_type(&mut self) -> Vec<Vec<u8>> {
        let Some(Number { table, is_long, .. }) = self.number else {
            return Vec::new();
        };
        let of = if is_long { "int4" } else { "int8" };
        let alter = format!("Query \"alter table num{table} alter n type {of}\"");
        let in_block = self.random.percent(40);
        let stays = !in_block || self.random.percent(60);
        let end = if stays {
            "Query \"commit\""
        } else {
            "Query \"rollback\""
        };
        let lines = match in_block {
            true => vec!["Query \"begin\"", &alter, end],
            false => vec![&*alter],
        };
        if let Some(number) = self.number.as_mut().filter(|_| stays) {
            number.is_long = !is_long;
        }
        let bytes = |line| {
            self.push(line);
            self.take_bytes()
        };
        lines.into_iter().map(bytes).collect()
    }

    /// The unnamed statement is prepared, and used after the change. A Query would drop it.
    fn unnamed_across_change(&mut self) -> Vec<Vec<u8>> {
        let Some(Number { table, is_long, .. }) = self.number else {
            return Vec::new();
        };
        let of = if is_long { "int4" } else { "int8" };
        let mut segments = vec![self.prepares_insert("")];
        self.push("Close S \"alters\"");
        self.push(format!("Parse \"alters\" \"alter table num{table} alter n type {of}\""));
        self.push("Bind \"\" \"alters\"");
        self.push("Execute \"\" 0");
        self.push("Sync");
        segments.push(self.take_bytes());
        if let Some(number) = &mut self.number {
            number.is_long = !is_long;
        }
        segments.extend(self.uses_insert("", is_long));
        segments
    }

    /// Describe, or a binary value of the type that the client was told.
    fn uses_insert(&mut self, name: &str, was_long: bool) -> Vec<Vec<u8>> {
        let low = self.random.between(1, 200);
        let zeros = "\\x00".repeat(if was_long { 7 } else { 3 });
        if self.random.percent(30) {
            self.push(format!("Describe S \"{name}\""));
        }
        if self.random.percent(85) {
            self.push(format!("Bind \"\" \"{name}\" formats 1 values \"{zeros}\\x{low:02x}\""));
        } else {
            self.push(format!("Bind \"\" \"{name}\" values \"{low}\""));
        }
        self.push("Execute \"\" 0");
        self.push("Sync");
        vec![self.take_bytes()]
    }
}
