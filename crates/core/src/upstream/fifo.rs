//! A queue whose items can be read as one slice.

use std::ops::{Deref, DerefMut};

/// Removed places in front of the items stay until there are at least this many.
const GAP_MIN: usize = 32;

/// Items in the order in which they were pushed. Reading the first one needs no arithmetic with the ends of a ring,
/// which takes most of the time of a `VecDeque` that holds three items.
#[derive(Debug, pgweir_freeze::Freeze)]
pub(crate) struct Fifo<T> {
    items: Vec<T>,
    /// The items in front of this place have been removed.
    head: usize,
}

impl<T> Default for Fifo<T> {
    fn default() -> Self {
        Fifo {
            items: Vec::new(),
            head: 0,
        }
    }
}

impl<T> Deref for Fifo<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        self.items.get(self.head..).unwrap_or_default()
    }
}

impl<T> DerefMut for Fifo<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        self.items.get_mut(self.head..).unwrap_or_default()
    }
}

impl<T: Default> Fifo<T> {
    #[inline]
    pub(crate) fn push_back(&mut self, item: T) {
        self.items.push(item);
    }

    #[inline]
    pub(crate) fn front(&self) -> Option<&T> {
        self.items.get(self.head)
    }

    #[inline]
    pub(crate) fn front_mut(&mut self) -> Option<&mut T> {
        self.items.get_mut(self.head)
    }

    #[inline]
    pub(crate) fn pop_front(&mut self) -> Option<T> {
        let item = std::mem::take(self.items.get_mut(self.head)?);
        self.drop_front();
        Some(item)
    }

    /// Removes the front, which must exist. The removed places are closed up when there are as many of them as items,
    /// and at least [`GAP_MIN`].
    #[inline(always)]
    pub(crate) fn drop_front(&mut self) {
        debug_assert!(self.head < self.items.len());
        self.drop_first(1);
    }

    /// Removes this many items from the front. The items behind them are not touched, except to close up the gap.
    pub(crate) fn take_front(&mut self, count: usize) -> Vec<T> {
        let taken: Vec<T> = self[..count].iter_mut().map(std::mem::take).collect();
        work::done(count);
        self.drop_first(count);
        taken
    }

    /// Removes those of the first `count` items that `keeps` refuses, and returns how many of the first items are left.
    /// The items behind them are not touched, except to close up the gap.
    pub(crate) fn retain_first(&mut self, count: usize, mut keeps: impl FnMut(&T) -> bool) -> usize {
        let first = &mut self[..count];
        let mut kept = 0;
        for at in 0..count {
            if keeps(&first[at]) {
                first.swap(kept, at);
                kept += 1;
            }
        }
        first.rotate_left(kept);
        first[..count - kept].fill_with(T::default);
        work::done(count);
        self.drop_first(count - kept);
        kept
    }

    #[inline(always)]
    fn drop_first(&mut self, count: usize) {
        self.head += count;
        if self.head >= self.items.len() {
            self.items.clear();
            self.head = 0;
        } else if self.head >= GAP_MIN && self.head * 2 >= self.items.len() {
            self.close_gap();
        }
    }

    #[cold]
    fn close_gap(&mut self) {
        work::done(self.len());
        self.items.drain(..self.head);
        self.head = 0;
    }
}

/// Counts the items that were moved or looked at, so that tests see how the work grows.
pub(crate) mod work {
    #[cfg(test)]
    thread_local!(static DONE: std::cell::Cell<usize> = const { std::cell::Cell::new(0) });

    #[inline]
    pub(crate) fn done(_items: usize) {
        #[cfg(test)]
        DONE.set(DONE.get() + _items);
    }

    /// What `of` cost.
    #[cfg(test)]
    pub(crate) fn counted(of: impl FnOnce()) -> usize {
        let before = DONE.get();
        of();
        DONE.get() - before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_come_out_in_order_whatever_is_done() {
        let mut fifo = Fifo::default();
        let mut model = std::collections::VecDeque::new();
        let mut random = 1u64;
        for step in 0..20_000u64 {
            random = random
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            match (random >> 33) % 20 {
                0..9 => {
                    fifo.push_back(step);
                    model.push_back(step);
                }
                9..16 => assert_eq!(fifo.pop_front(), model.pop_front()),
                16 => {
                    let count = fifo.len() / 2;
                    assert_eq!(fifo.take_front(count), model.drain(..count).collect::<Vec<_>>());
                }
                17 => {
                    let (count, mut at) = (fifo.len() / 3 * 2, 0);
                    fifo.retain_first(count, |item| item % 7 != 0);
                    model.retain(|item| {
                        at += 1;
                        at > count || item % 7 != 0
                    });
                }
                18 => {
                    let count = fifo.len().min(3);
                    assert_eq!(fifo.take_front(count), model.drain(..count).collect::<Vec<_>>());
                }
                _ => fifo.iter_mut().chain(model.iter_mut()).for_each(|item| *item += 1),
            }
            assert_eq!((fifo.front(), fifo.len()), (model.front(), model.len()));
            assert!(fifo.iter().eq(model.iter()));
        }
    }
    /// Guards against moving everything that is behind a few removed items.
    #[test]
    fn what_is_taken_costs_no_more_the_more_stand_behind_it() {
        let cost = |count: u64, take: fn(&mut Fifo<u64>)| {
            let mut fifo = Fifo::default();
            (0..count).for_each(|item| fifo.push_back(item));
            work::counted(|| {
                while !fifo.is_empty() {
                    take(&mut fifo);
                }
            })
        };
        let takes: [fn(&mut Fifo<u64>); 3] = [
            |fifo| fifo.drop_front(),
            |fifo| drop(fifo.take_front(2.min(fifo.len()))),
            |fifo| {
                fifo.retain_first(2.min(fifo.len()), |item| item % 2 == 0);
                fifo.drop_first(1.min(fifo.len()));
            },
        ];
        for take in takes {
            let (once, twice) = (cost(10_000, take), cost(20_000, take));
            assert!(twice <= once * 5 / 2, "{once} {twice}");
        }
    }
}
