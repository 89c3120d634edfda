//! The outcome of the measurement: `result.json` and the report.

use super::IdleArguments;
use super::measure::{Found, Taken, Way};
use super::memory::SystemMemory;
use super::verdict::{self, MemoryFigures, Pair};
use super::workload::Row;
use crate::report::{Axis, BarChart, Report, Section, StackedArea, StackedBars, Table, Unit};
use crate::results::{Case, Outcome, pages};
use pgweir_maths::number_words;
use serde_json::json;
use std::collections::BTreeSet;

/// Notes on the chart of memory over time: those of one round can be read, more not.
const NOTES_MAX: usize = 4;

/// Fills the outcome with what was found.
pub(super) fn complete(outcome: &mut Outcome, arguments: &IdleArguments, found: &Found) {
    let rows: Vec<&str> = arguments.rows().into_iter().map(Row::word).collect();
    outcome.workload = format!(
        "{}; {} clients, {} protocol, scale {}",
        rows.join(", "),
        number_words(f64::from(arguments.clients)),
        arguments.protocol.word(),
        arguments.scale
    );
    outcome.rounds = arguments.common.rounds;
    outcome.seconds_per_run = arguments.common.seconds;
    outcome.cases = found.cases.values().cloned().collect();
    outcome.left_out.clone_from(&found.left_out);
    for case in found.cases.values() {
        if let Some(why) = &case.failure {
            outcome.left_out.push(format!("{}: {why}", case.name));
        }
    }
    let missing: BTreeSet<&String> = found
        .taken
        .values()
        .filter_map(|t| t.backend_memory_missing.as_ref())
        .collect();
    for why in missing {
        outcome.left_out.push(format!("Memory of server processes: {why}."));
    }
    outcome.conclusions = conclusions(found);
    let events: serde_json::Map<String, serde_json::Value> = found
        .events
        .iter()
        .filter_map(|(key, events)| Some((found.cases.get(key)?.name.clone(), json!(events.means()))))
        .collect();
    let taken: serde_json::Map<String, serde_json::Value> = found
        .taken
        .iter()
        .map(|(way, taken)| (way.word().to_owned(), json!(taken)))
        .collect();
    outcome.details = [
        ("idle".to_owned(), json!(taken)),
        (
            "fresh_backend_contexts_bytes".to_owned(),
            json!(found.fresh_contexts_bytes),
        ),
        ("sessions_by_wait_event".to_owned(), json!(events)),
        ("memory_over_time".to_owned(), json!(found.timeline.moments())),
        ("memory_over_time_notes".to_owned(), json!(found.timeline.notes)),
    ]
    .into_iter()
    .collect();
}

fn conclusions(found: &Found) -> Vec<String> {
    let (direct, pooled) = (pairs(found, Way::Direct), pairs(found, Way::Pooled));
    let idle = |way| found.taken.get(&way).map_or(0, |t: &Taken| t.idle);
    let mut out = vec![verdict::throughput(idle(Way::Direct), "direct clients", &direct)];
    if !pooled.is_empty() {
        out.push(verdict::throughput(idle(Way::Pooled), "clients of pgweir", &pooled));
    }
    let figures = |way| found.taken.get(&way).and_then(memory_figures);
    out.extend(verdict::memory(
        figures(Way::Direct).as_ref(),
        figures(Way::Pooled).as_ref(),
    ));
    let direct_taken = found.taken.get(&Way::Direct);
    let mut share = None;
    if let Some((before, open)) = direct_taken.and_then(|t| t.before.zip(t.open)) {
        let total = before.total_bytes as f64;
        let after = direct_taken.and_then(|t| t.after).unwrap_or(open);
        let cache_change = after.page_cache_bytes as f64 - before.page_cache_bytes as f64;
        let (available, left) = (before.available_bytes as f64, open.available_bytes as f64);
        out.push(verdict::available(available, left, total, cache_change));
        share = Some((available - left) / total);
    }
    out.extend(verdict::advice(&direct, &pooled, share));
    out.retain(|sentence| !sentence.is_empty());
    out
}

/// Throughput of all loads of a way that ran in both conditions.
fn pairs(found: &Found, way: Way) -> Vec<Pair> {
    let tps = |row, with_idle| {
        found
            .cases
            .get(&(row, way, with_idle))
            .map(|case| case.values("tps").to_vec())
    };
    let pair = |row| {
        Some(Pair {
            row,
            alone: tps(row, false)?,
            with_idle: tps(row, true)?,
        })
    };
    Row::ALL.into_iter().filter_map(pair).collect()
}

fn memory_figures(taken: &Taken) -> Option<MemoryFigures> {
    let memory = taken.backend_memory?;
    Some(MemoryFigures {
        idle: taken.idle,
        backend_bytes: memory.mean_bytes + memory.page_tables_mean_bytes,
        backends: taken.backends,
        pooler_bytes: taken
            .pooler_bytes
            .map(|(before, with)| with.saturating_sub(before) as f64),
    })
}

/// The report.
pub(super) fn report(outcome: &Outcome, arguments: &IdleArguments, found: &Found) -> Report {
    let mut report = pages::begin(outcome, "What idle connections cost");
    key_figures(&mut report, found);
    throughput(report.section("Throughput and latency"), arguments, found);
    memory(report.section("Memory"), found);
    wait_events(report.section("What the working sessions wait for"), found);
    let section = report.section("How it was measured");
    section.prose(
        "Each idle connection has read a row of every table of `information_schema` in one transaction, so that its \
         process has filled its catalog caches, and then does nothing. Through pgweir the same clients do the same. The \
         loads ran alone and beside them, in turn:",
    );
    section.list(
        arguments
            .rows()
            .into_iter()
            .map(|row| format!("`{}`: {}", row.word(), row.meaning())),
    );
    pages::end(&mut report, outcome);
    report
}

fn key_figures(report: &mut Report, found: &Found) {
    let idle = found.taken.values().map(|t| t.idle).max().unwrap_or(0);
    let idle = number_words(idle as f64);
    if let Some((pair, ratio)) = verdict::worst(&pairs(found, Way::Direct)) {
        let meaning = format!(
            "of the throughput of {} is left beside {idle} idle connections, direct",
            pair.row.word()
        );
        report.key_figure(Unit::Percent.show(100.0 * ratio.ratio), meaning);
    }
    if let Some(memory) = found.taken.get(&Way::Direct).and_then(memory_figures) {
        report.key_figure(
            Unit::Bytes.show(memory.backend_bytes),
            "memory of the server for each idle connection, direct",
        );
    }
    if let Some(taken) = found.taken.get(&Way::Pooled) {
        let meaning = format!(
            "server processes for {} idle clients of pgweir",
            number_words(taken.idle as f64)
        );
        report.key_figure(number_words(taken.backends as f64), meaning);
    }
}

const CONDITIONS: [(bool, &str); 2] = [(false, "alone"), (true, "beside idle connections")];

fn throughput(section: &mut Section, arguments: &IdleArguments, found: &Found) {
    section.prose("Geometric means of the rounds; whiskers reach from the slowest round to the fastest.");
    let ways = arguments.ways();
    for row in arguments.rows() {
        for (title, metric, unit) in [
            ("TPS", "tps", Unit::Number),
            ("95th percentile of latency", "latency_p95_ms", Unit::Milliseconds),
        ] {
            let names = ways.iter().map(|way| way.words());
            let label = if unit == Unit::Number { "TPS" } else { "latency" };
            let mut chart = BarChart::new(format!("{}: {title}", row.word()), Axis::linear(label, unit), names);
            for (with_idle, condition) in CONDITIONS {
                let value = |way: &Way| {
                    let spread = found.cases.get(&(row, *way, with_idle))?.spread(metric)?;
                    Some([spread.middle, spread.min, spread.max])
                };
                chart = chart.group(condition, ways.iter().map(value));
            }
            section.chart(chart);
        }
    }
    section.table(figures(found).on_terminal());
}

/// A row for each load and way.
fn figures(found: &Found) -> Table {
    let mut table = Table::new()
        .text("")
        .number("TPS alone")
        .number("with idle")
        .text("with / alone");
    table = table
        .number("p95 alone")
        .number("with idle")
        .number("p99 alone")
        .number("with idle");
    for ((row, way, with_idle), alone) in &found.cases {
        let Some(idle) = found.cases.get(&(*row, *way, true)).filter(|_| !*with_idle) else {
            continue;
        };
        let show = |case: &Case, metric: &str, unit: Unit| match case.spread(metric) {
            Some(spread) => unit.show(spread.middle),
            None => "failed".to_owned(),
        };
        let change = pgweir_maths::paired(alone.values("tps"), idle.values("tps"));
        table = table.row([
            format!("{}, {}", row.word(), way.words()),
            show(alone, "tps", Unit::Number),
            show(idle, "tps", Unit::Number),
            change.map(|c| c.to_string()).unwrap_or_default(),
            show(alone, "latency_p95_ms", Unit::Milliseconds),
            show(idle, "latency_p95_ms", Unit::Milliseconds),
            show(alone, "latency_p99_ms", Unit::Milliseconds),
            show(idle, "latency_p99_ms", Unit::Milliseconds),
        ]);
    }
    table
}

fn memory(section: &mut Section, found: &Found) {
    let rows: Vec<(String, MemoryFigures, f64)> = found
        .taken
        .iter()
        .filter_map(|(way, taken)| {
            let name = format!("{} idle, {}", number_words(taken.idle as f64), way.words());
            let page_tables = taken.backend_memory?.page_tables_mean_bytes * taken.backends as f64;
            Some((name, memory_figures(taken)?, page_tables))
        })
        .collect();
    if !rows.is_empty() {
        let names = rows.iter().map(|row| row.0.clone());
        let chart = StackedBars::new(
            "Memory of the server and of pgweir",
            Axis::linear("memory", Unit::Bytes),
            names,
        )
        .layer(
            "server processes",
            rows.iter()
                .map(|(_, m, tables)| m.backend_bytes * m.backends as f64 - tables),
        )
        .layer("their page tables", rows.iter().map(|row| row.2))
        .layer("pgweir", rows.iter().map(|row| row.1.pooler_bytes.unwrap_or(0.0)));
        section.chart(chart);
    }
    section.table(memory_table(found).on_terminal());
    let sources: BTreeSet<&str> = found
        .taken
        .values()
        .filter_map(|t| Some(t.backend_memory?.source.words()))
        .collect();
    for source in sources {
        section.prose(format!("Memory of a server process is its {source}."));
    }
    let moments = found.timeline.moments();
    if !moments.is_empty() {
        let layer = |value: fn(&SystemMemory) -> u64| moments.iter().map(move |m| value(&m.memory) as f64);
        let axes = (Axis::linear("time", Unit::Seconds), Axis::linear("memory", Unit::Bytes));
        let times = moments.iter().map(|m| m.seconds);
        let mut chart = StackedArea::new("Memory of this machine", axes.0, axes.1, times)
            .layer(
                "in use",
                layer(|m| m.total_bytes.saturating_sub(m.free_bytes + m.page_cache_bytes)),
            )
            .layer("page cache", layer(|m| m.page_cache_bytes))
            .layer("free", layer(|m| m.free_bytes));
        for (seconds, note) in found.timeline.notes.iter().take(NOTES_MAX) {
            chart = chart.mark(*seconds, note);
        }
        section.chart(chart);
    }
}

fn memory_table(found: &Found) -> Table {
    let mut table = Table::new().text("");
    for way in found.taken.keys() {
        table = table.number(way.words());
    }
    let bytes = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |v| Unit::Bytes.show(v));
    let mut row = |name: &str, value: &dyn Fn(&Taken) -> String| {
        let cells = found.taken.values().map(value);
        table = table.clone().row(std::iter::once(name.to_owned()).chain(cells));
    };
    row("idle connections", &|t| number_words(t.idle as f64));
    row("server processes", &|t| number_words(t.backends as f64));
    row("memory of a server process", &|t| {
        bytes(t.backend_memory.map(|m| m.mean_bytes))
    });
    row("its page tables", &|t| {
        bytes(t.backend_memory.map(|m| m.page_tables_mean_bytes))
    });
    row("its memory contexts", &|t| bytes(t.contexts_mean_bytes));
    row("memory contexts before filling", &|t| {
        bytes(t.contexts_mean_bytes.and(found.fresh_contexts_bytes))
    });
    row("pgweir, for all idle clients", &|t| {
        bytes(t.pooler_bytes.map(|(before, with)| with.saturating_sub(before) as f64))
    });
    let memory =
        |moment: Option<SystemMemory>, value: fn(&SystemMemory) -> u64| bytes(moment.map(|m| value(&m) as f64));
    row("available on this machine before", &|t| {
        memory(t.before, |m| m.available_bytes)
    });
    row("available with them open", &|t| memory(t.open, |m| m.available_bytes));
    row("page cache before", &|t| memory(t.before, |m| m.page_cache_bytes));
    row("page cache after the load beside them", &|t| {
        memory(t.after, |m| m.page_cache_bytes)
    });
    table
}

fn wait_events(section: &mut Section, found: &Found) {
    section.prose(
        "Sessions inside a transaction by what they waited for, seen in `pg_stat_activity` five times a second: the mean \
         number of them. Clients that wait for a server of the pool are in no session and not among them.",
    );
    let rows: Vec<(String, _)> = found
        .events
        .iter()
        .filter_map(|(key, events)| Some((found.cases.get(key)?.name.clone(), events.means())))
        .collect();
    let mut events: Vec<&String> = rows
        .iter()
        .flat_map(|row| row.1.keys())
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect();
    let total = |event: &str| rows.iter().filter_map(|row| row.1.get(event)).sum::<f64>();
    events.sort_by(|a, b| total(b).total_cmp(&total(a)));
    let names = rows.iter().map(|row| row.0.clone());
    let mut chart = StackedBars::new("Sessions by wait event", Axis::linear("sessions", Unit::Number), names);
    for event in events {
        chart = chart.layer(event, rows.iter().map(|row| row.1.get(event).copied().unwrap_or(0.0)));
    }
    section.chart(chart);
}
