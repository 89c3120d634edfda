//! What the reports of all measurements have in common.

use super::{Case, Outcome};
use crate::report::{Point, Report, Table, Unit};
use crate::throwaway::FOLDER_PREFIX;
use pgweir_maths::Spread;

/// A report titled by the question that it answers, with what the outcome knows about run, machine and conclusions.
pub fn begin(outcome: &Outcome, title: &str) -> Report {
    let mut report = Report::new(format!("pgweir lab {}", outcome.command), title);
    let version = outcome.server.version.split(' ').next().unwrap_or_default();
    let what = if outcome.server.throwaway { "a throwaway " } else { "" };
    report.when(minute(outcome));
    report.server(format!(
        "{what}PostgreSQL {version}; the lab ran on {} CPUs",
        outcome.machine.cpus
    ));
    for conclusion in &outcome.conclusions {
        report.conclude(conclusion);
    }
    report
}

/// When it began, to the minute, in the time of its place.
pub fn minute(outcome: &Outcome) -> String {
    outcome.started.get(..16).unwrap_or(&outcome.started).replace('T', " ")
}

/// Ends a report: settings to paste, what was left out, machine and server, the commands.
pub fn end(report: &mut Report, outcome: &Outcome) {
    if !outcome.paste.is_empty() {
        let section = report.section("Settings to paste");
        for paste in &outcome.paste {
            section.prose(format!("For `{}`:", paste.file));
            section.code(&paste.text);
        }
    }
    if !outcome.left_out.is_empty() {
        report.section("What was left out").list(&outcome.left_out);
    }
    let machine = &outcome.machine;
    let mut pairs = vec![
        (
            "server".to_owned(),
            format!("PostgreSQL {}, {}", outcome.server.version, place(outcome)),
        ),
        (
            "processors".to_owned(),
            format!("{} {}", machine.cpus, machine.cpu_model),
        ),
        ("memory".to_owned(), bytes(machine.memory_bytes)),
        ("system".to_owned(), machine.system.clone()),
        ("load generator".to_owned(), outcome.pgbench.clone()),
        ("load".to_owned(), outcome.workload.clone()),
        (
            "rounds".to_owned(),
            format!("{} of {} s", outcome.rounds, outcome.seconds_per_run),
        ),
        ("program".to_owned(), outcome.program.clone()),
    ];
    pairs.retain(|(_, value)| !value.trim().is_empty());
    let section = report.section("Machine, server, settings");
    if !outcome.server.local {
        section.prose(
            "The server is on another machine: processors and memory are those of the machine that the lab ran on.",
        );
    }
    section.table(Table::pairs(pairs));
    section.table(Table::pairs(outcome.server.settings.clone()).caption("Settings of the server"));
    let mut commands: Vec<&str> = Vec::new();
    for case in &outcome.cases {
        if !case.command.is_empty() && !commands.contains(&case.command.as_str()) {
            commands.push(&case.command);
        }
    }
    let section = report.section("Exact commands");
    section.code(format!("pgweir {}", outcome.arguments.join(" ")));
    if !commands.is_empty() {
        section.prose("which ran, each case in every round:");
        section.code(without_throwaway_folders(&commands.join("\n")));
    }
}

/// Where the server was. A throwaway one is gone.
fn place(outcome: &Outcome) -> &str {
    match outcome.server.throwaway {
        true => "a throwaway server on this machine",
        false => &outcome.server.place,
    }
}

/// Commands without the folders of throwaway servers, which are removed: `host=$PGHOST` in place of `host=/tmp/...`.
fn without_throwaway_folders(commands: &str) -> String {
    let mut shown = String::new();
    let mut rest = commands;
    while let Some(at) = rest.find(FOLDER_PREFIX) {
        let of_a_path = |c: char| "/._-".contains(c) || c.is_alphanumeric();
        shown += rest[..at].trim_end_matches(of_a_path);
        shown += "$PGHOST";
        let after = &rest[at + FOLDER_PREFIX.len()..];
        rest = after.trim_start_matches(|c: char| c.is_alphanumeric());
    }
    shown + rest
}

/// The figures of cases as a table: throughput with its spread, latencies.
pub fn table<'a>(cases: impl IntoIterator<Item = &'a Case>) -> Table {
    let mut table = Table::new()
        .text("")
        .number("TPS")
        .number(RANGE)
        .number("p50")
        .number("p95")
        .number("p99");
    for case in cases {
        let ms = |metric: &str| {
            case.spread(metric)
                .map_or_else(|| "–".to_owned(), |s| Unit::Milliseconds.show(s.middle))
        };
        let tps = case.spread("tps");
        let (middle, range) = match &tps {
            Some(tps) => (Unit::Number.show(tps.middle), range_words(tps, Unit::Number)),
            None => ("failed".to_owned(), String::new()),
        };
        let row = [
            case.name.clone(),
            middle,
            range,
            ms("latency_p50_ms"),
            ms("latency_p95_ms"),
            ms("latency_p99_ms"),
        ];
        table = table.row(row);
    }
    table
}

/// A metric of a case as a point of a chart, with its spread.
pub fn point(case: &Case, x: f64, metric: &str) -> Option<Point> {
    let spread = case.spread(metric)?;
    Some(Point::spread(x, spread.middle, spread.min, spread.max))
}

/// Heading of a column with [`range_words`].
pub const RANGE: &str = "rounds from ... to";

/// From the least round to the greatest, `990 to 1,010`; `one round` of a single one.
pub fn range_words(spread: &Spread, unit: Unit) -> String {
    match spread.rounds {
        0 | 1 => "one round".to_owned(),
        _ => format!("{} to {}", unit.show(spread.min), unit.show(spread.max)),
    }
}

fn bytes(bytes: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "for reading")]
    let bytes = bytes as f64;
    if bytes == 0.0 {
        String::new()
    } else {
        Unit::Bytes.show(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_that_are_removed_are_not_shown() {
        let commands =
            "pgbench -c 8 'host=/tmp/pgweir-throwaway-a1B2c3 port=5432'\npgbench host=/var/tmp/pgweir-throwaway-zzzzzz";
        assert_eq!(
            without_throwaway_folders(commands),
            "pgbench -c 8 'host=$PGHOST port=5432'\npgbench host=$PGHOST"
        );
        assert_eq!(without_throwaway_folders("pgbench host=/tmp"), "pgbench host=/tmp");
    }
}
