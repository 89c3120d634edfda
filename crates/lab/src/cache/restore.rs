//! `cache restore`: the blocks of a saved list into shared_buffers again.

use super::agree;
use super::connection::with_server;
use super::look::bytes;
use super::reader::{Mode, Reader};
use super::relation::Relation;
use super::survey::{self, ServerFacts};
use super::warm::prewarm_schema;
use super::working_set::{CachedRelation, WorkingSet};
use crate::interrupt::Interrupt;
use crate::server::ServerArguments;
use crate::{Error, Result};
use clap::Args;
use postgres::Client;
use std::collections::HashMap;
use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;

/// Blocks and ranges of one call.
const PIECE_BLOCKS: u64 = 2048;
const PIECE_RANGES: usize = 500;

/// Arguments of `cache restore`.
#[derive(Debug, Args)]
pub struct RestoreArguments {
    #[command(flatten)]
    server: ServerArguments,

    /// The file written by cache save
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Do not ask
    #[arg(long)]
    yes: bool,
}

pub(super) fn restore(arguments: &RestoreArguments) -> Result<()> {
    let named = |why: String| Error::new(format!("{}: {why}", arguments.file.display()));
    let file = File::open(&arguments.file).map_err(|e| named(e.to_string()))?;
    let set = WorkingSet::read(BufReader::new(file)).map_err(named)?;
    with_server(&arguments.server, |client, facts, interrupt| {
        restore_into(arguments, &set, client, &facts, interrupt)
    })
}

fn restore_into(
    arguments: &RestoreArguments,
    set: &WorkingSet,
    mut client: Client,
    facts: &ServerFacts,
    interrupt: &Interrupt,
) -> Result<()> {
    let named = |why: String| Error::new(format!("{}: {why}", arguments.file.display()));
    if set.header.block_bytes != facts.block_bytes {
        return Err(named(format!(
            "its blocks have {} bytes, and the server's {}",
            set.header.block_bytes, facts.block_bytes
        )));
    }
    let relations = survey::relations(&mut client, facts.block_bytes)?;
    let (steps, missing) = steps(set, &relations);
    if steps.is_empty() {
        return Err(
            named(format!("none of its relations is in database \"{}\"", facts.database)).hint(format!(
                "it was saved from database \"{}\": connect to that one",
                set.header.database
            )),
        );
    }
    let blocks: u64 = steps.iter().map(|(_, relation)| relation.blocks()).sum();
    tell(steps.len(), set, &missing, blocks, facts);
    agree::needed(
        &format!("read {} into shared_buffers?", bytes(blocks * facts.block_bytes)),
        arguments.yes,
        interrupt,
    )?;
    let schema = prewarm_schema(&mut client, facts, arguments.yes, interrupt)?;
    let mut reader = Reader::new(
        client,
        schema,
        Mode::Buffer,
        blocks,
        facts.block_bytes,
        interrupt.clone(),
    );
    for (oid, relation) in &steps {
        reader.begin(&relation.relation);
        for piece in pieces(&relation.ranges) {
            if !reader.read(*oid, &piece)? {
                break;
            }
        }
    }
    let runs: Vec<(u32, u64, u64)> = steps
        .iter()
        .flat_map(|(oid, relation)| relation.ranges.iter().map(|&(first, last)| (*oid, first, last)))
        .collect();
    let buffered = reader.buffered(&facts.database, &runs)?;
    reader.finish(Mode::Buffer, buffered.map(|there| (there, blocks)))
}

/// Says what will be read, and what is not there any more.
fn tell(relations: usize, set: &WorkingSet, missing: &[String], blocks: u64, facts: &ServerFacts) {
    crate::say(&format!(
        "{} of {} relations, saved {} from database \"{}\"; shared_buffers is {}\n",
        bytes(blocks * facts.block_bytes),
        relations,
        set.header.saved_at,
        set.header.database,
        bytes(facts.buffers * facts.block_bytes)
    ));
    if !missing.is_empty() {
        crate::say(&format!("not in this database any more: {}\n", missing.join(", ")));
    }
}

/// What there still is of the saved relations, indexes first; and the names of those that are gone.
fn steps(set: &WorkingSet, relations: &[Relation]) -> (Vec<(u32, CachedRelation)>, Vec<String>) {
    let now: HashMap<&str, &Relation> = relations.iter().map(|r| (r.name.as_str(), r)).collect();
    let mut missing = Vec::new();
    let mut steps = Vec::new();
    for saved in &set.relations {
        let Some(relation) = now.get(saved.relation.as_str()) else {
            missing.push(saved.relation.clone());
            continue;
        };
        let inside = saved.within(relation.blocks);
        if !inside.ranges.is_empty() {
            steps.push((relation.oid, inside));
        }
    }
    steps.sort_by_key(|(_, relation)| relation.kind);
    (steps, missing)
}

/// Cuts ranges into calls of bounded size.
fn pieces(ranges: &[(u64, u64)]) -> Vec<Vec<(u64, u64)>> {
    let mut pieces: Vec<Vec<(u64, u64)>> = Vec::new();
    let mut left = 0;
    for &(mut first, last) in ranges {
        while first <= last {
            if left == 0 || pieces.last().is_none_or(|piece| piece.len() >= PIECE_RANGES) {
                pieces.push(Vec::new());
                left = PIECE_BLOCKS;
            }
            let end = last.min(first + left - 1);
            pieces.last_mut().expect("one was just made").push((first, end));
            left -= end - first + 1;
            first = end + 1;
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::super::plan::tests::relation;
    use super::super::relation::RelationKind;
    use super::*;

    #[test]
    fn calls_are_bounded_and_lose_nothing() {
        let ranges = [(0, 4999), (6000, 6000)];
        assert_eq!(
            pieces(&ranges),
            [vec![(0, 2047)], vec![(2048, 4095)], vec![(4096, 4999), (6000, 6000)]]
        );
        let single: Vec<(u64, u64)> = (0..1200).map(|n| (2 * n, 2 * n)).collect();
        let pieces = pieces(&single);
        assert_eq!(pieces.iter().map(Vec::len).collect::<Vec<_>>(), [500, 500, 200]);
    }

    #[test]
    fn dropped_relations_are_named_and_shrunk_ones_cut() {
        let saved = |name: &str, kind, ranges| CachedRelation {
            relation: name.to_owned(),
            kind,
            ranges,
        };
        let set = WorkingSet::new(
            "d",
            8192,
            String::new(),
            vec![
                saved("public.t", RelationKind::Table, vec![(0, 99), (500, 600)]),
                saved("public.gone", RelationKind::Table, vec![(0, 9)]),
                saved("public.i", RelationKind::Index, vec![(3, 3)]),
                saved("public.cut", RelationKind::Table, vec![(50, 60)]),
            ],
        );
        let now = [
            relation("public.t", RelationKind::Table, 551, 0),
            relation("public.i", RelationKind::Index, 10, 0),
            relation("public.cut", RelationKind::Table, 5, 0),
        ];
        let (steps, missing) = steps(&set, &now);
        assert_eq!(missing, ["public.gone"]);
        let names: Vec<&str> = steps.iter().map(|(_, r)| r.relation.as_str()).collect();
        assert_eq!(names, ["public.i", "public.t"]);
        assert_eq!(steps[1].1.ranges, [(0, 99), (500, 550)]);
    }
}
