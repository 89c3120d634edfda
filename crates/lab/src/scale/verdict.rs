//! What the figures mean, in words. Pure: figures in, sentences out.

use super::lone::Lone;
use crate::report::Unit;
use crate::results::Case;
use crate::rounds::clients_words;
use pgweir_maths::number_words;
use pgweir_maths::{Rounds, Told};

/// The one client waits for the queue, and not for the processors, where its own pool is so many times faster.
const QUEUE_TIMES_MIN: f64 = 2.0;

/// Turns that each client shall have within a run.
const TURNS_MIN: f64 = 2.0;

/// Sentences, the most important first.
pub(super) fn conclusions(pooled: &[Case], direct: &[Case], lone: &Lone, seconds_per_run: u32) -> Vec<String> {
    let (pooled, direct) = (measured(pooled), measured(direct));
    let mut said = Vec::new();
    let figures = pooled.iter().chain(&direct).map(|case| case.values("tps"));
    let rounds = Rounds::new(figures);
    said.extend(curve("Through pgweir", &pooled, &rounds, 0));
    said.extend(curve("Direct", &direct, &rounds, pooled.len()));
    said.extend(side_by_side(&pooled, &direct, &rounds));
    said.extend(one_more(lone));
    said.extend(the_queue(&pooled, lone));
    said.extend(memory(&pooled));
    said.extend(too_short(&pooled, seconds_per_run));
    said
}

/// Those with figures, by clients.
fn measured(cases: &[Case]) -> Vec<&Case> {
    let mut cases: Vec<&Case> = cases.iter().filter(|case| tps(case) > 0.0).collect();
    cases.sort_by_key(|case| case.clients);
    cases
}

/// Throughput: the geometric mean of the rounds.
pub(super) fn tps(case: &Case) -> f64 {
    case.spread("tps").map_or(0.0, |tps| tps.middle)
}

/// From the fewest clients to the most; `first` is the place of the first case in `rounds`.
fn curve(way: &str, cases: &[&Case], rounds: &Rounds, first: usize) -> Option<String> {
    let (fewest, most) = (cases.first()?, cases.last()?);
    let pool = most.pool_size.map_or_else(String::new, |size| {
        format!(" with a pool of {}", number_words(f64::from(size)))
    });
    let words = |case: &Case| format!("{} make {} TPS", clients_words(case.clients), number_words(tps(case)));
    if fewest.clients == most.clients {
        return Some(format!("{way}{pool}, {}.", words(most)));
    }
    let last = first + cases.len() - 1;
    let ratio = rounds.ratio(first, last)?;
    let what = match ratio.told() {
        Told::Differs => ratio.times(" times as much"),
        _ => format!("{ratio}"),
    };
    let mut sentence = format!("{way}{pool}, {} and {}: {what}.", words(fewest), words(most));
    let best = rounds.best_of(first..=last)?;
    let below = |case: usize| rounds.ratio(best, case).is_some_and(|ratio| ratio.differs());
    if below(first) && below(last) {
        sentence.push_str(&format!(
            " The best is {} TPS with {}.",
            number_words(tps(cases[best - first])),
            clients_words(cases[best - first].clients)
        ));
    }
    Some(sentence)
}

/// With the most clients that were measured both ways.
fn side_by_side(pooled: &[&Case], direct: &[&Case], rounds: &Rounds) -> Option<String> {
    let (at_pooled, at_direct) = (0..pooled.len()).rev().find_map(|at| {
        let direct = direct.iter().position(|direct| direct.clients == pooled[at].clients)?;
        Some((at, pooled.len() + direct))
    })?;
    let ratio = rounds.ratio(at_direct, at_pooled)?;
    let what = match ratio.told() {
        Told::Differs => format!("pgweir makes {}", ratio.times(" times the throughput of direct")),
        Told::Alike => format!(
            "there is no difference beyond the noise between them ({})",
            ratio.times(" times direct")
        ),
        Told::TooFewRounds => format!(
            "the rounds are too few to tell them apart ({})",
            ratio.times(" times direct")
        ),
    };
    let clients = clients_words(pooled[at_pooled].clients);
    Some(format!("With {clients}, the most measured both ways, {what}."))
}

/// The median of the latencies.
fn p50(case: Option<&Case>) -> Option<f64> {
    Some(case?.spread("latency_p50_ms")?.middle)
}

fn one_more(lone: &Lone) -> Option<String> {
    let ms = |case: &Option<Case>| p50(case.as_ref()).map(|ms| Unit::Milliseconds.show(ms));
    let ways = [
        (ms(&lone.shared), "in their pool"),
        (ms(&lone.own), "in a pool of its own in the same pgweir"),
        (ms(&lone.direct), "direct"),
    ];
    let ways: Vec<String> = ways
        .into_iter()
        .filter_map(|(ms, way)| Some(format!("{} {way}", ms?)))
        .collect();
    if ways.is_empty() {
        return None;
    }
    let mut sentence = format!(
        "Beside {} that never pause, a transaction of one more client takes {}",
        clients_words(lone.crowd),
        listed(&ways)
    );
    let alone = [
        (ms(&lone.alone_pooled), "through pgweir"),
        (ms(&lone.alone_direct), "direct"),
    ];
    let alone: Vec<String> = alone
        .into_iter()
        .filter_map(|(ms, way)| Some(format!("{} {way}", ms?)))
        .collect();
    if !alone.is_empty() {
        sentence.push_str(&format!("; with nothing else on the server {}", listed(&alone)));
    }
    sentence.push_str(" (medians).");
    Some(sentence)
}

/// Where the wait in the shared pool comes from, and what to do.
fn the_queue(pooled: &[&Case], lone: &Lone) -> Option<String> {
    let (shared, own) = (p50(lone.shared.as_ref())?, p50(lone.own.as_ref())?);
    let crowd = pooled.iter().find(|case| case.clients == lone.crowd)?;
    if shared < own * QUEUE_TIMES_MIN {
        return None;
    }
    let turn_ms = f64::from(crowd.clients) / tps(crowd) * 1000.0;
    Some(format!(
        "The wait in their pool is the queue: {} share {} TPS, so each has its turn every {}. More server connections would \
         not shorten it; give work that must not wait a pool of its own, by another user or another entry of `[databases]`.",
        clients_words(crowd.clients),
        number_words(tps(crowd)),
        Unit::Milliseconds.show(turn_ms)
    ))
}

fn memory(pooled: &[&Case]) -> Option<String> {
    let most = pooled.last()?;
    let bytes = most.spread("pooler_memory_bytes")?.middle;
    Some(format!(
        "pgweir took {} with {}: {} for each.",
        Unit::Bytes.show(bytes),
        clients_words(most.clients),
        Unit::Bytes.show(bytes / f64::from(most.clients))
    ))
}

/// If a run has ended before each client had a turn or two, its latencies are those of the few clients that had one.
fn too_short(pooled: &[&Case], seconds_per_run: u32) -> Option<String> {
    let most = pooled.last()?;
    let turn_seconds = f64::from(most.clients) / tps(most);
    (turn_seconds * TURNS_MIN > f64::from(seconds_per_run)).then(|| {
        format!(
            "With {} each has a turn every {} only: runs of {seconds_per_run} s are too short for exact latencies; give them \
             more with --seconds.",
            clients_words(most.clients),
            Unit::Seconds.show(turn_seconds)
        )
    })
}

/// `a, b and c`
fn listed(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [some @ .., last] => format!("{} and {last}", some.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(path: &str, clients: u32, tps: f64) -> Case {
        let mut case = Case::new(
            format!("{path} {clients}"),
            path,
            clients,
            (path == "pgweir").then_some(56),
        );
        // A noise of a few per mille that no two cases share.
        let first = usize::try_from(clients).unwrap() % 3 + path.len() % 2;
        for round in [0.998, 1.0, 1.002].iter().cycle().skip(first).take(3) {
            case.add("tps", tps * round);
        }
        case
    }

    fn one(ms: f64) -> Option<Case> {
        let mut case = Case::new("one", "direct", 1, None);
        case.add("latency_p50_ms", ms);
        Some(case)
    }

    /// The figures of the edition with a pool inside the server, at scale 1000: 56 backends, 64 to 19,900 clients.
    #[test]
    fn the_articles_figures() {
        let counts = [64, 512, 2048, 8192, 19_900];
        let curve = |path: &str, tps: [f64; 5]| -> Vec<Case> {
            counts
                .iter()
                .zip(tps)
                .map(|(clients, tps)| case(path, *clients, tps))
                .collect()
        };
        let pooled = curve("pgweir", [84_356.0, 81_388.0, 80_029.0, 79_281.0, 81_247.0]);
        let direct = curve("direct", [81_460.0, 72_805.0, 10_902.0, 7_729.0, 971.0]);
        let lone = Lone {
            crowd: 19_900,
            shared: one(500.0),
            own: one(0.6),
            direct: one(0.6),
            ..Lone::default()
        };
        let said = conclusions(&pooled, &direct, &lone, 10);
        assert_eq!(
            said,
            [
                "Through pgweir with a pool of 56, 64 clients make 84,356 TPS and 19,900 clients make 81,247 TPS: 0.96 times as much, between 0.96 and 0.97.",
                "Direct, 64 clients make 81,460 TPS and 19,900 clients make 971 TPS: 0.012 times as much, between 0.012 and 0.012.",
                "With 19,900 clients, the most measured both ways, pgweir makes 83.7 times the throughput of direct, between 83.4 and 83.9.",
                "Beside 19,900 clients that never pause, a transaction of one more client takes 500 ms in their pool, \
                 0.600 ms in a pool of its own in the same pgweir and 0.600 ms direct (medians).",
                "The wait in their pool is the queue: 19,900 clients share 81,247 TPS, so each has its turn every 245 ms. \
                 More server connections would not shorten it; give work that must not wait a pool of its own, by another \
                 user or another entry of `[databases]`.",
            ]
        );
    }

    #[test]
    fn what_is_within_the_noise_is_called_so() {
        let pooled = [case("pgweir", 64, 50_000.0), case("pgweir", 512, 50_050.0)];
        let direct = [case("direct", 64, 50_020.0)];
        assert_eq!(
            conclusions(&pooled, &direct, &Lone::default(), 10),
            [
                "Through pgweir with a pool of 56, 64 clients make 50,000 TPS and 512 clients make 50,050 TPS: 1.00, between \
                 1.00 and 1.01: no difference beyond the noise.",
                "Direct, 64 clients make 50,020 TPS.",
                "With 64 clients, the most measured both ways, there is no difference beyond the noise between them (1.00 times \
                 direct, between 1.00 and 1.00).",
            ]
        );
    }

    #[test]
    fn one_round_proves_nothing() {
        let once = |path: &str, clients, tps| {
            let mut case = case(path, clients, tps);
            case.metrics.insert("tps".to_owned(), vec![tps]);
            case
        };
        let said = conclusions(
            &[once("pgweir", 64, 100.0), once("pgweir", 512, 50.0)],
            &[once("direct", 64, 100.0)],
            &Lone::default(),
            60,
        );
        assert!(said[0].ends_with(": 0.50: too few rounds to tell."), "{said:?}");
        assert!(
            said[2].ends_with("the rounds are too few to tell them apart (1.00 times direct)."),
            "{said:?}"
        );
    }

    #[test]
    fn a_best_in_the_middle_is_told() {
        let direct = [
            case("direct", 1, 100.0),
            case("direct", 64, 1000.0),
            case("direct", 512, 500.0),
        ];
        let said = conclusions(&[], &direct, &Lone::default(), 10);
        assert!(said[0].ends_with("The best is 1,000 TPS with 64 clients."), "{said:?}");
    }

    #[test]
    fn runs_that_are_too_short_for_all_clients_are_told_so() {
        let cases = [case("pgweir", 64, 2000.0), case("pgweir", 19_900, 2000.0)];
        let said = |seconds| conclusions(&cases, &[], &Lone::default(), seconds).pop().unwrap();
        assert_eq!(
            said(10),
            "With 19,900 clients each has a turn every 9.95 s only: runs of 10 s are too short for exact latencies; give \
             them more with --seconds."
        );
        assert!(!said(20).contains("too short"));
    }

    #[test]
    fn memory_is_told_for_the_most_clients() {
        let mut most = case("pgweir", 19_900, 100.0);
        most.add("pooler_memory_bytes", 19_900.0 * 1024.0);
        let said = conclusions(&[case("pgweir", 64, 100.0), most], &[], &Lone::default(), 1000);
        assert_eq!(
            said.last().unwrap(),
            "pgweir took 19.4 MB with 19,900 clients: 1 kB for each."
        );
    }
}
