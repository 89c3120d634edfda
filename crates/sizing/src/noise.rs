//! How far two windows at the same limit differ.
//!
//! The estimate is kept for one completion, so that it holds for windows with many completions and with few: when
//! requests become 100 times as long, the windows before say how noisy those after are.

use crate::meter::Window;

/// Windows that the first guess counts as.
const GUESS_WINDOWS: f64 = 3.0;
/// Relative variance of requests of one class, as a first guess.
const GUESS_VARIANCE: f64 = 0.4;
/// The estimate follows about this many of the latest windows.
const MEMORY_WINDOWS: f64 = 40.0;
/// A squared difference above this many variances counts as this many.
const CLIP: f64 = 9.0;
/// Variance that is there however many completions a window has.
const FLOOR: f64 = 2e-5;

/// Estimate of the variance of a window's logarithm of work per second.
#[derive(Debug, Clone, Default, pgweir_freeze::Freeze)]
pub(crate) struct Noise {
    windows: f64,
    /// Variance of a window with one completion; a window with n completions has the n-th part of it.
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
            (self.variance, self.completions, self.windows) = (guess(window) * completions, completions, GUESS_WINDOWS);
        }
        if let Some((rung, before)) = self.latest
            && rung == at
        {
            let square = ((value - before).powi(2) / 2.0 * completions).min(CLIP * self.variance);
            self.windows = (self.windows + 1.0).min(MEMORY_WINDOWS);
            self.variance += (square - self.variance) / self.windows;
            self.completions += (completions - self.completions) / self.windows;
        }
        self.latest = Some((at, value));
    }

    pub(crate) fn variance(&self, window: &Window) -> f64 {
        if self.windows == 0.0 {
            return guess(window);
        }
        let completions = window.effective.min(4.0 * self.completions);
        (self.variance / completions).max(guess(window) / 4.0)
    }

    /// The factor by which a difference must be greater because the variance itself is only estimated, as in Student's
    /// test.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn window(effective: f64) -> Window {
        Window {
            effective,
            completions: effective,
            ..Window::default()
        }
    }

    #[test]
    fn windows_with_many_completions_say_how_noisy_those_with_few_are() {
        let mut noise = Noise::default();
        // Each request varies by 30 %.
        let mut see = |completions: f64, count: u32, level: f64| {
            let mut worst = 0.0f64;
            for turn in 0..count {
                let swing = 0.3 / completions.sqrt();
                noise.saw(
                    0,
                    level + if turn % 2 == 0 { swing } else { -swing },
                    &window(completions),
                );
                worst = worst.max(noise.variance(&window(completions)) * completions);
            }
            worst
        };
        see(2_000.0, 100, 16.0);
        let after = see(28.0, 100, 10.0);
        assert!(after < 0.5, "variance {after} of one request, beside 0.2");
    }
}
