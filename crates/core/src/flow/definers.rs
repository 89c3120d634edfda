//! Clients whose definitions wait: see [`crate::catalog::debt`].

use crate::base::ids::{ClientId, ServerId};
use crate::base::reasons::{Passing, Waiting};
use crate::base::request::Request;
use crate::base::time::Time;
use crate::pooler::Pooler;
use crate::server_side::ServerSide;
use crate::upstream::entry::To;
use crate::upstream::phase::Intake;
use pgweir_wire::TransactionStatus;

impl ServerSide<'_> {
    /// The server is idle in a transaction block whose client has sent its next request. A Sync changes nothing in a
    /// block, and PostgreSQL's `idle_in_transaction_session_timeout` counts from the answer.
    fn is_not_idle_in_block(&mut self) {
        let conversation = &self.server.conversation;
        let in_block = conversation.status() != TransactionStatus::Idle;
        let is_quiet = conversation.queue().is_empty() && !conversation.queue().segment_open();
        let takes_requests = conversation.intake() == Intake::Requests && conversation.fatal().is_none();
        if in_block && is_quiet && takes_requests && !self.server.cancels.are_under_way() {
            self.asks(To::Skip, |r| r.sync());
        }
    }
}

impl Pooler {
    /// A client's message may be a definition. If it must wait, the client gives its server back, unless it is in a
    /// transaction block or keeps the server. Returns whether it waits.
    #[cold]
    pub(crate) fn waits_to_define(&mut self, now: Time, id: ClientId, server_id: ServerId) -> bool {
        let pool_id = self.server_mut(server_id).pool;
        if !self.catalogs().must_definitions_wait(now, pool_id) {
            return false;
        }
        self.shared.state_stats.definitions_delayed += 1;
        // It may have waited for flights before.
        self.shared.catalogs.publications_mut().ends(id);
        self.shared.catalogs.definition_waits(id);
        self.begins_to_wait(now, id, server_id);
        self.release_if_clean(now, server_id);
        true
    }

    /// A client waits to define. The time counts as a part of its request, whether or not it gives its server back.
    pub(super) fn begins_to_wait(&mut self, now: Time, id: ClientId, server_id: ServerId) {
        let asked = self.server_mut(server_id).asked_before(now);
        let client = self.client_mut(id);
        client.waiting = Waiting::ToDefine;
        client.defines_since.get_or_insert(asked);
    }

    /// A client that has waited to define goes on.
    pub(super) fn waits_no_longer(&mut self, id: ClientId) {
        let client = self.client_mut(id);
        client.waiting = Waiting::No;
        if let Some(server_id) = client.link {
            let asked = client.defines_since.take();
            self.server_mut(server_id).asked = asked;
        }
    }

    /// Lets those go on whose definitions need not wait any longer.
    pub(crate) fn time_definers(&mut self, now: Time) {
        if !self.shared.catalogs.may_definitions_wait() && self.shared.catalogs.definers().is_empty() {
            return;
        }
        self.catalogs().tell_untold();
        for id in self.shared.catalogs.take_definers(now) {
            let Some(client) = self.clients.get(id.0).filter(|c| c.waiting == Waiting::ToDefine) else {
                continue;
            };
            let pool_id = client.pool;
            if pool_id.is_some_and(|pool| self.catalogs().must_definitions_wait(now, pool)) {
                self.shared.catalogs.definition_waits(id);
            } else {
                self.waits_no_longer(id);
                self.shared.requests.push_back(Request::Resume(id.into()));
            }
        }
    }

    /// Clients that wait to define in a transaction block are not idle: the limit on idle transactions must not end
    /// their servers.
    pub(crate) fn keep_blocks_of_definers(&mut self) {
        let catalogs = &self.shared.catalogs;
        let publishers = catalogs.publications().waiting().map(|(client, _)| client);
        let waiting: Vec<ClientId> = publishers.chain(catalogs.definers().iter().copied()).collect();
        for id in waiting {
            let client = self.clients.get(id.0);
            let waits = client.filter(|c| c.waiting == Waiting::ToDefine && c.passing == Passing::None);
            if let Some(server_id) = waits.and_then(|client| client.link) {
                self.at(server_id).is_not_idle_in_block();
            }
        }
    }
}
