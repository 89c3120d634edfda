//! Runs seeds.
//!
//!     simulate [--seeds N] [--from SEED | --commit HASH | --new] [--crowds] [--floods] [--canary NAME]
//!              [--take-over N | --process N]
//!     simulate --seed SEED [--trace] [--canary NAME] [--take-over N | --process N]
//!     simulate --again
//!
//! `--commit` takes the first seed from the first 48 bits of a commit's hash: each commit has its own seeds, and they
//! can be run again from the commit. `--new` takes it from the clock. `--again` runs the seeds that failed once.
//! `--take-over`: in every seed another process takes over after N of 1,000 steps; the traces stay the same.
//! `--process`: it does so as in the runtime, perhaps with another configuration.
//! `--crowds` runs only seeds whose clients share servers by flights, `--floods` only those that measure a flood.
#![allow(clippy::disallowed_methods, reason = "a program with arguments and an exit status")]

use pgweir_sim::simulation::canary::Canary;
use pgweir_sim::simulation::flood::has_flood;
use pgweir_sim::simulation::takeover::TakeOvers;
use pgweir_sim::simulation::topology::Topology;
use pgweir_sim::simulation::world::Outcome;
use pgweir_sim::simulation::{run_with, seeds};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

const USAGE: &str =
    "usage: simulate [--seeds N] [--from SEED | --commit HASH | --new] [--crowds] [--floods] [--canary NAME]
                [--take-over N | --process N]
       simulate --seed SEED [--trace] [--canary NAME] [--take-over N | --process N]
       simulate --again";

/// What to run.
struct Order {
    seeds: Vec<u64>,
    /// A single seed, with its details.
    one: Option<u64>,
    trace: bool,
    canary: Option<Canary>,
    /// How often another process takes over, if the command line says so; otherwise the seed decides.
    take_overs: Option<TakeOvers>,
}

impl Order {
    fn run(&self, seed: u64, canary: Option<Canary>, trace: bool) -> Outcome {
        let take_overs = self.take_overs.unwrap_or_else(|| TakeOvers::of_seed(seed));
        run_with(seed, canary, take_overs, trace)
    }

    fn replay(&self, seed: u64) -> String {
        let canary = self.canary.map_or(String::new(), |c| format!(" --canary {}", c.name()));
        let take_over = match self.take_overs {
            Some(TakeOvers::States(steps)) => format!(" --take-over {steps}"),
            Some(TakeOvers::Processes(steps)) => format!(" --process {steps}"),
            Some(TakeOvers::Never) => " --take-over 0".into(),
            None => String::new(),
        };
        format!("cargo run -p pgweir-sim --release --bin simulate -- --seed {seed} --trace{canary}{take_over}")
    }
}

fn main() -> ExitCode {
    let order = match order(std::env::args().skip(1)) {
        Ok(order) => order,
        Err(why) => {
            eprintln!("{why}");
            return ExitCode::FAILURE;
        }
    };
    match order.one {
        Some(seed) => one_seed(seed, &order),
        None => many_seeds(&order),
    }
}

fn order(mut words: impl Iterator<Item = String>) -> Result<Order, String> {
    let (mut count, mut from, mut again) = (1000, 0, false);
    let (mut crowds, mut floods) = (false, false);
    let mut order = Order {
        seeds: Vec::new(),
        one: None,
        trace: false,
        canary: None,
        take_overs: None,
    };
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(USAGE);
        let number = |text: String| text.parse::<u64>().map_err(|_| USAGE);
        match word.as_str() {
            "--seeds" => count = number(value()?)?,
            "--from" => from = number(value()?)?,
            "--commit" => from = seeds::of_commit(&value()?).ok_or("--commit needs a hash, in hexadecimal digits")?,
            "--new" => from = seeds_of_now(),
            "--again" => again = true,
            "--crowds" => crowds = true,
            "--floods" => floods = true,
            "--seed" => order.one = Some(number(value()?)?),
            "--trace" => order.trace = true,
            "--canary" => {
                let name = value()?;
                let names: Vec<String> = Canary::all().into_iter().map(Canary::name).collect();
                order.canary = Canary::all().into_iter().find(|c| c.name() == name);
                order.canary.ok_or_else(|| format!("canaries: {}", names.join(", ")))?;
            }
            "--take-over" => {
                order.take_overs = Some(match number(value()?)? {
                    0 => TakeOvers::Never,
                    steps => TakeOvers::States(steps),
                });
            }
            "--process" => order.take_overs = Some(TakeOvers::Processes(number(value()?)?)),
            _ => return Err(USAGE.into()),
        }
    }
    order.seeds = if again {
        seeds::that_failed()
    } else {
        let of_crowds = |seed: &u64| !crowds || Topology::new(*seed).crowds();
        let wanted = (from..).filter(of_crowds).filter(|seed| !floods || has_flood(*seed));
        wanted.take(usize::try_from(count).unwrap_or(usize::MAX)).collect()
    };
    Ok(order)
}

/// Seeds that have not been run before: 48 bits of the clock.
fn seeds_of_now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.as_micros() as u64 & seeds::FIRST_MAX
}

fn one_seed(seed: u64, order: &Order) -> ExitCode {
    println!("{}", Topology::new(seed));
    let outcome = order.run(seed, order.canary, order.trace);
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
            println!("{why}\nreplay: {}", order.replay(seed));
            ExitCode::FAILURE
        }
    }
}

fn many_seeds(order: &Order) -> ExitCode {
    let (seeds, canary) = (&order.seeds, order.canary);
    let started = Instant::now();
    let next = AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    let (answered, steps, failures) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let shared = AtomicU64::new(0);
    // The hash is the same before and after a change that must not change behaviour.
    let traces = AtomicU64::new(0);
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let Some(&seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed)) else {
                        return;
                    };
                    let result = catch_unwind(AssertUnwindSafe(|| order.run(seed, canary, false)));
                    if let Ok(outcome) = &result {
                        answered.fetch_add(outcome.answered, Ordering::Relaxed);
                        steps.fetch_add(outcome.steps, Ordering::Relaxed);
                        shared.fetch_add(outcome.shared, Ordering::Relaxed);
                        traces.fetch_xor(outcome.trace, Ordering::Relaxed);
                    }
                    // A canary counts as caught if the seed succeeds without it.
                    let caught = |_: &String| canary.is_none() || order.run(seed, None, false).violation.is_none();
                    if let Some(why) = what_is_wrong(result).filter(caught) {
                        failures.fetch_add(1, Ordering::Relaxed);
                        // The first failure is printed in full: topology first, replay command last.
                        if !failed.swap(true, Ordering::Relaxed) {
                            println!(
                                "{}seed {seed}: {why}\nreplay: {}",
                                Topology::new(seed),
                                order.replay(seed)
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
        "{} seeds from {}: {} failed; {} segments answered, {} of them on shared servers, in {} steps; traces {:016x}; {:.1} s",
        seeds.len(),
        seeds.first().unwrap_or(&0),
        failures.load(Ordering::Relaxed),
        answered.load(Ordering::Relaxed),
        shared.load(Ordering::Relaxed),
        steps.load(Ordering::Relaxed),
        traces.load(Ordering::Relaxed),
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
