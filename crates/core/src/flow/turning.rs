//! Servers that do not match `target_session_attrs`, or no longer do.

use crate::base::address::Address;
use crate::base::close_reason::CloseReason;
use crate::base::ids::ServerId;
use crate::base::pool_id::{LoginFailure, PoolId};
use crate::base::request::{Connected, Endpoint, LogLevel};
use crate::base::time::Time;
use crate::pooler::Pooler;
use crate::pools::pool::Pool;
use crate::reply::Reply;
use crate::server::{self, Server};
use pgweir_config::TargetSessionAttrs;

/// SQLSTATE of a statement that writes in a read-only transaction: read_only_sql_transaction.
const READ_ONLY_TRANSACTION: &[u8] = b"25006";

impl Pooler {
    /// The login to a server of second choice has succeeded. It serves only if there is no better one.
    pub(crate) fn second_choice(&mut self, now: Time, id: ServerId, why: &'static str) {
        let server = self.server_mut(id);
        let (pool_id, endpoint) = (server.pool, server.endpoint.clone());
        let pool = self.pool(pool_id);
        let place = pool.host_of(&endpoint);
        if place.is_some_and(|place| pool.hosts().second_choice_serves(place)) {
            return self.server_welcomes(now, id, false);
        }
        if let Some(place) = place {
            self.pool_mut(pool_id).hosts_mut().steps_back(place);
        }
        self.leave_server(now, id, why);
    }

    /// Closes a server after its login.
    fn leave_server(&mut self, now: Time, id: ServerId, why: &str) {
        let failure = LoginFailure::temporary(why);
        let text = format!(
            "{} target_session_attrs: {why}",
            server::label(&self.servers, &self.pools, id)
        );
        self.log(LogLevel::Log, text);
        self.send(id, |w| w.terminate());
        self.login_failed(now, id, "login failed", failure);
    }

    /// The login to a server that must not serve has succeeded. The other servers at its address must not serve either.
    pub(crate) fn server_is_unwanted(&mut self, now: Time, id: ServerId, why: &'static str) {
        let goes_on = self.may_be_wanted_elsewhere(id);
        let server = self.server_mut(id);
        let (pool_id, endpoint, connected) = (server.pool, server.endpoint.clone(), server.connected);
        if goes_on {
            // The attempt has not failed yet.
            server.is_former = true;
        } else {
            let pool = self.pool_mut(pool_id);
            if let Some(place) = pool.host_of(&endpoint) {
                pool.hosts_mut().is_unwanted(place);
            }
        }
        self.leave_server(now, id, why);
        let remote = |connected: Option<Connected>| connected.map(|c| c.remote);
        self.retire_servers(now, pool_id, |_, other| {
            other.endpoint == endpoint && remote(other.connected) == remote(connected)
        });
    }

    /// Whether the name of a server's host has another address, where a server of the right kind may be.
    fn may_be_wanted_elsewhere(&mut self, id: ServerId) -> bool {
        let server = self.server_mut(id);
        let (pool_id, endpoint) = (server.pool, server.endpoint.clone());
        let Some(Address::Tcp(at)) = server.connected.map(|c| c.remote) else {
            return false;
        };
        let Endpoint::Tcp { host, .. } = &endpoint else {
            return false;
        };
        let Some(name) = self.names.hosts.iter().find(|known| known.name == *host) else {
            return false;
        };
        let pool = self.pools[pool_id as usize].as_mut().expect("a server's pool lives");
        let Some(place) = pool.host_of(&endpoint) else {
            return false;
        };
        // Addresses take turns, and connections that are being opened may have the same ones.
        let times_max = 2 * name.addresses.len() + pool.connecting() as usize;
        pool.hosts_mut()
            .may_be_wanted_elsewhere(place, at.ip(), &name.addresses, times_max)
    }

    /// The login to a wanted server has succeeded: servers of second choice are retired.
    pub(crate) fn retire_second_choices(&mut self, now: Time, pool_id: PoolId) {
        if self.pool(pool_id).settings().target == TargetSessionAttrs::PreferStandby {
            self.retire_servers(now, pool_id, |pool, server| {
                let place = pool.host_of(&server.endpoint);
                place.is_some_and(|place| pool.hosts().is_known_unwanted(place))
            });
        }
    }

    /// While servers of second choice serve, a better host is tried again every server_login_retry, whether or not a
    /// client needs one more server. In a full pool a server is given up for it.
    pub(crate) fn seek_better_host(&mut self, now: Time, pool_id: PoolId) {
        let pool = self.pool(pool_id);
        let pause = self.shared.settings.server_login_retry;
        if pool.settings().target != TargetSessionAttrs::PreferStandby
            || pool.clients() == 0
            || pool.connecting() > 0
            || !pool.hosts().better_is_due(now, pause)
        {
            return;
        }
        match self.limits_allow_one_more(now, pool_id) {
            true => drop(self.connect(now, pool_id)),
            false => self.give_one_up(now, pool_id),
        }
    }

    /// Closes one server of a pool when it is free, unless one will be closed anyway.
    fn give_one_up(&mut self, now: Time, pool_id: PoolId) {
        let members = self.pool(pool_id).members();
        let ends = |id: &ServerId| {
            self.servers
                .get(id.0)
                .is_some_and(|server| server.close_reason.is_some())
        };
        if members.iter().any(ends) {
            return;
        }
        let oldest = members.first().copied();
        if let Some(idle) = self.pool(pool_id).idle().front() {
            return self.close_server(now, idle, CloseReason::Turned.text());
        }
        if let Some(oldest) = oldest {
            self.server_mut(oldest).close_reason = Some(CloseReason::Turned);
        }
    }

    /// Closes these servers of a pool, as they become free.
    fn retire_servers(&mut self, now: Time, pool_id: PoolId, which: impl Fn(&Pool, &Server) -> bool) {
        for id in self.pool(pool_id).members().to_vec() {
            let Some(server) = self.servers.get(id.0) else { continue };
            if server.is_opening() || !which(self.pool(pool_id), server) {
                continue;
            }
            if server.is_idle() {
                self.close_server(now, id, CloseReason::Turned.text());
            } else if let Some(server) = self.servers.get_mut(id.0) {
                server.close_reason.get_or_insert(CloseReason::Turned);
            }
        }
    }
}

impl Reply<'_> {
    /// The server has refused a statement. If the statement writes, the server may have become read-only: it is closed
    /// when it is free, and the next server is examined at its login.
    pub(crate) fn note_refusal_to_write(&mut self, sqlstate: &[u8]) {
        use TargetSessionAttrs::{Primary, ReadWrite};
        if sqlstate == READ_ONLY_TRANSACTION && matches!(self.pool.settings().target, ReadWrite | Primary) {
            self.server.refused_write = Some(self.server.conversation.queue().segments_answered());
            self.suspect_server();
        }
    }

    /// Whether a setting that the server reports shows a change of the server's defaults, rather than a SET of the
    /// client: a SET would have been rolled back with the statement that was refused.
    pub(crate) fn has_turned(&mut self, name: &str) -> bool {
        let here = self.server.conversation.queue().segments_answered();
        let has_turned = name == "default_transaction_read_only" && self.server.refused_write == Some(here);
        if has_turned {
            self.server.close_reason.get_or_insert(CloseReason::Turned);
        }
        has_turned
    }

    /// The server reports a setting. A standby that was promoted shows it this way.
    pub(crate) fn note_promotion(&mut self, name: &str, value: &str) {
        use TargetSessionAttrs::{PreferStandby, ReadOnly, Standby};
        let was_standby = || {
            self.server
                .session
                .shape()
                .get("in_hot_standby")
                .is_some_and(|s| *s.value() == *"on")
        };
        if name == "in_hot_standby"
            && value == "off"
            && matches!(self.pool.settings().target, PreferStandby | ReadOnly | Standby)
            && was_standby()
        {
            self.suspect_server();
        }
    }

    fn suspect_server(&mut self) {
        let place = self.pool.host_of(&self.server.endpoint);
        if place.is_some_and(|place| self.pool.hosts_mut().suspect(self.now, place)) {
            self.server.close_reason.get_or_insert(CloseReason::Turned);
        }
    }
}
