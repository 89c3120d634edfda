//! The rows that a statement returns, as far as PostgreSQL compares them.

use foldhash::fast::FixedState;
use pgweir_wire::{ReadError, Reader};
use std::hash::{BuildHasher, Hash, Hasher};

/// A hash of the names, types, sizes and modifiers of the columns. As in PostgreSQL, the table of a column does not
/// count: a table that was dropped and made again with the same columns causes no 0A000.
#[derive(Debug, Clone, Copy, PartialEq, Eq, pgweir_freeze::Freeze)]
pub(crate) struct Rows(u64);

impl Rows {
    /// A statement that returns no rows: NoData.
    pub(crate) const NONE: Rows = Rows(0);

    /// A description that is too long to be read, or none.
    pub(crate) const UNREAD: Rows = Rows(1);

    /// Reads the body of a RowDescription ("Message Formats").
    pub(crate) fn read(body: &[u8]) -> Result<Rows, ReadError> {
        let mut hasher = FixedState::default().build_hasher();
        let mut reader = Reader::new(body);
        for _ in 0..reader.i16()? {
            reader.cstr()?.hash(&mut hasher);
            // The table's OID and the column's number.
            reader.bytes(6)?;
            // Type, size and modifier.
            reader.bytes(10)?.hash(&mut hasher);
            // Format.
            reader.bytes(2)?;
        }
        reader.end()?;
        Ok(Rows(hasher.finish().max(2)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgweir_wire::Writer;
    use pgweir_wire::write::Column;

    #[test]
    fn rows_are_the_same_by_names_and_types_only() {
        let rows = |name: &str, oid: u32, change: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = Vec::new();
            let column = Column {
                name,
                type_oid: oid,
                type_bytes: 4,
            };
            Writer::new(&mut bytes).row_description(&[column]);
            let mut body = bytes.split_off(5);
            change(&mut body);
            Rows::read(&body).unwrap()
        };
        let a = rows("a", 23, &|_| {});
        assert_eq!(a, rows("a", 23, &|b| b[4..10].fill(7)), "another table");
        assert_eq!(a, rows("a", 23, &|b| *b.last_mut().unwrap() = 1), "binary");
        assert_ne!(a, rows("b", 23, &|_| {}));
        assert_ne!(a, rows("a", 20, &|_| {}));
        assert!(Rows::read(&[0, 1, b'a']).is_err());
        assert_ne!(Rows::read(&[0, 0]).unwrap(), Rows::NONE);
    }
}
