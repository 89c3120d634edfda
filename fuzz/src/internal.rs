//! The answers of a good server to the pooler's own statements. Without them no login would end, and no session would
//! be restored, probed or emptied.

use pgweir_wire::Writer;

/// What a statement returns: its rows and its command tag.
pub struct Outcome {
    pub rows: Vec<Vec<Option<Vec<u8>>>>,
    pub tag: String,
    /// A setting and its new value.
    pub sets: Option<(Vec<u8>, Vec<u8>)>,
}

/// Beginnings of the pooler's statements that return one row of constants. The first one that fits counts.
const CONSTANT_ROWS: [(&str, &[&str]); 7] = [
    // auth_query, asked for eve.
    ("SELECT rolname", &["eve", "pw"]),
    ("SELECT pg_catalog.pg_my_temp_schema()", &["f"]),
    (
        "SELECT pg_catalog.pg_is_in_recovery(), pg_catalog.current",
        &["f", "off"],
    ),
    ("SELECT pg_catalog.pg_is_in_recovery(), CASE", &["f", "0/1"]),
    ("SELECT pg_catalog.current_setting('max_connections')", &["90"]),
    ("SELECT EXISTS (", &["f", "f", "f", "f", "f", "f"]),
    ("SELECT pg_catalog.", &[""]),
];

/// Beginnings of those that return no row: nothing was set, and the database has no routine.
const ROWLESS: [&str; 3] = ["SELECT s.name, s.setting", "SELECT c FROM pg_catalog.", "WITH "];

/// The parts of a simple query of the pooler's, each with what it returns; `None` if the text is a client's.
pub fn of_query(text: &[u8], process_id: u32) -> Option<Vec<Outcome>> {
    let text = std::str::from_utf8(text)
        .ok()
        .filter(|text| text.contains("pg_catalog."))?;
    let parts = text.split(';').map(str::trim).filter(|part| !part.is_empty());
    Some(parts.map(|part| of_statement(part, &[], process_id)).collect())
}

/// What one statement with these parameters returns.
pub fn of_statement(text: &str, values: &[Option<Vec<u8>>], process_id: u32) -> Outcome {
    let value = |i: usize| values.get(i).cloned().flatten();
    let constants = |row: &[&str]| row.iter().map(|v| Some(v.as_bytes().to_vec())).collect::<Vec<_>>();
    let squeezed = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let starts = |with: &str| squeezed.starts_with(with);
    let mut sets = None;
    let rows = if starts("SELECT pg_catalog.pg_backend_pid()") {
        vec![constants(&[&process_id.to_string()])]
    } else if starts("SELECT $1, pg_catalog.current_setting($1), CASE") {
        vec![vec![value(0), Some(b"0".to_vec()), None, None]]
    } else if starts("SELECT $1, pg_catalog.current_setting($1)") {
        vec![vec![value(0), Some(b"0".to_vec()), value(1)]]
    } else if starts("SELECT pg_catalog.set_config($1, $2") {
        sets = value(0).zip(value(1));
        vec![vec![value(1)]]
    } else if ROWLESS.iter().any(|with| starts(with)) {
        Vec::new()
    } else {
        let known = CONSTANT_ROWS.iter().find(|(with, _)| starts(with));
        known.map(|(_, row)| constants(row)).into_iter().collect()
    };
    let tag = tag_of(&squeezed, rows.len());
    Outcome { rows, tag, sets }
}

fn tag_of(text: &str, rows: usize) -> String {
    let words: Vec<&str> = text.split(' ').take(2).collect();
    match *words {
        ["SELECT" | "WITH", ..] => format!("SELECT {rows}"),
        ["CLOSE", _] => "CLOSE CURSOR ALL".to_string(),
        [word @ ("DEALLOCATE" | "DISCARD"), what] => format!("{word} {what}"),
        [word, ..] => word.to_string(),
        [] => String::new(),
    }
}

impl Outcome {
    /// Whether the parameter that was set is one whose changes a server reports.
    pub fn is_reported(&self) -> bool {
        const REPORTED: [&[u8]; 5] = [
            b"search_path",
            b"application_name",
            b"TimeZone",
            b"DateStyle",
            b"client_encoding",
        ];
        self.sets
            .as_ref()
            .is_some_and(|(name, _)| REPORTED.iter().any(|r| r.eq_ignore_ascii_case(name)))
    }

    pub fn write(&self, w: &mut Writer<'_>) {
        for row in &self.rows {
            w.data_row(row.len(), row.iter().map(|value| value.as_deref()));
        }
        w.command_complete(&self.tag);
        if let Some((name, value)) = self.sets.as_ref().filter(|_| self.is_reported()) {
            w.parameter_status(name, value);
        }
    }
}

/// The values of the parameters in a Bind.
pub fn parameters(body: &[u8]) -> Option<Vec<Option<Vec<u8>>>> {
    let names = body.iter().enumerate().filter(|(_, b)| **b == 0).nth(1)?.0 + 1;
    let mut rest = body.get(names..)?;
    let formats = usize::from(number(&mut rest)?);
    rest = rest.get(formats * 2..)?;
    let count = number(&mut rest)?;
    (0..count).map(|_| value(&mut rest)).collect()
}

fn number(rest: &mut &[u8]) -> Option<u16> {
    let (bytes, behind) = rest.split_first_chunk()?;
    *rest = behind;
    Some(u16::from_be_bytes(*bytes))
}

fn value(rest: &mut &[u8]) -> Option<Option<Vec<u8>>> {
    let (bytes, behind) = rest.split_first_chunk()?;
    *rest = behind;
    let Ok(length) = usize::try_from(i32::from_be_bytes(*bytes)) else {
        return Some(None);
    };
    let (value, behind) = rest.split_at_checked(length)?;
    *rest = behind;
    Some(Some(value.to_vec()))
}
