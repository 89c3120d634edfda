//! What the differences mean, in words. Pure.

use super::circumstances::Differing;
use super::figures::{Figures, Metric, Row};
use pgweir_maths::{Ratio, Told};

/// Metrics that the conclusion speaks of, where they were measured; otherwise of the first there is.
const SPOKEN_OF: [&str; 2] = ["tps", "latency_p95_ms"];

/// Circumstances that are named; more are counted.
const NAMED_MAX: usize = 6;

/// Sentences, the most important first.
pub(super) fn conclusions(figures: &Figures, differing: &[Differing]) -> Vec<String> {
    let mut spoken: Vec<&Metric> = figures
        .metrics
        .iter()
        .filter(|metric| SPOKEN_OF.contains(&metric.name.as_str()))
        .collect();
    if spoken.is_empty() {
        spoken.extend(figures.metrics.first());
    }
    let mut said: Vec<String> = spoken.into_iter().map(metric).collect();
    said.insert(said.len().min(1), circumstances(differing));
    said
}

fn circumstances(differing: &[Differing]) -> String {
    let names: Vec<&str> = differing.iter().map(|fact| fact.what.as_str()).collect();
    match names.len() {
        0 => "Machine, server, settings and load are told as the same in both.".to_owned(),
        1..=NAMED_MAX => format!("A and B were not measured alike; what differs: {}.", names.join(", ")),
        more => format!(
            "A and B were not measured alike; what differs: {} and {} more.",
            names[..NAMED_MAX].join(", "),
            more - NAMED_MAX
        ),
    }
}

/// How many cases differ, which way, and the greatest difference each way.
fn metric(metric: &Metric) -> String {
    let rows: Vec<(&Row, Ratio)> = metric.rows.iter().filter_map(|row| Some((row, row.ratio?))).collect();
    let told = |wanted: Told| rows.iter().filter(move |(_, ratio)| ratio.told() == wanted);
    let mut parts = Vec::new();
    for more in [true, false] {
        let which = || told(Told::Differs).filter(|(_, ratio)| (ratio.ratio > 1.0) == more);
        let size = |ratio: &Ratio| ratio.ratio.ln().abs();
        let Some((row, ratio)) = which().max_by(|a, b| size(&a.1).total_cmp(&size(&b.1))) else {
            continue;
        };
        let judged = match metric.more_is_better() {
            Some(better) if better == more => ", which is better",
            Some(_) => ", which is worse",
            None => "",
        };
        let word = if more { "more" } else { "less" };
        let most = if which().count() == 1 { "in" } else { "most in" };
        parts.push(format!(
            "B has {word} in {}{judged} ({}, {most} \"{}\")",
            cases(which().count()),
            ratio.times(" times A's"),
            row.case
        ));
    }
    match told(Told::Alike).count() {
        0 => {}
        alike => parts.push(format!("no difference beyond the noise in {}", cases(alike))),
    }
    match told(Told::TooFewRounds).count() {
        0 => {}
        few => parts.push(format!("too few rounds to tell in {}", cases(few))),
    }
    if parts.is_empty() {
        return format!("{}: nothing to compare.", capital(&metric.words()));
    }
    format!("{}: {}.", capital(&metric.words()), parts.join("; "))
}

fn cases(count: usize) -> String {
    match count {
        1 => "1 case".to_owned(),
        more => format!("{more} cases"),
    }
}

fn capital(words: &str) -> String {
    let mut characters = words.chars();
    characters
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Case, Outcome};

    fn outcome(cases: &[(&str, f64)], rounds: &[f64]) -> Outcome {
        let case = |(name, tps): &(&str, f64)| {
            let mut case = Case::new(*name, "direct", 1, None);
            for round in rounds {
                case.add("tps", tps * round);
            }
            case
        };
        Outcome {
            cases: cases.iter().map(case).collect(),
            ..Outcome::default()
        }
    }

    const THREE: [f64; 3] = [0.99, 1.0, 1.01];

    fn said(a: &[(&str, f64)], b: &[(&str, f64)], rounds: &[f64]) -> String {
        let figures = Figures::of(&outcome(a, rounds), &outcome(b, rounds));
        conclusions(&figures, &[]).remove(0)
    }

    #[test]
    fn what_differs_and_what_does_not() {
        let a = [("one", 100.0), ("two", 100.0), ("three", 100.0), ("four", 100.0)];
        let b = [("one", 150.0), ("two", 200.0), ("three", 50.0), ("four", 100.1)];
        assert_eq!(
            said(&a, &b, &THREE),
            "Transactions per second: B has more in 2 cases, which is better (2.00 times A's, between 1.96 and 2.05, most in \
             \"two\"); B has less in 1 case, which is worse (0.50 times A's, between 0.49 and 0.51, in \"three\"); no \
             difference beyond the noise in 1 case."
        );
        assert_eq!(
            said(&a[..2], &a[..2], &THREE),
            "Transactions per second: no difference beyond the noise in 2 cases."
        );
    }

    #[test]
    fn one_round_proves_nothing() {
        assert_eq!(
            said(
                &[("one", 100.0), ("two", 10.0)],
                &[("one", 150.0), ("two", 9.0)],
                &[1.0]
            ),
            "Transactions per second: too few rounds to tell in 2 cases."
        );
    }

    #[test]
    fn circumstances_are_named_up_to_some() {
        let fact = |what: &str| Differing {
            what: what.to_owned(),
            values: ["1".to_owned(), "2".to_owned()],
        };
        assert!(circumstances(&[]).contains("the same in both"));
        assert_eq!(
            circumstances(&[fact("rounds")]),
            "A and B were not measured alike; what differs: rounds."
        );
        let many: Vec<Differing> = "a b c d e f g h".split(' ').map(fact).collect();
        assert!(circumstances(&many).ends_with("a, b, c, d, e, f and 2 more."));
    }
}
