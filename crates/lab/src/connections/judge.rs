//! What the figures of the sweeps mean.

use super::sweep::Sweep;
use super::{Arguments, level_words};
use crate::maths::{Difference, FittedUsl, Recommendation, Surroundings, compare, fit_with_confidence, recommend};
use crate::progress::number_words;
use crate::results::{Case, Outcome, Paste};
use crate::rounds::{Planned, clients_words};
use crate::session::Session;
use crate::{Error, Result};

/// What PostgreSQL reserves for superusers where nobody has said otherwise.
pub(super) const RESERVED_CONNECTIONS: u32 = 3;

/// A pool is large enough with this share of the best pool's throughput.
const ENOUGH_SHARE: f64 = 0.97;

/// Said where a difference of two single rounds is told.
const NOISE_UNKNOWN: &str = "with one round nothing is known of the noise";

/// The seed of the resampling, so that the same figures give the same confidence.
const SEED: u64 = 1;

/// Everything that came of it.
pub(super) struct Judged {
    /// Direct, by clients.
    pub(super) direct: Vec<Case>,
    /// Through pgweir, by pool size.
    pub(super) pooled: Vec<Case>,
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
pub(super) fn from_direct(sweep: &Sweep<'_>, session: &Session, arguments: &Arguments) -> Result<Recommendation> {
    let levels = sweep.for_maths();
    let law = fit_with_confidence(&levels, SEED).ok();
    recommend(&levels, law.as_ref(), &surroundings(session, arguments))
        .ok_or_else(|| Error::new("no number of clients gave figures"))
}

fn surroundings(session: &Session, arguments: &Arguments) -> Surroundings {
    let here = session
        .target
        .server
        .is_local()
        .then(|| u32::try_from(session.machine.cpus).unwrap_or(u32::MAX));
    let setting = |name: &str| {
        session
            .target
            .facts
            .settings
            .get(name)
            .and_then(|value| value.parse().ok())
    };
    Surroundings {
        cores: arguments.cores.or(here),
        spindles: arguments.spindles,
        reserved_connections: setting("superuser_reserved_connections").unwrap_or(RESERVED_CONNECTIONS),
    }
}

/// Pool sizes around what the direct sweep recommends: half and twice of it, the peak, and the rule of thumb.
pub(super) fn sizes_to_try(recommendation: &Recommendation, clients: u32) -> Vec<u32> {
    let knee = recommendation.default_pool_size;
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
    session: &Session,
    arguments: &Arguments,
) -> Judged {
    let beside = pooled.pop().map(|planned| planned.case);
    let pooled: Vec<Case> = pooled.into_iter().map(|planned| planned.case).collect();
    let median = |case: &Case| case.spread("tps").map_or(0.0, |tps| tps.median);
    let best = pooled.iter().map(median).fold(0.0, f64::max);
    let enough = pooled
        .iter()
        .find(|case| best > 0.0 && median(case) >= ENOUGH_SHARE * best);
    let pool_size_measured = enough.is_some();
    if let Some(size) = enough.and_then(|case| case.pool_size) {
        recommendation.default_pool_size = size;
        let beside_pools = surroundings(session, arguments).reserved_connections + 10;
        recommendation.max_connections = recommendation.max_connections.max(size + beside_pools);
    }
    let law = fit_with_confidence(&sweep.for_maths(), SEED).ok();
    Judged {
        direct: sweep.levels.iter().map(|level| level.case.clone()).collect(),
        pooled,
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
    outcome.conclusions = conclusions(judged);
    outcome.paste = vec![
        Paste {
            file: "postgresql.conf".to_owned(),
            text: recommendation.postgresql_conf(),
        },
        Paste {
            file: "pgbouncer.ini".to_owned(),
            text: recommendation.pgbouncer_ini(),
        },
    ];
    outcome.cases = judged.direct.iter().chain(&judged.pooled).cloned().collect();
    outcome.cases.extend(judged.beside.clone());
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

fn conclusions(judged: &Judged) -> Vec<String> {
    let recommendation = &judged.recommendation;
    let mut said: Vec<String> = Vec::new();
    let best = judged.direct.iter().max_by(|a, b| tps(a).total_cmp(&tps(b)));
    let most = judged.direct.iter().rev().find(|case| tps(case) > 0.0);
    said.push(format!(
        "Set `max_connections = {}` and `default_pool_size = {}`.",
        recommendation.max_connections, recommendation.default_pool_size
    ));
    if let (Some(best), Some(most)) = (best, most)
        && best.clients < most.clients
    {
        let difference = compare(best.values("tps"), most.values("tps"));
        let what = match difference {
            Some(Difference::WithinNoise { .. }) => "which is no difference beyond the noise".to_owned(),
            Some(d @ Difference::Unknown { .. }) => format!("{:+.1} %; {NOISE_UNKNOWN}", d.percent()),
            Some(d) => format!("{} % less", number_words(-d.percent())),
            None => "not comparable".to_owned(),
        };
        said.push(format!(
            "Direct, the server is fastest with {}; with {} it makes {} TPS, {what}.",
            level_words(best.clients, tps(best)),
            clients_words(most.clients),
            number_words(tps(most))
        ));
    }
    if let Some(law) = &judged.law
        && let Some(peak) = law.law.peak().filter(|_| recommendation.from_law)
    {
        let sure = law.confidence.and_then(|c| c.peak);
        let sure = sure.map_or_else(String::new, |i| {
            format!(", with 95 % confidence between {:.0} and {:.0}", i.low, i.high)
        });
        said.push(format!(
            "The fitted law (Universal Scalability Law) has its peak at {peak:.0} clients{sure}."
        ));
    }
    if let Some(beside) = &judged.beside
        && let Some(size) = judged
            .pooled
            .iter()
            .find(|c| c.pool_size == Some(recommendation.default_pool_size))
        && let Some(difference) = compare(beside.values("tps"), size.values("tps"))
    {
        let servers = recommendation.default_pool_size;
        let more = if difference.percent() > 0.0 { "more" } else { "less" };
        let percent = number_words(difference.percent().abs());
        let (what, unsure) = match difference {
            Difference::Real { .. } => (format!("{percent} % {more} than direct"), String::new()),
            Difference::WithinNoise { .. } => ("as many as direct, within the noise".to_owned(), String::new()),
            Difference::Unknown { .. } => (
                format!("{percent} % {more} than direct"),
                format!(" {}", sentence(NOISE_UNKNOWN)),
            ),
        };
        said.push(format!(
            "Through pgweir with a pool of {servers}, {} make {} TPS, {what}: with {servers} connections of the server in \
             place of {}.{unsure}",
            clients_words(beside.clients),
            number_words(tps(size)),
            beside.clients
        ));
    }
    said.extend(recommendation.reasons.iter().map(|reason| sentence(reason)));
    if judged.pool_size_measured {
        said.push(format!(
            "`default_pool_size` is the smallest pool measured that has {:.0} % of the best pool's throughput.",
            ENOUGH_SHARE * 100.0
        ));
    }
    said
}

fn tps(case: &Case) -> f64 {
    case.spread("tps").map_or(0.0, |tps| tps.median)
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
