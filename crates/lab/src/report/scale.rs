//! Axes: from values to pixels, and where the ticks stand.

use super::Unit;

/// How an axis is named and divided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Axis {
    pub(super) label: String,
    pub(super) unit: Unit,
    pub(super) log: bool,
}

impl Axis {
    /// An axis that begins at zero. `label` says what is measured: `TPS`, `clients`.
    pub fn linear(label: impl Into<String>, unit: Unit) -> Self {
        Axis {
            label: label.into(),
            unit,
            log: false,
        }
    }

    /// A logarithmic axis. Values that are not above zero have no place on it and are left out.
    pub fn log(label: impl Into<String>, unit: Unit) -> Self {
        Axis {
            label: label.into(),
            unit,
            log: true,
        }
    }

    /// Whether the axis has a place for this value.
    pub(super) fn holds(&self, value: f64) -> bool {
        value.is_finite() && if self.log { value > 0.0 } else { value >= 0.0 }
    }

    /// The scale on which all of `values` have a place.
    pub(super) fn scale(&self, values: impl Iterator<Item = f64>, ticks_max: usize) -> Scale {
        let (mut low, mut high) = (f64::INFINITY, 0.0_f64);
        for value in values.filter(|v| self.holds(*v)) {
            low = low.min(value);
            high = high.max(value);
        }
        if self.log {
            self.log_scale(
                if low.is_finite() { low } else { 1.0 },
                high.max(f64::MIN_POSITIVE),
                ticks_max,
            )
        } else {
            self.linear_scale(high, ticks_max)
        }
    }

    fn linear_scale(&self, high: f64, ticks_max: usize) -> Scale {
        let high = if high > 0.0 { high } else { 1.0 };
        let step = self.step(high / (ticks_max.max(2) - 1) as f64);
        let count = (high / step - 1e-9).ceil().max(1.0) as usize;
        Scale {
            log: false,
            low: 0.0,
            high: step * count as f64,
            ticks: (0..=count).map(|i| step * i as f64).collect(),
        }
    }

    /// The smallest round step that is at least `least`.
    fn step(&self, least: f64) -> f64 {
        match self.unit {
            Unit::Bytes => 2.0_f64.powf(least.log2().ceil()),
            _ => {
                let power = 10.0_f64.powf(least.log10().floor());
                let round = [1.0, 2.0, 2.5, 5.0, 10.0].map(|m| m * power);
                round
                    .into_iter()
                    .find(|s| *s >= least * (1.0 - 1e-9))
                    .unwrap_or(round[4])
            }
        }
    }

    fn log_scale(&self, low: f64, high: f64, ticks_max: usize) -> Scale {
        let high = high.max(low);
        // From coarse to fine, the last that does not have too many ticks; the coarsest where all have.
        let mut ways = self.log_ticks(low, high);
        let fitting = ways
            .iter()
            .rposition(|ticks| (2..=ticks_max.max(2)).contains(&ticks.len()));
        let ticks = ways.swap_remove(fitting.unwrap_or(0));
        let (first, last) = (ticks[0], ticks[ticks.len() - 1]);
        Scale {
            log: true,
            low: first,
            // One value alone is an axis, too.
            high: if last > first { last } else { first * 2.0 },
            ticks,
        }
    }

    /// Ways to divide an axis, coarse to fine: powers of 4 and 2 for bytes; 1, 1-3, 1-2-5 of each power of ten.
    fn log_ticks(&self, low: f64, high: f64) -> Vec<Vec<f64>> {
        let ladders: &[(f64, &[f64])] = match self.unit {
            Unit::Bytes => &[(16.0, &[1.0]), (4.0, &[1.0]), (2.0, &[1.0])],
            _ => &[
                (100.0, &[1.0]),
                (10.0, &[1.0]),
                (10.0, &[1.0, 3.0]),
                (10.0, &[1.0, 2.0, 5.0]),
            ],
        };
        ladders
            .iter()
            .map(|(base, steps)| rungs(*base, steps, low, high))
            .collect()
    }

    /// A scale with ticks at the measured values themselves: on an axis of clients or sizes those are what one wants to
    /// read. Where two would touch, the later one goes.
    pub(super) fn scale_at(&self, values: &[f64], width: f64, label_width: impl Fn(&str) -> f64) -> Scale {
        let mut sorted: Vec<f64> = values.iter().copied().filter(|v| self.holds(*v)).collect();
        sorted.sort_by(f64::total_cmp);
        sorted.dedup();
        let (Some(low), Some(high)) = (sorted.first().copied(), sorted.last().copied()) else {
            return self.scale(std::iter::empty(), 4);
        };
        let mut scale = Scale {
            log: true,
            low,
            high: if high > low { high } else { low * 2.0 },
            ticks: Vec::new(),
        };
        let mut free_from = f64::NEG_INFINITY;
        for value in sorted {
            let half = label_width(&self.unit.tick(value)) / 2.0;
            let middle = scale.share(value) * width;
            if middle - half >= free_from {
                scale.ticks.push(value);
                free_from = middle + half + 8.0;
            }
        }
        scale
    }
}

/// The multiples of powers of `base` from the last one at or below `low` to the first at or above `high`.
fn rungs(base: f64, steps: &[f64], low: f64, high: f64) -> Vec<f64> {
    let mut power = (low.ln() / base.ln()).floor() as i32;
    let mut found: Vec<f64> = Vec::new();
    loop {
        for step in steps {
            let rung = step * base.powi(power);
            if rung <= low * (1.0 + 1e-9) {
                found.clear();
            }
            found.push(rung);
            if rung >= high * (1.0 - 1e-9) {
                return found;
            }
        }
        power += 1;
    }
}

/// A range of values with its ticks.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Scale {
    log: bool,
    low: f64,
    high: f64,
    /// Ascending; within the range.
    pub(super) ticks: Vec<f64>,
}

impl Scale {
    /// Where a value lies, 0 at the low end and 1 at the high one; values outside are put at the ends.
    pub(super) fn share(&self, value: f64) -> f64 {
        let share = if self.log {
            (value.max(f64::MIN_POSITIVE) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        share.clamp(0.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(axis: &Axis, values: &[f64], max: usize) -> Vec<f64> {
        axis.scale(values.iter().copied(), max).ticks
    }

    #[test]
    fn linear_axes_begin_at_zero_and_end_at_a_round_number() {
        let tps = Axis::linear("TPS", Unit::Number);
        assert_eq!(
            ticks(&tps, &[1249.0, 1140.0], 6),
            [0.0, 250.0, 500.0, 750.0, 1000.0, 1250.0]
        );
        assert_eq!(ticks(&tps, &[0.3], 4), [0.0, 0.1, 0.2, 0.30000000000000004]);
        assert_eq!(ticks(&tps, &[], 3), [0.0, 0.5, 1.0]);
        assert_eq!(ticks(&tps, &[f64::NAN, 0.0], 3), [0.0, 0.5, 1.0]);
        let memory = Axis::linear("memory", Unit::Bytes);
        let gb = 1024.0 * 1024.0 * 1024.0;
        assert_eq!(ticks(&memory, &[3.1 * gb], 5), [0.0, gb, 2.0 * gb, 3.0 * gb, 4.0 * gb]);
    }

    #[test]
    fn log_axes_enclose_their_values() {
        let latency = Axis::log("latency", Unit::Milliseconds);
        let scale = latency.scale([0.6, 500.0].into_iter(), 6);
        assert_eq!(scale.ticks, [0.1, 1.0, 10.0, 100.0, 1000.0]);
        assert_eq!(scale.share(0.1), 0.0);
        assert_eq!(scale.share(1000.0), 1.0);
        assert!((scale.share(10.0) - 0.5).abs() < 1e-9);
        assert_eq!(ticks(&latency, &[2.0, 9.0], 6), [2.0, 5.0, 10.0]);
        assert_eq!(ticks(&latency, &[5.0], 6), [3.0, 10.0]);
        // Zero has no place, and does not make the axis endless.
        assert_eq!(ticks(&latency, &[0.0, 1.0, 100.0], 4), [1.0, 10.0, 100.0]);
        assert_eq!(latency.scale(std::iter::empty(), 4).share(5.0), 1.0);
    }

    #[test]
    fn ticks_at_measured_values_do_not_touch() {
        let clients = Axis::log("clients", Unit::Number);
        let measured = [1.0, 2.0, 4.0, 8.0, 12.0, 14.0, 16.0, 32.0];
        let wide = clients.scale_at(&measured, 800.0, |label| 8.0 * label.len() as f64);
        assert_eq!(wide.ticks, measured);
        let narrow = clients.scale_at(&measured, 200.0, |label| 8.0 * label.len() as f64);
        assert_eq!(narrow.ticks, [1.0, 2.0, 4.0, 8.0, 12.0, 32.0]);
        let one = clients.scale_at(&[8.0], 200.0, |_| 8.0);
        assert_eq!((one.ticks.as_slice(), one.share(8.0)), ([8.0].as_slice(), 0.0));
    }
}
