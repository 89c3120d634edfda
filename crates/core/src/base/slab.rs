//! Places with generations: a look-up by the id of a closed connection finds nothing.

use crate::base::ids::Slot;

/// A slab of boxed values. Because they are boxed, growing moves only pointers, and a few idle clients do not pay
/// for the capacity of many.
#[derive(Debug, pgweir_freeze::Freeze)]
pub(crate) struct Slab<T> {
    places: Vec<Place<T>>,
    free: Vec<u32>,
}

#[derive(Debug, pgweir_freeze::Freeze)]
struct Place<T> {
    generation: u32,
    value: Option<Box<T>>,
}

impl<T> Slab<T> {
    pub(crate) fn new() -> Self {
        Slab {
            places: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Stores the value that `make` builds for its slot.
    pub(crate) fn insert_with(&mut self, make: impl FnOnce(Slot) -> T) -> Slot {
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place {
                generation: 0,
                value: None,
            });
            (self.places.len() - 1) as u32
        });
        let place = &mut self.places[index as usize];
        let slot = Slot {
            index,
            generation: place.generation,
        };
        place.value = Some(Box::new(make(slot)));
        slot
    }

    /// Takes a value out; its slot is not valid any more.
    pub(crate) fn remove(&mut self, slot: Slot) -> Option<Box<T>> {
        let place = self
            .places
            .get_mut(slot.index as usize)
            .filter(|p| p.generation == slot.generation)?;
        let value = place.value.take()?;
        place.generation = slot.next().generation;
        self.free.push(slot.index);
        Some(value)
    }

    #[inline]
    pub(crate) fn get(&self, slot: Slot) -> Option<&T> {
        self.places
            .get(slot.index as usize)
            .filter(|p| p.generation == slot.generation)?
            .value
            .as_deref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, slot: Slot) -> Option<&mut T> {
        self.places
            .get_mut(slot.index as usize)
            .filter(|p| p.generation == slot.generation)?
            .value
            .as_deref_mut()
    }

    /// The value at a place, whatever its generation.
    pub(crate) fn at_index(&self, index: u32) -> Option<(Slot, &T)> {
        let place = self.places.get(index as usize)?;
        Some((
            Slot {
                index,
                generation: place.generation,
            },
            place.value.as_deref()?,
        ))
    }

    /// All values, by place.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Slot, &T)> {
        self.places.iter().enumerate().filter_map(|(index, p)| {
            Some((
                Slot {
                    index: index as u32,
                    generation: p.generation,
                },
                p.value.as_deref()?,
            ))
        })
    }

    /// The slots of all values, for loops that change the slab.
    pub(crate) fn slots(&self) -> Vec<Slot> {
        self.iter().map(|(slot, _)| slot).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Places that are empty now but were used before.
    pub(crate) fn free_len(&self) -> usize {
        self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dead_id_finds_nothing_even_when_its_place_lives_again() {
        let mut slab = Slab::new();
        let a = slab.insert_with(|_| "a");
        assert_eq!(slab.remove(a).as_deref(), Some(&"a"));
        assert_eq!(slab.remove(a), None);
        let b = slab.insert_with(|_| "b");
        assert_eq!(a.index, b.index);
        assert_eq!((slab.get(a), slab.get(b), slab.len()), (None, Some(&"b"), 1));
    }
}
