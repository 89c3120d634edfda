//! The two states that a server is measured in: cold, and with its data in shared_buffers.

use crate::cache::extension::Extension;
use crate::interrupt::Interrupt;
use crate::server::query_error;
use crate::session::Target;
use crate::{Error, Result};
use postgres::Client;
use std::fs::{self, File};
use std::path::Path;

/// The extension that reads blocks into shared_buffers.
const PREWARM: &str = "pg_prewarm";

/// What of shared_buffers is filled: the load needs some for itself.
const FILLED_SHARE: f64 = 0.9;

/// What is read by one statement: a signal is seen between two of them.
const PIECE_BYTES: i64 = 32 << 20;

/// What prewarming has read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Warmed {
    /// Read into shared_buffers.
    pub(super) bytes: u64,
    /// All there is: indexes and tables.
    pub(super) of_bytes: u64,
}

impl Warmed {
    /// Whether there was nothing more to read.
    pub(super) fn is_all(self) -> bool {
        self.bytes >= self.of_bytes
    }
}

/// Creates pg_prewarm in the lab's database; says in words why that cannot be.
pub(super) fn find_prewarm(target: &Target) -> Result<Result<(), String>> {
    let mut client = target.connect()?;
    let found = Extension::find(&mut client, PREWARM)?;
    if found == Extension::Missing {
        let database = target.server.get("dbname").unwrap_or_default();
        let (why, how) = found.obstacle(PREWARM, database).unwrap_or_default();
        return Ok(Err(format!("{why}; {how}")));
    }
    Ok(
        match client.batch_execute(&format!("create extension if not exists {PREWARM}")) {
            Ok(()) => Ok(()),
            Err(e) if e.as_db_error().is_some() => Err(format!(
                "the extension {PREWARM} could not be created: {}",
                query_error(&e)
            )),
            Err(e) => return Err(query_error(&e)),
        },
    )
}

/// Reads relations into shared_buffers until they are full: indexes first, smaller ones before larger ones, then tables
/// and their TOAST. Of the one that does not fit, the last blocks: those that were written last.
pub(super) fn prewarm(client: &mut Client, shared_buffers_bytes: u64, interrupt: &Interrupt) -> Result<Warmed> {
    let relations = client
        .query(
            "select c.oid, pg_relation_size(c.oid) / current_setting('block_size')::int8, current_setting('block_size')::int8
             from pg_class c join pg_namespace n on n.oid = c.relnamespace
             where c.relkind in ('r', 'm', 'i', 't') and pg_relation_size(c.oid) > 0
               and n.nspname not in ('pg_catalog', 'information_schema')
             order by c.relkind <> 'i', 2, 1",
            &[],
        )
        .map_err(|e| query_error(&e))?;
    let mut room = (shared_buffers_bytes as f64 * FILLED_SHARE) as i64;
    let mut warmed = Warmed::default();
    for relation in relations {
        let (oid, blocks, block_bytes): (u32, i64, i64) = (relation.get(0), relation.get(1), relation.get(2));
        warmed.of_bytes += u64::try_from(blocks * block_bytes).unwrap_or(0);
        let fit = blocks.min(room / block_bytes);
        if fit <= 0 {
            continue;
        }
        let mut first = blocks - fit;
        while first < blocks {
            interrupt.check()?;
            let after = blocks.min(first + (PIECE_BYTES / block_bytes).max(1));
            let read = client
                .query_one(
                    "select pg_prewarm($1::oid::regclass, 'buffer', 'main', $2, $3)",
                    &[&oid, &first, &(after - 1)],
                )
                .map_err(|e| query_error(&e))?;
            warmed.bytes += u64::try_from(read.get::<_, i64>(0) * block_bytes).unwrap_or(0);
            first = after;
        }
        room -= fit * block_bytes;
    }
    Ok(warmed)
}

/// Has the operating system forget the pages of this database's files, so that they are read from disk again. Says why
/// where it cannot.
pub(super) fn drop_page_cache(client: &mut Client, data_dir: Option<&Path>) -> Result<(), String> {
    let Some(data_dir) = data_dir else {
        return Err("the server's files are not at hand".to_owned());
    };
    let row = client.query_one("select oid from pg_database where datname = current_database()", &[]);
    let oid: u32 = row.map_err(|e| query_error(&e).to_string())?.get(0);
    let folder = data_dir.join("base").join(oid.to_string());
    let entries = fs::read_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_file()) {
            forget(&entry.path()).map_err(|e| format!("{}: {e}", entry.path().display()))?;
        }
    }
    Ok(())
}

/// Written pages first: dirty ones would stay.
#[cfg(target_os = "linux")]
fn forget(path: &Path) -> std::io::Result<()> {
    let file = match File::open(path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        file => file?,
    };
    rustix::fs::fdatasync(&file)?;
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn forget(path: &Path) -> std::io::Result<()> {
    File::open(path)?;
    Err(std::io::Error::other("this system has no way to forget a file's pages"))
}

/// Blocks of this database found in shared_buffers, and all that were asked for, since the statistics began.
pub(super) fn block_counts(target: &Target) -> Result<(f64, f64)> {
    let row = target.connect()?.query_one(
        "select blks_hit::float8, (blks_hit + blks_read)::float8 from pg_stat_database where datname = current_database()",
        &[],
    );
    let row = row.map_err(|e| query_error(&e))?;
    let get = |i| row.try_get(i).map_err(|e| Error::new(e.to_string()));
    Ok((get(0)?, get(1)?))
}
