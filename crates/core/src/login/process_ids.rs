//! The process ids that clients are told at login.
//!
//! Process ids count up, and are used again only after all others, because pools in drivers tell connections apart by
//! them. They begin above every process id on Linux, so that a number in SQL is either a client's or a server's.
//!
//! If the process has peers, its `peer_id` is part of them, which leaves [`crate::login::cancel_keys::PEERED_IDS`]
//! different ones. With more clients than that, several clients share an id. The secrets of their keys distinguish
//! them; pg_terminate_backend() and pg_cancel_backend() do not act on a shared id.

use crate::base::ids::CLIENT_IDS_FROM;
use crate::login::cancel_keys::peered_process_id;
use hashbrown::HashTable;
use std::collections::HashMap;

/// The number of process ids: they fit a positive int4.
const CLIENT_IDS: u32 = (1 << 31) - CLIENT_IDS_FROM;

/// Which client has which process id.
#[derive(Debug)]
pub(crate) struct ProcessIds {
    next: u32,
    /// Places of clients in the slab, by their process ids.
    places: HashTable<u32>,
}

impl ProcessIds {
    /// The first process id is random, so that clients of a restarted pooler are not mistaken for clients before the
    /// restart.
    pub(crate) fn new(random: u64) -> Self {
        ProcessIds {
            next: (random % u64::from(CLIENT_IDS)) as u32,
            places: HashTable::new(),
        }
    }

    /// After a take-over: the clients at these places have these process ids, and `next` comes next.
    pub(crate) fn again(next: u32, told: &[(u32, u32)]) -> Self {
        let ids: HashMap<u32, u32> = told.iter().copied().collect();
        let mut places = HashTable::new();
        for &(place, process_id) in told {
            let hash_of = |place: &u32| hash(ids.get(place).copied().unwrap_or(0));
            places.insert_unique(hash(process_id), place, hash_of);
        }
        ProcessIds {
            next: next % CLIENT_IDS,
            places,
        }
    }

    /// The value that [`ProcessIds::again`] needs beside the clients.
    pub(crate) fn next(&self) -> u32 {
        self.next
    }
}

fn hash(process_id: u32) -> u64 {
    u64::from(process_id)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .rotate_left(32)
}

/// With a `peer_id`: after this many process ids in use, a client gets one that another client has.
const PEERED_TRIES_MAX: u32 = 64;

impl ProcessIds {
    /// How many clients have one.
    #[cfg(any(test, feature = "weaknesses"))]
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// The places of the clients with this process id. `told` returns the process id of the client at a place.
    pub(crate) fn places_of(&self, process_id: u32, told: impl Fn(u32) -> u32) -> impl Iterator<Item = u32> {
        let found = self.places.iter_hash(hash(process_id)).copied();
        found.filter(move |&place| told(place) == process_id)
    }

    /// Gives the client at `place` a process id. `peer_id` is that of this process, or 0.
    pub(crate) fn give(&mut self, place: u32, peer_id: u32, told: impl Fn(u32) -> u32) -> u32 {
        let process_id = match peer_id {
            0 => self.unused(CLIENT_IDS, |next| CLIENT_IDS_FROM + next, &told),
            peer_id => self.unused(PEERED_TRIES_MAX, |next| peered_process_id(peer_id, next), &told),
        };
        let hash_of = |&place: &u32| hash(told(place));
        self.places.insert_unique(hash(process_id), place, hash_of);
        process_id
    }

    /// The next process id that no client has; after `tries` attempts, any.
    fn unused(&mut self, tries: u32, id: impl Fn(u32) -> u32, told: impl Fn(u32) -> u32) -> u32 {
        let mut process_id = id(self.next);
        for _ in 0..tries {
            process_id = id(self.next);
            self.next = (self.next + 1) % CLIENT_IDS;
            if self.places_of(process_id, &told).next().is_none() {
                break;
            }
        }
        process_id
    }

    /// The client at `place`, which has this process id, is about to be removed.
    pub(crate) fn take(&mut self, process_id: u32, place: u32) {
        if let Ok(entry) = self.places.find_entry(hash(process_id), |&other| other == place) {
            entry.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::login::cancel_keys::PEERED_IDS;

    #[test]
    fn ids_come_again_only_when_all_others_have_been_told() {
        let mut ids = ProcessIds::new(u64::from(CLIENT_IDS) - 1);
        let mut told = Vec::new();
        for place in 0..3 {
            let given = ids.give(place, 0, |place| told[place as usize]);
            told.push(given);
        }
        assert_eq!(told, [i32::MAX as u32, CLIENT_IDS_FROM, CLIENT_IDS_FROM + 1]);
        ids.take(told[1], 1);
        assert_eq!(ids.places_of(told[1], |place| told[place as usize]).next(), None);
        assert_eq!(ids.places_of(told[2], |place| told[place as usize]).next(), Some(2));
        assert_eq!(ids.give(1, 0, |place| told[place as usize]), CLIENT_IDS_FROM + 2);
    }

    /// Guards against cancel requests that hit the wrong client: with more clients than process ids, each client is
    /// found by its secret.
    #[test]
    fn clients_share_process_ids_when_a_peer_has_no_more() {
        let mut ids = ProcessIds::new(7);
        let mut told = Vec::new();
        for place in 0..PEERED_IDS + 5 {
            let given = ids.give(place, 3, |place| told[place as usize]);
            told.push(given);
        }
        let at = |place: u32| told[place as usize];
        let all: std::collections::BTreeSet<u32> = told.iter().copied().collect();
        assert_eq!(all.len(), PEERED_IDS as usize, "all are told before one is told again");
        for place in 0..PEERED_IDS + 5 {
            assert!(ids.places_of(at(place), at).any(|other| other == place));
        }
        let shared = at(PEERED_IDS + 4);
        ids.take(shared, PEERED_IDS + 4);
        assert_eq!(ids.places_of(shared, at).count(), 1);
    }
}
