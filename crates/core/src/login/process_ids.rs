//! The process ids that clients are told at login.
//!
//! They count up and come again only after all others have: drivers' pools tell connections apart by them. They begin above
//! every process id of a PostgreSQL on Linux, so that a number in SQL is one or the other.

use crate::base::ids::ClientId;
use crate::base::slab::Slab;
use crate::client::Client;
use crate::pooler::Pooler;
use hashbrown::HashTable;

/// The least one: Linux gives no process an id above 2^22.
pub(crate) const CLIENT_IDS_FROM: u32 = (1 << 22) + 1;

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
}

fn hash(process_id: u32) -> u64 {
    u64::from(process_id)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .rotate_left(32)
}

fn at(clients: &Slab<Client>, place: u32) -> u32 {
    clients.at_index(place).map_or(0, |(_, client)| client.process_id)
}

impl Pooler {
    /// The client that was told this process id.
    pub(crate) fn client_of_process(&self, process_id: u32) -> Option<ClientId> {
        let is_it = |&place: &u32| at(&self.clients, place) == process_id;
        let place = self.process_ids.places.find(hash(process_id), is_it)?;
        Some(ClientId(self.clients.at_index(*place)?.0))
    }

    /// What a client was told.
    pub(crate) fn process_id_told(&self, id: ClientId) -> u32 {
        self.clients.get(id.0).map_or(0, |client| client.process_id)
    }

    /// Gives a client that is let in its process id.
    pub(crate) fn give_process_id(&mut self, id: ClientId) -> u32 {
        let process_id = loop {
            let process_id = CLIENT_IDS_FROM + self.process_ids.next;
            self.process_ids.next = (self.process_ids.next + 1) % CLIENT_IDS;
            if self.client_of_process(process_id).is_none() {
                break process_id;
            }
        };
        self.client_mut(id).process_id = process_id;
        let clients = &self.clients;
        let places = &mut self.process_ids.places;
        places.insert_unique(hash(process_id), id.0.index, |&place| hash(at(clients, place)));
        process_id
    }

    /// A client is about to be forgotten.
    pub(crate) fn take_process_id(&mut self, id: ClientId) {
        let process_id = self.client_mut(id).process_id;
        let found = self
            .process_ids
            .places
            .find_entry(hash(process_id), |&place| place == id.0.index);
        if let Ok(entry) = found {
            entry.remove();
        }
    }
}

/// Bytes of the secret under protocol 3.0, which knows no others.
pub(crate) const SECRET_BYTES_V3_0: u8 = 4;

/// Bytes of the secret under protocol 3.2.
pub(crate) const SECRET_BYTES_V3_2: u8 = 32;
