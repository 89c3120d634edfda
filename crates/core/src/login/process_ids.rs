//! The process ids that clients are told at login.
//!
//! They count up and come again only after all others have: drivers' pools tell connections apart by them. They begin above
//! every process id of a PostgreSQL on Linux, so that a number in SQL is one or the other.
//!
//! A process with peers has its `peer_id` in them, which leaves [`crate::login::cancel_keys::PEERED_IDS`]. If there are more
//! clients than that, several have one process id: their secrets tell them apart, and in SQL it is nobody's.

use crate::base::ids::CLIENT_IDS_FROM;
use crate::login::cancel_keys::peered_process_id;
use hashbrown::HashTable;
use std::collections::HashMap;

/// How many there are: they fit a positive int4.
const CLIENT_IDS: u32 = (1 << 31) - CLIENT_IDS_FROM;

/// Who has which.
#[derive(Debug)]
pub(crate) struct ProcessIds {
    next: u32,
    /// Places of clients in the slab, by their process ids.
    places: HashTable<u32>,
}

impl ProcessIds {
    /// The first one is any, so that clients of a pooler that was restarted are not taken for those of the one before.
    pub(crate) fn new(random: u64) -> Self {
        ProcessIds {
            next: (random % u64::from(CLIENT_IDS)) as u32,
            places: HashTable::new(),
        }
    }

    /// Those that clients at these places have been told, and which one comes next.
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

    /// What [`ProcessIds::again`] needs beside the clients themselves.
    pub(crate) fn next(&self) -> u32 {
        self.next
    }
}

fn hash(process_id: u32) -> u64 {
    u64::from(process_id)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .rotate_left(32)
}

/// Process ids with a `peer_id` that are tried before a client gets one that another has.
const PEERED_TRIES_MAX: u32 = 64;

impl ProcessIds {
    /// The places of the clients that were told this process id. `told` says what the client at a place was told.
    pub(crate) fn places_of(&self, process_id: u32, told: impl Fn(u32) -> u32) -> impl Iterator<Item = u32> {
        let found = self.places.iter_hash(hash(process_id)).copied();
        found.filter(move |&place| told(place) == process_id)
    }

    /// A process id for the client at `place`, to be told to it. `peer_id` is that of this process, or 0.
    pub(crate) fn give(&mut self, place: u32, peer_id: u32, told: impl Fn(u32) -> u32) -> u32 {
        let process_id = match peer_id {
            0 => self.unused(CLIENT_IDS, |next| CLIENT_IDS_FROM + next, &told),
            peer_id => self.unused(PEERED_TRIES_MAX, |next| peered_process_id(peer_id, next), &told),
        };
        let hash_of = |&place: &u32| hash(told(place));
        self.places.insert_unique(hash(process_id), place, hash_of);
        process_id
    }

    /// The next process id that no client has; after so many tries, any.
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

    /// The client at `place`, which was told this process id, is about to be forgotten.
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

    /// More clients than process ids: everyone is found, each by its own secret.
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
