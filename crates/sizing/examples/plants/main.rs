//! Runs the plants and prints tables.
//!
//! - `cargo run --release -p pgweir-sizing --example plants -- [SEEDS [NAME]]`: the controller on each plant; with part of a
//!   plant's name, that plant with the steps taken.
//! - `... -- seed SEED NAME`: one run, with its steps; tests print the seed of a run that failed.
//! - `... -- search FIRST COUNT [NAME]`: one run with each of these seeds, and which of them miss the floor of the tests.
//! - `... -- compare [SEEDS]`: the share of the best throughput of the controller and of its rivals.
//! - `... -- cost`: what a completion and a tick cost.
#![allow(clippy::disallowed_methods)] // a program of its own: it reads its arguments

#[path = "../../tests/plant/mod.rs"]
mod plant;
mod rivals;

use pgweir_sizing::{Bounds, Controller, Step};
use plant::goal::{complaint, floor};
use plant::judge::{Summary, Verdict};
use plant::run::{Fixed, run};
use plant::{Limiter, Plant, auto::Auto};
use std::ops::Range;
use std::time::{Duration, Instant};

const START: u32 = 8;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let word = |at: usize| args.get(at).map_or("", String::as_str);
    let named = |name: &str| {
        let plants = plant::catalogue::all_plants().into_iter();
        plants.filter(|plant| plant.name.contains(name)).collect::<Vec<_>>()
    };
    match word(0) {
        "compare" => compare(&named(word(2)), 0..word(1).parse().unwrap_or(3)),
        "seed" => {
            let seed = word(1).parse().expect("a seed");
            table(&named(word(2)), seed..seed + 1, true);
        }
        "search" => {
            let (first, count): (u64, u64) = (word(1).parse().expect("a seed"), word(2).parse().expect("a count"));
            search(&named(word(3)), first..first + count);
        }
        "cost" => cost(),
        seeds => table(&named(word(1)), 0..seeds.parse().unwrap_or(3), !word(1).is_empty()),
    }
}

/// Nanoseconds of a completion and of a tick that ends a window, as a mean.
fn cost() {
    let mut controller = Controller::new(Bounds { min: 1, max: 500 }, START, 0);
    let (rounds, completions) = (2_000u32, 2_000u32);
    let (mut in_completions, mut in_ticks, mut now_us) = (Duration::ZERO, Duration::ZERO, 0);
    for _ in 0..rounds {
        let began = Instant::now();
        for i in 0..completions {
            now_us += 25;
            controller.completed(now_us, i % 40, 200 + u64::from(i % 40), true);
        }
        in_completions += began.elapsed();
        let began = Instant::now();
        controller.tick(now_us, 500, 8);
        in_ticks += began.elapsed();
    }
    println!(
        "a completion: {:.1} ns",
        in_completions.as_nanos() as f64 / f64::from(rounds * completions)
    );
    println!("a tick: {:.0} ns", in_ticks.as_nanos() as f64 / f64::from(rounds));
}

fn table(plants: &[Plant], seeds: Range<u64>, steps: bool) {
    println!(
        "{:34} {:>6} {:>6} {:>6} {:>7} {:>7} {:>6} {:>7} {:>7} {:>5}",
        "plant", "fixed", "share", "least", "reached", "slowest", "worst", "limit", "enough", "most"
    );
    let (mut count, mut sum) = (0.0, 0.0);
    for plant in plants {
        let fixed = summary(plant, seeds.clone(), |plant| {
            Box::new(Fixed(plant.best(&plant.phases[0]).1))
        });
        let mut verdicts = Vec::new();
        for seed in seeds.clone() {
            let mut auto = Auto(Controller::new(Bounds { min: 1, max: plant.max }, START, 0));
            verdicts.extend(run(plant, &mut auto, seed).verdicts());
            if steps {
                auto.0.steps().for_each(print_step);
            }
        }
        let found = Summary::of(&verdicts);
        println!(
            "{:34} {:6.3} {:6.3} {:6.3} {:7.1} {:7.1} {:6.3} {:7.1} {:7.1} {:5}",
            plant.name,
            fixed.share,
            found.share,
            found.least,
            found.reached,
            found.slowest,
            found.worst,
            found.limit,
            found.enough,
            found.greatest
        );
        (count, sum) = (count + 1.0, sum + found.share);
    }
    println!("mean share {:.4}", sum / count);
}

/// Runs each seed alone, as the tests do with a new one. The last columns: runs with a phase below 97 % of the best, with
/// one that took more than 10 seconds, and below the floor of the tests.
fn search(plants: &[Plant], seeds: Range<u64>) {
    let (mut runs, mut misses) = (0, 0);
    for plant in plants {
        let (mut verdicts, mut missed, mut short, mut slow) = (Vec::new(), 0, 0, 0);
        for seed in seeds.clone() {
            let mut auto = Auto(Controller::new(Bounds { min: 1, max: plant.max }, START, 0));
            let found = run(plant, &mut auto, seed).verdicts();
            let one = Summary::of(&found);
            short += u32::from(one.least < 0.97);
            slow += u32::from(one.slowest > 10.0);
            if let Some(wrong) = complaint(&one, floor(plant.name)) {
                missed += 1;
                println!("  seed {seed}: {wrong}: {one:?}");
            }
            verdicts.extend(found);
            runs += 1;
        }
        let all = Summary::of(&verdicts);
        println!(
            "{:34} {:6.3} {:6.3} {:7.1} {:7.1} {:6.3} {:5} {short:5} {slow:5} {missed:5}",
            plant.name, all.share, all.least, all.reached, all.slowest, all.worst, all.greatest
        );
        misses += missed;
    }
    println!("{runs} runs, {misses} missed");
}

fn print_step(step: &Step) {
    println!(
        "  {:8.2} s {:>4} -> {:>4}  {}",
        step.at_us as f64 / 1e6,
        step.from,
        step.to,
        step.reason
    );
}

type Make = fn(&Plant) -> Box<dyn Limiter>;

fn summary(plant: &Plant, seeds: Range<u64>, make: Make) -> Summary {
    let verdicts: Vec<Verdict> = seeds
        .flat_map(|seed| run(plant, make(plant).as_mut(), seed).verdicts())
        .collect();
    Summary::of(&verdicts)
}

fn compare(plants: &[Plant], seeds: Range<u64>) {
    let rivals: [(&str, Make); 6] = [
        ("map", |plant| {
            Box::new(Auto(Controller::new(Bounds { min: 1, max: plant.max }, START, 0)))
        }),
        ("pairs", |plant| Box::new(rivals::Pairs::new(START, plant.max))),
        ("wave", |plant| Box::new(rivals::Wave::new(START, plant.max))),
        ("gradient2", |plant| Box::new(rivals::Gradient::new(START, plant.max))),
        ("vegas", |plant| Box::new(rivals::Vegas::new(START, plant.max))),
        ("20", |_| Box::new(Fixed(20))),
    ];
    print!("{:34}", "share (seconds to 95 %)");
    rivals.iter().for_each(|(name, _)| print!(" {name:>13}"));
    println!();
    let mut sums = [0.0; 6];
    let mut count = 0.0;
    for plant in plants {
        print!("{:34}", plant.name);
        for ((_, make), sum) in rivals.iter().zip(&mut sums) {
            let found = summary(plant, seeds.clone(), *make);
            print!(" {:6.3} ({:4.1})", found.share, found.reached);
            *sum += found.share;
        }
        println!();
        count += 1.0;
    }
    print!("{:34}", "mean");
    sums.iter().for_each(|sum| print!(" {:6.3}       ", sum / count));
    println!();
}
