//! Counts completions by class, and says how much work a window of time has seen.
//!
//! A completion counts as much as its class costs: the mean service time of the class, relative to that of the other
//! classes. A window in which only the mix has changed then shows the same work as the one before. Service times change
//! with the limit, too, but those of all classes together. So the costs are kept relative to how slow the server is at
//! the time, and what remains is the work itself.

/// Classes that are told apart; the others share one.
const CLASSES_MAX: usize = 64;
/// Places of the hash table; a power of two, and more than classes, so that a search ends.
const PLACES: usize = 256;
/// Places looked at before a class is put with the others.
const STEPS_MAX: usize = 8;
/// A class's cost follows about this many of its latest completions.
const COST_MEMORY: f64 = 5_000.0;
/// The weight of one window in the long-term shares of the classes.
const SHARE_WEIGHT: f64 = 0.1;

/// One class: what the present window has seen of it, and what is known of it.
#[derive(Debug, Clone, Copy, Default, pgweir_freeze::Freeze)]
struct Class {
    count: u32,
    service_us: u64,
    /// Relative cost; 0 until it is known.
    cost: f64,
    /// Completions that the cost was learnt from, at most [`COST_MEMORY`].
    seen: f64,
    /// Share of the service time over the last windows.
    share: f64,
}

/// What a window has seen.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Window {
    pub(crate) seconds: f64,
    pub(crate) completions: f64,
    /// How many completions of equal cost would say as much.
    pub(crate) effective: f64,
    /// Work completed per second, in the unit of the class costs.
    pub(crate) rate: f64,
    /// Servers at work, on average.
    pub(crate) active: f64,
    /// How long the requests last that make up the work: mean service time of the classes in seconds, by their shares.
    pub(crate) service: f64,
    /// Share of the time in which no request waited.
    pub(crate) dry: f64,
    /// Longest time without a completion, in seconds.
    pub(crate) gap: f64,
    /// How much of the service time belongs to other classes than before, 0 to 1.
    pub(crate) strange: f64,
    /// How slow the server was: service time of a unit of cost.
    pub(crate) slowness: f64,
}

#[derive(Debug, Clone, pgweir_freeze::Freeze)]
pub(crate) struct Meter {
    began_us: u64,
    latest_us: u64,
    gap_us: u64,
    /// Time in which nobody waited, and whether that is so since the latest completion.
    dry_us: u64,
    dry: bool,
    completions: u32,
    /// The shares of the classes are not known yet.
    fresh: bool,
    /// Place -> (class key, its number + 1); number 0 means that the place is free.
    places: Box<[(u32, u8); PLACES]>,
    /// The first is for all classes that have no entry of their own.
    classes: Vec<Class>,
}

impl Meter {
    pub(crate) fn new(now_us: u64) -> Self {
        let mut classes = Vec::with_capacity(CLASSES_MAX);
        classes.push(Class::default());
        Meter {
            began_us: now_us,
            latest_us: now_us,
            gap_us: 0,
            dry_us: 0,
            dry: false,
            completions: 0,
            fresh: true,
            places: Box::new([(0, 0); PLACES]),
            classes,
        }
    }

    pub(crate) fn completed(&mut self, now_us: u64, key: u32, service_us: u64, waited: bool) {
        let at = self.number_of(key);
        let class = &mut self.classes[at];
        class.count += 1;
        class.service_us += service_us;
        self.completions += 1;
        let gap_us = now_us.saturating_sub(self.latest_us);
        self.gap_us = self.gap_us.max(gap_us);
        self.dry_us += if self.dry { gap_us } else { 0 };
        self.dry = !waited;
        self.latest_us = now_us;
    }

    fn number_of(&mut self, key: u32) -> usize {
        let home = (key.wrapping_mul(0x9e37_79b1) >> 16) as usize;
        for step in 0..STEPS_MAX {
            let place = &mut self.places[(home + step) % PLACES];
            if place.1 == 0 {
                if self.classes.len() == CLASSES_MAX {
                    return 0;
                }
                *place = (key, self.classes.len() as u8);
                self.classes.push(Class::default());
            }
            if place.0 == key {
                return usize::from(place.1);
            }
        }
        0
    }

    /// How many completions of equal cost would say as much as those of the window so far: if a few of them make up
    /// most of the work, only these few count. Classes that are missing by chance count as well, with their usual
    /// share.
    pub(crate) fn effective(&self) -> f64 {
        let (mut work, mut squares, mut usual) = (0.0, 0.0, 0.0);
        for class in &self.classes {
            let count = f64::from(class.count);
            let known = class.cost > 0.0 || class.count == 0;
            let cost = if known {
                class.cost
            } else {
                class.service_us as f64 / count
            };
            work += count * cost;
            squares += count * cost * cost;
            usual += class.share * cost;
        }
        if work > 0.0 {
            work / usual.max(squares / work)
        } else {
            0.0
        }
    }

    /// Seconds since the latest completion, or since the window began.
    pub(crate) fn silence(&self, now_us: u64) -> f64 {
        now_us.saturating_sub(self.latest_us) as f64 / 1e6
    }

    /// Whether a request waited at the latest completion.
    pub(crate) fn somebody_waits(&self) -> bool {
        !self.dry
    }

    /// Begins a window, and drops what the last one has seen.
    pub(crate) fn begin(&mut self, now_us: u64) {
        for class in &mut self.classes {
            class.count = 0;
            class.service_us = 0;
        }
        (self.began_us, self.latest_us) = (now_us, now_us);
        (self.gap_us, self.dry_us, self.completions) = (0, 0, 0);
    }

    /// Ends the window, and begins the next one. None if it has seen nothing.
    pub(crate) fn end(&mut self, now_us: u64) -> Option<Window> {
        let seconds = now_us.saturating_sub(self.began_us) as f64 / 1e6;
        let total_us: u64 = self.classes.iter().map(|class| class.service_us).sum();
        if self.completions == 0 || total_us == 0 || seconds <= 0.0 {
            self.begin(now_us);
            return None;
        }
        let slowness = self.slowness();
        let effective = self.effective();
        let work = self.learn(slowness);
        let silence_us = now_us.saturating_sub(self.latest_us);
        let dry_us = self.dry_us + if self.dry { silence_us } else { 0 };
        let window = Window {
            seconds,
            completions: f64::from(self.completions),
            effective,
            rate: work / seconds,
            active: total_us as f64 / 1e6 / seconds,
            service: self.lasting(total_us as f64),
            dry: dry_us as f64 / 1e6 / seconds,
            gap: self.gap_us.max(silence_us) as f64 / 1e6,
            strange: self.strange(total_us as f64),
            slowness,
        };
        self.begin(now_us);
        Some(window)
    }

    /// Service time of a unit of cost in this window, in microseconds; 1 if no class of it is known.
    fn slowness(&self) -> f64 {
        let known = self.classes.iter().filter(|class| class.cost > 0.0);
        let (time, cost) = known.fold((0.0, 0.0), |(time, cost), class| {
            (
                time + class.service_us as f64,
                cost + f64::from(class.count) * class.cost,
            )
        });
        if cost > 0.0 { time / cost } else { 1.0 }
    }

    /// The work of the window; the costs that were known before count, and are corrected afterwards.
    fn learn(&mut self, slowness: f64) -> f64 {
        let mut work = 0.0;
        for class in self.classes.iter_mut().filter(|class| class.count > 0) {
            let count = f64::from(class.count);
            let now = class.service_us as f64 / count / slowness;
            if class.cost == 0.0 {
                class.cost = now;
            }
            work += count * class.cost;
            class.seen = (class.seen + count).min(COST_MEMORY.max(count));
            class.cost += (now - class.cost) * count / class.seen;
        }
        work
    }

    fn lasting(&self, total_us: f64) -> f64 {
        let seen = self.classes.iter().filter(|class| class.count > 0);
        let sum: f64 = seen
            .map(|class| (class.service_us as f64).powi(2) / f64::from(class.count))
            .sum();
        sum / total_us / 1e6
    }

    /// Takes the window into the long-term shares, and says how far it was from them.
    fn strange(&mut self, total_us: f64) -> f64 {
        let weight = if std::mem::take(&mut self.fresh) {
            1.0
        } else {
            SHARE_WEIGHT
        };
        let mut distance = 0.0;
        for class in &mut self.classes {
            let share = class.service_us as f64 / total_us;
            distance += (share - class.share).abs() / 2.0;
            class.share += (share - class.share) * weight;
        }
        if weight == 1.0 { 0.0 } else { distance }
    }

    /// Takes the next window's shares of the classes as the usual ones.
    pub(crate) fn forget_shares(&mut self) {
        self.fresh = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A window of one second with `counts` requests of classes that cost 1, 10, ... milliseconds, times `slowness`.
    fn window(meter: &mut Meter, counts: &[u32], slowness: u64) -> Window {
        let began_us = meter.began_us;
        for (class, &count) in counts.iter().enumerate() {
            for i in 0..count {
                let at_us = began_us + 1_000_000 * u64::from(i) / u64::from(count);
                meter.completed(at_us, class as u32, 1_000 * 10u64.pow(class as u32) * slowness, true);
            }
        }
        meter.end(began_us + 1_000_000).unwrap_or_default()
    }

    #[test]
    fn a_shift_of_the_mix_is_no_progress() {
        let mut meter = Meter::new(0);
        let before = window(&mut meter, &[1_000, 100], 1);
        let cheap = window(&mut meter, &[1_900, 10], 1);
        let expensive = window(&mut meter, &[100, 190], 1);
        assert!(
            (cheap.rate / before.rate - 1.0).abs() < 1e-6,
            "{cheap:?} after {before:?}"
        );
        assert!(
            (expensive.rate / before.rate - 1.0).abs() < 1e-6,
            "{expensive:?} after {before:?}"
        );
    }

    #[test]
    fn a_slower_server_does_less_work_however_the_costs_are_learnt() {
        let mut meter = Meter::new(0);
        let before = window(&mut meter, &[1_000, 100], 1);
        for _ in 0..100 {
            let slow = window(&mut meter, &[500, 50], 2);
            assert!(
                (slow.rate / before.rate - 0.5).abs() < 1e-6,
                "{slow:?} after {before:?}"
            );
            assert!((slow.slowness - 2.0).abs() < 1e-6, "{slow:?}");
        }
    }

    #[test]
    fn other_classes_are_strange() {
        let mut meter = Meter::new(0);
        assert_eq!(window(&mut meter, &[1_000], 1).strange, 0.0);
        assert!(window(&mut meter, &[1_000], 1).strange < 1e-9);
        assert!(window(&mut meter, &[0, 100], 1).strange > 0.99);
        meter.forget_shares();
        window(&mut meter, &[0, 100], 1);
        assert!(window(&mut meter, &[0, 100], 1).strange < 1e-9);
    }

    #[test]
    fn few_expensive_requests_say_as_much_as_their_number() {
        let mut meter = Meter::new(0);
        window(&mut meter, &[1_000, 0, 10], 1);
        let window = window(&mut meter, &[1_000, 0, 10], 1);
        assert!((35.0..45.0).contains(&window.effective), "{window:?}");
        assert!(window.service > 0.04, "{window:?}");
    }

    #[test]
    fn time_without_a_queue_is_counted() {
        let mut meter = Meter::new(0);
        meter.completed(100_000, 0, 10, true);
        meter.completed(400_000, 0, 10, false);
        meter.completed(600_000, 0, 10, true);
        let window = meter.end(1_000_000).unwrap_or_default();
        // Somebody waits until the contrary is known; nobody did after the second completion.
        assert!((window.dry - 0.2).abs() < 1e-9, "{window:?}");
        assert!((window.gap - 0.4).abs() < 1e-9, "{window:?}");
    }

    #[test]
    fn more_classes_than_are_kept_share_one() {
        let mut meter = Meter::new(0);
        for key in 0..100_000 {
            meter.completed(u64::from(key), key, 7, true);
        }
        assert_eq!(meter.classes.len(), CLASSES_MAX);
        assert!(meter.classes[0].count > 90_000);
    }
}
