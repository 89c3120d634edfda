//! What runs, how long still, and how it goes: lines on standard error, at a terminal one that is refreshed.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// The progress of a command, step by step.
#[derive(Debug)]
pub struct Progress {
    terminal: bool,
    /// Steps, and the time that each should take; what comes unplanned is added.
    planned: usize,
    left: Duration,
    step: usize,
    /// The step that runs: its words, its planned time, its start.
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
            running: None,
        }
    }

    /// So many more steps will come, which take so long together.
    pub fn plan(&mut self, steps: usize, time: Duration) {
        self.planned += steps;
        self.left += time;
    }

    /// Some of what was planned will not come.
    pub fn unplan(&mut self, steps: usize, time: Duration) {
        self.planned = self.planned.saturating_sub(steps).max(self.step);
        self.left = self.left.saturating_sub(time);
    }

    /// A step begins; `planned` is what it should take.
    pub fn begin(&mut self, what: &str, planned: Duration) {
        self.step += 1;
        self.planned = self.planned.max(self.step);
        self.left = self.left.max(planned);
        self.running = Some((what.to_owned(), planned, Instant::now()));
        if self.terminal {
            self.live("");
        } else {
            eprintln!("{}", self.line());
        }
    }

    /// How the step goes right now, such as `12,345 TPS`. Not shown where no line can be refreshed.
    pub fn live(&mut self, how: &str) {
        if self.terminal && self.running.is_some() {
            let gap = if how.is_empty() { "" } else { "  " };
            eprint!("\r\x1b[K{}{gap}{how}", self.line());
            let _ = std::io::stderr().flush();
        }
    }

    /// The step has ended so.
    pub fn done(&mut self, result: &str) {
        let Some((what, planned, _)) = self.running.take() else {
            return;
        };
        self.left = self.left.saturating_sub(planned);
        if self.terminal {
            eprintln!("\r\x1b[K[{}/{}] {what}: {result}", self.step, self.planned);
        } else {
            eprintln!("      {result}");
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
            duration_words(left)
        )
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.terminal && self.running.is_some() {
            eprintln!();
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

/// `12,345`, and `3.4` below ten.
pub fn number_words(number: f64) -> String {
    if number.abs() < 10.0 && number.fract() != 0.0 {
        return format!("{number:.1}");
    }
    let digits = format!("{:.0}", number.abs());
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if number < 0.0 { format!("-{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_times_in_words() {
        for (number, words) in [
            (0.0, "0"),
            (3.42, "3.4"),
            (999.6, "1,000"),
            (1_234_567.0, "1,234,567"),
            (-1500.0, "-1,500"),
        ] {
            assert_eq!(number_words(number), words);
        }
        for (seconds, words) in [(0, "0 s"), (119, "119 s"), (121, "3 min"), (7800, "2 h 10 min")] {
            assert_eq!(duration_words(Duration::from_secs(seconds)), words);
        }
    }
}
