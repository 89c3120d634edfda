//! Reading a table of the console.

use crate::rig::Rig;
use pgweir_core::ClientId;
use pgweir_wire::backend;

pub const INT4: u32 = 23;
pub const INT8: u32 = 20;
pub const TEXT: u32 = 25;
pub const NUMERIC: u32 = 1700;
pub const BYTEA: u32 = 17;

/// A console client of a pooler with `auth_type = any`.
pub fn console(rig: &mut Rig) -> ClientId {
    let id = rig.client_begins(&[
        ("user", "boss"),
        ("database", "pgbouncer"),
        ("application_name", "watch"),
    ]);
    assert_eq!(rig.told(id).last().map(String::as_str), Some("ReadyForQuery I"));
    id
}

/// Rows of text.
type Table = Vec<Vec<Option<String>>>;

/// The answer to a Query: columns with their types, and rows.
pub fn query(rig: &mut Rig, id: ClientId, text: &str) -> (Vec<(String, u32)>, Table) {
    rig.says(id, |w| w.query(text.as_bytes()));
    let heard = rig.hears(id);
    let tags: Vec<u8> = heard.iter().map(|(tag, _)| *tag).collect();
    assert_eq!(
        (tags[0], &tags[tags.len() - 2..]),
        (b'T', &b"CZ"[..]),
        "{text}: {heard:?}"
    );
    assert_eq!(heard[heard.len() - 2].1, b"SHOW\0");
    let rows = heard[1..heard.len() - 2].iter().map(|(_, body)| row(body)).collect();
    (columns(&heard[0].1), rows)
}

pub fn row(body: &[u8]) -> Vec<Option<String>> {
    let text = |field: &[u8]| String::from_utf8(field.to_vec()).unwrap();
    let fields = backend::data_row(body).unwrap();
    fields.into_iter().map(|f| f.map(text)).collect()
}

/// Names and types of a RowDescription.
pub fn columns(body: &[u8]) -> Vec<(String, u32)> {
    let mut columns = Vec::new();
    let mut rest = &body[2..];
    while !rest.is_empty() {
        let end = rest.iter().position(|&b| b == 0).unwrap();
        let name = String::from_utf8(rest[..end].to_vec()).unwrap();
        let kind = u32::from_be_bytes(rest[end + 7..end + 11].try_into().unwrap());
        columns.push((name, kind));
        rest = &rest[end + 19..];
    }
    columns
}

/// One column of one row.
pub fn value(rig: &mut Rig, id: ClientId, show: &str, row: usize, column: &str) -> String {
    let (columns, rows) = query(rig, id, show);
    let at = columns
        .iter()
        .position(|(name, _)| name == column)
        .expect("a column of that name");
    rows[row][at].clone().unwrap_or_else(|| "NULL".into())
}
