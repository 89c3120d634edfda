//! What the figures of the sweeps mean.

use super::sweep::Sweep;
use super::{Arguments, level_words};
use crate::results::{Case, Outcome, Paste};
use crate::rounds::{Planned, clients_words, longer_words};
use crate::session::Session;
use crate::{Error, Result};
use pgweir_maths::number_words;
use pgweir_maths::{
    Enough, FittedUsl, PeakPlace, Ratio, Recommendation, Rounds, Surroundings, Told, connections_that_fit,
    fit_with_confidence, recommend, round_connections, smallest_enough,
};

/// What PostgreSQL reserves for superusers where nobody has said otherwise.
pub(super) const RESERVED_CONNECTIONS: u32 = 3;

/// Everything that came of it.
pub(super) struct Judged {
    /// Direct, by clients.
    pub(super) direct: Vec<Case>,
    /// How those compare, in the same order.
    pub(super) direct_rounds: Rounds,
    /// Through pgweir, by pool size.
    pub(super) pooled: Vec<Case>,
    /// Through a pool that finds its size, with as many clients.
    pub(super) auto: Option<Case>,
    /// Direct again, beside the pools, with as many clients.
    pub(super) beside: Option<Case>,
    /// The law, where one could be fitted.
    pub(super) law: Option<FittedUsl>,
    /// What to set.
    pub(super) recommendation: Recommendation,
    /// Whether the pool size comes from the pools that were measured.
    pub(super) pool_size_measured: bool,
}

/// From the direct sweep alone.
pub(super) fn from_direct(sweep: &Sweep<'_>, around: &Surroundings) -> Result<Recommendation> {
    let levels = sweep.for_maths();
    let law = fit_with_confidence(&levels).ok();
    recommend(&levels, law.as_ref(), around).ok_or_else(|| Error::new("no number of clients gave figures"))
}

/// What pgweir advise would know of the server, too.
pub(super) fn surroundings(session: &Session, arguments: &Arguments) -> Result<Surroundings> {
    let settings = crate::advise::settings_of(&session.target.server)?;
    let is_local = session.target.server.is_local();
    let here = is_local.then(|| u32::try_from(session.machine.cpus).unwrap_or(u32::MAX));
    let ram_bytes = session.machine.memory_bytes;
    Ok(Surroundings {
        cores: arguments.cores.or(here),
        spindles: arguments.spindles,
        reserved_connections: settings.reserved_connections,
        replicas: settings.replicas,
        fits: (is_local && ram_bytes > 0)
            .then(|| connections_that_fit(&settings.memory.with_rest(ram_bytes), ram_bytes)),
    })
}

/// Pool sizes around what the direct sweep recommends: half and twice of it, the peak, and the rule of thumb.
pub(super) fn sizes_to_try(recommendation: &Recommendation, clients: u32) -> Vec<u32> {
    let knee = round_connections(recommendation.knee_clients);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a number of clients"
    )]
    let peak = recommendation.peak_clients.round() as u32;
    let mut sizes = vec![knee.div_ceil(2), knee, peak, knee * 2];
    sizes.extend(recommendation.rule_of_thumb);
    sizes.retain(|size| *size >= 1 && *size < clients);
    sizes.sort_unstable();
    sizes.dedup();
    if sizes.is_empty() {
        sizes.push(knee.min(clients).max(1));
    }
    sizes
}

/// Puts everything together.
pub(super) fn all(
    sweep: &Sweep<'_>,
    mut recommendation: Recommendation,
    mut pooled: Vec<Planned>,
    around: &Surroundings,
) -> Judged {
    let beside = pooled.pop().map(|planned| planned.case);
    let auto = pooled.pop().map(|planned| planned.case);
    let pooled: Vec<Case> = pooled.into_iter().map(|planned| planned.case).collect();
    let mut pool_size_measured = false;
    // One pool alone says nothing about others.
    let enough = smallest_enough(&pool_rounds(&pooled, None), 0..pooled.len()).filter(|_| pooled.len() > 1);
    match enough {
        None => {}
        Some(Enough::At(at)) => {
            let size = pooled[at].pool_size.unwrap_or(1);
            recommendation.set_pool(size, around);
            pool_size_measured = recommendation.sizes.is_some();
        }
        Some(Enough::Noise { rounds }) => {
            recommendation.sizes = None;
            recommendation.rounds_needed = rounds;
        }
    }
    let law = fit_with_confidence(&sweep.for_maths()).ok();
    Judged {
        direct: sweep.levels.iter().map(|level| level.case.clone()).collect(),
        direct_rounds: sweep.rounds(),
        pooled,
        auto,
        beside,
        law,
        recommendation,
        pool_size_measured,
    }
}

/// Fills the outcome: cases, conclusions, settings.
pub(super) fn tell(judged: &Judged, arguments: &Arguments, outcome: &mut Outcome) {
    let recommendation = &judged.recommendation;
    outcome.workload = arguments.workload.words();
    outcome.rounds = arguments.common.rounds;
    outcome.seconds_per_run = arguments.common.seconds;
    outcome.conclusions = conclusions(judged, outcome);
    if let Some(sizes) = &recommendation.sizes {
        outcome.paste = vec![
            Paste {
                file: "postgresql.conf".to_owned(),
                text: sizes.postgresql_conf(),
            },
            Paste {
                file: "pgbouncer.ini".to_owned(),
                text: sizes.pgbouncer_ini(),
            },
        ];
    }
    outcome.cases = judged.direct.iter().chain(&judged.pooled).cloned().collect();
    outcome.cases.extend(judged.auto.iter().chain(&judged.beside).cloned());
    for case in outcome.cases.iter().filter(|case| case.failure.is_some()) {
        outcome.left_out.push(format!(
            "{}: {}",
            case.name,
            case.failure.as_deref().unwrap_or_default()
        ));
    }
    let details = [
        ("law", serde_json::to_value(judged.law)),
        ("recommendation", serde_json::to_value(recommendation)),
    ];
    outcome.details = details
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value.ok()?)))
        .collect();
}

/// The rounds of the pools, by size, and last those of the case that ran beside them.
fn pool_rounds(pooled: &[Case], beside: Option<&Case>) -> Rounds {
    Rounds::new(pooled.iter().chain(beside).map(|case| case.values("tps")))
}

fn conclusions(judged: &Judged, outcome: &Outcome) -> Vec<String> {
    let recommendation = &judged.recommendation;
    let mut said = vec![match &recommendation.sizes {
        Some(sizes) => format!(
            "Set `max_connections = {}` and `default_pool_size = {}`.",
            sizes.max_connections, sizes.default_pool_size
        ),
        None if recommendation.place == PeakPlace::Rising => format!(
            "Throughput still rises with {}, the most that were measured, so no number of connections is recommended: measure \
             more (--clients-max).",
            clients_words(judged.direct.last().map_or(0, |case| case.clients))
        ),
        None => format!(
            "The rounds are too few and too different to recommend a number of connections. To tell, measure longer: {}; or \
             longer runs (--seconds).",
            longer_words(outcome, recommendation.rounds_needed)
        ),
    }];
    said.extend(best_and_most(judged));
    said.extend(peak_of_the_law(judged));
    said.extend(pool_beside_direct(judged));
    said.extend(auto_beside_best(judged));
    said.extend(recommendation.reasons.iter().map(|reason| sentence(reason)));
    said.extend(
        recommendation
            .sizes
            .iter()
            .flat_map(|sizes| &sizes.because)
            .map(|why| sentence(why)),
    );
    if judged.pool_size_measured {
        said.push(
            "`default_pool_size` is the smallest pool measured that surely has nearly the throughput of the best one."
                .to_owned(),
        );
    } else if recommendation.sizes.is_some() {
        said.push(
            "`default_pool_size` is a number of direct connections that was measured: no sizes of a pool were compared.".to_owned(),
        );
    }
    said
}

fn best_and_most(judged: &Judged) -> Option<String> {
    let best = judged.direct_rounds.best_of(0..judged.direct.len())?;
    let most = judged.direct.iter().rposition(|case| tps(case) > 0.0)?;
    if best >= most {
        return None;
    }
    let ratio = judged.direct_rounds.ratio(best, most)?;
    let what = match ratio.told() {
        Told::Differs => ratio.times(" times as much"),
        _ => ratio.to_string(),
    };
    let (best, most) = (&judged.direct[best], &judged.direct[most]);
    Some(format!(
        "Direct, the server is fastest with {}; with {} it makes {} TPS, {what}.",
        level_words(best.clients, tps(best)),
        clients_words(most.clients),
        number_words(tps(most))
    ))
}

fn peak_of_the_law(judged: &Judged) -> Option<String> {
    let law = judged.law.as_ref().filter(|_| judged.recommendation.from_law)?;
    let sure = law.peak.map_or_else(String::new, |i| {
        format!(", with 95 % confidence between {:.0} and {:.0}", i.low, i.high)
    });
    Some(format!(
        "The fitted law (Universal Scalability Law) has its peak at {:.0} clients{sure}.",
        law.law.peak()?
    ))
}

fn pool_beside_direct(judged: &Judged) -> Option<String> {
    let (beside, sizes) = (judged.beside.as_ref()?, judged.recommendation.sizes.as_ref()?);
    let servers = sizes.default_pool_size;
    let at = judged.pooled.iter().position(|case| case.pool_size == Some(servers))?;
    let ratio = pool_rounds(&judged.pooled, Some(beside)).ratio(judged.pooled.len(), at)?;
    let what = as_many(&ratio, "direct");
    Some(format!(
        "Through pgweir with a pool of {servers}, {} make {} TPS, {what}: with {servers} connections of the server in place \
         of {}.",
        clients_words(beside.clients),
        number_words(tps(&judged.pooled[at])),
        beside.clients
    ))
}

/// The throughput of the pool with size `auto`, compared with the best fixed size.
fn auto_beside_best(judged: &Judged) -> Option<String> {
    let auto = judged.auto.as_ref()?;
    let rounds = pool_rounds(&judged.pooled, Some(auto));
    let best = rounds.best_of(0..judged.pooled.len())?;
    let size = judged.pooled[best].pool_size?;
    let ratio = rounds.ratio(best, judged.pooled.len())?;
    let what = as_many(&ratio, &format!("with a pool of {size}, the best that was measured"));
    Some(format!(
        "With `default_pool_size = auto`, where pgweir finds the size by experiment, they make {} TPS, {what}.",
        number_words(tps(auto))
    ))
}

/// A throughput beside another.
fn as_many(ratio: &Ratio, other: &str) -> String {
    match ratio.told() {
        Told::Differs => ratio.times(&format!(" times as many as {other}")),
        Told::Alike => format!("as many as {other}, within the noise ({})", ratio.figures()),
        Told::TooFewRounds => format!(
            "{} (too few rounds to tell)",
            ratio.times(&format!(" times as many as {other}"))
        ),
    }
}

fn tps(case: &Case) -> f64 {
    case.spread("tps").map_or(0.0, |tps| tps.middle)
}

/// With a full stop, and with a capital unless it begins with the name of a setting.
fn sentence(text: &str) -> String {
    if text.split(' ').next().is_some_and(|word| word.contains('_')) {
        return format!("{text}.");
    }
    let mut characters = text.chars();
    let first = characters
        .next()
        .map(|c| c.to_uppercase().to_string())
        .unwrap_or_default();
    format!("{first}{}.", characters.as_str())
}
