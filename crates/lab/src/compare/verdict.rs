//! What the differences mean, in words. Pure.

use super::circumstances::Differing;
use super::figures::{Figures, Metric, Row};
use crate::maths::Difference;

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
    let mut said = vec![circumstances(differing)];
    said.extend(spoken.into_iter().map(metric));
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
    let words = metric.words();
    let of_kind = |wanted: fn(&Difference) -> bool| -> Vec<(&Row, f64)> {
        let rows = metric.rows.iter().filter_map(|row| Some((row, row.difference?)));
        rows.filter(|(_, d)| wanted(d))
            .map(|(row, d)| (row, d.percent()))
            .collect()
    };
    let (real, unknown) = (
        of_kind(Difference::is_real),
        of_kind(|d| matches!(d, Difference::Unknown { .. })),
    );
    let same = of_kind(|d| matches!(d, Difference::WithinNoise { .. })).len();
    let mut parts = Vec::new();
    for (more, sign) in [(true, 1.0), (false, -1.0)] {
        let rows: Vec<&(&Row, f64)> = real.iter().filter(|(_, percent)| percent * sign > 0.0).collect();
        if let Some((row, percent)) = rows.iter().max_by(|a, b| (a.1 * sign).total_cmp(&(b.1 * sign))) {
            let judged = match metric.more_is_better() {
                Some(better) if better == more => ", which is better",
                Some(_) => ", which is worse",
                None => "",
            };
            let word = if more { "more" } else { "less" };
            let most = if rows.len() == 1 { "in" } else { "most in" };
            parts.push(format!(
                "B has {word} in {}{judged} ({percent:+.1} %, {most} \"{}\")",
                cases(rows.len()),
                row.case
            ));
        }
    }
    if same > 0 {
        parts.push(match parts.is_empty() && unknown.is_empty() {
            true => format!("no difference beyond the noise in any of {}", cases(same)),
            false => format!("no difference beyond the noise in {}", cases(same)),
        });
    }
    if !unknown.is_empty() {
        let percents = || unknown.iter().map(|(_, percent)| *percent);
        let (low, high) = (
            percents().fold(f64::INFINITY, f64::min),
            percents().fold(f64::NEG_INFINITY, f64::max),
        );
        let range = match unknown.len() {
            1 => format!("{low:+.1} %"),
            _ => format!("{low:+.1} to {high:+.1} %"),
        };
        parts.push(format!(
            "{range} in {} with one round, where nothing is known of the noise",
            cases(unknown.len())
        ));
    }
    if parts.is_empty() {
        return format!("{}: nothing to compare.", capital(&words));
    }
    format!("{}: {}.", capital(&words), parts.join("; "))
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
        conclusions(&figures, &[]).pop().unwrap()
    }

    #[test]
    fn what_differs_and_what_does_not() {
        let a = [("one", 100.0), ("two", 100.0), ("three", 100.0), ("four", 100.0)];
        let b = [("one", 150.0), ("two", 200.0), ("three", 50.0), ("four", 100.1)];
        assert_eq!(
            said(&a, &b, &THREE),
            "Transactions per second: B has more in 2 cases, which is better (+100.0 %, most in \"two\"); B has less in 1 \
             case, which is worse (-50.0 %, in \"three\"); no difference beyond the noise in 1 case."
        );
        assert_eq!(
            said(&a[..2], &a[..2], &THREE),
            "Transactions per second: no difference beyond the noise in any of 2 cases."
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
            "Transactions per second: -10.0 to +50.0 % in 2 cases with one round, where nothing is known of the noise."
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
