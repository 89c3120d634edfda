//! A few hundred seeds with every `cargo test`; thousands run in CI (`simulate`).

use pgweir_sim::simulation::canary::Canary;
use pgweir_sim::simulation::flood::has_flood;
use pgweir_sim::simulation::takeover::TakeOvers;
use pgweir_sim::simulation::topology::Topology;
use pgweir_sim::simulation::{run, run_with};
use std::collections::BTreeMap;
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
        let taken_over = run_with(seed, None, TakeOvers::States(TAKE_OVERS_PER_THOUSAND), false);
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

/// Whether a seed fails with a canary and succeeds without. A weakness may also violate an assertion of a debug build.
fn catches(seed: u64, canary: Canary) -> bool {
    let weak = catch_unwind(|| run(seed, Some(canary), false));
    weak.map_or(true, |outcome| outcome.violation.is_some()) && run(seed, None, false).violation.is_none()
}

/// One of the first seeds that catches a canary; the seed that did so earlier is run first.
fn caught_by(canary: Canary, earlier: Option<u64>) -> Option<u64> {
    let can_show = |seed: &u64| {
        (!canary.is_of_flights() || Topology::new(*seed).crowds())
            && (!canary.is_of_encodings() || Topology::new(*seed).beyond_ascii)
            && (!canary.is_of_replaced_code() || Topology::new(*seed).replaces_code_under_flights())
            && (!canary.is_of_floods() || has_flood(*seed))
            && (!canary.is_of_successors() || matches!(TakeOvers::of_seed(*seed), TakeOvers::Processes(_)))
            && (!canary.is_of_replicas() || Topology::new(*seed).replica_lag > 0)
    };
    let first = (0..).filter(can_show).take(CANARY_SEEDS_MAX);
    let earlier = earlier.filter(|earlier| first.clone().any(|seed| seed == *earlier));
    earlier.into_iter().chain(first).find(|seed| catches(*seed, canary))
}

/// For each canary the first seed that catches it, a line each. Without them, finding all of them takes ten times as
/// long. After a change of what seeds do, `PGWEIR_WRITE_CANARY_SEEDS=1 cargo test -p pgweir-sim canary` writes them anew.
const CANARY_SEEDS: &str = include_str!("canary-seeds.txt");

const CANARY_SEEDS_FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/canary-seeds.txt");

fn earlier_seed(canary: Canary) -> Option<u64> {
    let mut lines = CANARY_SEEDS.lines().filter_map(|line| line.split_once(' '));
    lines.find(|(name, _)| *name == canary.name())?.1.parse().ok()
}

/// Too rare to be found in so few seeds: replies must be lost together with the server, and the flight must have begun.
/// `crates/core/tests/conversations/flights` has a test of the defect.
const RARE: [Canary; 1] = [Canary::Weak(pgweir_core::Weakness::RunsBegunAgain)];

#[test]
#[expect(clippy::disallowed_methods, reason = "a test may write its own file")]
fn the_checkers_catch_every_canary() {
    let writes = std::env::var_os("PGWEIR_WRITE_CANARY_SEEDS").is_some();
    let mut left = Canary::all();
    left.retain(|canary| !RARE.contains(canary));
    let left = Mutex::new(left);
    let (caught, unnoticed) = (Mutex::new(BTreeMap::new()), Mutex::new(Vec::new()));
    let next = || left.lock().ok().and_then(|mut left| left.pop());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, |n| n.get()) {
            scope.spawn(|| {
                while let Some(canary) = next() {
                    match caught_by(canary, earlier_seed(canary).filter(|_| !writes)) {
                        Some(seed) => drop(caught.lock().unwrap().insert(canary.name(), seed)),
                        None => unnoticed.lock().unwrap().push(canary),
                    }
                }
            });
        }
    });
    if writes {
        let lines = caught.into_inner().unwrap().into_iter();
        let lines: String = lines.map(|(name, seed)| format!("{name} {seed}\n")).collect();
        std::fs::write(CANARY_SEEDS_FILE, lines).unwrap();
    }
    let unnoticed = unnoticed.into_inner().unwrap();
    assert!(
        unnoticed.is_empty(),
        "not noticed in {CANARY_SEEDS_MAX} seeds: {unnoticed:?}"
    );
}
