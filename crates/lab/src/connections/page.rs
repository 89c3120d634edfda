//! The report of `lab connections`.

use super::judge::Judged;
use crate::report::{Axis, BarChart, LineChart, Report, Series, Unit};
use crate::results::{Case, Outcome, pages};
use pgweir_maths::number_words;

/// Steps of the drawn law between its first and last level.
const LAW_STEPS: u32 = 60;

/// Draws it.
pub(super) fn draw(judged: &Judged, outcome: &Outcome) -> Report {
    let recommendation = &judged.recommendation;
    let mut report = pages::begin(outcome, "How many connections this server is fastest with");
    if let Some(sizes) = &recommendation.sizes {
        report.key_figure(sizes.max_connections.to_string(), "max_connections");
        report.key_figure(sizes.default_pool_size.to_string(), "default_pool_size");
    }
    report.key_figure(number_words(recommendation.peak_tps), "TPS at the peak");
    if let Some(thumb) = recommendation.rule_of_thumb {
        report.key_figure(thumb.to_string(), "cores x 2 + spindles, for comparison");
    }
    let section = report.section("Throughput and latency, direct");
    section.prose("The line is the geometric mean of the rounds; the band reaches from the slowest to the fastest.");
    section.chart(throughput(judged));
    section.chart(latency(&judged.direct));
    section.table(pages::table(&judged.direct).caption("Direct").on_terminal());
    if !judged.pooled.is_empty() {
        let clients = judged.pooled[0].clients;
        let section = report.section("Through pgweir");
        section.prose(format!(
            "The same {clients} clients each time; only the number of connections that pgweir holds to the server differs."
        ));
        let rows = judged.pooled.iter().chain(&judged.auto).chain(&judged.beside);
        let mut chart = BarChart::new("Throughput", Axis::linear("TPS", Unit::Number), [""]);
        for case in rows.clone() {
            let name = match (case.pool_size, &*case.path) {
                (Some(size), _) => format!("pool of {size}"),
                (None, "direct") => "direct".to_owned(),
                (None, _) => "auto".to_owned(),
            };
            chart = chart.group(name, [case.spread("tps").map(|tps| [tps.middle, tps.min, tps.max])]);
        }
        section.chart(chart);
        section.table(
            pages::table(rows)
                .caption(format!("{clients} clients, by pool size"))
                .on_terminal(),
        );
    }
    pages::end(&mut report, outcome);
    report
}

fn throughput(judged: &Judged) -> LineChart {
    let points = judged
        .direct
        .iter()
        .filter_map(|case| pages::point(case, f64::from(case.clients), "tps"));
    let axes = (Axis::log("clients", Unit::Number), Axis::linear("TPS", Unit::Number));
    let mut chart = LineChart::new("Throughput", axes.0, axes.1).series(Series::new("direct").points(points));
    let measured: Vec<f64> = judged.direct.iter().map(|case| f64::from(case.clients)).collect();
    if let (Some(law), Some(first), Some(last)) = (&judged.law, measured.first(), measured.last()) {
        let at = |step: u32| first * (last / first).powf(f64::from(step) / f64::from(LAW_STEPS));
        let curve = (0..=LAW_STEPS)
            .map(at)
            .map(|clients| (clients, law.law.throughput(clients)));
        chart = chart.fit("fitted law", curve.collect::<Vec<_>>());
    }
    let recommendation = &judged.recommendation;
    match recommendation.sizes {
        Some(_) => chart
            .mark(recommendation.knee_clients, "knee")
            .mark(recommendation.peak_clients, "peak"),
        None => chart,
    }
}

fn latency(direct: &[Case]) -> LineChart {
    let mut chart = LineChart::new(
        "Latency",
        Axis::log("clients", Unit::Number),
        Axis::log("ms", Unit::Milliseconds),
    );
    for (name, metric) in [
        ("p50", "latency_p50_ms"),
        ("p95", "latency_p95_ms"),
        ("p99", "latency_p99_ms"),
    ] {
        let points = direct
            .iter()
            .filter_map(|case| pages::point(case, f64::from(case.clients), metric));
        chart = chart.series(Series::new(name).points(points));
    }
    chart
}
