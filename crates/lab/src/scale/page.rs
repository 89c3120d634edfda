//! The report of `lab scale`.

use super::lone::Lone;
use super::verdict::tps;
use crate::report::{Axis, BarChart, LineChart, Report, Series, Table, Unit};
use crate::results::{Case, Outcome, pages};
use crate::rounds::clients_words;
use pgweir_maths::number_words;

/// Percentiles of the latency: metric and name.
const PERCENTILES: [(&str, &str); 3] = [
    ("latency_p50_ms", "p50"),
    ("latency_p95_ms", "p95"),
    ("latency_p99_ms", "p99"),
];

/// Draws it.
pub(super) fn draw(pooled: &[Case], direct: &[Case], lone: &Lone, outcome: &Outcome) -> Report {
    let mut report = pages::begin(outcome, "Whether many clients are as good as few");
    key_figures(&mut report, pooled, lone);
    let section = report.section("Throughput");
    section.prose(
        "Clients work without a pause, so more of them bring no more work, only a longer queue. The line is the geometric \
         mean of the rounds; the band reaches from the slowest to the fastest.",
    );
    let ways = [("through pgweir", pooled), ("direct", direct)];
    let axes = (Axis::log("clients", Unit::Number), Axis::linear("TPS", Unit::Number));
    let mut chart = LineChart::new("Throughput", axes.0, axes.1);
    for (name, cases) in ways {
        chart = chart.series(series(name, cases, "tps"));
    }
    section.chart(chart);
    section.table(
        pages::table(pooled.iter().chain(direct))
            .caption("By number of clients")
            .on_terminal(),
    );
    let section = report.section("Latency");
    section.prose("Of single transactions, waiting for a server of the pool included.");
    for (name, cases) in ways {
        let axes = (Axis::log("clients", Unit::Number), Axis::log("ms", Unit::Milliseconds));
        let mut chart = LineChart::new(format!("Latency {name}"), axes.0, axes.1);
        for (metric, percentile) in PERCENTILES {
            chart = chart.series(series(percentile, cases, metric));
        }
        section.chart(chart);
    }
    if lone.cases().next().is_some() {
        one_client(&mut report, lone);
    }
    pages::end(&mut report, outcome);
    report
}

fn series(name: &str, cases: &[Case], metric: &str) -> Series {
    let point = |case: &Case| pages::point(case, f64::from(case.clients), metric);
    Series::new(name).points(cases.iter().filter_map(point))
}

fn key_figures(report: &mut Report, pooled: &[Case], lone: &Lone) {
    let measured = || pooled.iter().filter(|case| tps(case) > 0.0);
    if let (Some(fewest), Some(most)) = (
        measured().min_by_key(|c| c.clients),
        measured().max_by_key(|c| c.clients),
    ) {
        report.key_figure(
            Unit::Percent.show(100.0 * tps(most) / tps(fewest)),
            format!(
                "of the throughput of {} is left with {}, through pgweir",
                clients_words(fewest.clients),
                number_words(f64::from(most.clients))
            ),
        );
    }
    for (case, meaning) in [(&lone.shared, "in the same pool"), (&lone.own, "in a pool of its own")] {
        if let Some(p50) = case.as_ref().and_then(|case| case.spread("latency_p50_ms")) {
            report.key_figure(
                Unit::Milliseconds.show(p50.middle),
                format!(
                    "a transaction of one more client beside {}, {meaning}",
                    clients_words(lone.crowd)
                ),
            );
        }
    }
}

/// The one client: a dot for each percentile on a logarithmic axis, because the ways differ by powers of ten.
fn one_client(report: &mut Report, lone: &Lone) {
    let section = report.section("One more client");
    section.prose(format!(
        "Beside {}, one more client, also without a pause. A pool of its own stands in the same pgweir and has one server \
         connection; the processors it shares with all.",
        clients_words(lone.crowd)
    ));
    let mut chart = BarChart::new(
        "Latency of one client",
        Axis::log("ms", Unit::Milliseconds),
        PERCENTILES.map(|(_, name)| name),
    );
    let mut table = Table::new().text("");
    for (_, name) in PERCENTILES {
        table = table.number(name);
    }
    for case in lone.cases() {
        let name = case.name.trim_start_matches("one client, ");
        let spreads = PERCENTILES.map(|(metric, _)| case.spread(metric));
        if spreads.iter().flatten().next().is_some() {
            chart = chart.group(name, spreads.map(|s| s.map(|s| [s.middle, s.min, s.max])));
        }
        let shown = spreads.map(|s| s.map_or_else(|| "–".to_owned(), |s| Unit::Milliseconds.show(s.middle)));
        table = table.row(std::iter::once(name.to_owned()).chain(shown));
    }
    section.chart(chart);
    section.table(table.caption("One client").on_terminal());
}
