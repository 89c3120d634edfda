//! What the figures mean, in words. Pure: cases in, sentences out.
//!
//! Like is compared with like: SCRAM with SCRAM, TLS with TLS. The headline is about what production uses, of what was
//! measured both ways: TLS and SCRAM, where there is that.

use super::ways::{LOGINS, Login};
use super::{FOR_EACH, ONE_AT_A_TIME};
use crate::results::Case;
use crate::server::Authentication;
use pgweir_maths::number_words;
use pgweir_maths::{Ratio, Rounds, Told};

/// Sentences, the most important first.
pub(super) fn conclusions(cases: &[Case]) -> Vec<String> {
    let measured: Vec<&Case> = cases.iter().filter(|case| case.spread("tps").is_some()).collect();
    let rounds = Rounds::new(measured.iter().map(|case| case.values("tps")));
    let find = |login: Login, path: &str| {
        let name = login.named(path) + FOR_EACH;
        measured.iter().position(|case| case.name == name)
    };
    let mut said = Vec::new();
    for login in LOGINS {
        let Some((direct, pooled)) = find(login, "direct").zip(find(login, "pgweir")) else {
            continue;
        };
        let Some(ratio) = rounds.ratio(direct, pooled) else {
            continue;
        };
        said.push(format!(
            "Clients that {}, anew for each query, get {} queries per second direct and {} through pgweir: {}.",
            login.words(false),
            tps(measured[direct]),
            tps(measured[pooled]),
            as_many(&ratio)
        ));
    }
    if said.is_empty() && !measured.is_empty() {
        said.push("No login was measured both direct and through pgweir, so nothing is compared.".to_owned());
    }
    let stay = measured
        .iter()
        .position(|case| case.name.starts_with("direct") && case.name.ends_with("that stay"));
    let anew = stay.and_then(|stay| {
        let (way, _) = measured[stay].name.split_once(',')?;
        measured.iter().position(|case| case.name == format!("{way}{FOR_EACH}"))
    });
    if let (Some(stay), Some(anew)) = (stay, anew)
        && let Some(ratio) = rounds.ratio(anew, stay)
    {
        let (way, _) = measured[stay].name.split_once(',').unwrap_or_default();
        said.push(format!(
            "{}, the same clients get {} queries per second on connections that stay: {}.",
            way.replacen('d', "D", 1),
            tps(measured[stay]),
            as_many(&ratio)
        ));
    }
    said.extend(one_connection(cases));
    said
}

/// How long one takes, by the first pair that was measured.
fn one_connection(cases: &[Case]) -> Option<String> {
    let step = |way: String, metric: &str| {
        let case = cases.iter().find(|case| case.name == format!("{way}{ONE_AT_A_TIME}"))?;
        Some(case.spread(metric)?.middle)
    };
    LOGINS.into_iter().find_map(|login| {
        let direct = |metric| step(login.named("direct"), metric);
        let (total, direct_login) = (direct("connect_total_ms")?, direct("login_ms")?);
        let pooled = step(login.named("pgweir"), "connect_total_ms")?;
        Some(format!(
            "One connection of a client that {} with its first query takes {total:.2} ms direct, {direct_login:.2} ms of \
             them until the new server process has let it in, and {pooled:.2} ms through pgweir.",
            login.words(true)
        ))
    })
}

impl Login {
    /// What one client does, or many do: `log in with SCRAM over TLS`.
    fn words(self, one: bool) -> String {
        let s = if one { "s" } else { "" };
        let how = match self.authentication {
            Authentication::NoPassword => format!("need{s} no password"),
            Authentication::ClearText => format!("send{s} the password in clear text"),
            Authentication::Md5 => format!("log{s} in with MD5"),
            Authentication::Scram => format!("log{s} in with SCRAM"),
            Authentication::Other => format!("log{s} in by other means"),
        };
        match self.tls {
            true => format!("use{s} TLS and {how}"),
            false => how,
        }
    }
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
    fn tls_and_scram_come_first_once_both_are_measured_so() {
        let mut cases = vec![
            case("direct with SCRAM, 20 clients that stay", 30_000.0, 0),
            case("direct with SCRAM, connection for each", 250.0, 0),
            case("pgweir with SCRAM, connection for each", 350.0, 1),
            case("direct with TLS and SCRAM, connection for each", 100.0, 0),
        ];
        assert!(conclusions(&cases)[0].starts_with("Clients that log in with SCRAM,"));
        cases.push(case("pgweir with TLS and SCRAM, connection for each", 150.0, 2));
        let said = conclusions(&cases);
        assert!(
            said[0].starts_with("Clients that use TLS and log in with SCRAM, anew for each query, get 100"),
            "{said:?}"
        );
        assert!(
            said[2].starts_with("Direct with SCRAM, the same clients get"),
            "{said:?}"
        );
    }

    /// Guards against a server that asks for SCRAM, compared with clear-text logins to pgweir.
    #[test]
    fn unlike_logins_are_not_compared() {
        let cases = [
            case("direct with SCRAM, connection for each", 250.0, 0),
            case("pgweir with a password in clear text, connection for each", 9_000.0, 1),
        ];
        assert_eq!(
            conclusions(&cases),
            ["No login was measured both direct and through pgweir, so nothing is compared."]
        );
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
