//! Whether intervals contain the true value as often as they promise: simulated experiments, whose true values are
//! known.
//!
//! Each case has its throughput. In each round the state of the machine is the same for all cases, and it drifts. Each
//! run has its own noise: normally distributed logarithms, from a generator with a fixed seed.

use super::confidence::fit_with_confidence;
use super::random::SplitMix64;
use super::ratio::{Ratio, unpaired};
use super::recommend::{Level, Surroundings, recommend};
use super::rounds::Rounds;
use super::usl::Usl;

const EXPERIMENTS: u32 = 2_000;

/// A value from the standard normal distribution, by Box and Muller.
fn normal(random: &mut SplitMix64) -> f64 {
    let mut share = || ((random.next() >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
    let (a, b) = (share(), share());
    (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
}

/// Figures of cases with these noises over interleaved rounds; the machine drifts by a fifth from round to round.
fn sweep(random: &mut SplitMix64, truth: &[f64], noises: &[f64], rounds: usize) -> Vec<Vec<f64>> {
    let drift: Vec<f64> = (0..rounds).map(|_| 0.2 * normal(random)).collect();
    let case = |(truth, noise): (&f64, &f64)| {
        let figures = drift
            .iter()
            .map(|drift| (truth.ln() + drift + noise * normal(random)).exp());
        figures.collect()
    };
    truth.iter().zip(noises).map(case).collect()
}

/// Share of the experiments, in percent, whose interval contains the truth.
fn coverage(seed: u64, truth: f64, mut experiment: impl FnMut(&mut SplitMix64) -> Ratio) -> f64 {
    let mut random = SplitMix64::new(seed);
    let held = (0..EXPERIMENTS).filter(|_| {
        let interval = experiment(&mut random).interval.expect("there are rounds enough");
        interval.low <= truth && truth <= interval.high
    });
    100.0 * held.count() as f64 / f64::from(EXPERIMENTS)
}

fn of_sweep(seed: u64, truth: &[f64], noises: &[f64], rounds: usize, pair: (usize, usize)) -> f64 {
    coverage(seed, truth[pair.1] / truth[pair.0], |random| {
        let cases = sweep(random, truth, noises, rounds);
        Rounds::new(cases.iter().map(Vec::as_slice))
            .ratio(pair.0, pair.1)
            .unwrap()
    })
}

const CURVE: [f64; 7] = [900.0, 1700.0, 2900.0, 3600.0, 3500.0, 2400.0, 1100.0];

#[test]
fn intervals_of_interleaved_rounds_hold_in_95_of_100_experiments() {
    let checked = [
        // Alone and beside idle connections, cold and prewarmed: two cases.
        ("a pair, 2 rounds", of_sweep(1, &[1000.0, 700.0], &[0.05; 2], 2, (0, 1))),
        ("a pair, 3 rounds", of_sweep(2, &[1000.0, 1000.0], &[0.1; 2], 3, (0, 1))),
        (
            "a pair, 10 rounds",
            of_sweep(3, &[1000.0, 1030.0], &[0.2; 2], 10, (0, 1)),
        ),
        // A sweep of clients, pool sizes or sizes of shared_buffers.
        ("a sweep, 2 rounds", of_sweep(4, &CURVE, &[0.05; 7], 2, (3, 6))),
        ("a sweep, 3 rounds", of_sweep(5, &CURVE, &[0.1; 7], 3, (3, 4))),
        ("a sweep, 5 rounds", of_sweep(6, &CURVE, &[0.3; 7], 5, (0, 3))),
        // Some cases are twice as noisy as others.
        (
            "a sweep, uneven noise",
            of_sweep(7, &CURVE, &[0.05, 0.05, 0.05, 0.07, 0.07, 0.05, 0.05], 5, (3, 4)),
        ),
    ];
    for (what, percent) in checked {
        assert!((93.0..=97.0).contains(&percent), "{what}: {percent} %");
    }
}

#[test]
fn intervals_of_two_runs_hold_in_95_of_100_experiments() {
    for (seed, rounds, noise) in [
        (11, [3, 3], [0.05, 0.10]),
        (12, [3, 5], [0.1, 0.1]),
        (13, [10, 10], [0.3, 0.1]),
    ] {
        let percent = coverage(seed, 1.5, |random| {
            let mut run = |truth: f64, at: usize| -> Vec<f64> {
                (0..rounds[at])
                    .map(|_| (truth.ln() + noise[at] * normal(random)).exp())
                    .collect()
            };
            unpaired(&run(1000.0, 0), &run(1500.0, 1)).unwrap()
        });
        assert!((93.0..=97.0).contains(&percent), "{rounds:?}, {noise:?}: {percent} %");
    }
}

/// The other side of it: a true difference is found about as often as the method's power says, and a difference that does
/// not exist is claimed in 5 of 100 experiments.
#[test]
fn equal_cases_are_called_different_in_5_of_100_experiments() {
    let claimed = 100.0 - of_sweep(21, &[1000.0; 5], &[0.15; 5], 3, (1, 2));
    assert!((3.0..=7.0).contains(&claimed), "{claimed} %");
}

/// A sweep of `lab connections` on a server with this law. The machine drifts by a fifth from round to round.
struct Server {
    law: Usl,
    noise: f64,
    rounds: usize,
}

impl Server {
    fn level(&self, random: &mut SplitMix64, clients: u32, first_round: usize, drift: &[f64]) -> Level {
        let truth = self.law.throughput(f64::from(clients)).ln();
        let figures = drift[first_round..].iter().take(self.rounds);
        Level {
            clients,
            first_round,
            tps: figures
                .map(|drift| (truth + drift + self.noise * normal(random)).exp())
                .collect(),
        }
    }

    /// With the numbers of clients that the user gives.
    fn given(&self, random: &mut SplitMix64, clients: &[u32]) -> Vec<Level> {
        let drift: Vec<f64> = (0..self.rounds).map(|_| 0.2 * normal(random)).collect();
        clients
            .iter()
            .map(|clients| self.level(random, *clients, 0, &drift))
            .collect()
    }

    /// Clients doubling, and a finer look around the best level, which joins it in later rounds.
    fn doubling(&self, random: &mut SplitMix64) -> Vec<Level> {
        let drift: Vec<f64> = (0..2 * self.rounds).map(|_| 0.2 * normal(random)).collect();
        let mut levels: Vec<Level> = (0..8).map(|power| self.level(random, 1 << power, 0, &drift)).collect();
        let found = Rounds::new(levels.iter().map(|level| &level.tps[..]));
        let best = found.best_of(0..8).expect("figures");
        let clients = levels[best].clients;
        let again = self.level(random, clients, self.rounds, &drift);
        levels[best].tps.extend(again.tps);
        let middle = |below: u32| (f64::from(below) * 2f64.sqrt()).round() as u32;
        let beside = [
            (best > 0).then(|| middle(clients / 2)),
            (best < 7).then(|| middle(clients)),
        ];
        for clients in beside.into_iter().flatten() {
            levels.push(self.level(random, clients, self.rounds, &drift));
        }
        levels
    }

    /// Of the sweeps whose recommendation takes the peak from the law, the share, in percent, whose interval contains the
    /// law's true peak.
    fn of_peak(&self, seed: u64, sweep: impl Fn(&mut SplitMix64) -> Vec<Level>) -> f64 {
        let mut random = SplitMix64::new(seed);
        let truth = self.law.peak().expect("this law has a peak");
        let (mut told, mut held) = (0, 0);
        for _ in 0..EXPERIMENTS {
            let levels = sweep(&mut random);
            let fitted = fit_with_confidence(&levels).expect("levels enough");
            let found = recommend(&levels, Some(&fitted), &Surroundings::default()).expect("figures");
            if let Some(peak) = fitted.peak.filter(|_| found.from_law) {
                told += 1;
                held += u32::from(peak.low <= truth && truth <= peak.high);
            }
        }
        assert!(told > EXPERIMENTS / 2, "{told} have a peak");
        100.0 * f64::from(held) / f64::from(told)
    }
}

/// Guards against taking the drift of the machine for the noise of each level, later rounds for the first ones, and few
/// rounds for many.
#[test]
fn intervals_of_the_peak_hold_in_95_of_100_sweeps() {
    let server = |sigma, kappa, noise, rounds| Server {
        law: Usl {
            lambda: 900.0,
            sigma,
            kappa,
        },
        noise,
        rounds,
    };
    let (usual, steep) = (server(0.05, 0.0008, 0.05, 3), server(0.15, 0.003, 0.1, 5));
    let few = server(0.05, 0.0008, 0.03, 2);
    for (what, percent) in [
        ("3 rounds", usual.of_peak(31, |random| usual.doubling(random))),
        ("5 rounds", steep.of_peak(32, |random| steep.doubling(random))),
        (
            "5 levels, 2 rounds",
            few.of_peak(33, |random| few.given(random, &[4, 16, 32, 64, 256])),
        ),
    ] {
        assert!((93.0..=97.0).contains(&percent), "{what}: {percent} %");
    }
}

/// `lab compare`: two sweeps of the same cases, each with its own drift, which no round of the one shares with the other.
/// Welch's method is a little too sure where the side with fewer rounds is the noisier.
#[test]
fn intervals_of_compared_sweeps_hold_in_95_of_100_experiments() {
    for (seed, rounds, noise) in [
        (41, [3, 3], 0.05),
        (42, [3, 5], 0.1),
        (43, [4, 10], 0.1),
        (44, [5, 5], 0.3),
    ] {
        let percent = coverage(seed, 1.25, |random| {
            let first = sweep(random, &CURVE, &[noise; 7], rounds[0]);
            let second = sweep(random, &CURVE.map(|tps| 1.25 * tps), &[noise; 7], rounds[1]);
            unpaired(&first[3], &second[3]).expect("rounds enough")
        });
        assert!((93.0..=97.0).contains(&percent), "{rounds:?}, {noise}: {percent} %");
    }
}

/// Guards against intervals from two rounds, which are too narrow beside a side with many.
#[test]
fn two_rounds_of_another_run_have_no_interval() {
    let many = [100.0, 101.0, 99.0, 100.0];
    assert_eq!(unpaired(&[50.0, 51.0], &many).expect("figures").interval, None);
    assert!(unpaired(&[50.0, 51.0, 50.0], &many).expect("figures").differs());
}
