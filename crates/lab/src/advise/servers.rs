//! Synthetic servers, and what an experienced administrator would say of each: `servers.txt`, one server a line.
//!
//! ```text
//! name | facts that differ from a server in good order | verdict on shared_buffers, then all findings that are not fine
//! ```
//!
//! A finding is `id:severity:change,change`. The server in good order: PostgreSQL 15, up for 30 days, 8 processors, 32 GB,
//! shared_buffers 8 GB, 40 GB of data, 100 connections, 20 of them open, 3 at work, few misses.

use super::console::{PoolFacts, PoolerFacts, SizingFacts};
use super::facts::{Facts, HugePages, MachineFacts, Sessions};
use super::finding::{Finding, Severity};
use super::{judge, sizing};
use crate::cache::{MissDetails, Reads, UsageCounts, UsageLevel};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const SERVERS: &str = include_str!("servers.txt");

/// At least so many are in the table.
const SERVERS_MIN: usize = 40;

/// One line of the table.
struct Row {
    name: &'static str,
    facts: Facts,
    pooler: Option<PoolerFacts>,
    expected: String,
}

fn rows() -> Vec<Row> {
    let lines = SERVERS
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty());
    lines.map(row).collect()
}

fn row(line: &'static str) -> Row {
    let mut parts = line.split('|').map(str::trim);
    let mut next = || parts.next().unwrap_or_else(|| panic!("three parts in {line}"));
    let (name, told, expected) = (next(), next(), next());
    let mut told: BTreeMap<&str, &str> = told
        .split_whitespace()
        .map(|t| t.split_once('=').unwrap_or((t, "")))
        .collect();
    let facts = facts(&mut told);
    let pooler = pooler(&mut told);
    assert!(told.is_empty(), "{name}: unknown facts {told:?}");
    Row {
        name,
        facts,
        pooler,
        expected: expected.split_whitespace().collect::<Vec<_>>().join(" "),
    }
}

/// `64MB`, `7.5GB`
fn bytes(text: &str) -> u64 {
    let (number, factor) = match (text.strip_suffix("MB"), text.strip_suffix("GB")) {
        (Some(number), _) => (number, 1u64 << 20),
        (_, Some(number)) => (number, 1 << 30),
        _ => panic!("a size in MB or GB and not {text}"),
    };
    (number.parse::<f64>().expect("a number") * factor as f64) as u64
}

fn number<T: std::str::FromStr>(text: &str) -> T {
    text.parse().unwrap_or_else(|_| panic!("a number and not {text}"))
}

/// `90s`, `5min`, `30d`
fn time(text: &str) -> Duration {
    let digits = text.find(|c: char| !c.is_ascii_digit()).expect("a unit of time");
    let seconds = match &text[digits..] {
        "s" => 1,
        "min" => 60,
        "h" => 3600,
        "d" => 86_400,
        unit => panic!("a unit of time and not {unit}"),
    };
    Duration::from_secs(number::<u64>(&text[..digits]) * seconds)
}

fn facts(told: &mut BTreeMap<&str, &str>) -> Facts {
    let mut take = |name: &str, default: &'static str| -> String { told.remove(name).unwrap_or(default).to_owned() };
    let mut facts = super::connections::tests::quiet();
    let known = |text: &str| (text != "?").then(|| text.to_owned());
    facts.server.uptime = time(&take("up", "30d"));
    facts.server.without_page_cache = take("storage", "files") == "aurora";
    facts.cores = known(&take("cores", "8")).map(|text| number(&text));
    facts.ram_bytes = known(&take("ram", "32GB")).map(|text| bytes(&text));
    facts.data_bytes = known(&take("data", "40GB")).map(|text| bytes(&text));
    facts.read_relations_bytes = known(&take("read", "?")).map(|text| bytes(&text));
    let settings = &mut facts.settings;
    settings.memory.shared_buffers_bytes = bytes(&take("sb", "8GB"));
    settings.memory.work_mem_bytes = bytes(&take("work_mem", "4MB"));
    settings.memory.maintenance_work_mem_bytes = bytes(&take("maintenance", "64MB"));
    settings.memory.temp_buffers_bytes = bytes(&take("temp_buffers", "8MB"));
    settings.memory.max_connections = number(&take("max", "100"));
    settings.huge_pages_status = Some(take("huge", "on"));
    settings.replicas = number(&take("senders", "0"));
    facts.sessions = Sessions {
        total: number(&take("conns", "20")),
        idle: number(&take("idle", "10")),
        pools: number(&take("users", "1")),
        hidden: number(&take("hidden", "0")),
        active_mean: number(&take("active", "3")),
        looks: 10,
        opened_per_second: Some(number(&take("opened", "0"))),
        ..Sessions::default()
    };
    if let Some(locks) = told.remove("locks") {
        facts.sessions.active_waits.insert("Lock".to_owned(), number(locks));
    }
    if let Some(longest) = told.remove("idle_tx") {
        facts.sessions.idle_in_transaction = 1;
        facts.sessions.idle_in_transaction_longest = time(longest);
    }
    facts.machine = told.remove("cache").map(|cache| MachineFacts {
        page_cache_bytes: bytes(cache),
        available_bytes: bytes(cache),
        huge_pages: HugePages::default(),
        ..MachineFacts::default()
    });
    facts.reads_now = reads(told, ("hits", "misses", "ms"));
    facts.reads_before = reads(told, ("hits_before", "misses_before", "ms_before"));
    let dirty = told.remove("dirty").map_or(5, number);
    let usage = told.remove("usage").unwrap_or("10,15,20,20,15,20");
    facts.usage = (usage != "?").then(|| histogram(facts.settings.memory.shared_buffers_bytes, usage, dirty));
    facts
}

/// Blocks found and missed in a second; `misses=?` where nothing is known.
fn reads(told: &mut BTreeMap<&str, &str>, (hits, misses, ms): (&str, &str, &str)) -> Option<Reads> {
    let of_look = misses == "misses";
    let misses = told
        .remove(misses)
        .or(of_look.then_some("100"))
        .filter(|text| *text != "?")?;
    let miss_ms = told.remove(ms).map(number);
    Some(Reads {
        hits_per_second: told.remove(hits).map_or(100_000.0, number),
        misses_per_second: number(misses),
        miss_ms,
        seconds: if of_look { 2.0 } else { 864_000.0 },
        details: told.remove("io").filter(|_| of_look).map(|io| details(io, miss_ms)),
    })
}

/// pg_stat_io: `io=97:100:0.4` is 97 percent of the misses in rings of large scans, 100 dirty buffers written by sessions for
/// 100 misses, and 0.4 ms for each.
fn details(io: &str, read_ms: Option<f64>) -> MissDetails {
    let parts: Vec<f64> = io.split(':').map(number).collect();
    MissDetails {
        ring_share: parts[0] / 100.0,
        writes_per_miss: parts[1] / 100.0,
        read_ms,
        write_ms: Some(parts[2]),
    }
}

/// Percent of the buffers with usage counts 0 to 5; the rest is unused. `dirty` percent of each are.
fn histogram(size: u64, shares: &str, dirty: u64) -> UsageCounts {
    let buffers = size / 8192;
    let mut counts = UsageCounts {
        block_bytes: 8192,
        ..UsageCounts::default()
    };
    for (level, share) in counts.levels.iter_mut().zip(shares.split(',').map(number::<u64>)) {
        *level = UsageLevel {
            buffers: buffers * share / 100,
            dirty: buffers * share * dirty / 10_000,
            pinned: 0,
        };
    }
    counts.unused = match counts.used() * 100 / buffers {
        99.. => 0,
        _ => buffers - counts.used(),
    };
    counts
}

/// `sizing=12:3:97:found`: 12 servers may work at once, 3 more are held, the host allows 97, and pgweir has found that by
/// experiment; `begins` where it has not, `held` where that was stopped.
fn sizing_facts(told: &str) -> SizingFacts {
    let parts: Vec<&str> = told.split(':').collect();
    SizingFacts {
        hosts: "db:5432".to_owned(),
        settled: number(parts[0]),
        held: number(parts[1]),
        servers_max: number(parts[2]),
        is_held: parts[3] == "held",
        reason: match parts[3] {
            "begins" => String::new(),
            "found" | "held" => "more servers do 0.5 % more (deviation 1.0)".to_owned(),
            other => panic!("found, held or begins and not {other}"),
        },
    }
}

/// `pool=20:18:2` is a pool of 20 servers, 18 with a client and 2 without; `pools=3` are so many alike.
fn pooler(told: &mut BTreeMap<&str, &str>) -> Option<PoolerFacts> {
    let sizes: Vec<u64> = told.remove("pool")?.split(':').map(number).collect();
    let waiting = told.remove("waiting").map_or(0, number);
    let pools: usize = told.remove("pools").map_or(1, number);
    let sizings: Vec<SizingFacts> = told.remove("sizing").map(sizing_facts).into_iter().collect();
    let config = [
        ("max_client_conn", "1000"),
        ("max_prepared_statements", "200"),
        ("min_pool_size", "5"),
    ];
    let config = config.map(|(name, default)| (name.to_owned(), told.remove(name).unwrap_or(default).to_owned()));
    Some(PoolerFacts {
        version: told.remove("pooler").unwrap_or("PgBouncer").to_owned(),
        servers_most: (sizes[1] + sizes[2]) * pools as u64,
        pools: vec![
            PoolFacts {
                host: told.remove("host").map(str::to_owned),
                finds_size: !sizings.is_empty(),
                mode: told.remove("mode").unwrap_or("transaction").to_owned(),
                size: Some(sizes[0]),
                servers_active: sizes[1],
                servers_idle: sizes[2],
                clients_active: sizes[1],
                clients_waiting: waiting,
                wait_longest_us: told.remove("wait_us").map_or(0, number),
                ..PoolFacts::default()
            };
            pools
        ],
        sizings,
        clients: Some(told.remove("clients").map_or(50, number)),
        config: config.into_iter().collect(),
    })
}

/// As the table has it.
fn words(row: &Row, findings: &[Finding]) -> String {
    let verdict = serde_json::to_value(sizing::shared_buffers(&row.facts).verdict).expect("a word");
    let mut words = vec![verdict.as_str().expect("a word").to_owned()];
    for finding in findings.iter().filter(|finding| finding.severity < Severity::Fine) {
        let changes: Vec<String> = finding
            .changes
            .iter()
            .map(|change| change.line.replace(' ', ""))
            .collect();
        let changes = match changes.is_empty() {
            true => String::new(),
            false => format!(":{}", changes.join(",")),
        };
        words.push(format!("{}:{}{changes}", finding.id, finding.severity.word()));
    }
    words.join(" ")
}

#[test]
fn every_server_is_judged_as_an_experienced_administrator_would() {
    let rows = rows();
    assert!(rows.len() >= SERVERS_MIN, "{} servers", rows.len());
    let judged = rows
        .iter()
        .map(|row| (row, words(row, &judge(Some(&row.facts), row.pooler.as_ref()))));
    let wrong: Vec<String> = judged
        .filter(|(row, words)| *words != row.expected)
        .map(|(row, words)| format!("{}\n    expected {}\n    judged   {words}", row.name, row.expected))
        .collect();
    assert!(
        wrong.is_empty(),
        "{} servers are misjudged:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// Guards against advice that nobody can check.
#[test]
fn whatever_asks_for_something_says_how_to_see_that_it_helped() {
    for row in rows() {
        for finding in judge(Some(&row.facts), row.pooler.as_ref()) {
            let asks = finding.severity < Severity::Unknown;
            assert_eq!(asks, !finding.helped.is_empty(), "{}: {finding:?}", row.name);
        }
    }
}

/// Guards against a report that says two numbers for one setting.
#[test]
fn no_report_contradicts_itself() {
    for row in rows() {
        let mut values: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for change in judge(Some(&row.facts), row.pooler.as_ref())
            .into_iter()
            .flat_map(|f| f.changes)
        {
            let (setting, value) = change.line.split_once(" = ").expect("a setting and its value");
            values.entry(setting.to_owned()).or_default().insert(value.to_owned());
        }
        let twice: Vec<_> = values.iter().filter(|(_, values)| values.len() > 1).collect();
        assert!(twice.is_empty(), "{}: {twice:?}", row.name);
        // A number in place of auto would end what the same report praises.
        let finds_sizes = row.pooler.is_some_and(|pooler| pooler.finds_sizes());
        assert!(
            !finds_sizes || !values.contains_key("default_pool_size"),
            "{}: {values:?}",
            row.name
        );
    }
}

/// The server and the pooler once the advice on them was followed.
fn follow(row: &Row) -> (Facts, Option<PoolerFacts>) {
    let (mut facts, mut pooler) = (row.facts.clone(), row.pooler.clone());
    for change in judge(Some(&row.facts), row.pooler.as_ref())
        .into_iter()
        .flat_map(|f| f.changes)
    {
        let (setting, value) = change.line.split_once(" = ").expect("a setting and its value");
        let memory = &mut facts.settings.memory;
        match setting {
            "max_connections" => memory.max_connections = number(value),
            "work_mem" => memory.work_mem_bytes = bytes(value),
            "maintenance_work_mem" => memory.maintenance_work_mem_bytes = bytes(value),
            "temp_buffers" => memory.temp_buffers_bytes = bytes(value),
            "default_pool_size" => {
                let pools = pooler.iter_mut().flat_map(|pooler| &mut pooler.pools);
                for pool in pools {
                    let (before, size) = (pool.servers(), number(value));
                    pool.size = Some(size);
                    pool.servers_active = pool.servers_active.min(size);
                    pool.servers_idle = pool.servers_idle.min(size - pool.servers_active);
                    facts.sessions.total -= u32::try_from(before - pool.servers()).expect("a few servers");
                }
            }
            _ => {
                let config = pooler.iter_mut().map(|pooler| &mut pooler.config);
                config.for_each(|config| drop(config.insert(setting.to_owned(), value.to_owned())));
            }
        }
    }
    // All connections come through a pooler then, if there was none before.
    if pooler.is_none() {
        let sessions = &mut facts.sessions;
        sessions.total = sessions.total.min(facts.settings.memory.max_connections / 2);
        sessions.idle = sessions.idle.min(sessions.total / 2);
    }
    // What pgweir takes from the server follows max_connections.
    for sizing in pooler.iter_mut().flat_map(|pooler| &mut pooler.sizings) {
        sizing.servers_max = sizing.servers_max.min(u64::from(sizing::allowed(&facts)));
    }
    (facts, pooler)
}

/// Whoever follows the advice must not get another one, and nothing new may be wrong then.
#[test]
fn advice_that_was_followed_is_not_given_again() {
    const FOLLOWED: [&str; 5] = [
        "max_connections",
        "work_mem",
        "maintenance_work_mem",
        "temp_buffers",
        "max_db_connections",
    ];
    for row in rows() {
        let before: BTreeSet<String> = judge(Some(&row.facts), row.pooler.as_ref())
            .into_iter()
            .filter(|finding| finding.severity <= Severity::Warning)
            .map(|finding| finding.id)
            .collect();
        let (facts, pooler) = follow(&row);
        for finding in judge(Some(&facts), pooler.as_ref()) {
            let is_new = finding.severity <= Severity::Warning && !before.contains(&finding.id);
            assert!(!is_new, "{}: {finding:?}", row.name);
            let setting = |line: &str| line.split_once(" = ").map(|(setting, _)| setting.to_owned());
            let again = finding
                .changes
                .iter()
                .filter_map(|change| setting(&change.line))
                .find(|setting| FOLLOWED.contains(&setting.as_str()));
            // The pools of a server without a pooler are not set up by following the advice.
            let again = again.filter(|setting| pooler.is_some() || setting != "max_db_connections");
            assert_eq!(again, None, "{}: {finding:?}", row.name);
        }
    }
}
