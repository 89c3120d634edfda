//! Asking PostgreSQL. Everything is read; nothing is created, and no lock is waited for.

use super::facts::{Facts, Sessions, Settings};
use super::processes;
use crate::Result;
use crate::cache::counting::Counting;
use crate::cache::extension::failed;
use crate::cache::survey::{self, unsigned};
use crate::cache::{ServerFacts, Unseen, UsageCounts};
use crate::maths::MemorySettings;
use crate::server::Server;
use postgres::Client;
use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::{Duration, Instant};

/// Between two looks at the sessions.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);

/// No question may take longer: the report is a matter of seconds.
const SESSION: &str = "set statement_timeout = '10s'; set lock_timeout = '1s'; set default_transaction_read_only = on";

/// Asks everything, watching the sessions for `time`.
pub(super) fn ask(server: &Server, time: Duration, unseen: &mut Vec<Unseen>) -> Result<Facts> {
    let mut client = server.connect()?;
    client.batch_execute(SESSION).map_err(|e| failed(&e))?;
    let facts = ServerFacts::ask(&mut client, server)?;
    let settings = settings(&mut client, &facts)?;
    let counting = Counting::begin(&mut client)?;
    let (sessions, pids) = watch(&mut client, time)?;
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

fn settings(client: &mut Client, facts: &ServerFacts) -> Result<Settings> {
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

/// Looks at the sessions again and again; returns the processes of the last look.
fn watch(client: &mut Client, time: Duration) -> Result<(Sessions, Vec<i32>)> {
    let started = Instant::now();
    let before = totals(client)?;
    let (mut looks, mut active, mut most) = (0u32, 0u32, 0);
    let mut waits: BTreeMap<String, f64> = BTreeMap::new();
    loop {
        let (mut sessions, pids, now_active) = look(client, &mut waits)?;
        looks += 1;
        active += now_active;
        most = most.max(now_active);
        if started.elapsed() + LOOK_INTERVAL > time {
            let seconds = started.elapsed().as_secs_f64();
            let after = totals(client)?;
            if seconds >= 0.5 {
                sessions.transactions_per_second = Some((after.0 - before.0).max(0.0) / seconds);
                sessions.opened_per_second = after.1.zip(before.1).map(|(a, b)| (a - b).max(0.0) / seconds);
            }
            sessions.looks = looks;
            sessions.active_most = most;
            sessions.active_mean = f64::from(active) / f64::from(looks);
            waits.values_mut().for_each(|sum| *sum /= f64::from(looks));
            sessions.active_waits = waits;
            return Ok((sessions, pids));
        }
        thread::sleep(LOOK_INTERVAL);
    }
}

/// Transactions ended, and sessions begun where the server counts them (from PostgreSQL 14 on).
fn totals(client: &mut Client) -> Result<(f64, Option<f64>)> {
    // The row as JSON, because older servers do not have the column.
    let row = client
        .query_one(
            "select coalesce(sum(d.xact_commit + d.xact_rollback), 0)::float8, \
             sum((to_jsonb(d)->>'sessions')::float8) from pg_catalog.pg_stat_database d",
            &[],
        )
        .map_err(|e| failed(&e))?;
    Ok((row.get(0), row.get(1)))
}

/// One look: of other users' sessions who lacks pg_monitor sees no type and no state, but their database.
/// Counts, processes, and how many are at work.
fn look(client: &mut Client, waits: &mut BTreeMap<String, f64>) -> Result<(Sessions, Vec<i32>, u32)> {
    let rows = client
        .query(
            "select pid, state, coalesce(wait_event_type, 'CPU'), \
             coalesce(extract(epoch from clock_timestamp() - state_change), 0)::float8, \
             coalesce(extract(epoch from clock_timestamp() - xact_start), 0)::float8, \
             format('pid %s, user %s, application \"%s\"', pid, usename, application_name), \
             format('%s.%s', datname, usename) \
             from pg_catalog.pg_stat_activity where pid <> pg_catalog.pg_backend_pid() \
             and (backend_type = 'client backend' or backend_type is null and datname is not null)",
            &[],
        )
        .map_err(|e| failed(&e))?;
    let mut sessions = Sessions {
        total: rows.len() as u32,
        ..Sessions::default()
    };
    let (mut pids, mut active) = (Vec::new(), 0);
    let pools: BTreeSet<&str> = rows.iter().map(|row| row.get(6)).collect();
    sessions.pools = pools.len() as u32;
    for row in &rows {
        pids.push(row.get(0));
        let since = |i: usize| Duration::from_secs_f64(row.get::<_, f64>(i).max(0.0));
        match row.get::<_, Option<&str>>(1) {
            // Other users' sessions show no state to who may not see it.
            None => sessions.hidden += 1,
            Some("idle") => {
                sessions.idle += 1;
                sessions.idle_longest = sessions.idle_longest.max(since(3));
            }
            Some(state) if state.starts_with("idle in transaction") => {
                sessions.idle_in_transaction += 1;
                if since(4) >= sessions.idle_in_transaction_longest {
                    sessions.idle_in_transaction_longest = since(4);
                    sessions.idle_in_transaction_who = row.get(5);
                }
            }
            Some("active" | "fastpath function call") => {
                active += 1;
                *waits.entry(row.get(2)).or_default() += 1.0;
            }
            Some(_) => {}
        }
    }
    Ok((sessions, pids, active))
}
