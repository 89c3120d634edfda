//! Which figures belong together, and how they differ. Pure.

use crate::report::Unit;
use crate::results::{Case, Outcome};
use pgweir_maths::{Ratio, Spread, unpaired};
use std::collections::BTreeSet;

/// Metrics that come first, in this order; the others follow by name.
const FIRST: [&str; 5] = [
    "tps",
    "latency_p50_ms",
    "latency_p95_ms",
    "latency_p99_ms",
    "latency_mean_ms",
];

/// All that both have, and what one has alone.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Figures {
    /// By metric.
    pub(super) metrics: Vec<Metric>,
    /// Cases that cannot be compared, and why.
    pub(super) left_out: Vec<String>,
}

/// One metric of all cases that have it in both.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Metric {
    /// As `result.json` names it.
    pub(super) name: String,
    pub(super) rows: Vec<Row>,
}

/// One figure in both.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    /// The case.
    pub(super) case: String,
    /// Of the first and of the second.
    pub(super) spreads: [Spread; 2],
    /// The second as a multiple of the first; `None` where one of them has no figure above 0.
    pub(super) ratio: Option<Ratio>,
}

impl Figures {
    /// Matches cases by name.
    pub(super) fn of(first: &Outcome, second: &Outcome) -> Self {
        let mut figures = Figures::default();
        let mut pairs: Vec<(&Case, &Case)> = Vec::new();
        for case in &first.cases {
            match second.cases.iter().find(|other| other.name == case.name) {
                Some(other) => pairs.push((case, other)),
                None => figures.left_out.push(format!("{}: not in B", case.name)),
            }
        }
        for case in &second.cases {
            if !first.cases.iter().any(|other| other.name == case.name) {
                figures.left_out.push(format!("{}: not in A", case.name));
            }
        }
        for (a, b) in &pairs {
            for (case, which) in [(a, "A"), (b, "B")] {
                if let Some(failure) = &case.failure {
                    let failure = failure.lines().next().unwrap_or_default();
                    figures
                        .left_out
                        .push(format!("{}: failed in {which} ({failure})", case.name));
                }
            }
        }
        for name in names(&pairs) {
            let rows: Vec<Row> = pairs.iter().filter_map(|(a, b)| Row::of(&name, a, b)).collect();
            if !rows.is_empty() {
                figures.metrics.push(Metric { name, rows });
            }
        }
        figures
    }
}

/// Names of all metrics in their order.
fn names(pairs: &[(&Case, &Case)]) -> Vec<String> {
    let all: BTreeSet<&String> = pairs.iter().flat_map(|(a, _)| a.metrics.keys()).collect();
    let mut names: Vec<String> = all.into_iter().cloned().collect();
    // Stable, so that the others stay sorted by name.
    names.sort_by_key(|name| FIRST.iter().position(|first| first == name).unwrap_or(FIRST.len()));
    names
}

impl Row {
    fn of(metric: &str, first: &Case, second: &Case) -> Option<Self> {
        Some(Row {
            case: first.name.clone(),
            spreads: [first.spread(metric)?, second.spread(metric)?],
            ratio: unpaired(first.values(metric), second.values(metric)),
        })
    }
}

impl Metric {
    /// From the last word of its name, as result.json has it.
    pub(super) fn unit(&self) -> Unit {
        match self.name.rsplit('_').next() {
            Some("ms") => Unit::Milliseconds,
            Some("bytes") => Unit::Bytes,
            Some("percent") => Unit::Percent,
            _ => Unit::Number,
        }
    }

    /// Whether more of it is better. Unknown for what this program has no name for.
    pub(super) fn more_is_better(&self) -> Option<bool> {
        match self.name.as_str() {
            "tps" => Some(true),
            "failed_transactions" => Some(false),
            name if name.ends_with("_ms") => Some(false),
            _ => None,
        }
    }

    /// For a heading, such as `latency p95`.
    pub(super) fn words(&self) -> String {
        match self.name.as_str() {
            "tps" => "transactions per second".to_owned(),
            name => {
                let words = name
                    .strip_suffix("_ms")
                    .or_else(|| name.strip_suffix("_bytes"))
                    .unwrap_or(name);
                words.replace('_', " ")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(name: &str, tps: &[f64]) -> Case {
        let mut case = Case::new(name, "direct", 1, None);
        for value in tps {
            case.add("tps", *value);
            case.add("connection_ms", 1000.0 / value);
            case.add("latency_p95_ms", 2000.0 / value);
        }
        case
    }

    fn outcome(cases: Vec<Case>) -> Outcome {
        Outcome {
            cases,
            ..Outcome::default()
        }
    }

    #[test]
    fn figures_of_the_same_case_and_metric_belong_together() {
        let a = outcome(vec![case("one", &[99.0, 100.0, 101.0]), case("a only", &[1.0])]);
        let mut failed = case("b only", &[]);
        failed.failure = Some("no".to_owned());
        let b = outcome(vec![failed, case("one", &[198.0, 200.0, 202.0])]);
        let figures = Figures::of(&a, &b);
        let names: Vec<&str> = figures.metrics.iter().map(|m| m.name.as_str()).collect();
        assert_eq!(names, ["tps", "latency_p95_ms", "connection_ms"]);
        let row = &figures.metrics[0].rows[0];
        let ratio = row.ratio.unwrap();
        assert_eq!(
            (format!("{:.3}", ratio.ratio), row.case.as_str()),
            ("2.000".to_owned(), "one")
        );
        assert!(ratio.differs());
        // Guards against figures that do not give their ratio.
        assert!((row.spreads[1].middle / row.spreads[0].middle - ratio.ratio).abs() < 1e-9);
        assert_eq!(figures.left_out, ["a only: not in B", "b only: not in A"]);
    }

    #[test]
    fn a_failure_is_told() {
        let mut failed = case("one", &[]);
        failed.failure = Some("pgbench failed\n    because".to_owned());
        let figures = Figures::of(&outcome(vec![case("one", &[1.0])]), &outcome(vec![failed]));
        assert_eq!(figures.metrics, []);
        assert_eq!(figures.left_out, ["one: failed in B (pgbench failed)"]);
    }

    #[test]
    fn a_first_of_zero_has_no_ratio() {
        let zero = |value: f64| {
            let mut case = Case::new("one", "direct", 1, None);
            case.add("tls_ms", value);
            case
        };
        let figures = Figures::of(&outcome(vec![zero(0.0)]), &outcome(vec![zero(3.0)]));
        let row = &figures.metrics[0].rows[0];
        assert_eq!(row.ratio, None);
    }
}
