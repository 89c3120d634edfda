//! Progress on standard error: which step runs, how it goes, and the time left. At a terminal this is one line, which
//! is refreshed.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// This much time counts as having gone as planned, before any step has run.
const PACE_SUPPOSED_FOR: Duration = Duration::from_secs(3);

/// The progress of a command, step by step.
#[derive(Debug)]
pub struct Progress {
    terminal: bool,
    /// The steps, and the time that each should take. Steps that were not planned are added.
    planned: usize,
    left: Duration,
    step: usize,
    /// The planned and the actual time of the steps that have ended.
    done: (Duration, Duration),
    /// The running step: its words, its planned time, its start.
    running: Option<(String, Duration, Instant)>,
}

impl Default for Progress {
    fn default() -> Self {
        Progress::new()
    }
}

impl Progress {
    /// Nothing planned yet.
    pub fn new() -> Self {
        Progress {
            terminal: std::io::stderr().is_terminal(),
            planned: 0,
            left: Duration::ZERO,
            step: 0,
            done: (Duration::ZERO, Duration::ZERO),
            running: None,
        }
    }

    /// Adds this many steps to the plan, which take this long together.
    pub fn plan(&mut self, steps: usize, time: Duration) {
        self.planned += steps;
        self.left += time;
    }

    /// Replaces the plan: this many steps will come, which take this long together.
    pub fn plan_rest(&mut self, steps: usize, time: Duration) {
        self.planned = self.step + steps;
        self.left = time;
    }

    /// The same where the new plan follows from what the steps before have taken: it is not corrected by that once more.
    pub fn plan_rest_as_measured(&mut self, steps: usize, time: Duration) {
        self.plan_rest(steps, time);
        self.done = (Duration::ZERO, Duration::ZERO);
    }

    /// Removes steps from the plan that will not come.
    pub fn unplan(&mut self, steps: usize, time: Duration) {
        self.planned = self.planned.saturating_sub(steps).max(self.step);
        self.left = self.left.saturating_sub(time);
    }

    /// A step begins; `planned` is the time that it should take.
    pub fn begin(&mut self, what: &str, planned: Duration) {
        self.step += 1;
        self.planned = self.planned.max(self.step);
        self.left = self.left.max(planned);
        self.running = Some((what.to_owned(), planned, Instant::now()));
        if self.terminal {
            self.live("");
        } else {
            crate::tell(&format!("{}\n", self.line()));
        }
    }

    /// As the running step goes, it will have taken this long in the end.
    pub fn expect(&mut self, all: Duration) {
        let pace = self.pace();
        let Some((_, planned, started)) = &mut self.running else {
            return;
        };
        let elapsed = started.elapsed();
        // What is left is shown times the pace, which is known here already.
        let anew = elapsed + all.saturating_sub(elapsed).div_f64(pace);
        self.left = self.left.saturating_sub(*planned) + anew;
        *planned = anew;
    }

    /// How the step goes now, such as `12,345 TPS`. Shown only where the line can be refreshed.
    pub fn live(&mut self, how: &str) {
        if self.terminal && self.running.is_some() {
            let gap = if how.is_empty() { "" } else { "  " };
            crate::tell(&format!("\r\x1b[K{}{gap}{how}", self.line()));
        }
    }

    /// The step has ended, in this way.
    pub fn done(&mut self, result: &str) {
        let Some((what, planned, started)) = self.running.take() else {
            return;
        };
        self.done.0 += planned;
        self.done.1 += started.elapsed();
        self.left = self.left.saturating_sub(planned);
        if self.terminal {
            crate::tell(&format!("\r\x1b[K[{}/{}] {what}: {result}\n", self.step, self.planned));
        } else {
            crate::tell(&format!("      {result}\n"));
        }
    }

    fn line(&self) -> String {
        let Some((what, planned, started)) = &self.running else {
            return String::new();
        };
        let left = self.left.saturating_sub(started.elapsed().min(*planned));
        format!(
            "[{}/{}] {what} (about {} left)",
            self.step,
            self.planned,
            duration_words(left.mul_f64(self.pace()))
        )
    }

    /// The actual time of steps for each second planned: starting programs, connecting and vacuuming take their own
    /// time on each machine and server. The first steps alone do not decide it.
    fn pace(&self) -> f64 {
        let (planned, taken) = self.done;
        (taken + PACE_SUPPOSED_FOR).as_secs_f64() / (planned + PACE_SUPPOSED_FOR).as_secs_f64()
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.terminal && self.running.is_some() {
            crate::tell("\n");
        }
    }
}

/// `45 s`, `3 min`, `2 h 10 min`
pub fn duration_words(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", seconds.div_ceil(60)),
        seconds => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The seconds that the line shows.
    fn left(progress: &Progress) -> u64 {
        let line = progress.line();
        let (_, told) = line.split_once("(about ").unwrap();
        told.strip_suffix(" s left)").unwrap().parse().unwrap()
    }

    /// Guards against an estimate that stays wrong if every step takes longer than planned.
    #[test]
    fn the_time_left_follows_what_the_steps_take() {
        let mut progress = Progress::new();
        progress.plan(3, Duration::from_secs(30));
        progress.begin("one", Duration::from_secs(10));
        // The clock moves in the meantime.
        assert!((25..=30).contains(&left(&progress)));
        progress.running.as_mut().unwrap().2 = Instant::now().checked_sub(Duration::from_secs(23)).unwrap();
        assert!((15..=20).contains(&left(&progress)));
        progress.done("");
        progress.begin("two", Duration::from_secs(10));
        // (23 + 3) / (10 + 3) = 2 seconds for each second planned.
        assert!((35..=40).contains(&left(&progress)));
    }

    #[test]
    fn what_is_planned_anew_replaces_the_plan() {
        let mut progress = Progress::new();
        progress.plan(5, Duration::from_secs(50));
        progress.begin("one", Duration::from_secs(1));
        progress.done("");
        progress.plan_rest(2, Duration::from_secs(8));
        progress.begin("two", Duration::from_secs(4));
        assert!(progress.line().starts_with("[2/3] two (about "), "{}", progress.line());
    }

    /// Guards against an estimate that is corrected twice: an opening planned with 130 s took 260 s, and the plan of the
    /// rest has that time already.
    #[test]
    fn a_plan_from_what_was_measured_is_not_corrected_again() {
        let mut progress = Progress::new();
        progress.plan(2, Duration::from_secs(260));
        progress.begin("opening", Duration::from_secs(130));
        progress.running.as_mut().unwrap().2 = Instant::now().checked_sub(Duration::from_secs(260)).unwrap();
        progress.done("");
        progress.plan_rest_as_measured(1, Duration::from_secs(100));
        progress.begin("opening", Duration::from_secs(100));
        assert!((95..=100).contains(&left(&progress)), "{}", progress.line());
    }

    /// Guards against an estimate that waits for the end of a long step: a quarter of it has taken 100 s.
    #[test]
    fn a_step_that_goes_slower_is_expected_to_take_longer() {
        let mut progress = Progress::new();
        progress.plan(3, Duration::from_secs(70));
        progress.begin("a run", Duration::from_secs(7));
        progress.running.as_mut().unwrap().2 = Instant::now().checked_sub(Duration::from_secs(17)).unwrap();
        progress.done("");
        // Each second planned takes two: (17 + 3) / (7 + 3).
        progress.begin("opening", Duration::from_secs(50));
        progress.running.as_mut().unwrap().2 = Instant::now().checked_sub(Duration::from_secs(100)).unwrap();
        progress.expect(Duration::from_secs(400));
        // 300 s of it, and 13 s planned for what comes then.
        let shown = progress.line();
        assert!(shown.ends_with("(about 6 min left)"), "{shown}");
        let left = progress
            .left
            .saturating_sub(Duration::from_secs(100))
            .mul_f64(progress.pace());
        assert!((left.as_secs_f64() - 326.0).abs() < 2.0, "{left:?}");
    }

    #[test]
    fn times_in_words() {
        for (seconds, words) in [(0, "0 s"), (119, "119 s"), (121, "3 min"), (7800, "2 h 10 min")] {
            assert_eq!(duration_words(Duration::from_secs(seconds)), words);
        }
    }
}
