//! A few hundred seeds with every `cargo test`; thousands run in CI (`simulate`).

use pgweir_sim::simulation::canary::Canary;
use pgweir_sim::simulation::takeover::TakeOvers;
use pgweir_sim::simulation::topology::Topology;
use pgweir_sim::simulation::{run, run_with};
use std::panic::catch_unwind;
use std::sync::Mutex;

/// Seeds of the smoke run.
const SEEDS: u64 = 300;

/// Seeds that are run with and without take-overs.
const TAKE_OVER_SEEDS: u64 = 16;

/// After how many steps in a thousand a take-over happens there.
const TAKE_OVERS_PER_THOUSAND: u64 = 30;

/// Every canary must be caught within this many of the seeds that can show it.
const CANARY_SEEDS_MAX: usize = 2_000;

#[test]
fn no_checker_finds_anything_wrong() {
    let mut answered = 0;
    for seed in 0..SEEDS {
        let outcome = run(seed, None, false);
        if let Some(why) = outcome.violation {
            panic!(
                "{}\nseed {seed}: {why}\nreplay: cargo run -p pgweir-sim --release --bin simulate -- --seed {seed} --trace",
                outcome.topology
            );
        }
        answered += outcome.answered;
    }
    // A simulation in which clients get no answers would prove nothing.
    assert!(answered > SEEDS * 20, "only {answered} segments were answered");
}

#[test]
fn a_seed_happens_the_same_way_twice() {
    for seed in 0..30 {
        let (a, b) = (run(seed, None, false), run(seed, None, false));
        assert_eq!(
            (a.trace, a.steps, a.answered),
            (b.trace, b.steps, b.answered),
            "seed {seed}"
        );
    }
}

#[test]
fn a_process_that_takes_over_goes_on_as_the_other_one_would_have() {
    for seed in 0..TAKE_OVER_SEEDS {
        let alone = run_with(seed, None, TakeOvers::Never, false);
        let taken_over = run_with(seed, None, TakeOvers::PerThousand(TAKE_OVERS_PER_THOUSAND), false);
        assert_eq!(
            (
                taken_over.violation,
                taken_over.trace,
                taken_over.steps,
                taken_over.answered
            ),
            (alone.violation, alone.trace, alone.steps, alone.answered),
            "seed {seed}: replay: cargo run -p pgweir-sim --release --bin simulate -- --seed {seed} --trace --take-over {TAKE_OVERS_PER_THOUSAND}"
        );
    }
}

#[test]
fn seeds_differ() {
    assert_ne!(run(1, None, false).trace, run(2, None, false).trace);
}

/// Whether one of the first seeds fails with a canary and succeeds without. A weakness may also violate an assertion of a
/// debug build.
fn is_caught(canary: Canary) -> bool {
    let seeds = (0..).filter(|&seed| !canary.is_of_flights() || Topology::new(seed).crowds());
    seeds.take(CANARY_SEEDS_MAX).any(|seed| {
        let weak = catch_unwind(|| run(seed, Some(canary), false));
        weak.map_or(true, |outcome| outcome.violation.is_some()) && run(seed, None, false).violation.is_none()
    })
}

#[test]
fn the_checkers_catch_every_canary() {
    let left = Mutex::new(Canary::all());
    let unnoticed = Mutex::new(Vec::new());
    let next = || left.lock().ok().and_then(|mut left| left.pop());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, |n| n.get()) {
            scope.spawn(|| {
                while let Some(canary) = next() {
                    if !is_caught(canary) {
                        unnoticed.lock().unwrap().push(canary);
                    }
                }
            });
        }
    });
    let unnoticed = unnoticed.into_inner().unwrap();
    assert!(
        unnoticed.is_empty(),
        "not noticed in {CANARY_SEEDS_MAX} seeds: {unnoticed:?}"
    );
}
