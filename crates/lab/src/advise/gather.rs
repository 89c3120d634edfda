//! Asking PostgreSQL. Everything is read; nothing is created, and no lock is waited for.

use super::facts::{Facts, Settings};
use super::processes;
use super::watch::watch;
use crate::Result;
use crate::cache::counting::Counting;
use crate::cache::extension::failed;
use crate::cache::survey::{self, unsigned};
use crate::cache::{ServerFacts, Unseen, UsageCounts};
use crate::interrupt::EarlyEnd;
use crate::server::Server;
use pgweir_maths::MemorySettings;
use postgres::Client;
use std::time::Duration;

/// No question may take longer: the report is a matter of seconds.
const SESSION: &str = "set statement_timeout = '10s'; set lock_timeout = '1s'; set default_transaction_read_only = on";

/// Asks everything, watching the sessions for `time`, or until a signal says that it is enough.
pub(super) fn ask(
    server: &Server,
    time: Duration,
    early: Option<&EarlyEnd>,
    unseen: &mut Vec<Unseen>,
) -> Result<Facts> {
    let mut client = server.connect()?;
    client.batch_execute(SESSION).map_err(|e| failed(&e))?;
    let facts = ServerFacts::ask(&mut client, server)?;
    let settings = settings(&mut client, &facts)?;
    let counting = Counting::begin(&mut client)?;
    let (sessions, pids) = watch(&mut client, time, early)?;
    if let Some(early) = early {
        early.over();
    }
    let counted = counting.end(&mut client)?;
    if sessions.hidden > 0 {
        unseen.push(Unseen {
            what: format!("what {} of {} connections do", sessions.hidden, sessions.total),
            why: "they belong to other users".to_owned(),
            how: "grant pg_monitor to this user".to_owned(),
        });
    }
    let usage = usage(&mut client, &facts, unseen)?;
    let data_bytes = survey::data_bytes(&mut client);
    let backends = if facts.local {
        processes::backend_memory(&pids)
    } else {
        None
    };
    if backends.is_none() && !pids.is_empty() {
        unseen.push(Unseen {
            what: "the memory of backends".to_owned(),
            why: "the server's processes cannot be seen from here".to_owned(),
            how: "run this command on the server".to_owned(),
        });
    }
    let local = facts.local;
    Ok(Facts {
        settings,
        sessions,
        ram_bytes: local.then(|| crate::machine::meminfo_bytes("MemTotal")).flatten(),
        cores: facts.cores(),
        spindles: 1,
        data_bytes,
        read_relations_bytes: counted.read_relations_bytes,
        reads_now: counted.reads_now,
        reads_before: counted.reads_before,
        usage,
        machine: if local { processes::machine() } else { None },
        backends,
        server: facts,
    })
}

/// The histogram of shared_buffers, where it can be seen.
fn usage(client: &mut Client, facts: &ServerFacts, unseen: &mut Vec<Unseen>) -> Result<Option<UsageCounts>> {
    Ok(match survey::buffercache(client, &facts.database)? {
        Ok(shown_by) => match survey::usage_counts(client, &shown_by, facts.block_bytes) {
            Ok(usage) => Some(usage),
            Err(e) => {
                unseen.push(Unseen {
                    what: "the usage counts of shared_buffers".to_owned(),
                    why: e.to_string().lines().next().unwrap_or_default().to_owned(),
                    how: "pgweir cache has more time for them".to_owned(),
                });
                None
            }
        },
        Err(obstacle) => {
            unseen.push(obstacle);
            None
        }
    })
}

pub(super) fn settings(client: &mut Client, facts: &ServerFacts) -> Result<Settings> {
    let row = client
        .query_one(
            "select pg_size_bytes(current_setting('work_mem')), pg_size_bytes(current_setting('maintenance_work_mem')), \
             pg_size_bytes(current_setting('temp_buffers')), current_setting('max_connections')::int8, \
             pg_size_bytes(current_setting('wal_buffers')), \
             coalesce((select sum(setting::int8)::int8 from pg_catalog.pg_settings where name in ('transaction_buffers', \
               'subtransaction_buffers', 'commit_timestamp_buffers', 'multixact_member_buffers', \
               'multixact_offset_buffers', 'notify_buffers', 'serializable_buffers')), 0), \
             (coalesce(current_setting('hash_mem_multiplier', true), '1')::numeric * 1000)::int8, \
             current_setting('superuser_reserved_connections')::int8 \
               + coalesce(current_setting('reserved_connections', true), '0')::int8, \
             (select setting::int8 from pg_catalog.pg_settings where name = 'idle_in_transaction_session_timeout'), \
             current_setting('huge_pages'), current_setting('huge_pages_status', true), \
             current_setting('shared_memory_size_in_huge_pages', true), \
             case when current_setting('server_version_num')::int4 < 120000 \
               then current_setting('max_wal_senders')::int8 else 0 end",
            &[],
        )
        .map_err(|e| failed(&e))?;
    let number = |i: usize| unsigned(row.get::<_, i64>(i));
    // Before PostgreSQL 17 the commit log has a buffer for each 512 of shared_buffers, 4 to 128 (clog.c).
    let log_buffers = match number(5) {
        0 => (facts.buffers / 512).clamp(4, 128),
        buffers => buffers,
    };
    Ok(Settings {
        memory: MemorySettings {
            work_mem_bytes: number(0),
            maintenance_work_mem_bytes: number(1),
            temp_buffers_bytes: number(2),
            max_connections: u32::try_from(number(3)).unwrap_or(u32::MAX),
            shared_buffers_bytes: facts.buffers * facts.block_bytes,
            wal_buffers_bytes: number(4),
            commit_log_bytes: log_buffers * facts.block_bytes,
            rest_bytes: 0,
        },
        hash_mem_multiplier_thousandths: number(6),
        replicas: u32::try_from(number(12)).unwrap_or(0),
        reserved_connections: u32::try_from(number(7)).unwrap_or(0),
        idle_in_transaction_timeout_ms: number(8),
        huge_pages: row.get(9),
        huge_pages_status: row.get(10),
        shared_memory_huge_pages: row.get::<_, Option<String>>(11).and_then(|text| text.parse().ok()),
    })
}
