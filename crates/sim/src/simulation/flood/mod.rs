//! A flood: the same messages, texts or clients again and again, thousands of times.
//!
//! In the other simulations work that grows with the square of what a client sends would go unnoticed: they are small.
//! Here a flood is played twice, the second one eight times as long, and the processor time of the core is compared. Time
//! is no exact measure, so a suspicion is checked by longer floods, more than once.

mod driver;
mod plan;

use super::canary::Canary;
use driver::Driver;
use plan::Plan;
use std::time::Duration;

/// One seed in this many has a flood.
const SEEDS_WITH_FLOOD: u64 = 32;

/// How many times as long the long flood is.
const LONGER: usize = 8;

/// Repetitions in a short flood, and in those that check a suspicion: more, because behind a limit the cost may not grow,
/// or begin: the core is not called for the first 64 KiB of a message.
const SHORT: [usize; 4] = [250, 1000, 4000, 16_000];

/// After a check that takes this long there is no further one, which would take too long itself.
const ENOUGH: Duration = Duration::from_secs(1);

/// The long flood may take this many times as long as the short one: caches are missed more often, tables grow. The
/// square would be 64, but in the first floods other costs hide much of it.
const TIMES_MAX: [u32; 4] = [12, 20, 20, 20];

/// A long flood that takes less for each repetition is no suspicion: memory that the kernel gives for the first time may
/// cost as much.
const LEAST: Duration = Duration::from_micros(10);

/// Whether a seed has a flood.
pub fn has_flood(seed: u64) -> bool {
    seed % SEEDS_WITH_FLOOD == 3
}

/// Runs the flood of a seed, if it has one. Returns what went wrong.
pub(super) fn run(seed: u64, canary: Option<Canary>) -> Option<String> {
    if !has_flood(seed) || !canary.is_none_or(Canary::is_of_floods) {
        return None;
    }
    let plan = Plan::new(seed);
    let mut wrong = None;
    for (count, times_max) in SHORT.into_iter().zip(TIMES_MAX) {
        let (short, long) = grows_too_fast(&plan, canary, count, times_max)?;
        wrong = Some(format!(
            "the core takes {short:?} for a flood of {count}, and {long:?} for one that is {LONGER} times as long\n{plan:#?}"
        ));
        if count > SHORT[0] && long > ENOUGH {
            break;
        }
    }
    wrong
}

/// The times of a short and a long flood, if the long one takes too long.
fn grows_too_fast(plan: &Plan, canary: Option<Canary>, count: usize, times_max: u32) -> Option<(Duration, Duration)> {
    let time = |count| Driver::new(plan, canary).plays(plan, count).spent;
    let (short, long) = (time(count), time(count * LONGER));
    let is_cheap = long < LEAST * (count * LONGER) as u32;
    (!is_cheap && long > short * times_max).then_some((short, long))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The least that a message takes, with its header.
    const MESSAGE_BYTES: usize = 5;

    /// Guards against floods that end at the first message: their cost would never grow.
    #[test]
    fn most_floods_reach_the_servers() {
        let bytes = |plan: &Plan, count| Driver::new(plan, None).plays(plan, count).server_bytes;
        let plans = (0..100).map(Plan::new);
        // Besides, a server is sent the pooler's own statements.
        let grow = |plan: &Plan| bytes(plan, 80) - bytes(plan, 10) >= 70 * MESSAGE_BYTES;
        let reaching = plans.filter(grow).count();
        assert!(reaching > 90, "{reaching} of 100");
    }
}
