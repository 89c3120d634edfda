//! What PostgreSQL says of its buffers: one look, read-only.

use super::extension::{Extension, failed};
use super::relation::{Relation, RelationKind};
use super::usage::{USAGE_COUNT_MAX, UsageCounts, UsageLevel};
use crate::Result;
use crate::server::Server;
use postgres::Client;
use postgres::error::SqlState;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::time::Duration;

/// Name of the extension that shows buffers.
pub(crate) const BUFFERCACHE: &str = "pg_buffercache";

/// Users' objects have this oid or a larger one (FirstNormalObjectId of transam.h).
const FIRST_NORMAL_OID: u32 = 16384;

/// pg_global, where relations are that all databases share (pg_tablespace.dat).
const GLOBAL_TABLESPACE: u32 = 1664;

/// Something that could not be seen, and how it could be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unseen {
    /// What is missing in the report.
    pub what: String,
    /// Why.
    pub why: String,
    /// How to have it the next time.
    pub how: String,
}

/// The server, as far as all commands of this module need it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerFacts {
    /// server_version as it says, such as `15.18 (Debian ...)`.
    pub version: String,
    /// server_version_num.
    pub version_number: i32,
    /// The connected database.
    pub database: String,
    /// The connected user.
    pub user: String,
    /// block_size.
    pub block_bytes: u64,
    /// shared_buffers, in buffers of that size.
    pub buffers: u64,
    /// Since the server's start.
    pub uptime: Duration,
    /// Whether it is a standby.
    pub in_recovery: bool,
    /// Whether its storage bypasses the operating system's cache (Aurora).
    pub without_page_cache: bool,
    /// Process that serves us.
    pub backend_pid: i32,
    /// Whether that process is on this machine.
    pub local: bool,
}

impl ServerFacts {
    /// Asks.
    pub(crate) fn ask(client: &mut Client, server: &Server) -> Result<Self> {
        let row = client
            .query_one(
                "select current_setting('server_version'), current_setting('server_version_num')::int, \
                 current_database()::text, current_user::text, current_setting('block_size')::int8, \
                 (select setting::int8 from pg_catalog.pg_settings where name = 'shared_buffers'), \
                 extract(epoch from clock_timestamp() - pg_catalog.pg_postmaster_start_time())::float8, \
                 pg_catalog.pg_is_in_recovery(), to_regproc('aurora_version') is not null, pg_catalog.pg_backend_pid(), \
                 session_user::text",
                &[],
            )
            .map_err(|e| failed(&e))?;
        let (database, user, backend_pid): (String, String, i32) = (row.get(2), row.get(3), row.get(9));
        let local = super::local::backend_is_visible(server, backend_pid, row.get(10), &database);
        Ok(ServerFacts {
            version: row.get(0),
            version_number: row.get(1),
            database,
            user,
            block_bytes: unsigned(row.get(4)),
            buffers: unsigned(row.get(5)),
            uptime: Duration::from_secs_f64(row.get::<_, f64>(6).max(0.0)),
            in_recovery: row.get(7),
            without_page_cache: row.get(8),
            backend_pid,
            local,
        })
    }
}

impl ServerFacts {
    /// The processors of the server's machine, if the server runs on this one.
    pub(crate) fn cores(&self) -> Option<u32> {
        let here = std::thread::available_parallelism().ok().filter(|_| self.local)?;
        u32::try_from(here.get()).ok()
    }
}

/// The histogram of usage counts.
///
/// From version 1.4 of the extension (PostgreSQL 16) on by its summary functions, which take no lock on buffers and cost
/// milliseconds; by the view before, which costs about half a second for each GB of shared_buffers.
pub(crate) fn usage_counts(client: &mut Client, shown_by: &Buffercache, block_bytes: u64) -> Result<UsageCounts> {
    let schema = &shown_by.schema;
    let mut counts = UsageCounts {
        block_bytes,
        ..UsageCounts::default()
    };
    let summaries = shown_by.version >= (1, 4);
    let sql = match summaries {
        true => format!(
            "select usage_count::int4, buffers::int8, dirty::int8, pinned::int8 from {schema}.pg_buffercache_usage_counts()"
        ),
        false => format!(
            "select usagecount::int4, count(*), count(*) filter (where isdirty), count(*) filter (where pinning_backends > 0) \
             from {schema}.pg_buffercache group by 1"
        ),
    };
    for row in client.query(&sql, &[]).map_err(|e| failed(&e))? {
        let buffers = unsigned(row.get(1));
        match row.get::<_, Option<i32>>(0) {
            // The view has no usage count for a buffer that holds nothing.
            None => counts.unused = buffers,
            Some(count) => {
                let level = usize::try_from(count).unwrap_or(0).min(USAGE_COUNT_MAX);
                counts.levels[level] = UsageLevel {
                    buffers,
                    dirty: unsigned(row.get(2)),
                    pinned: unsigned(row.get(3)),
                };
            }
        }
    }
    if summaries {
        let row = client
            .query_one(
                &format!("select buffers_unused::int8 from {schema}.pg_buffercache_summary()"),
                &[],
            )
            .map_err(|e| failed(&e))?;
        // The function counts unused buffers among those with count 0.
        counts.unused = unsigned(row.get::<_, i64>(0)).min(counts.levels[0].buffers);
        counts.levels[0].buffers -= counts.unused;
    }
    Ok(counts)
}

/// What is buffered beside the main forks of the connected database's relations.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Elsewhere {
    /// Buffers by database, without the connected one.
    pub databases: Vec<(String, u64)>,
    /// Buffers of relations that all databases share, as far as they are not among the connected database's.
    pub shared: u64,
    /// Buffers of free space maps, visibility maps and init forks, and of relations dropped or rewritten since.
    pub other: u64,
}

/// Every relation of the connected database with blocks.
pub(crate) fn relations(client: &mut Client, block_bytes: u64) -> Result<Vec<Relation>> {
    match relations_by(client, "pg_catalog.pg_relation_size(c.oid) / $1::int8", block_bytes) {
        // Somebody holds or wants an exclusive lock: pg_class knows the size of the last vacuum.
        Err(e) if e.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => {
            relations_by(client, "c.relpages::int8 + 0 * $1::int8", block_bytes)
        }
        outcome => outcome,
    }
    .map_err(|e| failed(&e))
}

fn relations_by(client: &mut Client, blocks: &str, block_bytes: u64) -> Result<Vec<Relation>, postgres::Error> {
    // TOAST tables and their indexes go under the table that they belong to.
    let sql = format!(
        "select c.oid, format('%I.%I', n.nspname, c.relname), c.relkind::text, {blocks}, \
         coalesce(pg_catalog.pg_stat_get_blocks_fetched(c.oid), 0), \
         format('%I.%I', coalesce(tn.nspname, n.nspname), coalesce(t.relname, c.relname)), \
         coalesce(tn.nspname, n.nspname) in ('pg_catalog', 'information_schema', 'pg_toast') \
         from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace \
         left join pg_catalog.pg_index i on i.indexrelid = c.oid \
         left join pg_catalog.pg_class o on o.relkind <> 't' and o.reltoastrelid <> 0 \
           and o.reltoastrelid = coalesce(i.indrelid, c.oid) \
         left join pg_catalog.pg_class t on t.oid = coalesce(o.oid, i.indrelid) \
         left join pg_catalog.pg_namespace tn on tn.oid = t.relnamespace \
         where c.relkind in ('r', 'm', 'i', 't', 'S') and c.relpersistence <> 't' \
         and pg_catalog.pg_relation_filenode(c.oid) is not null"
    );
    let block_bytes = i64::try_from(block_bytes).unwrap_or(8192);
    let rows = client.query(&sql, &[&block_bytes])?;
    Ok(rows
        .iter()
        .filter_map(|row| {
            Some(Relation {
                oid: row.get(0),
                name: row.get(1),
                kind: RelationKind::from_relkind(row.get::<_, String>(2).chars().next()?)?,
                // A relation dropped since the catalog was read has no size.
                blocks: unsigned(row.get::<_, Option<i64>>(3)?),
                accesses: unsigned(row.get(4)),
                table: row.get(5),
                system: row.get(6),
                buffered_blocks: None,
                dirty_blocks: None,
                usage_mean: None,
                page_cache_bytes: None,
            })
        })
        .collect())
}

/// Fills in what of the relations is buffered, and returns what else is.
pub(crate) fn add_buffered(client: &mut Client, schema: &str, relations: &mut [Relation]) -> Result<Elsewhere> {
    // Read once: the view is not a snapshot, and costs what it costs.
    let rows = client
        .query(
            &format!(
                "select b.reldatabase, b.datname, c.oid, b.blocks, b.dirty, b.usage from ( \
                   select v.reldatabase, d.datname, v.relfilenode, v.reltablespace, v.relforknumber, count(*) as blocks, \
                     count(*) filter (where v.isdirty) as dirty, avg(v.usagecount)::float8 as usage \
                   from {schema}.pg_buffercache v left join pg_catalog.pg_database d on d.oid = v.reldatabase \
                   where v.relfilenode is not null group by 1, 2, 3, 4, 5) b \
                 left join pg_catalog.pg_class c on pg_catalog.pg_relation_filenode(c.oid) = b.relfilenode \
                   and c.relkind in ('r', 'm', 'i', 't', 'S') and b.relforknumber = 0 \
                   and (b.datname = current_database() or b.reldatabase = 0) \
                   and b.reltablespace = case when c.relisshared then {GLOBAL_TABLESPACE} \
                     when c.reltablespace <> 0 then c.reltablespace \
                     else (select dattablespace from pg_catalog.pg_database where datname = current_database()) end"
            ),
            &[],
        )
        .map_err(|e| failed(&e))?;
    let database: String = client
        .query_one("select current_database()::text", &[])
        .map_err(|e| failed(&e))?
        .get(0);
    let (found, elsewhere) = sorted_out(&rows, &database);
    for relation in relations {
        let (blocks, dirty, usage) = found.get(&relation.oid).copied().unwrap_or_default();
        relation.buffered_blocks = Some(blocks);
        relation.dirty_blocks = Some(dirty);
        relation.usage_mean = (blocks > 0).then_some(usage);
    }
    Ok(elsewhere)
}

/// Blocks of a relation that are buffered, those of them that are dirty, and their mean usage count.
type Buffered = (u64, u64, f64);

/// By relation, as far as a buffer belongs to one of the connected database; and the rest.
fn sorted_out(rows: &[postgres::Row], database: &str) -> (HashMap<u32, Buffered>, Elsewhere) {
    let mut found: HashMap<u32, Buffered> = HashMap::new();
    let mut elsewhere: HashMap<String, u64> = HashMap::new();
    let (mut shared, mut other) = (0, 0);
    for row in rows {
        let blocks = unsigned(row.get(3));
        match (row.get::<_, Option<u32>>(2), row.get::<_, Option<String>>(1)) {
            (Some(oid), _) => {
                let usage = row.get::<_, Option<f64>>(5).unwrap_or(0.0);
                found.insert(oid, (blocks, unsigned(row.get(4)), usage));
            }
            (None, Some(name)) if name != database => *elsewhere.entry(name).or_default() += blocks,
            (None, None) if row.get::<_, Option<u32>>(0) == Some(0) => {
                shared += blocks;
            }
            _ => other += blocks,
        }
    }
    let mut databases: Vec<_> = elsewhere.into_iter().collect();
    databases.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
    let elsewhere = Elsewhere {
        databases,
        shared,
        other,
    };
    (found, elsewhere)
}

/// How many blocks of these runs (relation, first and last block) are in shared_buffers.
pub(crate) fn buffered_of(client: &mut Client, schema: &str, runs: &[(u32, u64, u64)]) -> Result<u64> {
    let signed = |block: u64| i64::try_from(block).unwrap_or(i64::MAX);
    let oids: Vec<u32> = runs.iter().map(|run| run.0).collect();
    let firsts: Vec<i64> = runs.iter().map(|run| signed(run.1)).collect();
    let lasts: Vec<i64> = runs.iter().map(|run| signed(run.2)).collect();
    let sql = format!(
        "select count(*) from {schema}.pg_buffercache v join ( \
           select pg_catalog.pg_relation_filenode(r.oid) as filenode, r.first, r.last \
           from unnest($1::oid[], $2::int8[], $3::int8[]) r(oid, first, last)) s \
         on s.filenode = v.relfilenode and v.relblocknumber between s.first and s.last \
         where v.relforknumber = 0 \
         and v.reldatabase = (select oid from pg_catalog.pg_database where datname = current_database())"
    );
    let row = client
        .query_one(&sql, &[&oids, &firsts, &lasts])
        .map_err(|e| failed(&e))?;
    Ok(unsigned(row.get(0)))
}

/// All databases together; None where not all may be asked for.
pub(crate) fn data_bytes(client: &mut Client) -> Option<u64> {
    let sql = "select sum(pg_catalog.pg_database_size(oid))::int8 from pg_catalog.pg_database where datallowconn or datistemplate";
    client.query_one(sql, &[]).ok()?.get::<_, Option<i64>>(0).map(unsigned)
}

/// How many blocks of each relation were asked for, and the relation's size in bytes as the last vacuum saw it.
pub(crate) type Accesses = HashMap<u32, (i64, u64)>;

/// Of the connected database's tables and indexes, without taking a lock. The catalog is left out: our own questions read it.
pub(crate) fn accesses(client: &mut Client) -> Result<Accesses> {
    let sql = "select oid, pg_catalog.pg_stat_get_blocks_fetched(oid), \
               relpages::int8 * current_setting('block_size')::int8 \
               from pg_catalog.pg_class where relkind in ('r', 'm', 'i', 't') and relpages > 0 and oid >= $1";
    let rows = client.query(sql, &[&FIRST_NORMAL_OID]).map_err(|e| failed(&e))?;
    let entry = |row: &postgres::Row| (row.get(0), (row.get(1), unsigned(row.get(2))));
    Ok(rows.iter().map(entry).collect())
}

/// Size of the relations that were read between two moments; None where none was.
pub(crate) fn read_since(before: &Accesses, after: &Accesses) -> Option<u64> {
    let read = after
        .iter()
        .filter(|(oid, (fetched, _))| before.get(oid).is_some_and(|(f, _)| fetched > f));
    let bytes: u64 = read.map(|(_, (_, bytes))| bytes).sum();
    (bytes > 0).then_some(bytes)
}

/// Client sessions at work at this moment, as far as they may be seen; ours not counted.
pub(crate) fn active_sessions(client: &mut Client) -> Result<u32> {
    let sql = "select count(*) from pg_catalog.pg_stat_activity \
               where state = 'active' and backend_type = 'client backend' and pid <> pg_catalog.pg_backend_pid()";
    let row = client.query_one(sql, &[]).map_err(|e| failed(&e))?;
    Ok(u32::try_from(row.get::<_, i64>(0)).unwrap_or(0))
}

/// The extension that shows buffers.
pub(crate) struct Buffercache {
    /// Schema of its view and functions.
    pub(crate) schema: String,
    /// Its version.
    pub(crate) version: (u32, u32),
}

/// The extension that shows buffers, and why it cannot where it cannot.
pub(crate) fn buffercache(client: &mut Client, database: &str) -> Result<Result<Buffercache, Unseen>> {
    let extension = Extension::find(client, BUFFERCACHE)?;
    if let Some((why, how)) = extension.obstacle(BUFFERCACHE, database) {
        return Ok(Err(Unseen {
            what: "what is in shared_buffers".to_owned(),
            why,
            how,
        }));
    }
    let Extension::Created { schema, version } = extension else {
        unreachable!("what is not created has an obstacle");
    };
    let allowed: bool = client
        .query_one(
            "select pg_catalog.has_table_privilege($1, 'select')",
            &[&format!("{schema}.pg_buffercache")],
        )
        .map_err(|e| failed(&e))?
        .get(0);
    Ok(match allowed {
        true => Ok(Buffercache { schema, version }),
        false => Err(Unseen {
            what: "what is in shared_buffers".to_owned(),
            why: format!("permission denied for view {schema}.pg_buffercache"),
            how: "grant pg_monitor to this user".to_owned(),
        }),
    })
}

/// Counts come as signed numbers, and are never below 0.
pub(crate) fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
