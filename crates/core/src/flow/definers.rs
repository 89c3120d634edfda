//! Clients whose definitions wait: see [`crate::catalog::debt`].

use crate::base::ids::{ClientId, ServerId};
use crate::base::reasons::Waiting;
use crate::base::request::Request;
use crate::base::time::Time;
use crate::pooler::Pooler;

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
}
