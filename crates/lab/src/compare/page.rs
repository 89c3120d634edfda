//! The report of `lab compare`.

use super::circumstances::Differing;
use super::figures::{Figures, Metric, Row};
use crate::report::{Axis, BarChart, Report, Table, Unit};
use crate::results::{Outcome, pages};
use pgweir_maths::Spread;

/// On the page alone: on the terminal the others say enough.
const NOT_ON_TERMINAL: [&str; 3] = ["latency_p50_ms", "latency_p99_ms", "latency_mean_ms"];

/// Metrics that are drawn.
const DRAWN: [&str; 2] = ["tps", "latency_p95_ms"];

/// Draws it.
pub(super) fn draw(
    outcomes: [&Outcome; 2],
    names: &[String; 2],
    differing: &[Differing],
    figures: &Figures,
    conclusions: &[String],
) -> Report {
    let mut report = Report::new(
        "pgweir lab compare",
        format!("Two results of lab {}", outcomes[0].command),
    );
    for conclusion in conclusions {
        report.conclude(conclusion);
    }
    let section = report.section("What is compared");
    let mut table = Table::new()
        .text("")
        .text("begun")
        .text("PostgreSQL")
        .text("load")
        .text("result");
    for (which, (outcome, name)) in ["A", "B"].into_iter().zip(outcomes.into_iter().zip(names)) {
        let version = outcome.server.version.split(' ').next().unwrap_or_default();
        table = table.row([which, &pages::minute(outcome), version, &outcome.workload, name]);
    }
    section.table(table.on_terminal());
    if differing.is_empty() {
        section.prose("Machine, server, settings and load are told as the same in both.");
    } else {
        let mut table = Table::new().text("").text("A").text("B");
        for fact in differing {
            table = table.row([&fact.what, &fact.values[0], &fact.values[1]]);
        }
        section.table(table.caption("What was not alike").on_terminal());
    }
    let section = report.section("Figures");
    section.prose(
        "A and B are geometric means of the rounds. B / A is their ratio, with its interval of 95 % confidence (Welch's, on \
         the logarithms): among twenty equal figures one looks different by chance.",
    );
    for metric in &figures.metrics {
        if DRAWN.contains(&metric.name.as_str()) {
            section.chart(chart(metric));
        }
        let table = table_of(metric);
        let on_terminal = !NOT_ON_TERMINAL.contains(&metric.name.as_str());
        section.table(if on_terminal { table.on_terminal() } else { table });
    }
    if !figures.left_out.is_empty() {
        report.section("What cannot be compared").list(&figures.left_out);
    }
    report
}

fn chart(metric: &Metric) -> BarChart {
    let axis = match metric.name.as_str() {
        "tps" => Axis::linear("TPS", Unit::Number),
        _ => Axis::log("ms", Unit::Milliseconds),
    };
    let values = |spread: &Spread| Some([spread.middle, spread.min, spread.max]);
    let rows = metric.rows.iter();
    rows.fold(BarChart::new(metric.words(), axis, ["A", "B"]), |chart, row| {
        chart.group(&row.case, row.spreads.each_ref().map(values))
    })
}

fn table_of(metric: &Metric) -> Table {
    let mut table = Table::new()
        .text("")
        .number("A")
        .number(pages::RANGE)
        .number("B")
        .number(pages::RANGE)
        .text("B / A");
    for row in &metric.rows {
        table = table.row(cells(row, metric.unit()));
    }
    table.caption(metric.words())
}

fn cells(row: &Row, unit: Unit) -> Vec<String> {
    let mut cells = vec![row.case.clone()];
    for spread in &row.spreads {
        cells.extend([unit.show(spread.middle), pages::range_words(spread, unit)]);
    }
    cells.push(row.ratio.map_or_else(|| "–".to_owned(), |ratio| ratio.to_string()));
    cells
}
