//! The idle servers of a pool, longest idle first, and the shape of each.
//!
//! The shape is stored beside the server, so that the search for a server with a client's settings reads one piece of
//! memory, however many servers are idle. The shape of an idle server may change (its configuration is reloaded). Then
//! the stored one is outdated, which costs a restoration: linking compares the actual shapes.

use crate::base::ids::ServerId;
use crate::state::shape::Shape;
use pgweir_freeze::{Damaged, Freeze, Reader, Writer, layout};
use std::collections::VecDeque;
use std::collections::vec_deque::Iter;
use std::iter::Map;
use std::sync::Arc;

/// Idle servers, longest idle first.
#[derive(Debug, Default, pgweir_freeze::Freeze)]
pub(crate) struct IdleList {
    servers: VecDeque<(ServerId, Likeness)>,
}

/// Servers, longest idle first.
pub(crate) type Ids<'l> = Map<Iter<'l, (ServerId, Likeness)>, fn(&(ServerId, Likeness)) -> &ServerId>;

fn id_of(entry: &(ServerId, Likeness)) -> &ServerId {
    &entry.0
}

/// A server's shape when it became idle: equal for equal shapes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Likeness(usize);

/// Shapes are frozen before lists. A shape that no longer exists equals no other.
impl Freeze for Likeness {
    const LAYOUT: u64 = layout("Likeness");

    fn freeze(&self, out: &mut Writer) {
        out.reference(self.0);
    }

    fn thaw(from: &mut Reader<'_>) -> Result<Self, Damaged> {
        from.reference().map(Likeness)
    }
}

impl Likeness {
    #[inline]
    pub(crate) fn of(shape: &Arc<Shape>) -> Self {
        Likeness(Arc::as_ptr(shape) as usize)
    }
}

impl IdleList {
    /// A server becomes idle.
    #[inline]
    pub(crate) fn push_back(&mut self, id: ServerId, shape: &Arc<Shape>) {
        self.servers.push_back((id, Likeness::of(shape)));
    }

    /// Takes out the server that became idle last among those with this shape, or among all if there is none.
    #[inline]
    pub(crate) fn take_like(&mut self, wanted: Likeness) -> Option<ServerId> {
        if let Some(&(id, likeness)) = self.servers.back()
            && likeness == wanted
        {
            self.servers.pop_back();
            return Some(id);
        }
        match self.servers.iter().rposition(|(_, l)| *l == wanted) {
            Some(at) => self.remove(at),
            None => self.servers.pop_back().map(|(id, _)| id),
        }
    }

    /// The server that became idle last, if it has this shape.
    #[inline]
    pub(crate) fn latest_like(&self, wanted: Likeness) -> Option<ServerId> {
        let (id, likeness) = self.servers.back()?;
        (*likeness == wanted).then_some(*id)
    }

    /// Takes out the server that became idle last.
    #[inline]
    pub(crate) fn pop_back(&mut self) -> Option<ServerId> {
        self.servers.pop_back().map(|(id, _)| id)
    }

    /// Takes out the server that has been idle longest.
    pub(crate) fn pop_front(&mut self) -> Option<ServerId> {
        self.servers.pop_front().map(|(id, _)| id)
    }

    pub(crate) fn front(&self) -> Option<ServerId> {
        self.servers.front().map(|(id, _)| *id)
    }

    /// The server at this place.
    pub(crate) fn get(&self, at: usize) -> Option<ServerId> {
        self.servers.get(at).map(|(id, _)| *id)
    }

    /// Takes out the server at this place.
    pub(crate) fn remove(&mut self, at: usize) -> Option<ServerId> {
        self.servers.remove(at).map(|(id, _)| id)
    }

    /// Takes this server out, if it is there.
    pub(crate) fn forget(&mut self, id: ServerId) {
        if let Some(at) = self.servers.iter().position(|(s, _)| *s == id) {
            self.servers.remove(at);
        }
    }

    pub(crate) fn iter(&self) -> Ids<'_> {
        self.servers.iter().map(id_of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::slab::Slab;
    use crate::state::shape_table::ShapeTable;

    #[test]
    fn a_server_that_looks_like_the_client_is_found_among_any_number() {
        let mut shapes = ShapeTable::new();
        let plain = shapes.empty();
        let other = shapes.change(&plain, [("search_path", Some("a"), false)]);
        let mut slots = Slab::new();
        let ids: Vec<_> = (0..100).map(|_| ServerId(slots.insert_with(|_| ()))).collect();
        let mut idle = IdleList::default();
        for (at, id) in ids.iter().enumerate() {
            idle.push_back(*id, if at == 3 { &other } else { &plain });
        }
        assert_eq!(idle.take_like(Likeness::of(&other)), Some(ids[3]));
        assert_eq!(
            idle.take_like(Likeness::of(&other)),
            Some(ids[99]),
            "there is none: the latest"
        );
        assert_eq!(idle.take_like(Likeness::of(&plain)), Some(ids[98]));
        idle.forget(ids[0]);
        assert_eq!((idle.front(), idle.iter().len()), (Some(ids[1]), 96));
    }
}
