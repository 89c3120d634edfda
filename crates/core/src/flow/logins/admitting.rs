//! The decision about an authenticated client: whether it is admitted, into which pool, and with which process id.

use crate::base::errors::Trouble;
use crate::base::ids::ClientId;
use crate::base::pool_id::PoolId;
use crate::base::request::LogLevel;
use crate::base::slab::Slab;
use crate::base::time::Time;
use crate::client::Client;
use crate::flow::logins::arrival::Next;
use crate::login::admission;
use crate::login::cancel_keys::KeyForm;
use crate::login::client_login::Login;
use crate::login::login_step::Destination;
use crate::login::process_ids::ProcessIds;
use crate::login::rejection::{NEEDS_FORCED_USER, Rejection};
use crate::pooler::Pooler;
use crate::pools::databases::NoPool;
use crate::pools::pool::Pool;
use pgweir_auth::{Credential, Learned};
use pgweir_config::{CONSOLE_DATABASE, Config};

impl Pooler {
    /// The client is authenticated. From here on, errors may name databases.
    pub(crate) fn admit(&mut self, now: Time, id: ClientId, learned: Learned) -> Next {
        let Some(login) = self.clients.get_mut(id.0).and_then(Client::login_mut) else {
            return Next::Nothing;
        };
        self.lookups.keep(&self.shared.config, &self.mock_key, login);
        if login.database() == CONSOLE_DATABASE {
            return match admission::console_access(&self.shared.config, login.user()) {
                Some(access) => Next::OpenConsole(access),
                None => Next::Reject(Rejection::not_on_console()),
            };
        }
        let destination = login.destination();
        match self.place_at(now, id, destination) {
            Ok(pool_id) => {
                self.client_count += 1;
                self.arrivals.has_arrived();
                let pool = self.pools[pool_id as usize].as_mut().expect("found above");
                if let Some(login) = self.clients.get(id.0).and_then(Client::login) {
                    learn_credential(&self.shared.config, pool, login, learned);
                }
                self.begin_welcome(now, id);
                Next::Nothing
            }
            Err(why) => {
                if why == Rejection::needs_forced_user()
                    && let Some(mut arrival) = self.arrival(id)
                {
                    arrival.log(LogLevel::Error, NEEDS_FORCED_USER);
                }
                Next::Reject(why)
            }
        }
    }

    /// Gives a client a place in its pool and counts it there, unless something forbids it.
    fn place_at(&mut self, now: Time, id: ClientId, to: Destination) -> Result<PoolId, Rejection> {
        let (database, user) = (&*to.database, &*to.user);
        let pool_id = match self.pool_started_with(now, Some(id), database, user, to.kind, to.start) {
            Ok(pool_id) => pool_id,
            Err(NoPool::NoSuchDatabase) => return Err(Rejection::no_such_database(database)),
            Err(NoPool::TooLongName) => return Err(Rejection::absent_database(database)),
            Err(NoPool::TooManyStarts) => return Err(Rejection::too_many_starts()),
        };
        admission::may_use(&self.shared.config, &self.databases, database)?;
        if self.client_count >= self.shared.settings.max_client_conn {
            return Err(Rejection::limit_reached(Trouble::TooManyClients, "max_client_conn"));
        }
        let pool = self.pools[pool_id as usize].as_mut().expect("looked up above");
        let counted = self.databases.client_in(&self.shared.config, pool, user);
        counted.map_err(|(trouble, limit)| Rejection::limit_reached(trouble, limit))?;
        let is_forced = *self.pool(pool_id).key().user != *user;
        let client = self.client_mut(id);
        client.pool = Some(pool_id);
        client.login_user = is_forced.then(|| user.into());
        client.counted = true;
        Ok(pool_id)
    }
}

/// Stores what the login has shown as the best credential for the servers, unless the configuration has a password, or
/// a login with newer knowledge has shown another.
fn learn_credential(config: &Config, pool: &mut Pool, login: &Login, learned: Learned) {
    let Some(credential) = admission::credential_learned(learned, login.found()) else {
        return;
    };
    let configured = admission::stored_credential(config, &pool.key().database, login.user());
    if *pool.key().user == *login.user() && !matches!(configured, Credential::Password(_)) {
        pool.logs_in_with(credential, login.known_as_of());
    }
}

/// The clients with this process id: at most one, unless this process has peers.
pub(crate) fn clients_of_process<'a>(
    process_ids: &'a ProcessIds,
    clients: &'a Slab<Client>,
    process_id: u32,
) -> impl Iterator<Item = ClientId> + 'a {
    let places = process_ids.places_of(process_id, |place| told_at(clients, place));
    places.filter_map(|place| Some(ClientId(clients.at_index(place)?.0)))
}

/// The process id that a client was told.
pub(crate) fn process_id_told(clients: &Slab<Client>, id: ClientId) -> u32 {
    clients.get(id.0).map_or(0, |client| client.process_id)
}

/// Gives an admitted client its process id, and decides about the form of its cancel key.
pub(crate) fn give_process_id(process_ids: &mut ProcessIds, clients: &mut Slab<Client>, id: ClientId, peer_id: u32) {
    let process_id = process_ids.give(id.0.index, peer_id, |place| told_at(clients, place));
    let Some(client) = clients.get_mut(id.0) else { return };
    client.process_id = process_id;
    if peer_id > 0 {
        client.key_form = KeyForm::Peered;
    }
}

/// The process id of the client at a place of the slab.
fn told_at(clients: &Slab<Client>, place: u32) -> u32 {
    clients.at_index(place).map_or(0, |(_, client)| client.process_id)
}
