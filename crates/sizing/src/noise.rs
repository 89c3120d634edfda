//! How far two windows at the same limit differ.

use crate::meter::Window;

/// Windows that the first guess counts as.
const GUESS_WINDOWS: f64 = 3.0;
/// Relative variance of requests of one class, as a first guess.
const GUESS_VARIANCE: f64 = 0.4;
/// The estimate follows the latest so many windows.
const MEMORY_WINDOWS: f64 = 40.0;
/// A difference beyond so many variances counts as this many.
const CLIP: f64 = 9.0;
/// Variance that is there however many completions a window has.
const FLOOR: f64 = 2e-5;

/// Estimate of the variance of a window's logarithm of work per second.
#[derive(Debug, Clone, Default)]
pub(crate) struct Noise {
    windows: f64,
    variance: f64,
    completions: f64,
    latest: Option<(usize, f64)>,
}

/// A first guess at the variance of a window: servers that are always busy complete requests of one class evenly, but
/// which classes they complete is chance.
fn guess(window: &Window) -> f64 {
    let even = (1.0 - GUESS_VARIANCE) * window.effective / window.completions;
    (1.0 - even) / window.effective + FLOOR
}

impl Noise {
    /// A window at rung `at` showed `value`.
    pub(crate) fn saw(&mut self, at: usize, value: f64, window: &Window) {
        let completions = window.effective;
        if self.windows == 0.0 {
            (self.variance, self.completions, self.windows) = (guess(window), completions, GUESS_WINDOWS);
        }
        if let Some((rung, before)) = self.latest
            && rung == at
        {
            let square = ((value - before).powi(2) / 2.0).min(CLIP * self.variance);
            self.windows = (self.windows + 1.0).min(MEMORY_WINDOWS);
            self.variance += (square - self.variance) / self.windows;
            self.completions += (completions - self.completions) / self.windows;
        }
        self.latest = Some((at, value));
    }

    /// Variance of such a window.
    pub(crate) fn variance(&self, window: &Window) -> f64 {
        if self.windows == 0.0 {
            return guess(window);
        }
        let scale = (self.completions / window.effective).max(0.25);
        (self.variance * scale).max(guess(window) / 4.0)
    }

    /// By how much a difference must be the greater because the variance is itself only estimated, as in Student's test.
    pub(crate) fn doubt(&self) -> f64 {
        1.0 + 2.0 / self.windows.max(GUESS_WINDOWS)
    }

    /// The next window does not follow the last one.
    pub(crate) fn interrupt(&mut self) {
        self.latest = None;
    }

    /// Begins anew.
    pub(crate) fn forget(&mut self) {
        *self = Noise::default();
    }
}
