//! The context of a client that is logging in: what its messages change, looked up once.

use crate::base::access::Access;
use crate::base::ids::ClientId;
use crate::base::request::LogLevel;
use crate::base::surroundings::Surroundings;
use crate::client::Client;
use crate::console::orders::Orders;
use crate::login::lookups::Lookups;
use crate::login::rejection::Rejection;
use crate::pooler::Pooler;
use crate::pools::pool::Pool;
use crate::shared::Shared;
use pgweir_auth::{ClientAuthMethod, Learned, MockKey, ScramKeyCache};
use pgweir_wire::{CancelKey, Writer};

/// A client that has not logged in. No other connection can be reached from here.
pub(crate) struct Arrival<'a> {
    pub(super) id: ClientId,
    pub(super) client: &'a mut Client,
    pub(super) shared: &'a mut Shared,
    pub(super) pools: &'a [Option<Pool>],
    pub(super) orders: &'a Orders,
    pub(super) lookups: &'a mut Lookups,
    pub(super) scram_keys: &'a mut ScramKeyCache,
    pub(super) mock_key: &'a MockKey,
    pub(super) surroundings: &'a Surroundings,
    /// Clients that have a place under max_client_conn.
    pub(super) client_count: u32,
}

/// What the pooler must do next for a client that is logging in.
#[derive(Debug)]
pub(crate) enum Next {
    /// Nothing: the client, the driver or a server must answer first.
    Nothing,
    /// The client is refused with this error.
    Reject(Rejection),
    /// Its connection is closed for this reason.
    Close(&'static str),
    /// It is not a session: it has sent a CancelRequest.
    Cancel(CancelKey),
    /// It is on the console from here on.
    OpenConsole(Access),
    /// Its authentication by this method begins.
    Authenticate(ClientAuthMethod),
    /// A server must say whether its user is a member of these roles, or nobody can.
    AskRoles(Vec<Box<str>>),
    /// It needs a server, on which auth_query looks up its secret.
    GetServer,
    /// It is authenticated.
    Admit(Learned),
}

impl Pooler {
    /// A client that has not logged in.
    pub(super) fn arrival(&mut self, id: ClientId) -> Option<Arrival<'_>> {
        Some(Arrival {
            id,
            client: self.clients.get_mut(id.0)?,
            shared: &mut self.shared,
            pools: &self.pools,
            orders: &self.admin,
            lookups: &mut self.lookups,
            scram_keys: &mut self.scram_keys,
            mock_key: &self.mock_key,
            surroundings: &self.surroundings,
            client_count: self.client_count,
        })
    }
}

impl Arrival<'_> {
    /// Writes messages to the client.
    pub(super) fn tell(&mut self, write: impl FnOnce(&mut Writer<'_>)) {
        self.shared
            .outbox
            .insert(self.id.into(), |bytes| write(&mut Writer::new(bytes)));
    }

    /// Logs something about the client.
    pub(super) fn log(&mut self, level: LogLevel, what: &str) {
        let label = self.client.label(self.id, self.pools);
        self.shared.log(level, format!("{label} {what}"));
    }

    /// Logs the reason for the operator; the client is told less.
    pub(super) fn log_failed_login(&mut self, reason: &str) {
        self.log(LogLevel::Log, &format!("login failed: {reason}"));
    }
}
