//! Which classes of statements are known to be short. Flights of other classes share no server.

/// The mean time of the flights of a class that is short, microseconds.
pub(crate) const SHORT_US: u64 = 300;

/// After a flight that takes longer than this, microseconds, its class is no longer known to be short.
const LONG_US: u64 = 20_000;

/// The longest reply of a short flight, bytes.
const SHORT_REPLY_BYTES_MAX: usize = 16 * 1024;

/// Classes in one pool are kept in this many sets of [`WAYS`] places. The class decides the set.
const SETS: usize = 256;

/// Places of one set.
const WAYS: usize = 2;

/// A class keeps its place until this many flights of classes that have none have come to its set, and none of its own.
/// So two classes that are used by turns do not take each other's place.
const KEEPS: u8 = 16;

/// After this many flights the mean time of a class is relied on.
const PROVEN: u32 = 32;

/// After a long flight or a large reply, the mean time is relied on after this many flights.
const PROVEN_AGAIN: u32 = 1_000;

/// The weight of one flight in the mean is one part in this many.
const WEIGHT: u64 = 64;

/// One class, and a place for it.
#[derive(Debug, Clone, Copy, pgweir_freeze::Freeze)]
struct Class {
    class: u64,
    /// Mean time of the latest flights, microseconds times [`WEIGHT`].
    mean: u64,
    /// Flights that must follow before the mean is relied on.
    unproven: u32,
    /// Flights of classes without a place that it outlasts; see [`KEEPS`].
    keeps: u8,
}

impl Class {
    /// A class whose first flight has taken this long.
    fn new(class: u64, took_us: u64) -> Self {
        Class {
            class,
            mean: took_us.min(LONG_US) * WEIGHT,
            unproven: PROVEN,
            keeps: KEEPS,
        }
    }

    fn is_short(&self) -> bool {
        self.unproven == 0 && self.mean <= SHORT_US * WEIGHT
    }

    fn learn(&mut self, took_us: u64, reply_bytes: usize) {
        self.keeps = KEEPS;
        self.mean = self.mean - self.mean / WEIGHT + took_us.min(LONG_US);
        self.unproven = if took_us > LONG_US || reply_bytes > SHORT_REPLY_BYTES_MAX {
            PROVEN_AGAIN
        } else {
            self.unproven.saturating_sub(1)
        };
    }
}

/// How short the flights of a pool have been, by their classes.
#[derive(Debug, pgweir_freeze::Freeze)]
pub(crate) struct Classes {
    sets: Vec<[Class; WAYS]>,
}

impl Default for Classes {
    fn default() -> Self {
        let nobody = Class {
            keeps: 0,
            ..Class::new(0, 0)
        };
        Classes {
            sets: vec![[nobody; WAYS]; SETS],
        }
    }
}

/// The set of a class.
fn set_of(class: u64) -> usize {
    (class.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize % SETS
}

impl Classes {
    /// Whether flights of this class are known to be short.
    pub(crate) fn is_short(&self, class: u64) -> bool {
        let set = &self.sets[set_of(class)];
        set.iter().any(|place| place.class == class && place.is_short())
    }

    /// A flight of this class has been answered.
    pub(crate) fn learn(&mut self, class: u64, took_us: u64, reply_bytes: usize) {
        let set = &mut self.sets[set_of(class)];
        if let Some(place) = set.iter_mut().find(|place| place.class == class) {
            return place.learn(took_us, reply_bytes);
        }
        let Some(weakest) = set.iter_mut().min_by_key(|place| place.keeps) else {
            return;
        };
        match weakest.keeps.checked_sub(1) {
            Some(keeps) => weakest.keeps = keeps,
            None => {
                *weakest = Class::new(class, took_us);
                weakest.learn(took_us, reply_bytes);
            }
        }
    }

    /// A flight of this class has taken at least this long: it has not ended, or something else has ended it.
    pub(crate) fn learn_at_least(&mut self, class: u64, at_least_us: u64) {
        if at_least_us > LONG_US {
            self.learn(class, at_least_us, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learned(runs: impl IntoIterator<Item = u64>) -> Classes {
        let mut classes = Classes::default();
        runs.into_iter().for_each(|took_us| classes.learn(7, took_us, 100));
        classes
    }

    #[test]
    fn a_class_is_short_once_it_has_been_short_often() {
        assert!(!learned([40; PROVEN as usize - 1]).is_short(7));
        assert!(!learned([40; PROVEN as usize - 1]).is_short(8));
        assert!(learned([40; PROVEN as usize + 1]).is_short(7));
        assert!(!learned([1_000; 1_000]).is_short(7));
    }

    /// `N` classes of one set.
    fn of_one_set<const N: usize>() -> [u64; N] {
        let mut same = (1..).filter(|class| set_of(*class) == set_of(1));
        std::array::from_fn(|_| same.next().unwrap())
    }

    /// Guards against two statements of which each made the pool forget the other one.
    #[test]
    fn classes_that_are_used_by_turns_do_not_take_each_others_place() {
        let [a, b, c] = of_one_set();
        let mut classes = Classes::default();
        let mut runs = |turns: &[u64]| {
            for _ in 0..PROVEN {
                turns.iter().for_each(|class| classes.learn(*class, 40, 100));
            }
            [a, b, c].map(|class| classes.is_short(class))
        };
        assert_eq!(runs(&[a, b]), [true, true, false]);
        assert_eq!(runs(&[c, a, b]), [true, true, false], "there is no place for a third");
        assert_eq!(runs(&[c, b]), [false, true, false], "one is not used any more");
        assert_eq!(runs(&[c, b]), [false, true, true]);
    }

    #[test]
    fn a_flight_that_something_else_has_ended_counts_if_it_was_long() {
        let mut classes = learned([40; 1_000]);
        classes.learn_at_least(7, LONG_US);
        assert!(classes.is_short(7), "it may have been cancelled early");
        classes.learn_at_least(7, LONG_US + 1);
        assert!(!classes.is_short(7));
    }

    #[test]
    fn what_is_long_at_times_is_not_short() {
        let often = |long: usize| learned((0..5_000).map(|run| if run % long == 0 { 5_000 } else { 40 }));
        assert!(often(100).is_short(7));
        assert!(!often(10).is_short(7));
    }

    #[test]
    fn a_long_flight_or_a_large_reply_ends_it_at_once() {
        for (took_us, reply_bytes) in [(100_000, 100), (40, 100_000)] {
            let mut classes = learned([40; 1_000]);
            classes.learn(7, took_us, reply_bytes);
            assert!(!classes.is_short(7));
            (0..PROVEN_AGAIN - 1).for_each(|_| classes.learn(7, 40, 100));
            assert!(!classes.is_short(7));
            classes.learn(7, 40, 100);
            assert!(classes.is_short(7));
        }
    }
}
