//! The decision about an authenticated client: whether it is admitted, into which pool, and with which process id.

use crate::base::errors::Trouble;
use crate::base::ids::ClientId;
use crate::base::pool_id::PoolId;
use crate::base::slab::Slab;
use crate::base::time::Time;
use crate::client::Client;
use crate::login::admission;
use crate::login::cancel_keys::KeyForm;
use crate::login::client_login::Destination;
use crate::login::rejection::Rejection;
use crate::pooler::Pooler;
use crate::pools::databases::NoPool;
use pgweir_auth::{Credential, Learned};
use pgweir_config::CONSOLE_DATABASE;

impl Pooler {
    /// The client is authenticated. From here on, errors may name databases.
    pub(crate) fn admit(&mut self, now: Time, id: ClientId, learned: Learned) {
        let Some(login) = self.login_mut(id) else { return };
        let user = login.user().to_string();
        if login.database() == CONSOLE_DATABASE {
            return match admission::console_access(&self.shared.config, &user) {
                Some(access) => self.open_console(now, id, &user, access),
                None => self.reject(now, id, &Rejection::not_on_console()),
            };
        }
        let destination = login.destination();
        match self.place_at(now, id, destination) {
            Ok(pool_id) => {
                self.client_count += 1;
                self.arrivals.has_arrived();
                self.learn_credential(id, pool_id, &user, learned);
                self.begin_welcome(now, id, pool_id);
            }
            Err(why) => self.reject(now, id, &why),
        }
    }

    /// Gives a client a place in its pool and counts it there, unless something forbids it.
    fn place_at(&mut self, now: Time, id: ClientId, to: Destination) -> Result<PoolId, Rejection> {
        let (database, user) = (&*to.database, &*to.user);
        let pool_id = match self.pool_started_with(now, database, user, to.kind, to.start) {
            Ok(pool_id) => pool_id,
            Err(NoPool::NoSuchDatabase) => return Err(Rejection::no_such_database(database)),
            Err(NoPool::TooManyStarts) => return Err(Rejection::too_many_starts()),
        };
        admission::may_use(&self.shared.config, &self.databases, database)?;
        if self.client_count >= self.shared.settings.max_client_conn {
            return Err(Rejection::limit_reached(Trouble::TooManyClients, "max_client_conn"));
        }
        let pool = self.pools[pool_id as usize].as_mut().expect("looked up above");
        let counted = self.databases.client_in(&self.shared.config, pool, user);
        counted.map_err(|(trouble, limit)| Rejection::limit_reached(trouble, limit))?;
        let is_forced = *self.pool(pool_id).key.user != *user;
        let client = self.client_mut(id);
        client.pool = Some(pool_id);
        client.login_user = is_forced.then(|| user.into());
        client.counted = true;
        Ok(pool_id)
    }

    /// Stores what the login has shown as the best credential for the servers, unless the configuration has a password.
    fn learn_credential(&mut self, id: ClientId, pool_id: PoolId, user: &str, learned: Learned) {
        let found = self.login_mut(id).and_then(|login| login.found().cloned());
        let Some(credential) = admission::credential_learned(learned, found.as_ref()) else {
            return;
        };
        let pool = self.pool(pool_id);
        let configured = admission::stored_credential(&self.shared.config, &pool.key.database, user);
        if *pool.key.user == *user && !matches!(configured, Credential::Password(_)) {
            self.pool_mut(pool_id).credential = credential;
        }
    }

    /// The clients with this process id: at most one, unless this process has peers.
    pub(crate) fn clients_of_process(&self, process_id: u32) -> impl Iterator<Item = ClientId> {
        let places = self
            .process_ids
            .places_of(process_id, |place| told_at(&self.clients, place));
        places.filter_map(|place| Some(ClientId(self.clients.at_index(place)?.0)))
    }

    /// The process id that a client was told.
    pub(crate) fn process_id_told(&self, id: ClientId) -> u32 {
        self.clients.get(id.0).map_or(0, |client| client.process_id)
    }

    /// Gives an admitted client its process id, and decides about the form of its cancel key.
    pub(crate) fn give_process_id(&mut self, id: ClientId) {
        let peer_id = self.shared.config.global.peer_id;
        let clients = &self.clients;
        let process_id = self
            .process_ids
            .give(id.0.index, peer_id, |place| told_at(clients, place));
        let client = self.client_mut(id);
        client.process_id = process_id;
        if peer_id > 0 {
            client.key_form = KeyForm::Peered;
        }
    }

    /// Frees the process id of a client that is about to be removed.
    pub(crate) fn take_process_id(&mut self, id: ClientId) {
        self.process_ids.take(self.process_id_told(id), id.0.index);
    }
}

/// The process id of the client at a place of the slab.
fn told_at(clients: &Slab<Client>, place: u32) -> u32 {
    clients.at_index(place).map_or(0, |(_, client)| client.process_id)
}
