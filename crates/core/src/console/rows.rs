//! The console's result sets: columns with types, rows with values, in text or binary.

use pgweir_wire::Writer;
use pgweir_wire::write::Column as WireColumn;
use std::borrow::Cow;

/// Type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Int4,
    Int8,
    Numeric,
    Bytea,
}

impl Kind {
    /// OID in pg_type and typlen.
    fn oid_and_bytes(self) -> (u32, i16) {
        match self {
            Kind::Text => (25, -1),
            Kind::Int4 => (23, 4),
            Kind::Int8 => (20, 8),
            Kind::Numeric => (1700, -1),
            Kind::Bytea => (17, -1),
        }
    }
}

/// A column's name and type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Column {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
}

pub(crate) const fn text(name: &'static str) -> Column {
    Column { name, kind: Kind::Text }
}

pub(crate) const fn int4(name: &'static str) -> Column {
    Column { name, kind: Kind::Int4 }
}

pub(crate) const fn int8(name: &'static str) -> Column {
    Column { name, kind: Kind::Int8 }
}

pub(crate) const fn numeric(name: &'static str) -> Column {
    Column {
        name,
        kind: Kind::Numeric,
    }
}

pub(crate) const fn bytea(name: &'static str) -> Column {
    Column {
        name,
        kind: Kind::Bytea,
    }
}

/// A value. A number too large for its column's type is sent as the largest value of the type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    Null,
    Text(Cow<'a, str>),
    Number(u64),
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Value::Text(text.into())
    }
}

impl From<String> for Value<'_> {
    fn from(text: String) -> Self {
        Value::Text(text.into())
    }
}

impl<'a> From<Option<&'a str>> for Value<'a> {
    fn from(text: Option<&'a str>) -> Self {
        text.map_or(Value::Null, Value::from)
    }
}

impl From<u64> for Value<'_> {
    fn from(number: u64) -> Self {
        Value::Number(number)
    }
}

impl From<u32> for Value<'_> {
    fn from(number: u32) -> Self {
        Value::Number(number.into())
    }
}

impl From<usize> for Value<'_> {
    fn from(number: usize) -> Self {
        Value::Number(number as u64)
    }
}

impl From<bool> for Value<'_> {
    fn from(yes: bool) -> Self {
        Value::Number(yes.into())
    }
}

/// Result formats in Bind: no code means text for all columns, one code counts for all, otherwise one for each column.
#[derive(Debug, Clone, Default, PartialEq, Eq, pgweir_freeze::Freeze)]
pub(crate) struct Formats(Vec<bool>);

impl Formats {
    /// Reads format codes; `None` if a code is neither text (0) nor binary (1), or if their number is wrong.
    pub(crate) fn read(codes: &[i16], columns: usize) -> Option<Formats> {
        let fits = codes.len() <= 1 || codes.len() == columns;
        let known = codes.iter().all(|code| matches!(code, 0 | 1));
        (fits && known).then(|| Formats(codes.iter().map(|&code| code == 1).collect()))
    }

    fn is_binary(&self, column: usize) -> bool {
        match &*self.0 {
            [] => false,
            [all] => *all,
            each => each.get(column).copied().unwrap_or(false),
        }
    }
}

/// Appends RowDescription.
pub(crate) fn describe(to: &mut Vec<u8>, columns: &[Column], formats: &Formats) {
    let wire: Vec<WireColumn<'_>> = columns
        .iter()
        .map(|column| {
            let (type_oid, type_bytes) = column.kind.oid_and_bytes();
            WireColumn {
                name: column.name,
                type_oid,
                type_bytes,
            }
        })
        .collect();
    let start = to.len();
    Writer::new(to).row_description(&wire);
    // The writer knows text columns only. The format code is the last field of each column.
    let mut at = start + pgweir_wire::HEADER_BYTES + 2;
    for (index, column) in columns.iter().enumerate() {
        at += column.name.len() + 1 + FIELD_BYTES;
        if formats.is_binary(index) {
            to[at - 1] = 1;
        }
    }
}

/// Bytes of a RowDescription's column after its name: table, column number, type, size, modifier, format.
const FIELD_BYTES: usize = 18;

/// DataRow messages.
#[derive(Debug)]
pub(crate) struct Rows<'f> {
    columns: &'static [Column],
    formats: &'f Formats,
    bytes: Vec<u8>,
}

impl<'f> Rows<'f> {
    pub(crate) fn new(columns: &'static [Column], formats: &'f Formats) -> Self {
        Rows {
            columns,
            formats,
            bytes: Vec::new(),
        }
    }

    /// The messages.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Appends a row with one value for each column.
    pub(crate) fn push(&mut self, values: &[Value<'_>]) {
        assert_eq!(values.len(), self.columns.len(), "a row has a value for each column");
        let fields: Vec<Option<Cow<'_, [u8]>>> = values
            .iter()
            .zip(self.columns)
            .enumerate()
            .map(|(index, (value, column))| encode(value, column.kind, self.formats.is_binary(index)))
            .collect();
        Writer::new(&mut self.bytes).data_row(fields.len(), fields.iter().map(Option::as_deref));
    }
}

fn encode<'v>(value: &'v Value<'_>, kind: Kind, binary: bool) -> Option<Cow<'v, [u8]>> {
    let number = match value {
        Value::Null => return None,
        Value::Text(text) => return Some(text.as_bytes().into()),
        Value::Number(number) => *number,
    };
    let number = match kind {
        Kind::Int4 => number.min(i32::MAX as u64),
        Kind::Int8 => number.min(i64::MAX as u64),
        _ => number,
    };
    Some(match (kind, binary) {
        (Kind::Int4, true) => (number as i32).to_be_bytes().to_vec().into(),
        (Kind::Int8, true) => (number as i64).to_be_bytes().to_vec().into(),
        (Kind::Numeric, true) => binary_numeric(number).into(),
        _ => number.to_string().into_bytes().into(),
    })
}

/// A whole number as PostgreSQL's `numeric_send` writes it: digits to the base 10,000, most significant first, without
/// trailing zeros.
///
/// ```text
/// number of digits | weight of the first | sign | scale | digits
/// ```
fn binary_numeric(mut number: u64) -> Vec<u8> {
    let mut digits = Vec::new();
    while number > 0 {
        digits.push((number % 10_000) as i16);
        number /= 10_000;
    }
    let weight = digits.len().saturating_sub(1) as i16;
    let trailing = digits.iter().take_while(|&&digit| digit == 0).count();
    let digits = &digits[trailing..];
    [digits.len() as i16, weight, 0, 0]
        .iter()
        .chain(digits.iter().rev())
        .flat_map(|field| field.to_be_bytes())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgweir_wire::{HEADER_BYTES, backend};

    const COLUMNS: &[Column] = &[text("t"), int4("i"), int8("q"), numeric("n"), bytea("b")];

    fn row(formats: &[i16], values: &[Value<'_>]) -> Vec<Option<Vec<u8>>> {
        let formats = Formats::read(formats, COLUMNS.len()).unwrap();
        let mut rows = Rows::new(COLUMNS, &formats);
        rows.push(values);
        let fields = backend::data_row(&rows.bytes[HEADER_BYTES..]).unwrap();
        fields.into_iter().map(|f| f.map(<[u8]>::to_vec)).collect()
    }

    #[test]
    fn text_and_binary_of_every_type() {
        let values = ["x".into(), 7u32.into(), 8u64.into(), 120_000_000u64.into(), Value::Null];
        let as_text = row(&[], &values);
        let expected = ["x", "7", "8", "120000000"].map(|t| Some(t.as_bytes().to_vec()));
        assert_eq!(as_text[..4], expected);
        assert_eq!(as_text[4], None);
        let as_binary = row(&[1], &values);
        assert_eq!(as_binary[1].as_deref(), Some(&[0, 0, 0, 7][..]));
        assert_eq!(as_binary[2].as_deref(), Some(&[0, 0, 0, 0, 0, 0, 0, 8][..]));
        // Two digits to the base 10,000: 1 at weight 2, then 2000 at weight 1; the zeros below are not written.
        let numeric = [0, 2, 0, 2, 0, 0, 0, 0, 0, 1, 0x07, 0xd0];
        assert_eq!(as_binary[3].as_deref(), Some(&numeric[..]));
        let mixed = row(&[0, 1, 0, 0, 0], &values);
        assert_eq!(
            (mixed[1].as_deref(), mixed[2].as_deref()),
            (Some(&[0, 0, 0, 7][..]), Some(&b"8"[..]))
        );
    }

    #[test]
    fn zero_and_the_largest_numbers() {
        assert_eq!(binary_numeric(0), [0; 8]);
        let largest = row(
            &[],
            &[
                "".into(),
                u64::MAX.into(),
                u64::MAX.into(),
                u64::MAX.into(),
                Value::Null,
            ],
        );
        let text = |n: usize| String::from_utf8(largest[n].clone().unwrap()).unwrap();
        assert_eq!(
            (text(1), text(2), text(3)),
            (i32::MAX.to_string(), i64::MAX.to_string(), u64::MAX.to_string())
        );
    }

    #[test]
    fn formats_must_fit_the_columns() {
        assert!(Formats::read(&[0, 1], 3).is_none());
        assert!(Formats::read(&[2], 3).is_none());
        assert!(Formats::read(&[1, 0, 1], 3).is_some());
        let mut bytes = Vec::new();
        describe(&mut bytes, &COLUMNS[..2], &Formats::read(&[0, 1], 2).unwrap());
        let field = |name: &str, oid: u32, size: i16, format: i16| {
            let mut field = name.as_bytes().to_vec();
            field.extend([0; 7]);
            field.extend(oid.to_be_bytes());
            field.extend(size.to_be_bytes());
            field.extend((-1i32).to_be_bytes());
            field.extend(format.to_be_bytes());
            field
        };
        let fields = [field("t", 25, -1, 0), field("i", 23, 4, 1)].concat();
        assert_eq!(bytes[HEADER_BYTES + 2..], fields);
    }
}
