//! One database on several servers: a primary, and standbys that replay its write-ahead log.
//!
//! Definitions are made on the primary. A standby goes on running the old code until it has replayed them, so its
//! catalog counts only if it was read behind them. A position in the write-ahead log tells: a primary's, read after the
//! definitions, and the one that the standby has replayed before it is read.

use crate::base::time::Time;
use pgweir_wire::{HEADER_BYTES, backend};
use std::time::Duration;

/// If no primary is read after definitions, for example because only pools in session pooling use it, standbys count as
/// having replayed these after this time.
const LAG_MAX: Duration = Duration::from_secs(60);

/// How far the write-ahead log of a server had got just before its catalog was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, pgweir_freeze::Freeze)]
pub(crate) struct Position {
    /// It is a standby.
    in_recovery: bool,
    /// The position written by a primary, or replayed by a standby.
    lsn: u64,
}

impl Position {
    /// A standby of which nothing is known.
    pub(crate) const UNKNOWN: Position = Position {
        in_recovery: true,
        lsn: 0,
    };

    /// Reads the row of [`POSITION`](crate::statements::catalog_query::POSITION); `None` if it is malformed.
    pub(super) fn read(message: &[u8]) -> Option<Self> {
        let row = backend::data_row(message.get(HEADER_BYTES..)?).ok()?;
        let &[Some(in_recovery), lsn] = &row[..] else {
            return None;
        };
        let in_recovery = match in_recovery {
            b"t" => true,
            b"f" => false,
            _ => return None,
        };
        let lsn = match lsn {
            Some(text) => read_lsn(text)?,
            // A standby that has replayed nothing yet.
            None => 0,
        };
        Some(Position { in_recovery, lsn })
    }

    /// The position if the server is a primary.
    pub(crate) fn of_primary(self) -> Option<u64> {
        (!self.in_recovery).then_some(self.lsn)
    }
}

/// Reads a position such as `16/B374D848`.
fn read_lsn(text: &[u8]) -> Option<u64> {
    let (upper, lower) = std::str::from_utf8(text).ok()?.split_once('/')?;
    let half = |digits| u32::from_str_radix(digits, 16).ok().map(u64::from);
    Some(half(upper)? << 32 | half(lower)?)
}

/// What a standby must have replayed before its catalog counts. The later one of two demands more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, pgweir_freeze::Freeze)]
pub(crate) enum Awaited {
    /// No definition is known to have been made.
    #[default]
    Nothing,
    /// Everything up to this position.
    Position(u64),
    /// Definitions were made at this time, and no primary has been read since.
    Since(Time),
}

impl Awaited {
    /// Whether a catalog counts that was read at this position.
    pub(crate) fn is_in(self, now: Time, position: Position) -> bool {
        match self {
            _ if !position.in_recovery => true,
            Awaited::Nothing => true,
            Awaited::Position(lsn) => position.lsn >= lsn,
            Awaited::Since(then) => now - then >= LAG_MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgweir_wire::Writer;

    fn read(row: &[Option<&[u8]>]) -> Option<Position> {
        let mut out = Vec::new();
        Writer::new(&mut out).data_row(row.len(), row.iter().copied());
        Position::read(&out)
    }

    #[test]
    fn a_position_has_two_halves() {
        let primary = read(&[Some(b"f"), Some(b"16/B374D848")]).unwrap();
        assert_eq!(primary.of_primary(), Some(0x16_B374_D848));
        let standby = read(&[Some(b"t"), Some(b"16/B374D848")]).unwrap();
        assert_eq!(standby.of_primary(), None);
        for wrong in ["", "1", "1/", "/1", "1/g", "1/123456789", "1/2/3"] {
            assert_eq!(read(&[Some(b"t"), Some(wrong.as_bytes())]), None, "{wrong}");
        }
        assert_eq!(read(&[Some(b"t")]), None);
        assert_eq!(read(&[None, Some(b"1/1")]), None);
    }

    #[test]
    fn a_standby_counts_when_it_has_replayed_enough() {
        let now = Time(0) + LAG_MAX;
        let standby = |lsn: &str| read(&[Some(b"t"), Some(lsn.as_bytes())]).unwrap();
        assert!(Awaited::Nothing.is_in(now, Position::UNKNOWN));
        assert!(!Awaited::Position(0x1_0000_0001).is_in(now, standby("1/0")));
        assert!(!Awaited::Position(0x1_0000_0001).is_in(now, standby("0/FFFFFFFF")));
        assert!(Awaited::Position(0x1_0000_0001).is_in(now, standby("1/1")));
        assert!(!Awaited::Since(now).is_in(now, standby("FF/0")));
        assert!(Awaited::Since(now).is_in(now + LAG_MAX, standby("0/0")));
        let primary = read(&[Some(b"f"), Some(b"0/1")]).unwrap();
        assert!(Awaited::Since(now).is_in(now, primary) && Awaited::Position(9).is_in(now, primary));
    }
}
