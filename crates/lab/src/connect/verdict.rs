//! What the figures mean, in words. Pure: cases in, sentences out.
//!
//! The headline is about what production uses: clients that log in with SCRAM, where both ways were measured so.

use crate::results::Case;
use pgweir_maths::number_words;
use pgweir_maths::{Ratio, Rounds, Told};

/// The ways that are compared, direct and through pgweir, the one closest to production first: names, and words.
const PAIRS: [(&str, &str, &str); 2] = [
    ("direct with SCRAM", "pgweir with SCRAM", "that log in with SCRAM"),
    ("direct", "pgweir", "that need no password"),
];

/// Ends of the names of cases.
const FOR_EACH: &str = ", connection for each";
const ONE_AT_A_TIME: &str = ", one at a time";

/// Sentences, the most important first.
pub(super) fn conclusions(cases: &[Case]) -> Vec<String> {
    let measured: Vec<&Case> = cases.iter().filter(|case| case.spread("tps").is_some()).collect();
    let rounds = Rounds::new(measured.iter().map(|case| case.values("tps")));
    let find = |name: &str| measured.iter().position(|case| case.name == name);
    let mut said = Vec::new();
    for (direct, pooled, who) in PAIRS {
        let (direct, pooled) = (
            find(&format!("{direct}{FOR_EACH}")),
            find(&format!("{pooled}{FOR_EACH}")),
        );
        let (Some(direct), Some(pooled)) = (direct, pooled) else {
            continue;
        };
        let Some(ratio) = rounds.ratio(direct, pooled) else {
            continue;
        };
        said.push(format!(
            "Clients {who}, anew for each query, get {} queries per second direct and {} through pgweir: {}.",
            tps(measured[direct]),
            tps(measured[pooled]),
            as_many(&ratio)
        ));
    }
    let stay = measured
        .iter()
        .position(|case| case.name.starts_with("direct,") && case.name.ends_with("that stay"));
    if let (Some(stay), Some(anew)) = (stay, find(&format!("direct{FOR_EACH}")))
        && let Some(ratio) = rounds.ratio(anew, stay)
    {
        said.push(format!(
            "Direct, the same clients get {} queries per second on connections that stay: {}.",
            tps(measured[stay]),
            as_many(&ratio)
        ));
    }
    said.extend(one_connection(cases));
    said
}

/// How long one takes, by the first pair that was measured.
fn one_connection(cases: &[Case]) -> Option<String> {
    let step = |way: &str, metric: &str| {
        let case = cases.iter().find(|case| case.name == format!("{way}{ONE_AT_A_TIME}"))?;
        Some(case.spread(metric)?.middle)
    };
    PAIRS.into_iter().find_map(|(direct, pooled, who)| {
        let (total, login) = (step(direct, "connect_total_ms")?, step(direct, "login_ms")?);
        let pooled = step(pooled, "connect_total_ms")?;
        Some(format!(
            "One connection of a client {} with its first query takes {total:.2} ms direct, {login:.2} ms of them until the \
             new server process has let it in, and {pooled:.2} ms through pgweir.",
            who.replace("log in", "logs in").replace("need no", "needs no")
        ))
    })
}

fn as_many(ratio: &Ratio) -> String {
    match ratio.told() {
        Told::Differs => ratio.times(" times as many"),
        Told::Alike | Told::TooFewRounds => ratio.to_string(),
    }
}

fn tps(case: &Case) -> String {
    case.spread("tps")
        .map_or_else(String::new, |tps| number_words(tps.middle))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(name: &str, tps: f64, shift: usize) -> Case {
        let mut case = Case::new(name, "direct", 20, None);
        for round in [0.98, 1.0, 1.02].iter().cycle().skip(shift).take(3) {
            case.add("tps", tps * round);
        }
        case
    }

    /// Guards against a headline of "25 times as many" from logins that nobody uses in production.
    #[test]
    fn the_headline_is_about_scram() {
        let cases = [
            case("direct, 20 clients that stay", 30_000.0, 0),
            case("direct, connection for each", 400.0, 1),
            case("pgweir, connection for each", 10_000.0, 2),
            case("direct with SCRAM, connection for each", 250.0, 0),
            case("pgweir with SCRAM, connection for each", 350.0, 1),
        ];
        let said = conclusions(&cases);
        assert!(
            said[0].starts_with(
                "Clients that log in with SCRAM, anew for each query, get 250 queries per second direct and 350 through \
                 pgweir: 1.40 times as many, between"
            ),
            "{said:?}"
        );
        assert!(
            said[1].contains("that need no password") && said[1].contains("25.0 times as many, between"),
            "{said:?}"
        );
        assert!(
            said[2].starts_with(
                "Direct, the same clients get 29,996 queries per second on connections that stay: 75.0 times as many, between"
            ),
            "{said:?}"
        );
        assert_eq!(said.len(), 3);
    }

    #[test]
    fn without_scram_the_other_pair_is_told() {
        let mut direct = case("direct, one at a time", 1.0, 0);
        direct.metrics = [
            ("connect_total_ms".to_owned(), vec![3.0]),
            ("login_ms".to_owned(), vec![2.0]),
        ]
        .into();
        let mut pooled = case("pgweir, one at a time", 1.0, 0);
        pooled.metrics = [("connect_total_ms".to_owned(), vec![0.5])].into();
        assert_eq!(
            conclusions(&[direct, pooled]),
            [
                "One connection of a client that needs no password with its first query takes 3.00 ms direct, 2.00 ms of them \
              until the new server process has let it in, and 0.50 ms through pgweir."
            ]
        );
        assert_eq!(conclusions(&[]), [""; 0]);
    }
}
