//! A queue in which origins take turns: an origin that opens many connections delays only itself.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv4Addr};

/// The sender of something that waits. A stranger opens many connections easily, and gets many addresses less easily.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Origin {
    V4(Ipv4Addr),
    /// The first half of the address: the network that one customer of a provider gets.
    V6([u16; 4]),
    /// The operating system's user at the other end of a Unix-domain socket, if it is known.
    LocalUser(Option<u32>),
}

impl Origin {
    /// The origin of what comes from this address.
    pub(crate) fn of(address: IpAddr) -> Origin {
        match address.to_canonical() {
            IpAddr::V4(address) => Origin::V4(address),
            IpAddr::V6(address) => {
                let [a, b, c, d, ..] = address.segments();
                Origin::V6([a, b, c, d])
            }
        }
    }
}

/// A place in a queue of turns. Places that come first are smaller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    round: u64,
    ticket: u64,
}

/// What an origin has in the queue.
#[derive(Debug)]
struct Share {
    waiting: usize,
    /// The round of the last one.
    last_round: u64,
}

/// Waiting items. In each round an origin has at most one of them, and a new item never gets a place in a round that
/// has begun. So later items cannot delay an item for ever.
#[derive(Debug)]
pub(crate) struct Turns<T> {
    waiting: BTreeMap<Place, (Origin, T)>,
    /// Invariant: the origins of `waiting`, with their numbers.
    shares: HashMap<Origin, Share>,
    /// The round of the item that was taken last.
    round: u64,
    tickets: u64,
}

impl<T> Default for Turns<T> {
    fn default() -> Self {
        Turns {
            waiting: BTreeMap::new(),
            shares: HashMap::new(),
            round: 0,
            tickets: 0,
        }
    }
}

impl<T> Turns<T> {
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Adds an item behind the others of its origin. The place is for [`Turns::remove`].
    pub(crate) fn push(&mut self, origin: Origin, item: T) -> Place {
        let share = self.shares.entry(origin).or_insert(Share {
            waiting: 0,
            last_round: 0,
        });
        share.waiting += 1;
        share.last_round = share.last_round.max(self.round) + 1;
        self.tickets += 1;
        let place = Place {
            round: share.last_round,
            ticket: self.tickets,
        };
        self.waiting.insert(place, (origin, item));
        place
    }

    /// Removes an item that waits no longer.
    pub(crate) fn remove(&mut self, place: Place) -> Option<(Origin, T)> {
        let (origin, item) = self.waiting.remove(&place)?;
        if let Some(share) = self.shares.get_mut(&origin) {
            share.waiting -= 1;
            if share.waiting == 0 {
                self.shares.remove(&origin);
            }
        }
        Some((origin, item))
    }

    /// Removes the items that do not wait any longer.
    pub(crate) fn retain(&mut self, mut waits: impl FnMut(&T) -> bool) {
        let mut gone = Vec::new();
        for (place, (_, item)) in &self.waiting {
            if !waits(item) {
                gone.push(*place);
            }
        }
        for place in gone {
            self.remove(place);
        }
    }

    /// Takes the item whose turn it is.
    pub(crate) fn pop(&mut self) -> Option<T> {
        let place = self.first(|_| true)?;
        self.take(place).map(|(_, item)| item)
    }

    /// The first item of an origin that may have its turn now.
    pub(crate) fn first(&self, may: impl Fn(Origin) -> bool) -> Option<Place> {
        let mut found = self.waiting.iter().filter(|(_, (origin, _))| may(*origin));
        found.next().map(|(place, _)| *place)
    }

    /// Takes an item out of turn, or in turn: its round has begun.
    pub(crate) fn take(&mut self, place: Place) -> Option<(Origin, T)> {
        self.round = self.round.max(place.round);
        self.remove(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(last: u8) -> Origin {
        Origin::V4(Ipv4Addr::new(10, 0, 0, last))
    }

    fn all(turns: &mut Turns<&'static str>) -> Vec<&'static str> {
        std::iter::from_fn(|| turns.pop()).collect()
    }

    #[test]
    fn origins_take_turns_and_each_keeps_its_order() {
        let mut turns = Turns::default();
        for item in ["a1", "a2", "a3"] {
            turns.push(origin(1), item);
        }
        turns.push(origin(2), "b1");
        turns.push(origin(3), "c1");
        turns.push(origin(2), "b2");
        assert_eq!(all(&mut turns), ["a1", "b1", "c1", "a2", "b2", "a3"]);
        assert!(turns.is_empty() && turns.shares.is_empty());
    }

    /// Guards against an origin that is served for ever because it asks again whenever it was served.
    #[test]
    fn who_asks_again_and_again_starves_nobody() {
        let mut turns = Turns::default();
        for item in ["a1", "a2"] {
            turns.push(origin(1), item);
        }
        let mut order = Vec::new();
        for again in ["b1", "b2", "b3", "b4"] {
            turns.push(origin(2), again);
            order.extend(turns.pop());
        }
        assert_eq!(order, ["a1", "b1", "a2", "b2"]);
    }

    #[test]
    fn who_leaves_makes_room_and_is_forgotten() {
        let mut turns = Turns::default();
        let first = turns.push(origin(1), "a1");
        let second = turns.push(origin(1), "a2");
        turns.push(origin(2), "b1");
        assert_eq!(turns.remove(first), Some((origin(1), "a1")));
        assert_eq!(turns.remove(first), None);
        assert_eq!(turns.remove(second), Some((origin(1), "a2")));
        assert_eq!(turns.shares.len(), 1);
        assert_eq!(all(&mut turns), ["b1"]);
        assert!(turns.waiting.is_empty() && turns.shares.is_empty());
    }

    #[test]
    fn a_network_of_ipv6_is_one_origin_and_a_mapped_address_is_one_of_ipv4() {
        let of = |address: &str| Origin::of(address.parse().unwrap());
        assert_eq!(of("2001:db8:1:2::1"), of("2001:db8:1:2:ffff::9"));
        assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
        assert_eq!(of("::ffff:10.0.0.1"), origin(1));
    }
}
