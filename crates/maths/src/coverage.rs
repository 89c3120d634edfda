//! Whether intervals contain the true value as often as they promise: simulated experiments, whose true values are
//! known.
//!
//! Each case has its throughput. In each round the state of the machine is the same for all cases, and it drifts. Each
//! run has its own noise: normally distributed logarithms, from a generator with a fixed seed.

use super::random::SplitMix64;
use super::ratio::{Ratio, unpaired};
use super::rounds::Rounds;

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
