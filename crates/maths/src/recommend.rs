//! From a sweep of concurrency to the settings that it recommends.
//!
//! The rule is that of the articles: benchmark your own server, take the concurrency at the peak, and let everything above
//! it wait in a pool. The pool itself is as small as it can be without losing throughput: the knee. Where the noise decides
//! which number that is, nothing is recommended.

use super::confidence::FittedUsl;
use super::enough::{ENOUGH_SHARE, Enough, smallest_enough};
use super::rounds::Rounds;
use super::sizing::{ConnectionInputs, PoolInputs, TogetherInputs, all_pools, max_connections, pool_size};
use super::statistics::Spread;
use crate::words::number_words;
use serde::{Deserialize, Serialize};

/// Where even the worst level has this share of the best, throughput does not depend on the number of clients.
const FLAT_SHARE: f64 = 0.85;

/// A law that explains less of the variance than this does not locate the peak; the measurement does.
const R_SQUARED_MIN: f64 = 0.9;

/// All rounds at one number of clients.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Level {
    /// Clients at work (or servers, where pool sizes are swept).
    pub clients: u32,
    /// The round of the first figure: levels that joined later have later rounds.
    pub first_round: usize,
    /// Transactions per second, one for each round.
    pub tps: Vec<f64>,
}

/// What else is known of the server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Surroundings {
    /// Processors of the database server, where they can be seen.
    pub cores: Option<u32>,
    /// Disks that work side by side; 1 for an SSD or unknown storage, 0 when all data is in memory.
    pub spindles: u32,
    /// superuser_reserved_connections and, from PostgreSQL 16, reserved_connections, together.
    pub reserved_connections: u32,
    /// Replicas; 0 from PostgreSQL 12 on, where they do not count in max_connections.
    pub replicas: u32,
    /// For how many connections the memory is enough in the worst case, where the memory can be seen.
    pub fits: Option<u32>,
}

/// Where the peak lies in what was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PeakPlace {
    /// Between the fewest and the most clients.
    Within,
    /// At the fewest clients: the true peak may lie below.
    AtFewest,
    /// At the most clients, and fewer do nearly as much: the true peak may lie above.
    AtMost,
    /// At the most clients, and all fewer ones surely do less: where the peak is, nothing tells.
    Rising,
    /// Throughput hardly depends on the number of clients.
    Flat,
}

/// Settings to paste.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sizes {
    /// Setting of postgresql.conf.
    pub max_connections: u32,
    /// Setting of pgbouncer.ini: servers for each pair of database and user.
    pub default_pool_size: u32,
    /// The same: servers of a database, whatever its users are.
    pub max_db_connections: Option<u32>,
    /// What they follow from, a sentence each.
    pub because: Vec<String>,
}

/// What a sweep says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recommendation {
    /// Clients at the peak: of the law where it fits, measured otherwise.
    pub peak_clients: f64,
    /// Greatest throughput of a level, in transactions per second.
    pub peak_tps: f64,
    /// Where that lies in the sweep.
    pub place: PeakPlace,
    /// Whether `peak_clients` comes from the law.
    pub from_law: bool,
    /// The fewest clients with 95 % of the peak's throughput, between the measured levels. The best guess, where the noise
    /// decides.
    pub knee_clients: f64,
    /// None where the noise decides, and where the throughput still rises with the most clients.
    pub sizes: Option<Sizes>,
    /// So many rounds would tell, where the noise decides and that can be known.
    pub rounds_needed: Option<u32>,
    /// Cores x 2 + spindles, where the cores are known.
    pub rule_of_thumb: Option<u32>,
    /// What was found, in sentences.
    pub reasons: Vec<String>,
}

/// Judges a sweep. None where no level has a round.
pub fn recommend(levels: &[Level], law: Option<&FittedUsl>, surroundings: &Surroundings) -> Option<Recommendation> {
    let mut levels: Vec<&Level> = levels.iter().filter(|level| Spread::of(&level.tps).is_some()).collect();
    levels.sort_by_key(|level| level.clients);
    let rounds = Rounds::beginning(levels.iter().map(|level| (level.first_round, &level.tps[..])));
    let best = rounds.best_of(0..levels.len())?;
    let clients: Vec<f64> = levels.iter().map(|level| f64::from(level.clients)).collect();
    let shares: Vec<f64> = (0..levels.len())
        .map(|at| rounds.ratio(best, at).map_or(0.0, |r| r.ratio))
        .collect();
    let last = levels.len() - 1;
    let least = shares.iter().copied().fold(f64::INFINITY, f64::min);

    let place = match best {
        _ if last > 0 && least >= FLAT_SHARE => PeakPlace::Flat,
        0 => PeakPlace::AtFewest,
        best if best == last => PeakPlace::AtMost,
        _ => PeakPlace::Within,
    };
    // A law may move the peak between the neighbours of the best level, and not beyond: there it is a guess.
    let law_peak = law
        .filter(|fitted| place == PeakPlace::Within && fitted.r_squared >= R_SQUARED_MIN)
        .and_then(|fitted| fitted.law.peak())
        .filter(|&peak| clients[best - 1] <= peak && peak <= clients[best + 1]);
    let peak_clients = law_peak.unwrap_or(clients[best]);
    let knee_clients = knee(&clients[..=best], &shares[..=best]).min(peak_clients);
    let enough = smallest_enough(&rounds, 0..levels.len())?;
    let mut recommendation = Recommendation {
        peak_clients,
        peak_tps: Spread::of(&levels[best].tps)?.middle,
        place,
        from_law: law_peak.is_some(),
        knee_clients,
        sizes: None,
        rounds_needed: None,
        rule_of_thumb: surroundings.pool(None).map(|(value, _)| value),
        reasons: Vec::new(),
    };
    match enough {
        // All fewer ones surely do less, and more may do more still.
        Enough::At(at) if at == last && last > 0 => recommendation.place = PeakPlace::Rising,
        Enough::At(at) => recommendation.set_pool(levels[at].clients, surroundings),
        Enough::Noise { rounds } => recommendation.rounds_needed = rounds,
    }
    recommendation.reasons = reasons(&recommendation, (clients[0], clients[last]), clients[best]);
    Some(recommendation)
}

impl Surroundings {
    /// Servers of a pool, and why.
    fn pool(&self, measured: Option<u32>) -> Option<(u32, String)> {
        let sized = pool_size(&PoolInputs {
            cores: self.cores,
            spindles: self.spindles,
            measured,
        })?;
        Some((sized.value, sized.because))
    }
}

impl Recommendation {
    /// Recommends a pool of this size, which was measured, and what follows from it. Not while throughput still rises.
    pub fn set_pool(&mut self, size: u32, surroundings: &Surroundings) {
        self.rounds_needed = None;
        if self.place == PeakPlace::Rising {
            return;
        }
        // Where more clients make no difference, there is no peak to leave room for.
        let has_peak = self.place != PeakPlace::Flat;
        let connections = max_connections(&ConnectionInputs {
            pools: 1,
            pool_size: size,
            servers: None,
            other_applications: None,
            replicas: surroundings.replicas,
            reserved: surroundings.reserved_connections,
            peak: has_peak.then(|| round_connections(self.peak_clients)),
            fits: surroundings.fits,
        });
        let together = all_pools(&TogetherInputs {
            cores: surroundings.cores,
            spindles: surroundings.spindles,
            pool_size: size,
            allowed: connections.value.saturating_sub(surroundings.reserved_connections),
            wanted: None,
        });
        let why = surroundings
            .pool(Some(size))
            .map(|(_, because)| because)
            .unwrap_or_default();
        let mut because = vec![
            format!("default_pool_size = {size}: {why}"),
            format!("max_connections = {}: {}", connections.value, connections.because),
        ];
        because.extend(
            together
                .iter()
                .map(|all| format!("max_db_connections = {}: {}", all.value, all.because)),
        );
        self.sizes = Some(Sizes {
            max_connections: connections.value,
            default_pool_size: size,
            max_db_connections: together.map(|all| all.value),
            because,
        });
    }
}

impl Sizes {
    /// Lines to paste into postgresql.conf.
    pub fn postgresql_conf(&self) -> String {
        format!("max_connections = {}\n", self.max_connections)
    }

    /// Lines to paste into the section [pgbouncer] of pgbouncer.ini.
    pub fn pgbouncer_ini(&self) -> String {
        let together = self
            .max_db_connections
            .map_or_else(String::new, |all| format!("max_db_connections = {all}\n"));
        format!(
            "pool_mode = transaction\ndefault_pool_size = {}\n{together}",
            self.default_pool_size
        )
    }
}

/// Rounds a number of connections as precisely as a sweep can know it: hundreds from 100 on, tens from 20 on, else whole.
pub fn round_connections(clients: f64) -> u32 {
    let step = match clients {
        c if c >= 100.0 => 100.0,
        c if c >= 20.0 => 10.0,
        _ => 1.0,
    };
    ((clients / step).round() * step).max(1.0) as u32
}

/// The fewest clients with `ENOUGH_SHARE` of the last point's throughput, in a curve that ends at its peak; between two
/// levels the throughput is taken as straight over the clients.
fn knee(clients: &[f64], shares: &[f64]) -> f64 {
    let reached = shares.iter().position(|&share| share >= ENOUGH_SHARE).unwrap_or(0);
    match reached.checked_sub(1) {
        Some(before) => {
            let way = (ENOUGH_SHARE - shares[before]) / (shares[reached] - shares[before]);
            clients[before] + (clients[reached] - clients[before]) * way
        }
        None => clients[reached],
    }
}

fn reasons(r: &Recommendation, (fewest, most): (f64, f64), best: f64) -> Vec<String> {
    let mut reasons = vec![match r.place {
        PeakPlace::Within if r.from_law => format!(
            "throughput is greatest at about {:.0} clients (best level measured: {best}, {} transactions per second)",
            r.peak_clients,
            number_words(r.peak_tps)
        ),
        PeakPlace::Within => format!(
            "the greatest throughput, {} transactions per second, was measured at {best} clients",
            number_words(r.peak_tps)
        ),
        PeakPlace::AtFewest => format!(
            "throughput is greatest at the fewest clients measured, {fewest}: the peak may lie below; measure fewer"
        ),
        PeakPlace::AtMost => {
            format!("throughput is greatest at the most clients measured, {most}: the peak may lie above; measure more")
        }
        PeakPlace::Rising => {
            format!(
                "throughput still rises at the most clients measured, {most}, so that no size is recommended; measure more"
            )
        }
        PeakPlace::Flat => format!(
            "throughput hardly depends on the number of clients between {fewest} and {most}: all levels reach {:.0} % of \
             the best or more",
            100.0 * FLAT_SHARE
        ),
    }];
    if r.sizes.is_some() {
        reasons.push(format!(
            "{:.0} % of it is reached with {:.0} already: what is above waits in the pooler's queue, where waiting is cheap",
            100.0 * ENOUGH_SHARE,
            r.knee_clients
        ));
    }
    reasons
}

#[cfg(test)]
#[path = "recommend_tests.rs"]
mod tests;
