//! Connections by the core's ids, and objects of the driver by the driver's ids.

use crate::connection::Connection;
use pgweir_core::ids::Slot;

/// Open connections of one kind, each in the slot that its id names.
#[derive(Debug, Default)]
pub(crate) struct Places {
    places: Vec<Option<Connection>>,
}

impl Places {
    /// The connection of this id; `None` if the id is no longer valid.
    #[inline]
    pub(crate) fn get(&mut self, slot: Slot) -> Option<&mut Connection> {
        match self.places.get_mut(slot.index as usize) {
            Some(Some(c)) if c.generation == slot.generation => Some(c),
            _ => None,
        }
    }

    /// Puts a connection into `slot`. The slot must be free: the core gives a slot to one connection at a time.
    pub(crate) fn insert(&mut self, slot: Slot, connection: Connection) {
        let index = slot.index as usize;
        if index >= self.places.len() {
            self.places.resize_with(index + 1, || None);
        }
        debug_assert!(self.places[index].is_none(), "slot {slot:?} is taken");
        self.places[index] = Some(connection);
    }

    /// Removes and returns the connection of this id.
    pub(crate) fn remove(&mut self, slot: Slot) -> Option<Connection> {
        self.get(slot)?;
        self.places[slot.index as usize].take()
    }

    /// Every open connection.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Connection> {
        self.places.iter_mut().flatten()
    }
}

/// Objects that the driver numbers itself: connections that are being closed, cancel requests under way.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    places: Vec<(u32, Option<T>)>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab {
            places: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Slab<T> {
    /// Stores `thing` and returns its id.
    pub(crate) fn insert(&mut self, thing: T) -> Slot {
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push((0, None));
            self.places.len() as u32 - 1
        });
        let place = &mut self.places[index as usize];
        place.1 = Some(thing);
        Slot {
            index,
            generation: place.0,
        }
    }

    /// The ids of all objects.
    pub(crate) fn ids(&self) -> Vec<Slot> {
        let living = self.places.iter().enumerate().filter(|(_, place)| place.1.is_some());
        living
            .map(|(index, place)| Slot {
                index: index as u32,
                generation: place.0,
            })
            .collect()
    }

    /// The object of this id; `None` if it is gone.
    pub(crate) fn get(&mut self, slot: Slot) -> Option<&mut T> {
        match self.places.get_mut(slot.index as usize) {
            Some((generation, Some(thing))) if *generation == slot.generation => Some(thing),
            _ => None,
        }
    }

    /// Removes and returns the object of this id.
    pub(crate) fn remove(&mut self, slot: Slot) -> Option<T> {
        self.get(slot)?;
        let place = &mut self.places[slot.index as usize];
        place.0 = slot.next().generation & crate::token::GENERATION_MASK;
        self.free.push(slot.index);
        place.1.take()
    }

    /// All objects.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.places.iter().filter_map(|place| place.1.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::Transport;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_dead_id_finds_nothing_even_when_its_place_is_taken_again() {
        let transport = || Transport::new(UnixStream::pair().unwrap().0.into());
        let mut connections = Places::default();
        let first = Slot {
            index: 3,
            generation: 0,
        };
        connections.insert(first, Connection::new(transport(), first.generation));
        assert!(connections.get(first).is_some());
        assert!(connections.remove(first).is_some());
        assert!(connections.remove(first).is_none());
        let second = first.next();
        connections.insert(second, Connection::new(transport(), second.generation));
        assert!(connections.get(first).is_none() && connections.get(second).is_some());
        assert!(
            connections
                .get(Slot {
                    index: 99,
                    generation: 0
                })
                .is_none()
        );
        assert_eq!(connections.iter_mut().count(), 1);
    }

    #[test]
    fn own_ids_are_not_reused_either() {
        let mut slab = Slab::default();
        let a = slab.insert("a");
        let b = slab.insert("b");
        assert_eq!(slab.remove(a), Some("a"));
        let c = slab.insert("c");
        assert_eq!(c.index, a.index);
        assert_eq!(slab.get(a), None);
        assert_eq!((*slab.get(b).unwrap(), *slab.get(c).unwrap()), ("b", "c"));
        assert_eq!(slab.iter().copied().collect::<Vec<_>>(), ["c", "b"]);
    }
}
