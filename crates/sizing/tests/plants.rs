//! The controller on each plant: it gives what the best fixed limit gives, and finds that within ten seconds.
//!
//! Each plant runs with fixed seeds, whose results are the same each time, and with a new seed, which is printed. Fixed
//! seeds are held to the goals; a new one to a floor, because luck is part of a run with noise.

mod plant;

use pgweir_sizing::{Bounds, Controller, Weakness};
use plant::auto::Auto;
use plant::catalogue::{steady_plants, unsteady_plants};
use plant::judge::{SETTLING_SECONDS, Summary};
use plant::run::run;
use plant::{Limiter, Plant};
use std::hash::{BuildHasher, Hasher, RandomState};

const FIXED_SEEDS: std::ops::Range<u64> = 0..2;
/// What a plant is held to.
#[derive(Clone, Copy)]
struct Goal {
    /// Share of the best throughput, as the mean of the fixed seeds.
    share: f64,
    /// Seconds until the limit gives 95 % of it.
    seconds: f64,
    /// The worst second after that, without noise: a wrong step is taken back.
    worst: f64,
}

const GOAL: Goal = Goal {
    share: 0.97,
    seconds: SETTLING_SECONDS,
    worst: 0.6,
};
/// What a single run may fall short of the share.
const SPREAD: f64 = 0.03;
const SPREAD_OF_NEW: f64 = 0.07;

/// Plants on which the goal is not reached, with what is.
const SHORT_OF_IT: [(&str, Goal); 5] = [
    // Two limits differ by 4 %, single windows by 30 %: in a minute there are too few of them to tell.
    ("sort, noise of 30 %, fast", Goal { share: 0.93, ..GOAL }),
    // A few requests make up much of the work, so that windows at the same limit differ much.
    ("4 cores, requests vary by 150 %", Goal { share: 0.95, ..GOAL }),
    (
        "sleeps beside sorts",
        Goal {
            share: 0.95,
            seconds: 2.0 * SETTLING_SECONDS,
            ..GOAL
        },
    ),
    (
        "long requests beside short ones",
        Goal {
            share: 0.70,
            worst: 0.1,
            seconds: 2.0 * SETTLING_SECONDS,
        },
    ),
    // Each doubling takes four times as long as a request.
    (
        "wait 1 s, 200 clients",
        Goal {
            share: 0.80,
            seconds: 40.0,
            worst: 0.6,
        },
    ),
];

fn controller(plant: &Plant) -> Controller {
    Controller::new(Bounds { min: 1, max: plant.max }, 8, 0)
}

fn runs(plant: &Plant, seeds: impl Iterator<Item = u64>, make: fn(&Plant) -> Controller) -> Summary {
    let verdicts: Vec<_> = seeds
        .flat_map(|seed| run(plant, &mut Auto(make(plant)), seed).verdicts())
        .collect();
    Summary::of(&verdicts)
}

/// What is wrong with a summary; `spread`: what the least share may fall short of the goal.
fn complaint(found: &Summary, goal: Goal, spread: f64) -> Option<&'static str> {
    [
        (found.share < goal.share, "mean share"),
        (found.least < goal.share - spread, "least share"),
        (found.reached > goal.seconds, "median time to 95 %"),
        (found.slowest > 3.0 * goal.seconds, "longest time to 95 %"),
        (
            found.worst < goal.worst,
            "a second too bad: a wrong step was not taken back",
        ),
        (
            found.limit > 2.0 * found.enough + 4.0,
            "mean limit is greater than is needed",
        ),
        (f64::from(found.greatest) > 5.0 * found.enough + 16.0, "overshoot"),
    ]
    .into_iter()
    .find_map(|(wrong, what)| wrong.then_some(what))
}

fn check(name: &str) {
    let mut plants = steady_plants().into_iter().chain(unsteady_plants());
    let plant = plants
        .find(|plant| plant.name == name)
        .expect("a plant of the catalogue");
    let goal = SHORT_OF_IT.into_iter().find(|of| of.0 == name).map_or(GOAL, |of| of.1);
    let fixed = runs(&plant, FIXED_SEEDS, controller);
    let wrong = complaint(&fixed, goal, SPREAD);
    assert_eq!(wrong, None, "{name}, seeds {FIXED_SEEDS:?}: {fixed:?}");
    let seed = RandomState::new().build_hasher().finish() >> 32;
    let new = runs(&plant, [seed].into_iter(), controller);
    println!("{name}, new seed {seed}: {new:?}");
    let floor = Goal {
        share: goal.share - SPREAD_OF_NEW,
        seconds: 2.0 * goal.seconds,
        worst: goal.worst / 2.0,
    };
    let wrong = complaint(&new, floor, 0.0);
    assert_eq!(
        wrong, None,
        "{name}; again with: --example plants -- seed {seed} '{name}': {new:?}"
    );
}

macro_rules! plants {
    ($($test:ident: $name:literal;)*) => {
        $(#[test] fn $test() { check($name); })*

        #[test]
        fn every_plant_of_the_catalogue_has_a_test() {
            let tested = [$($name),*];
            for plant in steady_plants().into_iter().chain(unsteady_plants()) {
                assert!(tested.contains(&plant.name), "{}", plant.name);
            }
        }
    };
}

plants! {
    two_cores: "cpu, 2 cores";
    four_cores: "cpu, 4 cores";
    sixteen_cores: "cpu, 16 cores";
    sixty_four_cores: "cpu, 64 cores";
    two_cores_slow_queries: "cpu, 2 cores, 20 ms each";
    waits: "wait 20 ms, 200 clients";
    waits_up_to_the_bound: "wait 20 ms, 1,000 clients";
    measured_selects: "table: -S";
    measured_hot_row: "table: hot row";
    measured_sleeps: "table: pg_sleep";
    measured_sorts: "table: sort";
    sharp_peak: "one server, sharp peak";
    slow_noise: "4 cores, noise of 30 %, slow";
    fast_noise: "4 cores, noise of 30 %, fast";
    fast_noise_slow_queries: "sort, noise of 30 %, fast";
    varying_requests: "4 cores, requests vary by 150 %";
    stalls: "4 cores, stalls";
    restart: "4 cores, restart";
    long_beside_short: "long requests beside short ones";
    slow_waits: "wait 1 s, 200 clients";
    mix_shifts: "two classes, mix shifts";
    mix_alternates: "two classes, mix alternates";
    sleeps_beside_sorts: "sleeps beside sorts";
    selects_then_sleeps: "-S, then pg_sleep";
    sleeps_then_selects: "pg_sleep, then -S";
    sleeps_then_selects_few_clients: "pg_sleep, then -S, few clients";
    selects_then_sorts: "-S, then sort";
    hot_row_then_sixteen_cores: "hot row, then 16 cores";
    sixteen_then_four_cores: "16 cores, then 4";
    sixteen_then_four_cores_unseen: "16 cores, then 4, same class";
    four_then_sixteen_cores_unseen: "4 cores, then 16, same class";
    waits_then_four_cores_unseen: "waits, then 4 cores, same class";
    comes_and_goes: "load comes and goes";
}

#[test]
fn a_controller_with_its_sign_turned_fails() {
    for plant in steady_plants() {
        let turned = |plant: &Plant| controller(plant).with_weakness(Weakness::SignTurned);
        let found = runs(&plant, 100..101, turned);
        assert!(complaint(&found, GOAL, SPREAD).is_some(), "{}: {found:?}", plant.name);
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let plant = &steady_plants()[1];
    let steps = || {
        let mut auto = Auto(controller(plant));
        run(plant, &mut auto, 7);
        (auto.limit(), auto.0.steps().copied().collect::<Vec<_>>())
    };
    assert_eq!(steps(), steps());
}

#[test]
fn a_fixed_limit_gives_what_its_curve_says() {
    for plant in steady_plants().iter().take(4) {
        let (_, enough) = plant.best(&plant.phases[0]);
        let verdicts = run(plant, &mut plant::run::Fixed(enough), 1).verdicts();
        let expected = plant.rate(&plant.phases[0], enough) / plant.best(&plant.phases[0]).0;
        let share = verdicts[0].share;
        assert!(
            (share - expected).abs() < 0.02,
            "{}: {share} instead of {expected}",
            plant.name
        );
    }
}
