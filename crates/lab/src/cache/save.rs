//! `cache save`: the blocks in shared_buffers, as a list in a file.

use super::connection::with_server;
use super::extension::failed;
use super::look::{bytes, offer_extension};
use super::relation::RelationKind;
use super::survey::{self, BUFFERCACHE, ServerFacts, unsigned};
use super::working_set::{CachedRelation, WorkingSet, ranges};
use crate::interrupt::Interrupt;
use crate::server::ServerArguments;
use crate::{Error, Result};
use clap::Args;
use postgres::Client;
use postgres::fallible_iterator::FallibleIterator;
use std::collections::HashMap;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

/// Arguments of `cache save`.
#[derive(Debug, Args)]
pub struct SaveArguments {
    #[command(flatten)]
    server: ServerArguments,

    /// The file to write
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Save only blocks with at least this usage count, 0 to 5
    #[arg(long, value_name = "COUNT", default_value_t = 0, value_parser = clap::value_parser!(i16).range(0..=5))]
    usage: i16,

    /// Create the extension pg_buffercache without asking, if it is missing
    #[arg(long)]
    yes: bool,
}

pub(super) fn save(arguments: &SaveArguments) -> Result<()> {
    with_server(&arguments.server, |client, facts, interrupt| {
        save_from(arguments, client, &facts, interrupt)
    })
}

fn save_from(arguments: &SaveArguments, mut client: Client, facts: &ServerFacts, interrupt: &Interrupt) -> Result<()> {
    offer_extension(&mut client, facts, BUFFERCACHE, arguments.yes, interrupt)?;
    let shown_by =
        survey::buffercache(&mut client, &facts.database)?.map_err(|unseen| Error::new(unseen.why).hint(unseen.how))?;
    let relations = survey::relations(&mut client, facts.block_bytes)?;
    let names: HashMap<u32, (String, RelationKind)> = relations
        .into_iter()
        .filter(|relation| !relation.system)
        .map(|relation| (relation.oid, (relation.name, relation.kind)))
        .collect();

    // Row by row: there may be tens of millions.
    let mut blocks: HashMap<u32, Vec<u64>> = HashMap::new();
    let sql = format!(
        "select c.oid, v.relblocknumber from {}.pg_buffercache v join pg_catalog.pg_class c \
         on pg_catalog.pg_relation_filenode(c.oid) = v.relfilenode and c.relkind in ('r', 'm', 'i', 't', 'S') \
         and not c.relisshared \
         where v.relforknumber = 0 and v.usagecount >= $1 \
         and v.reldatabase = (select oid from pg_catalog.pg_database where datname = current_database())",
        shown_by.schema
    );
    let mut rows = client.query_raw(&sql, [&arguments.usage]).map_err(|e| failed(&e))?;
    while let Some(row) = rows.next().map_err(|e| failed(&e))? {
        blocks.entry(row.get(0)).or_default().push(unsigned(row.get(1)));
    }
    let cached = blocks
        .into_iter()
        .filter_map(|(oid, mut blocks)| {
            let (relation, kind) = names.get(&oid)?.clone();
            blocks.sort_unstable();
            Some(CachedRelation {
                relation,
                kind,
                ranges: ranges(&blocks),
            })
        })
        .collect();
    let set = WorkingSet::new(&facts.database, facts.block_bytes, now(), cached);
    write(&set, &arguments.file)
        .map_err(|e| Error::new(format!("could not write {}: {e}", arguments.file.display())))?;
    crate::say(&format!(
        "saved {} of {} relations to {}\n",
        bytes(set.header.blocks * set.header.block_bytes),
        set.relations.len(),
        arguments.file.display()
    ));
    Ok(())
}

/// In ISO 8601, to the second.
fn now() -> String {
    let now = jiff::Timestamp::now();
    now.round(jiff::Unit::Second).unwrap_or(now).to_string()
}

/// All or nothing: the file appears when it is whole.
fn write(set: &WorkingSet, file: &Path) -> std::io::Result<()> {
    let folder = match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let new = tempfile::NamedTempFile::new_in(folder)?;
    set.write(BufWriter::new(new.as_file()))?;
    new.persist(file)?;
    Ok(())
}
