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
    #[inline]
    pub(crate) fn drop_front(&mut self) {
        debug_assert!(self.head < self.items.len());
        self.head += 1;
        if self.head >= self.items.len() {
            self.items.clear();
            self.head = 0;
        } else if self.head >= GAP_MIN && self.head * 2 >= self.items.len() {
            self.close_gap();
        }
    }

    /// Removes this many items from the front.
    pub(crate) fn take_front(&mut self, count: usize) -> Vec<T> {
        self.close_gap();
        self.items.drain(..count).collect()
    }

    /// Removes the items from this place on.
    pub(crate) fn split_off(&mut self, at: usize) -> Vec<T> {
        self.items.split_off(self.head + at)
    }

    pub(crate) fn append(&mut self, items: &mut Vec<T>) {
        self.items.append(items);
    }

    pub(crate) fn retain(&mut self, keeps: impl FnMut(&T) -> bool) {
        self.close_gap();
        self.items.retain(keeps);
    }

    #[cold]
    fn close_gap(&mut self) {
        self.items.drain(..self.head);
        self.head = 0;
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
                    fifo.retain(|item| item % 7 != 0);
                    model.retain(|item| item % 7 != 0);
                }
                18 => {
                    let at = fifo.len().min(3);
                    let mut behind = fifo.split_off(at);
                    fifo.append(&mut behind);
                }
                _ => fifo.iter_mut().chain(model.iter_mut()).for_each(|item| *item += 1),
            }
            assert_eq!((fifo.front(), fifo.len()), (model.front(), model.len()));
            assert!(fifo.iter().eq(model.iter()));
        }
    }
}
