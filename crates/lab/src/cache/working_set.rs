//! A working set on paper: which blocks of which relations were in shared_buffers.
//!
//! The file is text, one JSON value a line. The first describes it, each further one a relation, those with the most
//! blocks first; blocks are written as ranges, first and last:
//!
//! ```text
//! {"pgweir_cache":1,"database":"shop","block_bytes":8192,"saved_at":"2026-11-21T14:05:00Z","blocks":1250}
//! {"relation":"public.orders_pkey","kind":"index","ranges":[[0,99],[205,205]]}
//! ```
//!
//! Relations go by name, so that a set can be restored on a replica, after a failover, or where a table was rewritten.

use super::relation::RelationKind;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, Write};

/// Version of the format that is written, and the only one that is read.
const FORMAT: u32 = 1;

/// The longest line that is read: a relation of 32 TB with every second block cached has fewer bytes than PostgreSQL's
/// largest value.
const LINE_BYTES_MAX: u64 = 1 << 30;

/// The first line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Version of the format.
    pub pgweir_cache: u32,
    /// Database that the relations belong to.
    pub database: String,
    /// PostgreSQL's block_size.
    pub block_bytes: u64,
    /// When, in ISO 8601.
    pub saved_at: String,
    /// Blocks of all relations.
    pub blocks: u64,
}

/// Blocks of one relation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CachedRelation {
    /// Name as regclass takes it.
    pub relation: String,
    /// Its kind, which decides the order of restoring.
    pub kind: RelationKind,
    /// First and last block of each run, ascending.
    pub ranges: Vec<(u64, u64)>,
}

impl CachedRelation {
    /// Number of blocks.
    pub fn blocks(&self) -> u64 {
        self.ranges.iter().map(|(first, last)| last - first + 1).sum()
    }

    /// The saved blocks that still exist in a relation that now has this many blocks.
    #[must_use]
    pub fn within(&self, blocks: u64) -> CachedRelation {
        let inside = self.ranges.iter().filter(|(first, _)| *first < blocks);
        CachedRelation {
            ranges: inside.map(|&(first, last)| (first, last.min(blocks - 1))).collect(),
            ..self.clone()
        }
    }
}

/// A whole file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkingSet {
    /// The first line.
    pub header: Header,
    /// The others.
    pub relations: Vec<CachedRelation>,
}

impl WorkingSet {
    /// Of these relations, ordered and counted.
    pub fn new(database: &str, block_bytes: u64, saved_at: String, mut relations: Vec<CachedRelation>) -> Self {
        relations.sort_by(|a, b| b.blocks().cmp(&a.blocks()).then(a.relation.cmp(&b.relation)));
        let header = Header {
            pgweir_cache: FORMAT,
            database: database.to_owned(),
            block_bytes,
            saved_at,
            blocks: relations.iter().map(CachedRelation::blocks).sum(),
        };
        WorkingSet { header, relations }
    }

    /// Writes the file.
    pub fn write(&self, mut to: impl Write) -> io::Result<()> {
        writeln!(to, "{}", serde_json::to_string(&self.header)?)?;
        for relation in &self.relations {
            writeln!(to, "{}", serde_json::to_string(relation)?)?;
        }
        to.flush()
    }

    /// Reads a file; what is wrong is told with its line.
    pub fn read(mut from: impl BufRead) -> Result<Self, String> {
        let line = read_line(&mut from, 1)?
            .ok_or("line 1: expected a working set saved by pgweir cache save, got an empty file")?;
        let header: Header = serde_json::from_str(&line)
            .map_err(|_| "line 1: expected a working set saved by pgweir cache save, got something else")?;
        if header.pgweir_cache != FORMAT {
            return Err(format!("line 1: expected format {FORMAT}, got {}", header.pgweir_cache));
        }
        let mut relations = Vec::new();
        for number in 2.. {
            let Some(line) = read_line(&mut from, number)? else {
                break;
            };
            let relation: CachedRelation =
                serde_json::from_str(&line).map_err(|e| format!("line {number}: expected a relation: {e}"))?;
            let mut next = 0;
            for &(first, last) in &relation.ranges {
                if first < next || last < first || last >= u64::from(u32::MAX) {
                    return Err(format!(
                        "line {number}: expected ascending ranges of blocks, got [{first},{last}]"
                    ));
                }
                next = last + 1;
            }
            relations.push(relation);
        }
        Ok(WorkingSet { header, relations })
    }
}

/// A line without its end; None at the end of the file.
fn read_line(from: &mut impl BufRead, number: u32) -> Result<Option<String>, String> {
    let mut line = String::new();
    let bytes = io::Read::take(&mut *from, LINE_BYTES_MAX)
        .read_line(&mut line)
        .map_err(|e| format!("line {number}: {e}"))?;
    match bytes as u64 {
        0 => Ok(None),
        LINE_BYTES_MAX => Err(format!("line {number}: longer than {LINE_BYTES_MAX} bytes")),
        _ => Ok(Some(line.trim_end().to_owned())),
    }
}

/// Ascending block numbers as ranges.
pub fn ranges(blocks: &[u64]) -> Vec<(u64, u64)> {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for &block in blocks {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == block => *last = block,
            _ => ranges.push((block, block)),
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> WorkingSet {
        let relation = |name: &str, kind, ranges| CachedRelation {
            relation: name.to_owned(),
            kind,
            ranges,
        };
        WorkingSet::new(
            "shop",
            8192,
            "2026-11-21T14:05:00Z".to_owned(),
            vec![
                relation("public.a", RelationKind::Table, vec![(7, 7)]),
                relation("public.\"B c\"", RelationKind::Index, vec![(0, 99), (205, 205)]),
            ],
        )
    }

    #[test]
    fn what_is_written_is_read() {
        let mut file = Vec::new();
        example().write(&mut file).unwrap();
        assert_eq!(WorkingSet::read(&file[..]).unwrap(), example());
        assert_eq!(example().header.blocks, 102);
        // The greatest first.
        assert_eq!(example().relations[0].relation, "public.\"B c\"");
    }

    #[test]
    fn broken_files_are_refused_with_their_line() {
        let header = "{\"pgweir_cache\":1,\"database\":\"d\",\"block_bytes\":8192,\"saved_at\":\"\",\"blocks\":1}\n";
        for (file, words) in [
            (String::new(), "empty file"),
            ("hello\n".to_owned(), "line 1: expected a working set"),
            (header.replace("cache\":1", "cache\":2"), "expected format 1, got 2"),
            (
                format!("{header}{{\"relation\":\"a\"}}\n"),
                "line 2: expected a relation: missing field",
            ),
            (
                format!("{header}{{\"relation\":\"a\",\"kind\":\"table\",\"ranges\":[[5,4]]}}\n"),
                "got [5,4]",
            ),
            (
                format!("{header}{{\"relation\":\"a\",\"kind\":\"table\",\"ranges\":[[5,9],[9,9]]}}\n"),
                "got [9,9]",
            ),
        ] {
            let error = WorkingSet::read(file.as_bytes()).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn blocks_become_ranges_and_shrink_with_the_relation() {
        assert_eq!(ranges(&[0, 1, 2, 5, 7, 8]), [(0, 2), (5, 5), (7, 8)]);
        assert!(ranges(&[]).is_empty());
        let set = example();
        let relation = &set.relations[0];
        assert_eq!(relation.within(50).ranges, [(0, 49)]);
        assert_eq!(relation.within(0).blocks(), 0);
        assert_eq!(relation.within(1000), *relation);
    }
}
