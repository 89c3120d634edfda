//! Flows by place: the one with the smallest place is at hand, and any can be taken out.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Entries below one entry. With four the way down is half as long as with two, and has as many comparisons.
const BELOW: usize = 4;

/// Stands for no position in [`Heap::positions`].
const NONE: u32 = u32::MAX;

/// An empty heap with more places than this frees its memory.
const KEPT: usize = 1024;

/// A place in the order. The smallest one is served first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, pgweir_freeze::Freeze)]
pub(crate) struct Place {
    /// What the flow had used when it began to wait.
    tag: u64,
    /// Among equal tags, a flow that has used less than its share goes first, and then the one that has arrived first.
    rank: u64,
}

impl Place {
    /// `number` is the order of arrival.
    pub(super) fn new(tag: u64, is_owed: bool, number: u64) -> Self {
        Place {
            tag,
            rank: u64::from(!is_owed) << 63 | number,
        }
    }

    pub(super) fn tag(self) -> u64 {
        self.tag
    }

    /// Both fields as one number, so that one comparison is enough.
    #[inline]
    fn key(self) -> u128 {
        u128::from(self.tag) << 64 | u128::from(self.rank)
    }

    /// The place of the same flow when it has used `tag`, and is owed nothing.
    pub(super) fn moved_to(self, tag: u64) -> Self {
        Place::new(tag, false, self.rank & !(1 << 63))
    }
}

impl Ord for Place {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl PartialOrd for Place {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }

    #[inline]
    fn lt(&self, other: &Self) -> bool {
        self.key() < other.key()
    }

    #[inline]
    fn le(&self, other: &Self) -> bool {
        self.key() <= other.key()
    }
}

/// Flows with their places. Each has a number of the caller's; numbers are small.
#[derive(Debug, Default, pgweir_freeze::Freeze)]
pub(super) struct Heap {
    entries: Vec<(Place, u32)>,
    /// The position in `entries` of each flow, by its number.
    positions: Vec<u32>,
}

impl Heap {
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The flow with the smallest place.
    pub(super) fn first(&self) -> Option<u32> {
        self.entries.first().map(|entry| entry.1)
    }

    /// All flows, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.entries.iter().map(|entry| entry.1)
    }

    /// All flows, the one with the greatest place first.
    pub(super) fn iter_back(&self) -> impl Iterator<Item = u32> + use<> {
        let mut sorted = BinaryHeap::from(self.entries.clone());
        std::iter::from_fn(move || sorted.pop().map(|entry| entry.1))
    }

    fn position(&self, what: u32) -> Option<usize> {
        let position = *self.positions.get(what as usize)?;
        (position != NONE).then_some(position as usize)
    }

    /// The place of a flow.
    pub(super) fn place_of(&self, what: u32) -> Option<Place> {
        Some(self.entries[self.position(what)?].0)
    }

    /// Adds a flow, which is not there yet.
    pub(super) fn insert(&mut self, place: Place, what: u32) {
        debug_assert!(self.position(what).is_none());
        if self.positions.len() <= what as usize {
            self.positions.resize(what as usize + 1, NONE);
        }
        self.entries.push((place, what));
        self.rises(self.entries.len() - 1, (place, what));
    }

    /// Takes out a flow. Returns its place.
    pub(super) fn remove(&mut self, what: u32) -> Option<Place> {
        let at = self.position(what)?;
        self.positions[what as usize] = NONE;
        let (place, _) = self.entries[at];
        let last = self.entries.pop()?;
        if at < self.entries.len() {
            self.takes_position(at, last);
        } else if self.entries.is_empty() && self.positions.len() > KEPT {
            *self = Heap::default();
        }
        Some(place)
    }

    /// Gives a flow another place.
    pub(super) fn change(&mut self, what: u32, place: Place) {
        if let Some(at) = self.position(what) {
            self.takes_position(at, (place, what));
        }
    }

    /// Puts an entry at this position, and moves it from there to where it belongs.
    fn takes_position(&mut self, at: usize, entry: (Place, u32)) {
        if at > 0 && entry.0 < self.entries[(at - 1) / BELOW].0 {
            self.rises(at, entry);
        } else {
            self.sinks(at, entry);
        }
    }

    fn rises(&mut self, mut at: usize, entry: (Place, u32)) {
        while at > 0 {
            let above = (at - 1) / BELOW;
            if self.entries[above].0 <= entry.0 {
                break;
            }
            self.put(at, self.entries[above]);
            at = above;
        }
        self.put(at, entry);
    }

    fn sinks(&mut self, mut at: usize, entry: (Place, u32)) {
        loop {
            let first = at * BELOW + 1;
            let below = &self.entries[first.min(self.entries.len())..(first + BELOW).min(self.entries.len())];
            let Some((mut least, rest)) = below.split_first() else {
                break;
            };
            let mut next = first;
            for (other, position) in rest.iter().zip(first + 1..) {
                if other.0 < least.0 {
                    (least, next) = (other, position);
                }
            }
            if entry.0 <= least.0 {
                break;
            }
            let least = *least;
            self.put(at, least);
            at = next;
        }
        self.put(at, entry);
    }

    fn put(&mut self, at: usize, entry: (Place, u32)) {
        self.entries[at] = entry;
        self.positions[entry.1 as usize] = at as u32;
    }

    /// Compares the positions with the entries, and each entry with the one above it.
    #[cfg(any(test, feature = "weaknesses"))]
    pub(super) fn check(&self) -> Result<(), String> {
        for (at, (place, what)) in self.entries.iter().enumerate() {
            if self.position(*what) != Some(at) {
                return Err(format!("flow {what} stands at {at}, not at {:?}", self.position(*what)));
            }
            if at > 0 && self.entries[(at - 1) / BELOW].0 > *place {
                return Err(format!("the entry at {at} is smaller than the one above it"));
            }
        }
        let known = self.positions.iter().filter(|position| **position != NONE).count();
        match known == self.entries.len() {
            true => Ok(()),
            false => Err(format!("{known} positions of {} entries", self.entries.len())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Numbers that look random, the same each time.
    fn draws(seed: u64) -> impl FnMut(u64) -> u64 {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        move |below| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        }
    }

    #[test]
    fn is_in_the_order_of_a_sorted_set_whatever_happens() {
        for seed in 1..20 {
            let mut draw = draws(seed);
            let (mut heap, mut sorted) = (Heap::default(), BTreeSet::new());
            for number in 0..2_000 {
                let what = draw(40) as u32;
                let place = Place::new(draw(50), draw(2) == 0, number);
                match heap.place_of(what) {
                    None => {
                        heap.insert(place, what);
                        sorted.insert((place, what));
                    }
                    Some(old) if draw(2) == 0 => {
                        heap.change(what, old.moved_to(place.tag()));
                        sorted.remove(&(old, what));
                        sorted.insert((old.moved_to(place.tag()), what));
                    }
                    Some(old) => {
                        assert_eq!(heap.remove(what), Some(old));
                        sorted.remove(&(old, what));
                    }
                }
                heap.check().unwrap();
                assert_eq!(heap.first(), sorted.first().map(|entry| entry.1));
            }
            let back: Vec<u32> = sorted.iter().rev().map(|entry| entry.1).collect();
            assert_eq!(heap.iter_back().collect::<Vec<_>>(), back);
        }
    }

    #[test]
    fn an_empty_heap_does_not_keep_the_memory_of_a_crowd() {
        let mut heap = Heap::default();
        (0..20_000).for_each(|what| heap.insert(Place::new(1, false, what.into()), what));
        (0..20_000).for_each(|what| assert!(heap.remove(what).is_some()));
        assert!(heap.positions.capacity() == 0 && heap.entries.capacity() == 0);
    }
}
