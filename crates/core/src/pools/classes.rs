//! Which classes of statements are known to be short. Flights of other classes share no server.

/// The mean time of the flights of a class that is short, microseconds.
pub(crate) const SHORT_US: u64 = 300;

/// After a flight that takes longer than this, microseconds, its class is no longer known to be short.
const LONG_US: u64 = 20_000;

/// The longest reply of a short flight, bytes.
const SHORT_REPLY_BYTES_MAX: usize = 16 * 1024;

/// Places for classes in one pool. If two classes have the same place, the pool keeps the later one.
const CLASSES: usize = 256;

/// After this many flights the mean time of a class is relied on.
const PROVEN: u32 = 32;

/// After a long flight or a large reply, the mean time is relied on after this many flights.
const PROVEN_AGAIN: u32 = 1_000;

/// The weight of one flight in the mean is one part in this many.
const WEIGHT: u64 = 64;

#[derive(Debug, Clone, Copy, Default, pgweir_freeze::Freeze)]
struct Class {
    class: u64,
    /// Flights that must follow before the mean is relied on.
    unproven: u32,
    /// Mean time of the latest flights, microseconds times [`WEIGHT`].
    mean: u64,
}

/// How short the flights of a pool have been, by their classes.
#[derive(Debug, pgweir_freeze::Freeze)]
pub(crate) struct Classes {
    places: Vec<Class>,
}

impl Default for Classes {
    fn default() -> Self {
        Classes {
            places: vec![Class::default(); CLASSES],
        }
    }
}

impl Classes {
    fn place(class: u64) -> usize {
        (class.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize % CLASSES
    }

    /// Whether flights of this class are known to be short.
    pub(crate) fn is_short(&self, class: u64) -> bool {
        let place = &self.places[Self::place(class)];
        place.class == class && place.unproven == 0 && place.mean <= SHORT_US * WEIGHT
    }

    /// A flight of this class has been answered.
    pub(crate) fn learn(&mut self, class: u64, took_us: u64, reply_bytes: usize) {
        let place = &mut self.places[Self::place(class)];
        if place.class != class {
            *place = Class {
                class,
                unproven: PROVEN,
                mean: took_us.min(LONG_US) * WEIGHT,
            };
        }
        place.mean = place.mean - place.mean / WEIGHT + took_us.min(LONG_US);
        place.unproven = if took_us > LONG_US || reply_bytes > SHORT_REPLY_BYTES_MAX {
            PROVEN_AGAIN
        } else {
            place.unproven.saturating_sub(1)
        };
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
