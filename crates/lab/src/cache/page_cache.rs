//! What of the relations is in the operating system's page cache.
//!
//! By pgfincore where it is installed, which asks on the server; else by looking at the data files, where they are on this
//! machine and may be read.

use super::extension::{Extension, failed};
use super::relation::Relation;
use super::survey::{ServerFacts, Unseen};
use super::{local, resident};
use crate::Result;
use postgres::Client;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// Name of the extension that asks the operating system on the server.
const PGFINCORE: &str = "pgfincore";

/// Fills in what is known, and returns why nothing is.
pub(super) fn add_page_cache(
    client: &mut Client,
    facts: &ServerFacts,
    data_directory: Option<&Path>,
    relations: &mut [Relation],
) -> Result<Option<Unseen>> {
    if let Extension::Created { schema, .. } = Extension::find(client, PGFINCORE)?
        && by_extension(client, &schema, relations).is_ok()
    {
        return Ok(None);
    }
    let folder = match data_directory {
        Some(folder) => folder.to_owned(),
        None if facts.local => match setting(client, "data_directory") {
            Some(folder) => PathBuf::from(folder),
            None => {
                return Ok(Some(unseen(
                    "the setting data_directory may not be read".to_owned(),
                    "grant pg_monitor to this user, or name the folder with --data-directory",
                )));
            }
        },
        None => {
            return Ok(Some(unseen(
                "the server's processes are not on this machine".to_owned(),
                "run this command on the server, or create extension pgfincore there",
            )));
        }
    };
    match by_files(client, &folder, relations)? {
        Ok(()) => Ok(None),
        Err(why) => {
            for relation in relations {
                relation.page_cache_bytes = None;
            }
            Ok(Some(unseen(
                why,
                "run this command as the user that PostgreSQL runs as (sudo -u postgres pgweir cache ...), or create \
                 extension pgfincore",
            )))
        }
    }
}

fn unseen(why: String, how: &str) -> Unseen {
    Unseen {
        what: "what is in the operating system's page cache".to_owned(),
        why,
        how: how.to_owned(),
    }
}

/// A setting; None where it may not be read.
fn setting(client: &mut Client, name: &str) -> Option<String> {
    client
        .query_one("select current_setting($1)", &[&name])
        .ok()
        .map(|row| row.get(0))
}

fn by_extension(client: &mut Client, schema: &str, relations: &mut [Relation]) -> Result<()> {
    let oids: Vec<u32> = relations.iter().map(|r| r.oid).collect();
    let rows = client
        .query(
            &format!(
                "select o.oid, sum(p.pages_mem * p.os_page_size)::int8 from unnest($1::oid[]) o(oid) \
                 cross join lateral {schema}.pgfincore(o.oid::regclass) p group by 1"
            ),
            &[&oids],
        )
        .map_err(|e| failed(&e))?;
    let bytes: HashMap<u32, i64> = rows
        .iter()
        .map(|row| (row.get(0), row.get::<_, Option<i64>>(1).unwrap_or(0)))
        .collect();
    for relation in relations {
        let cached = bytes.get(&relation.oid).copied().unwrap_or(0);
        relation.page_cache_bytes = Some(super::survey::unsigned(cached));
    }
    Ok(())
}

/// The inner error says why the files cannot be looked at.
fn by_files(client: &mut Client, folder: &Path, relations: &mut [Relation]) -> Result<Result<(), String>> {
    // A folder that is none would look like relations of which nothing is cached.
    let version = folder.join("PG_VERSION");
    if let Err(e) = File::open(&version) {
        return Ok(Err(format!("{}: {}", version.display(), words(&e))));
    }
    let oids: Vec<u32> = relations.iter().map(|r| r.oid).collect();
    let rows = client
        .query(
            "select o.oid, pg_catalog.pg_relation_filepath(o.oid) from unnest($1::oid[]) o(oid)",
            &[&oids],
        )
        .map_err(|e| failed(&e))?;
    let paths: HashMap<u32, Option<String>> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    for relation in relations {
        let Some(Some(path)) = paths.get(&relation.oid) else {
            continue;
        };
        let path = folder.join(path);
        // The first segment exists as long as the relation does, be it empty; `segments` hides why it cannot be seen.
        if let Err(e) = File::open(&path)
            && e.kind() != io::ErrorKind::NotFound
        {
            return Ok(Err(format!("{}: {}", path.display(), words(&e))));
        }
        let mut bytes = 0;
        for segment in local::segments(path) {
            match File::open(&segment).and_then(|file| resident::cached_bytes(&file)) {
                Ok(cached) => bytes += cached,
                Err(e) => return Ok(Err(format!("{}: {}", segment.display(), words(&e)))),
            }
        }
        relation.page_cache_bytes = Some(bytes);
    }
    Ok(Ok(()))
}

/// `Permission denied (os error 13)` as PostgreSQL writes it.
fn words(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}
