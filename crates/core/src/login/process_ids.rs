//! The process ids that clients are told at login.
//!
//! They count up and come again only after all others have: drivers' pools tell connections apart by them. They begin above
//! every process id of a PostgreSQL on Linux, so that a number in SQL is one or the other.

use crate::base::ids::CLIENT_IDS_FROM;
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

impl ProcessIds {
    /// The place of the client that was told this process id. `told` says what the client at a place was told.
    pub(crate) fn place_of(&self, process_id: u32, told: impl Fn(u32) -> u32) -> Option<u32> {
        let found = self.places.find(hash(process_id), |&place| told(place) == process_id);
        found.copied()
    }

    /// A process id for the client at `place`, to be told to it.
    pub(crate) fn give(&mut self, place: u32, told: impl Fn(u32) -> u32) -> u32 {
        let process_id = loop {
            let process_id = CLIENT_IDS_FROM + self.next;
            self.next = (self.next + 1) % CLIENT_IDS;
            if self.place_of(process_id, &told).is_none() {
                break process_id;
            }
        };
        let hash_of = |&place: &u32| hash(told(place));
        self.places.insert_unique(hash(process_id), place, hash_of);
        process_id
    }

    /// The client at `place`, which was told this process id, is about to be forgotten.
    pub(crate) fn take(&mut self, process_id: u32, place: u32) {
        if let Ok(entry) = self.places.find_entry(hash(process_id), |&other| other == place) {
            entry.remove();
        }
    }
}

/// Bytes of the secret under protocol 3.0, which knows no others.
pub(crate) const SECRET_BYTES_V3_0: u8 = 4;

/// Bytes of the secret under protocol 3.2.
pub(crate) const SECRET_BYTES_V3_2: u8 = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_come_again_only_when_all_others_have_been_told() {
        let mut ids = ProcessIds::new(u64::from(CLIENT_IDS) - 1);
        let mut told = Vec::new();
        for place in 0..3 {
            let given = ids.give(place, |place| told[place as usize]);
            told.push(given);
        }
        assert_eq!(told, [i32::MAX as u32, CLIENT_IDS_FROM, CLIENT_IDS_FROM + 1]);
        ids.take(told[1], 1);
        assert_eq!(ids.place_of(told[1], |place| told[place as usize]), None);
        assert_eq!(ids.place_of(told[2], |place| told[place as usize]), Some(2));
        assert_eq!(ids.give(1, |place| told[place as usize]), CLIENT_IDS_FROM + 2);
    }
}
