//! The page of `pgweir cache`.

use super::look::{Look, LookArguments, beside, heading, relation_table, shown, usage_table};
use super::usage::{UsageCounts, UsageLevel};
use crate::report::{Axis, BarChart, Report, StackedBars, Unit};

/// Relations in the page's chart; the table has more.
const CHART_RELATIONS_MAX: usize = 8;

pub(super) fn report(look: &Look, arguments: &LookArguments) -> Report {
    let mut report = Report::new("pgweir cache", "What is in memory, and does shared_buffers fit?");
    report.server(heading(look));
    report.conclude(look.judgement.summary.clone());
    report.section("Why").list(look.judgement.reasons.clone());
    if let Some(usage) = &look.usage {
        report
            .section("Usage counts")
            .chart(usage_chart(usage))
            .table(usage_table(usage));
    }
    let section = report.section("Relations");
    section.chart(relation_chart(look, arguments));
    section
        .table(relation_table(look, arguments))
        .list(beside(look, arguments));
    if !look.unseen.is_empty() {
        let lines = look.unseen.iter().map(|u| format!("{}: {}; {}", u.what, u.why, u.how));
        report.section("Not seen").list(lines);
    }
    report
}

/// The histogram: how much of shared_buffers has which usage count, and how much of that is to be written.
fn usage_chart(usage: &UsageCounts) -> StackedBars {
    let counts = usage.levels.iter().enumerate();
    let names = counts.map(|(count, _)| format!("usage count {count}"));
    let size = |buffers: u64| (buffers * usage.block_bytes) as f64;
    let row = |unused: u64, level: fn(&UsageLevel) -> u64| -> Vec<f64> {
        let levels = usage.levels.iter().map(|l| size(level(l)));
        std::iter::once(size(unused)).chain(levels).collect()
    };
    StackedBars::new(
        "shared_buffers by usage count",
        Axis::linear("size", Unit::Bytes),
        std::iter::once("unused".to_owned()).chain(names),
    )
    .layer("clean", row(0, |level| level.buffers.saturating_sub(level.dirty)))
    .layer("dirty", row(0, |level| level.dirty))
    .layer("unused", row(usage.unused, |_| 0))
}

/// The relations with the most buffers: how much of each is in which cache, beside its size.
fn relation_chart(look: &Look, arguments: &LookArguments) -> BarChart {
    let whole = |bytes: u64| Some([bytes as f64; 3]);
    let chart = BarChart::new(
        "The relations with the most buffers",
        Axis::linear("size", Unit::Bytes),
        ["in shared_buffers", "in the page cache", "size"],
    );
    shown(look, arguments)
        .take(CHART_RELATIONS_MAX)
        .fold(chart, |chart, relation| {
            let block = look.server.block_bytes;
            let values = [
                relation.buffered_blocks.and_then(|blocks| whole(blocks * block)),
                relation.page_cache_bytes.and_then(whole),
                whole(relation.blocks * block),
            ];
            chart.group(relation.shown_name(), values)
        })
}
