//! The report of `lab connect`.

use crate::report::{Axis, BarChart, Report, StackedBars, Table, Unit};
use crate::results::{Case, Outcome, pages};

/// The parts of a connection: metric and name.
const PARTS: [(&str, &str); 4] = [
    ("transport_ms", "transport"),
    ("tls_ms", "TLS"),
    ("login_ms", "startup and authentication"),
    ("first_query_ms", "first query"),
];

/// Draws it; `steps` are the connections opened step by step.
pub(super) fn draw(outcome: &Outcome, steps: &[Case]) -> Report {
    let mut report = pages::begin(outcome, "What a connection costs");
    draw_loads(&mut report, outcome);
    draw_steps(&mut report, steps);
    pages::end(&mut report, outcome);
    report
}

/// pgbench: clients that stay, and clients that connect anew.
fn draw_loads(report: &mut Report, outcome: &Outcome) {
    let loads: Vec<&Case> = outcome
        .cases
        .iter()
        .filter(|case| !case.values("tps").is_empty())
        .collect();
    let section = report.section("Queries per second");
    section.prose(
        "Each transaction is `SELECT 1`. Clients that stay connect once; the others connect for each transaction.",
    );
    let mut chart = BarChart::new(
        "Queries per second",
        Axis::linear("queries per second", Unit::Number),
        [""],
    );
    for case in &loads {
        chart = chart.group(
            &case.name,
            [case.spread("tps").map(|tps| [tps.middle, tps.min, tps.max])],
        );
    }
    section.chart(chart);
    section.table(
        pages::table(loads)
            .caption("Latencies of clients that connect for each query include connecting")
            .on_terminal(),
    );
}

/// One connection after the other, in its parts.
fn draw_steps(report: &mut Report, steps: &[Case]) {
    let measured: Vec<&Case> = steps
        .iter()
        .filter(|case| !case.values("connect_total_ms").is_empty())
        .collect();
    let median = |case: &Case, metric: &str| case.spread(metric).map_or(0.0, |spread| spread.middle);
    let section = report.section("Where the time of a connection goes");
    section.prose(
        "Connections opened one at a time, on an otherwise idle server; medians. Startup includes the start of a server \
         process, where nothing pools.",
    );
    let names = measured
        .iter()
        .map(|case| case.name.trim_end_matches(", one at a time").to_owned());
    let mut chart = StackedBars::new(
        "Time of a connection",
        Axis::linear("ms", Unit::Milliseconds),
        names.clone(),
    );
    let mut table = Table::new().text("");
    for (metric, name) in PARTS {
        chart = chart.layer(name, measured.iter().map(|case| median(case, metric)));
        table = table.number(name);
    }
    table = table.number("together");
    for (case, name) in measured.iter().zip(names) {
        let mut row = vec![name];
        row.extend(PARTS.map(|(metric, _)| Unit::Milliseconds.show(median(case, metric))));
        row.push(Unit::Milliseconds.show(median(case, "connect_total_ms")));
        table = table.row(row);
    }
    section.chart(chart);
    section.table(table.caption("Time of a connection").on_terminal());
}
