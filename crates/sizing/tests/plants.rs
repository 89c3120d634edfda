//! The controller on each plant: it gives what the best fixed limit gives, and finds that within ten seconds.
//!
//! Each plant runs with fixed seeds, whose results are the same each time, and with a new seed, which is printed. Fixed
//! seeds are held to the goals; a new one to a floor, because luck is part of a run with noise. The floors are such that
//! thousands of seeds hold them: `--example plants -- search FIRST COUNT` runs more.

mod plant;

use pgweir_sizing::{Bounds, Controller, Weakness};
use plant::auto::Auto;
use plant::catalogue::{all_plants, steady_plants};
use plant::goal::{complaint, floor, goal};
use plant::judge::Summary;
use plant::run::run;
use plant::{Limiter, Plant};
use std::hash::{BuildHasher, Hasher, RandomState};

const FIXED_SEEDS: std::ops::Range<u64> = 0..4;
/// Runs that missed their floor with an earlier version.
const MISSED_ONCE: [(&str, u64); 8] = [
    // The workload changed in a window that was left out, and nothing was then compared with what was known before.
    ("-S, then pg_sleep", 3_924_715_560),
    ("-S, few clients, pg_sleep", 10),
    ("16 cores, few clients, 4", 9),
    ("2 cores, 16 at any moment, slower", 0),
    ("2 cores, 16 at any moment, slower", 5),
    ("2 cores, 16 at any moment, slower", 8),
    // A window that began in a standstill hid that requests had become faster.
    ("pg_sleep, standstill, -S", 5_000_041),
    // Noise alone made four steps upwards; two steps downwards took them back within a second.
    ("table: -S, flat, as noisy as measured", 835_376_225),
];

fn plant(name: &str) -> Plant {
    let mut plants = all_plants().into_iter();
    plants
        .find(|plant| plant.name == name)
        .expect("a plant of the catalogue")
}

fn controller(plant: &Plant) -> Controller {
    Controller::new(Bounds { min: 1, max: plant.max }, 8, 0)
}

fn runs(plant: &Plant, seeds: impl Iterator<Item = u64>, make: fn(&Plant) -> Controller) -> Summary {
    let verdicts: Vec<_> = seeds
        .flat_map(|seed| run(plant, &mut Auto(make(plant)), seed).verdicts())
        .collect();
    Summary::of(&verdicts)
}

fn check(name: &str) {
    let fixed = runs(&plant(name), FIXED_SEEDS, controller);
    let wrong = complaint(&fixed, goal(name));
    assert_eq!(wrong, None, "{name}, seeds {FIXED_SEEDS:?}: {fixed:?}");
    check_run(name, RandomState::new().build_hasher().finish() >> 32);
}

fn check_run(name: &str, seed: u64) {
    let found = runs(&plant(name), [seed].into_iter(), controller);
    println!("{name}, seed {seed}: {found:?}");
    let wrong = complaint(&found, floor(name));
    assert_eq!(
        wrong, None,
        "{name}; again with: --example plants -- seed {seed} '{name}': {found:?}"
    );
}

#[test]
fn runs_that_missed_once_hold() {
    for (name, seed) in MISSED_ONCE {
        check_run(name, seed);
    }
}

macro_rules! plants {
    ($($test:ident: $name:literal;)*) => {
        $(#[test] fn $test() { check($name); })*

        #[test]
        fn every_plant_of_the_catalogue_has_a_test() {
            let tested = [$($name),*];
            for plant in all_plants() {
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
    measured_noise: "table: -S, flat, as noisy as measured";
    measured_commits: "table: TPC-B, as noisy as measured";
    sleeps_then_noisy_selects_without_a_queue: "pg_sleep, then -S, flat, noisy, no queue";
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
    selects_few_clients_sleeps: "-S, few clients, pg_sleep";
    sleeps_few_clients_selects: "pg_sleep, few clients, -S";
    sixteen_few_clients_four_cores: "16 cores, few clients, 4";
    selects_standstill_sleeps: "-S, standstill, pg_sleep";
    sleeps_standstill_selects: "pg_sleep, standstill, -S";
    four_standstill_sixteen_cores: "4 cores, standstill, 16";
    selects_then_sleeps_at_any_moment: "-S, pg_sleep at any moment";
    two_then_sixteen_cores_at_any_moment: "2 cores, 16 at any moment, slower";
}

#[test]
fn a_controller_with_its_sign_turned_fails() {
    for plant in all_plants() {
        let turned = |plant: &Plant| controller(plant).with_weakness(Weakness::SignTurned);
        let found = runs(&plant, 100..101, turned);
        assert!(
            complaint(&found, floor(plant.name)).is_some(),
            "{}: {found:?}",
            plant.name
        );
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
