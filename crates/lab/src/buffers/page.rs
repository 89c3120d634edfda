//! The outcome of the sweep: `result.json` and the report.

use super::measure::Found;
use super::verdict::{Level, Verdict, judge, rounds_of};
use super::{Arguments, size};
use crate::report::{Axis, LineChart, Report, Series, Table, Unit};
use crate::results::{Case, Outcome, Paste, pages};
use crate::rounds::longer_words;
use pgweir_maths::{number_words, shared_buffers_start};
use serde_json::json;

/// Whether prewarmed, and how the report calls it.
const STATES: [(bool, &str); 2] = [(false, "cold"), (true, "prewarmed, indexes first")];

/// What would have been set without a measurement.
fn beside_the_rule(verdict: &Verdict, outcome: &Outcome) -> Option<String> {
    let memory_bytes = outcome.machine.memory_bytes;
    verdict.enough_bytes.filter(|_| memory_bytes > 0)?;
    let start = shared_buffers_start(memory_bytes, false);
    Some(format!(
        "Without a measurement, {} would be the size to start from: a quarter of the machine's memory.",
        size::written(start)
    ))
}

/// Fills the outcome with what was found, and judges it. `prewarm_missing`: why nothing was prewarmed.
pub(super) fn complete(
    outcome: &mut Outcome,
    arguments: &Arguments,
    found: &Found,
    prewarm_missing: Option<String>,
) -> Verdict {
    outcome.workload = format!(
        "{}; {} clients",
        arguments.workload.words(),
        number_words(f64::from(arguments.clients))
    );
    outcome.rounds = arguments.common.rounds;
    outcome.seconds_per_run = arguments.common.seconds;
    outcome.cases = found.cases.values().cloned().collect();
    for case in found.cases.values() {
        if let Some(why) = &case.failure {
            outcome.left_out.push(format!("{}: {why}", case.name));
        }
    }
    if let Some(why) = prewarm_missing {
        outcome.left_out.push(format!("Prewarming: {why}."));
    }
    if let Some(why) = &found.page_cache_kept {
        outcome.left_out.push(format!(
            "The operating system's page cache was not emptied ({why}): cold is an empty shared_buffers alone."
        ));
    }
    let mut verdict = judge(&levels(found));
    verdict.sentences.extend(beside_the_rule(&verdict, outcome));
    outcome.conclusions.clone_from(&verdict.sentences);
    if let Some(needed) = verdict.more_rounds {
        let longer = longer_words(outcome, needed);
        outcome.conclusions.insert(
            1,
            format!("To tell, measure longer: {longer}; or longer runs (--seconds)."),
        );
    }
    if let Some(bytes) = verdict.enough_bytes {
        outcome.paste.push(Paste {
            file: "postgresql.conf".to_owned(),
            text: format!(
                "shared_buffers = {}    # needs a restart; measured with {}\n",
                size::written(bytes),
                arguments.workload.words()
            ),
        });
    }
    let warmed = |(size, warmed): (&u64, &super::warming::Warmed)| json!({"shared_buffers_bytes": size, "prewarmed_bytes": warmed.bytes, "of_bytes": warmed.of_bytes});
    outcome.details = [
        ("shared_buffers_bytes".to_owned(), json!(sizes(found))),
        ("enough_bytes".to_owned(), json!(verdict.enough_bytes)),
        ("prewarmed".to_owned(), found.warmed.iter().map(warmed).collect()),
    ]
    .into_iter()
    .collect();
    verdict
}

fn sizes(found: &Found) -> Vec<u64> {
    let mut sizes: Vec<u64> = found.cases.keys().map(|key| key.0).collect();
    sizes.dedup();
    sizes
}

fn levels(found: &Found) -> Vec<Level> {
    let tps = |bytes, warm| {
        found
            .cases
            .get(&(bytes, warm))
            .map_or_else(Vec::new, |case| case.values("tps").to_vec())
    };
    let level = |bytes| Level {
        bytes,
        cold: tps(bytes, false),
        warm: tps(bytes, true),
        holds_all: found.warmed.get(&bytes).is_some_and(|warmed| warmed.is_all()),
    };
    sizes(found).into_iter().map(level).collect()
}

/// The report.
pub(super) fn report(outcome: &Outcome, arguments: &Arguments, found: &Found, verdict: &Verdict) -> Report {
    let mut report = pages::begin(outcome, "How large shared_buffers has to be");
    if let Some(bytes) = verdict.enough_bytes {
        report.key_figure(size::written(bytes), "of shared_buffers are enough for this load");
    }
    let section = report.section("Throughput over the size of shared_buffers");
    section.prose("Lines are geometric means of the rounds; bands reach from the slowest round to the fastest.");
    section.chart(chart(
        found,
        verdict,
        "Throughput",
        "tps",
        Axis::linear("TPS", Unit::Number),
    ));
    section.table(table(found).on_terminal());
    let latency = Axis::linear("latency", Unit::Milliseconds);
    section.chart(chart(
        found,
        verdict,
        "95th percentile of latency",
        "latency_p95_ms",
        latency,
    ));
    let hits = Axis::linear("hits", Unit::Percent);
    section.chart(chart(
        found,
        verdict,
        "Blocks found in shared_buffers",
        "hit_percent",
        hits,
    ));
    let section = report.section("How it was measured");
    section.prose(how(arguments, found));
    pages::end(&mut report, outcome);
    report
}

/// What was done before each run.
fn how(arguments: &Arguments, found: &Found) -> String {
    let page_cache = match (&found.page_cache_kept, arguments.prewarmed) {
        (None, false) => ", and the operating system forgot the pages of the database's files",
        _ => "",
    };
    let settle = match arguments.settle {
        0 => String::new(),
        seconds => format!(", and that the load has run for {seconds} s, which is not measured"),
    };
    let short = match arguments.prewarmed {
        true => String::new(),
        false => format!(
            " Short runs show most of the difference between cold and prewarmed: a run of {} s warms a cold server, too.",
            arguments.common.seconds
        ),
    };
    format!(
        "Before each run the server was restarted with the size, so that `shared_buffers` was empty{page_cache}. Prewarmed means \
         that `pg_prewarm` has then read the indexes and, as far as they fit, the tables{settle}.{short}"
    )
}

fn chart(found: &Found, verdict: &Verdict, title: &str, metric: &str, y: Axis) -> LineChart {
    let mut chart = LineChart::new(title, Axis::log("shared_buffers", Unit::Bytes), y);
    for (warm, name) in STATES {
        let cases = found.cases.iter().filter(|(key, _)| key.1 == warm);
        let points: Vec<_> = cases
            .filter_map(|(key, case)| pages::point(case, key.0 as f64, metric))
            .collect();
        if !points.is_empty() {
            chart = chart.series(Series::new(name).points(points));
        }
    }
    match verdict.enough_bytes {
        Some(bytes) => chart.mark(bytes as f64, format!("enough: {}", size::written(bytes))),
        None => chart,
    }
}

/// As the article has it: a row for each size. Without the cold half where that was not measured.
fn table(found: &Found) -> Table {
    let has_cold = found.cases.keys().any(|(_, warm)| !warm);
    let mut table = Table::new().text("shared_buffers");
    if has_cold {
        table = table.number("cold TPS").number(pages::RANGE).number("hits");
    }
    table = table
        .number("prewarmed TPS")
        .number(pages::RANGE)
        .number("hits")
        .number("prewarmed");
    if has_cold {
        table = table.text("prewarmed / cold");
    }
    let levels = levels(found);
    let rounds = rounds_of(&levels);
    for (at, level) in levels.iter().enumerate() {
        let warmed = found.warmed.get(&level.bytes).map(|w| {
            format!(
                "{} of {}",
                Unit::Bytes.show(w.bytes as f64),
                Unit::Bytes.show(w.of_bytes as f64)
            )
        });
        let mut row = vec![size::written(level.bytes)];
        if has_cold {
            row.extend(cells(found.cases.get(&(level.bytes, false))));
        }
        row.extend(cells(found.cases.get(&(level.bytes, true))));
        row.push(warmed.unwrap_or_default());
        if has_cold {
            let change = rounds.ratio(at, levels.len() + at).map(|change| change.to_string());
            row.push(change.unwrap_or_default());
        }
        table = table.row(row);
    }
    table
}

/// Throughput, its range, and hits; empty where it was not measured.
fn cells(case: Option<&Case>) -> [String; 3] {
    let Some(case) = case else { return Default::default() };
    let Some(tps) = case.spread("tps") else {
        return ["failed".to_owned(), String::new(), String::new()];
    };
    let hits = case.spread("hit_percent").map(|hits| Unit::Percent.show(hits.middle));
    let range = pages::range_words(&tps, Unit::Number);
    [Unit::Number.show(tps.middle), range, hits.unwrap_or_default()]
}
