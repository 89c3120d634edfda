//! From a sweep of concurrency to the settings that it recommends.
//!
//! The rule is that of the articles: benchmark your own server, take the concurrency at the peak, round it, set
//! `max_connections` there, and let everything above it wait in a pool. The pool itself is as small as it can be without
//! losing throughput: the knee.

use super::confidence::FittedUsl;
use super::statistics::median;
use crate::progress::number_words;
use serde::{Deserialize, Serialize};

/// The knee is the fewest clients with this share of the peak's throughput.
const KNEE_SHARE: f64 = 0.95;

/// Where even the worst level has this share of the best, throughput does not depend on the number of clients.
const FLAT_SHARE: f64 = 0.85;

/// A law that explains less of the variance than this does not locate the peak; the measurement does.
const R_SQUARED_MIN: f64 = 0.9;

/// Connections that `max_connections` leaves beside the pools for psql, monitoring, backups and replication set-up.
const DIRECT_CONNECTIONS: u32 = 10;

/// All rounds at one number of clients.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Level {
    /// Clients at work (or servers, where pool sizes are swept).
    pub clients: u32,
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
}

/// Where the peak lies in what was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PeakPlace {
    /// Between the fewest and the most clients.
    Within,
    /// At the fewest clients: the true peak may lie below.
    AtFewest,
    /// At the most clients: the true peak may lie above.
    AtMost,
    /// Throughput hardly depends on the number of clients.
    Flat,
}

/// What to set, and why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recommendation {
    /// Clients at the peak: of the law where it fits, measured otherwise.
    pub peak_clients: f64,
    /// Greatest median of a level, in transactions per second.
    pub peak_tps: f64,
    /// Where that lies in the sweep.
    pub place: PeakPlace,
    /// Whether `peak_clients` comes from the law.
    pub from_law: bool,
    /// The fewest clients with 95 % of the peak's throughput, between the measured levels.
    pub knee_clients: f64,
    /// Setting of postgresql.conf.
    pub max_connections: u32,
    /// Setting of pgbouncer.ini: servers for each pair of database and user.
    pub default_pool_size: u32,
    /// Cores x 2 + spindles, where the cores are known.
    pub rule_of_thumb: Option<u32>,
    /// How the numbers came about, in sentences.
    pub reasons: Vec<String>,
}

/// Judges a sweep. None where no level has a round.
pub fn recommend(levels: &[Level], law: Option<&FittedUsl>, surroundings: &Surroundings) -> Option<Recommendation> {
    let mut curve: Vec<(f64, f64)> = levels
        .iter()
        .filter_map(|level| Some((f64::from(level.clients), median(&level.tps)?)))
        .collect();
    curve.sort_by(|a, b| a.0.total_cmp(&b.0));
    let best = (0..curve.len()).max_by(|&i, &j| curve[i].1.total_cmp(&curve[j].1))?;
    let (best_clients, peak_tps) = curve[best];
    let last = curve.len() - 1;
    let least_tps = curve.iter().map(|&(_, tps)| tps).fold(f64::INFINITY, f64::min);

    let place = match best {
        _ if last > 0 && least_tps >= FLAT_SHARE * peak_tps => PeakPlace::Flat,
        0 => PeakPlace::AtFewest,
        best if best == last => PeakPlace::AtMost,
        _ => PeakPlace::Within,
    };
    // A law may move the peak between the neighbours of the best level, and not beyond: there it is a guess.
    let law_peak = law
        .filter(|fitted| place == PeakPlace::Within && fitted.r_squared >= R_SQUARED_MIN)
        .and_then(|fitted| fitted.law.peak())
        .filter(|&peak| curve[best - 1].0 <= peak && peak <= curve[best + 1].0);
    let peak_clients = law_peak.unwrap_or(best_clients);
    let knee_clients = knee(&curve[..=best]).min(peak_clients);

    let default_pool_size = round_connections(knee_clients);
    let beside = surroundings.reserved_connections + DIRECT_CONNECTIONS;
    let max_connections = round_connections(peak_clients).max(default_pool_size + beside);
    let rule_of_thumb = surroundings
        .cores
        .map(|cores| rule_of_thumb(cores, surroundings.spindles));

    let recommendation = Recommendation {
        peak_clients,
        peak_tps,
        place,
        from_law: law_peak.is_some(),
        knee_clients,
        max_connections,
        default_pool_size,
        rule_of_thumb,
        reasons: Vec::new(),
    };
    let reasons = reasons(&recommendation, (curve[0].0, curve[last].0), best_clients, surroundings);
    Some(Recommendation {
        reasons,
        ..recommendation
    })
}

impl Recommendation {
    /// Lines to paste into postgresql.conf.
    pub fn postgresql_conf(&self) -> String {
        format!("max_connections = {}\n", self.max_connections)
    }

    /// Lines to paste into the section [pgbouncer] of pgbouncer.ini.
    pub fn pgbouncer_ini(&self) -> String {
        format!(
            "pool_mode = transaction\ndefault_pool_size = {}\nmax_db_connections = {}\n",
            self.default_pool_size, self.default_pool_size
        )
    }
}

/// Cores x 2 + spindles: where to start from as long as nothing has been measured.
pub fn rule_of_thumb(cores: u32, spindles: u32) -> u32 {
    cores.saturating_mul(2).saturating_add(spindles)
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

/// The fewest clients with `KNEE_SHARE` of the last point's throughput, in a curve that ends at its peak; between two
/// levels the throughput is taken as straight over the clients.
fn knee(rising: &[(f64, f64)]) -> f64 {
    let wanted = KNEE_SHARE * rising.last().map_or(0.0, |point| point.1);
    let reached = rising.iter().position(|&(_, tps)| tps >= wanted).unwrap_or(0);
    let (clients, tps) = rising[reached];
    match reached.checked_sub(1).map(|before| rising[before]) {
        Some((below, tps_below)) => below + (clients - below) * (wanted - tps_below) / (tps - tps_below),
        None => clients,
    }
}

fn reasons(r: &Recommendation, (fewest, most): (f64, f64), best: f64, surroundings: &Surroundings) -> Vec<String> {
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
        PeakPlace::Flat => format!(
            "throughput hardly depends on the number of clients between {fewest} and {most}: all levels reach {:.0} % of \
             the best or more; the smallest number is enough",
            100.0 * FLAT_SHARE
        ),
    }];
    reasons.push(format!(
        "{:.0} % of it is reached with {:.0} already: a pool of {} loses nothing that matters, and what is above it waits \
         in the pooler's queue, where waiting is cheap",
        100.0 * KNEE_SHARE,
        r.knee_clients,
        r.default_pool_size
    ));
    reasons.push(format!(
        "max_connections is the rounded peak, or the pool with {} connections beside it ({} reserved by PostgreSQL, {} for \
         psql, monitoring and backups), whichever is more",
        surroundings.reserved_connections + DIRECT_CONNECTIONS,
        surroundings.reserved_connections,
        DIRECT_CONNECTIONS
    ));
    if let (Some(thumb), Some(cores)) = (r.rule_of_thumb, surroundings.cores) {
        reasons.push(format!(
            "the rule of thumb, cores x 2 + spindles, says {thumb} ({cores} x 2 + {})",
            surroundings.spindles
        ));
    }
    reasons
}

#[cfg(test)]
mod tests {
    use super::super::confidence::fit_with_confidence;
    use super::*;

    const SERVER: Surroundings = Surroundings {
        cores: Some(32),
        spindles: 1,
        reserved_connections: 3,
    };

    fn levels(curve: &[(u32, f64)]) -> Vec<Level> {
        let level = |&(clients, tps): &(u32, f64)| Level {
            clients,
            tps: vec![tps * 0.99, tps, tps * 1.01],
        };
        curve.iter().map(level).collect()
    }

    fn judge(curve: &[(u32, f64)]) -> Recommendation {
        let levels = levels(curve);
        let law = fit_with_confidence(&levels, 1).ok();
        recommend(&levels, law.as_ref(), &SERVER).unwrap()
    }

    /// The first sweep of the EDB article, by its description: 100, 200, ... 3600 clients on 32 processors, a peak between
    /// 300 and 500, a steep fall past 700, little left above 1000. Shares of the peak's throughput.
    const EDB_FIRST: [(u32, f64); 14] = [
        (100, 0.62),
        (200, 0.86),
        (300, 0.97),
        (400, 1.0),
        (500, 0.98),
        (600, 0.92),
        (700, 0.85),
        (800, 0.62),
        (900, 0.45),
        (1000, 0.34),
        (1400, 0.2),
        (1800, 0.13),
        (2600, 0.07),
        (3600, 0.03),
    ];

    /// The second, up to 1800, with its peak between 300 and 400.
    const EDB_SECOND: [(u32, f64); 10] = [
        (100, 0.7),
        (200, 0.9),
        (300, 1.0),
        (400, 0.99),
        (500, 0.93),
        (700, 0.8),
        (900, 0.5),
        (1100, 0.33),
        (1400, 0.22),
        (1800, 0.14),
    ];

    #[test]
    fn the_edb_curves_recommend_300_to_500() {
        for curve in [&EDB_FIRST[..], &EDB_SECOND[..]] {
            let scaled: Vec<_> = curve
                .iter()
                .map(|&(clients, share)| (clients, share * 21_000.0))
                .collect();
            let r = judge(&scaled);
            assert!((300..=500).contains(&r.max_connections), "{r:?}");
            assert!((200..=500).contains(&r.default_pool_size), "{r:?}");
            assert_eq!((r.place, r.rule_of_thumb), (PeakPlace::Within, Some(65)));
        }
        let scaled: Vec<_> = EDB_FIRST
            .iter()
            .map(|&(clients, share)| (clients, share * 21_000.0))
            .collect();
        assert!((300..=500).contains(&judge(&scaled).default_pool_size));
    }

    #[test]
    fn two_processors_peak_at_about_ten() {
        let law = super::super::usl::Usl {
            lambda: 300.0,
            sigma: 0.2,
            kappa: 0.008,
        };
        let curve: Vec<_> = [1u32, 2, 4, 8, 12, 16, 32, 64, 128]
            .iter()
            .map(|&n| (n, law.throughput(f64::from(n))))
            .collect();
        let r = judge(&curve);
        assert!(r.from_law && (r.peak_clients - 10.0).abs() < 0.5, "{r:?}");
        // Ten at work, and room for an administrator beside them.
        assert_eq!(
            (r.default_pool_size <= 10, r.max_connections),
            (true, r.default_pool_size + 13)
        );
    }

    #[test]
    fn plain_postgresql_with_many_clients_says_measure_fewer() {
        // Experiments E, scale 20 and scale 1000, plain.
        for curve in [
            [
                (64, 54440.0),
                (512, 24957.0),
                (2048, 3301.0),
                (8192, 596.0),
                (19900, 427.0),
            ],
            [
                (64, 81460.0),
                (512, 72805.0),
                (2048, 10902.0),
                (8192, 7729.0),
                (19900, 971.0),
            ],
        ] {
            let r = judge(&curve);
            assert_eq!(r.place, PeakPlace::AtFewest);
            assert!(r.default_pool_size <= 64 && r.max_connections < 100, "{r:?}");
            assert!(r.reasons[0].contains("measure fewer"), "{:?}", r.reasons);
        }
    }

    #[test]
    fn a_pool_that_holds_its_throughput_is_called_flat() {
        // Experiments E, scale 20 and scale 1000, with the pool built in.
        for curve in [
            [
                (64, 53765.0),
                (512, 52666.0),
                (2048, 51451.0),
                (8192, 49493.0),
                (19900, 48062.0),
            ],
            [
                (64, 84356.0),
                (512, 81388.0),
                (2048, 80029.0),
                (8192, 79281.0),
                (19900, 81247.0),
            ],
        ] {
            let r = judge(&curve);
            assert_eq!(r.place, PeakPlace::Flat);
            assert!(r.reasons[0].contains("hardly depends"), "{:?}", r.reasons);
        }
    }

    #[test]
    fn a_sweep_that_still_rises_asks_for_more() {
        let r = judge(&[(1, 100.0), (2, 200.0), (4, 390.0), (8, 760.0)]);
        assert_eq!(r.place, PeakPlace::AtMost);
        assert!(!r.from_law && r.reasons[0].contains("measure more"), "{r:?}");
    }

    #[test]
    fn a_law_that_does_not_fit_is_not_asked() {
        // A cliff no USL has: the law would put the peak elsewhere.
        let r = judge(&[
            (10, 100.0),
            (20, 200.0),
            (40, 400.0),
            (80, 800.0),
            (90, 20.0),
            (200, 18.0),
            (400, 15.0),
        ]);
        assert_eq!((r.peak_clients, r.from_law), (80.0, false));
    }

    #[test]
    fn rounding() {
        let pairs = [
            (0.2, 1),
            (9.6, 10),
            (19.4, 19),
            (24.0, 20),
            (96.0, 100),
            (149.0, 100),
            (150.0, 200),
            (349.0, 300),
        ];
        for (clients, expected) in pairs {
            assert_eq!(round_connections(clients), expected, "{clients}");
        }
    }

    #[test]
    fn nothing_measured_recommends_nothing() {
        assert_eq!(recommend(&[], None, &SERVER), None);
        let one = [Level {
            clients: 5,
            tps: vec![10.0],
        }];
        assert_eq!(recommend(&one, None, &SERVER).unwrap().default_pool_size, 5);
    }

    #[test]
    fn what_is_pasted_is_what_was_recommended() {
        let r = judge(&[(10, 900.0), (40, 1000.0), (100, 500.0)]);
        assert!(
            r.postgresql_conf()
                .contains(&format!("max_connections = {}", r.max_connections))
        );
        assert!(
            r.pgbouncer_ini()
                .contains(&format!("default_pool_size = {}", r.default_pool_size))
        );
    }
}
