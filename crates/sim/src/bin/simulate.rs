//! Runs seeds.
//!
//!     simulate [--seeds N] [--from SEED] [--seed SEED [--trace]] [--canary NAME]
#![allow(clippy::disallowed_methods, reason = "a program with arguments and an exit status")]

use pgweir_sim::simulation::canary::Canary;
use pgweir_sim::simulation::run;
use pgweir_sim::simulation::topology::Topology;
use pgweir_sim::simulation::world::Outcome;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let (mut seeds, mut from, mut one, mut trace, mut canary) = (1000, 0, None, false, None);
    while let Some(word) = words.next() {
        let mut number = || words.next().and_then(|n| n.parse::<u64>().ok());
        match word.as_str() {
            "--seeds" => seeds = number().unwrap_or(seeds),
            "--from" => from = number().unwrap_or(from),
            "--seed" => one = number(),
            "--trace" => trace = true,
            "--canary" => {
                let name = words.next().unwrap_or_default();
                canary = Canary::all().into_iter().find(|c| c.name() == name);
                if canary.is_none() {
                    let names: Vec<String> = Canary::all().into_iter().map(Canary::name).collect();
                    eprintln!("canaries: {}", names.join(", "));
                    return ExitCode::FAILURE;
                }
            }
            _ => {
                eprintln!("usage: simulate [--seeds N] [--from SEED] [--seed SEED [--trace]] [--canary NAME]");
                return ExitCode::FAILURE;
            }
        }
    }
    match one {
        Some(seed) => one_seed(seed, canary, trace),
        None => many_seeds(from, seeds, canary),
    }
}

fn replay(seed: u64, canary: Option<Canary>) -> String {
    let canary = canary.map_or(String::new(), |c| format!(" --canary {}", c.name()));
    format!("cargo run -p pgweir-sim --release --bin simulate -- --seed {seed} --trace{canary}")
}

fn one_seed(seed: u64, canary: Option<Canary>, trace: bool) -> ExitCode {
    println!("{}", Topology::new(seed));
    let outcome = run(seed, canary, trace);
    println!(
        "{} segments answered in {} steps and {:.3} virtual seconds, trace {:016x}",
        outcome.answered,
        outcome.steps,
        outcome.ended_at_us as f64 / 1e6,
        outcome.trace
    );
    match outcome.violation {
        None => ExitCode::SUCCESS,
        Some(why) => {
            println!("{why}\nreplay: {}", replay(seed, canary));
            ExitCode::FAILURE
        }
    }
}

fn many_seeds(from: u64, seeds: u64, canary: Option<Canary>) -> ExitCode {
    let started = Instant::now();
    let next = AtomicU64::new(from);
    let failed = AtomicBool::new(false);
    let (answered, steps, failures) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= from + seeds {
                        return;
                    }
                    let result = catch_unwind(AssertUnwindSafe(|| run(seed, canary, false)));
                    if let Ok(outcome) = &result {
                        answered.fetch_add(outcome.answered, Ordering::Relaxed);
                        steps.fetch_add(outcome.steps, Ordering::Relaxed);
                    }
                    if let Some(why) = what_is_wrong(result) {
                        failures.fetch_add(1, Ordering::Relaxed);
                        // The first is told in full: topology first, replay command last.
                        if !failed.swap(true, Ordering::Relaxed) {
                            println!(
                                "{}seed {seed}: {why}\nreplay: {}",
                                Topology::new(seed),
                                replay(seed, canary)
                            );
                        } else {
                            let lines: Vec<&str> = why.lines().take(2).map(str::trim).collect();
                            println!("seed {seed}: {}", lines.join("; "));
                        }
                    }
                }
            });
        }
    });
    println!(
        "{seeds} seeds from {from}: {} failed; {} segments answered in {} steps; {:.1} s",
        failures.load(Ordering::Relaxed),
        answered.load(Ordering::Relaxed),
        steps.load(Ordering::Relaxed),
        started.elapsed().as_secs_f64()
    );
    if failed.load(Ordering::Relaxed) {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

fn what_is_wrong(result: std::thread::Result<Outcome>) -> Option<String> {
    match result {
        Ok(outcome) => outcome.violation,
        Err(panic) => {
            let text = panic
                .downcast_ref::<String>()
                .cloned()
                .or_else(|| panic.downcast_ref::<&str>().map(|s| s.to_string()))
                .unwrap_or_default();
            Some(format!("panicked: {text}"))
        }
    }
}
