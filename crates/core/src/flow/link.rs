//! Getting a server for a client, and linking the two.

use crate::base::consequence::Consequence;
use crate::base::errors::Trouble;
use crate::base::ids::{ClientId, ServerId};
use crate::base::message::STATEMENT_BYTES_MAX;
use crate::base::pool_id::{PoolId, PoolKind};
use crate::base::reasons::{Acquired, Dropping, Waiting};
use crate::base::settings::{PoolMode, Settings};
use crate::base::time::Time;
use crate::client::Client;
use crate::exchange::Exchange;
use crate::flow::own_server::own_server;
use crate::pooler::Pooler;
use crate::pools::idle_list::Likeness;
use crate::state::difference::difference;
use crate::state::sequences::Sequences;
use crate::state::shape::Shape;
use crate::upstream::phase::ServerPhase;
use pgweir_wire::frontend::Parse;
use pgweir_wire::{HEADER_BYTES, Header};
use std::sync::Arc;

/// The state of a client that has just been linked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Linked {
    /// The server has the client's settings.
    Ready,
    /// The server has other settings, or must be sent something else first.
    Differs,
    /// The client has not logged in yet.
    Login,
}

impl Exchange<'_> {
    /// Counts that the client gets the server, and whether another client had it last.
    #[inline(always)]
    pub(crate) fn counts_visit(&mut self) {
        let before = self.server.session.visit(self.id, &mut self.client.session);
        self.shared.state_stats.server_changes += u64::from(before.is_some_and(|last| last != self.id));
    }

    /// Links a client to a server that is clean and not notable.
    #[inline(always)]
    pub(crate) fn link(&mut self) -> Linked {
        self.link_as::<false>()
    }

    /// [`Exchange::link`]; `NOTABLE`: the server may be notable.
    #[inline(always)]
    fn link_as<const NOTABLE: bool>(&mut self) -> Linked {
        let (client, server) = (&mut *self.client, &mut *self.server);
        debug_assert!(server.is_clean() && server.link.is_none() && !server.cancels.may_hit());
        debug_assert_eq!(client.pool, Some(server.pool));
        server.phase = ServerPhase::Linked;
        server.link = Some(self.id);
        server.held.awaits_nothing();
        server.conversation.is_lent();
        server.has_served = true;
        server.since = self.now;
        server.conversation.is_idle_from(self.now);
        client.link = Some(self.server_id);
        self.counts_visit();
        let (client, server, pool) = (&mut *self.client, &mut *self.server, &mut *self.pool);
        server.asked = client.defines_since.take();
        if let Waiting::ForServer { since, .. } = client.waiting {
            pool.stats_mut().wait_time += self.now.us_since(since);
            server.asked = server.asked.or(client.is_session().then_some(client.request_time));
        }
        if let Some(share) = pool.share_mut() {
            self.shared.sizings.begins(self.now, share, &mut server.work);
        }
        client.waiting = Waiting::No;
        client.session.traces_are_considered();
        client.xact_start = server.asked.unwrap_or(self.now);
        if pool.settings().mode == PoolMode::Session || pool.key().kind.is_replication() {
            client.session.pin_by_mode();
        }
        pool.stats_mut().server_assignment_count += 1;
        if !client.is_session() {
            return Linked::Login;
        }
        if server.held.lends_to().is_some() {
            self.take_names_back();
        }
        if self.pool.sequences() != Sequences::Unused {
            self.to().sequences_on_link();
        }
        if NOTABLE && self.server.session.is_notable() {
            self.to().plans_on_link();
        }
        match Shape::same(self.client.session.shape(), self.server.session.shape())
            && !self.server.conversation.queue().segment_open()
        {
            true => Linked::Ready,
            false => Linked::Differs,
        }
    }
}

/// Whether the next message of a client without a server is a complete request that only a server can answer: no copy
/// message, no Sync, no BEGIN that can be deferred. `false` means: not known.
#[inline(always)]
fn surely_needs_server(client: &Client, settings: &Settings, next: &[u8]) -> bool {
    let Ok(Some(header)) = Header::read(next) else {
        return false;
    };
    let total = header.message_bytes as usize;
    if total > STATEMENT_BYTES_MAX || header.message_bytes > settings.max_packet_bytes || total > next.len() {
        return false;
    }
    let body = &next[HEADER_BYTES..total];
    match header.tag {
        b'Q' => !settings.disable_pqexec && begins_no_block(body.strip_suffix(&[0]).unwrap_or(body)),
        b'B' => {
            let statements = &client.statements;
            !statements.names().is_some_and(|names| names.some_begin_block())
                && !statements.unnamed().is_some_and(|s| s.begins_block())
        }
        b'P' => Parse::read(body).is_ok_and(|p| begins_no_block(p.query)),
        _ => false,
    }
}

#[inline(always)]
fn begins_no_block(text: &[u8]) -> bool {
    use pgweir_sql::Statement::{Begin, StartTransaction};
    !matches!(pgweir_sql::classify(text), Begin | StartTransaction)
}

impl Pooler {
    /// Gets a server for a client: an idle one, or a place in the queue.
    pub(crate) fn acquire(&mut self, now: Time, id: ClientId) -> Acquired {
        let latest = match self.clients.get(id.0) {
            Some(Client {
                pool: Some(pool),
                session,
                statements,
                ..
            }) if !statements.may_be_lent() => self.take_latest(now, *pool, Likeness::of(session.shape())),
            _ => None,
        };
        match latest {
            Some(server_id) => self.link(now, id, server_id),
            None => self.acquire_with_care(now, id),
        }
    }

    /// The short way to a server, for a client whose next message surely needs one: takes the server that became idle
    /// last, if it has the client's settings and no rare case applies. `None`: nothing was done.
    #[inline(always)]
    pub(crate) fn takes_plainly(&mut self, now: Time, id: ClientId, next: &[u8]) -> Option<ServerId> {
        let client = self.clients.get(id.0)?;
        if client.dropping != Dropping::Nothing
            || client.attends()
            || client.statements.may_be_lent()
            || !surely_needs_server(client, &self.shared.settings, next)
        {
            return None;
        }
        let (pool, likeness) = (client.pool?, Likeness::of(client.session.shape()));
        self.take_latest(now, pool, likeness)
    }

    /// Takes the server that became idle last out of a pool's list, if it has these settings and no rare case applies.
    #[inline(always)]
    fn take_latest(&mut self, now: Time, pool: PoolId, likeness: Likeness) -> Option<ServerId> {
        let settings = &self.shared.settings;
        if settings.link_adversarial || settings.server_round_robin || !self.has_no_orders() {
            return None;
        }
        let pool = self.pools[pool as usize].as_mut()?;
        if pool.ties_clients() || !pool.waiting().is_empty() || pool.share().is_some() {
            return None;
        }
        let server_id = pool.idle().latest_like(likeness)?;
        let server = self.servers.get(server_id.0)?;
        if server.session.is_notable() || server.must_be_tested(now, settings) {
            return None;
        }
        pool.idle_mut().pop_back()
    }

    fn acquire_with_care(&mut self, now: Time, id: ClientId) -> Acquired {
        let Some(client) = self.clients.get(id.0) else {
            return Acquired::Closed;
        };
        let Some(pool_id) = client.pool else {
            return Acquired::Closed;
        };
        let likeness = Likeness::of(client.session.shape());
        if self.refuses_waiters(pool_id) {
            self.refuse_for_shutdown(now, id);
            return Acquired::Closed;
        }
        if self.pool_takes_no_clients_now(pool_id) {
            return self.enqueue(now, id, pool_id);
        }
        if self.pool(pool_id).waiting().is_empty() && self.has_room_to_work(pool_id) {
            let mut found = self.take_idle(pool_id, id, likeness);
            if let Some(chosen) = found
                && self
                    .servers
                    .get(chosen.0)
                    .is_some_and(|s| s.session.has_temporary_schema())
            {
                found = self.instead_of_traces(now, id, pool_id, chosen);
            }
            if let Some(server_id) = found {
                let server = self.servers.get(server_id.0).expect("idle servers live");
                if server.must_be_tested(now, &self.shared.settings) {
                    self.test_server(now, server_id);
                } else {
                    return self.link(now, id, server_id);
                }
            }
        }
        if let Some(closed) = self.fails_fast(now, id, pool_id) {
            return closed;
        }
        let waits = self.enqueue(now, id, pool_id);
        self.wake_idle(now, pool_id);
        self.open_servers_for_waiters(now, pool_id);
        waits
    }

    /// Takes the idle server that fits a client best out of the list.
    pub(crate) fn take_idle(&mut self, pool_id: PoolId, id: ClientId, likeness: Likeness) -> Option<ServerId> {
        let pool = self.pools[pool_id as usize].as_mut().expect("the caller looked it up");
        let client = self.clients.get(id.0);
        let may_be_lent = client.is_some_and(|client| client.statements.may_be_lent());
        if pool.ties_clients() || may_be_lent || self.shared.settings.link_adversarial {
            let shape = self.client_mut(id).session.shape().clone();
            return self.take_idle_with_care(pool_id, id, &shape);
        }
        if self.shared.settings.server_round_robin {
            return pool.idle_mut().pop_front();
        }
        pool.idle_mut().take_like(likeness)
    }

    /// Like [`Pooler::take_idle`], if clients claim servers (see [`crate::session::sequences`]), if a server may hold
    /// statements under the client's names (see [`crate::preparing::client_named`]), or for tests.
    fn take_idle_with_care(&mut self, pool_id: PoolId, id: ClientId, shape: &Arc<Shape>) -> Option<ServerId> {
        let pool = self.pools[pool_id as usize].as_mut().expect("the caller looked it up");
        let servers = &self.servers;
        let visits = self.clients.get(id.0).map_or(0, |c| c.session.visits());
        // With `link = adversarial`, a client gets its last server back only if it has claimed it.
        let own = own_server(pool.idle(), servers, id, visits);
        if let Some(own) = own.filter(|_| pool.sequences() != Sequences::Unused)
            && (!self.shared.settings.link_adversarial
                || pool
                    .idle()
                    .get(own)
                    .is_some_and(|s| servers.get(s.0).is_some_and(|s| s.session.is_claimed())))
        {
            return pool.idle_mut().remove(own);
        }
        let lent = |s: &ServerId| {
            servers
                .get(s.0)
                .is_some_and(|s| s.held.lends_to() == Some(id) && !s.session.is_claimed())
        };
        if self.clients.get(id.0).is_some_and(|c| c.statements.may_be_lent())
            && !self.shared.settings.link_adversarial
            && let Some(own) = pool.idle().iter().rposition(lent)
        {
            return pool.idle_mut().remove(own);
        }
        let free = |(_, s): &(usize, &ServerId)| servers.get(s.0).is_some_and(|s| !s.session.is_claimed());
        let mut likely = pool.idle().iter().enumerate().rev().filter(free);
        let found = if self.shared.settings.link_adversarial {
            // For tests: the server that needs the most restoring.
            let effort = |s: &ServerId| {
                servers
                    .get(s.0)
                    .map_or(0, |s| difference(s.session.shape(), shape).len())
            };
            likely.max_by_key(|(_, s)| effort(s))
        } else if self.shared.settings.server_round_robin {
            pool.idle().iter().enumerate().find(free)
        } else {
            let latest = likely.clone().next();
            let same = |s: &ServerId| servers.get(s.0).is_some_and(|s| Shape::same(s.session.shape(), shape));
            likely.find(|(_, s)| same(s)).or(latest)
        };
        match found {
            Some((at, _)) => pool.idle_mut().remove(at),
            // All servers are claimed: takes the one whose client has not used it for the longest time.
            None => pool.idle_mut().pop_front(),
        }
    }

    fn enqueue(&mut self, now: Time, id: ClientId, pool_id: PoolId) -> Acquired {
        let ticket = self.joins_queue(now, id, pool_id);
        let client = self.clients.get_mut(id.0).expect("the caller looked it up");
        client.waiting = Waiting::ForServer {
            ticket,
            since: now,
            notified: false,
        };
        client.request_time = now;
        Acquired::Wait
    }

    /// If servers refuse the login permanently and none is left, waiting cannot help.
    fn fails_fast(&mut self, now: Time, id: ClientId, pool_id: PoolId) -> Option<Acquired> {
        let pool = self.pool(pool_id);
        // The duration of a login must not show who is in auth_file while auth_query has no server.
        let looks_up = pool.key().kind == PoolKind::AuthQuery;
        let never_waits = looks_up || !self.shared.settings.server_down_wait;
        let failure = pool.failure().cloned();
        let failure = failure.filter(|f| (never_waits || !f.temporary) && !pool.has_ready_servers())?;
        if pool.may_retry(now) {
            return None;
        }
        self.refuse_for_login_failure(now, id, &failure.cached());
        Some(Acquired::Closed)
    }

    pub(crate) fn refuse_for_login_failure(
        &mut self,
        now: Time,
        id: ClientId,
        failure: &crate::base::pool_id::LoginFailure,
    ) {
        if self.awaits_auth_query(id) {
            return self.give_up_lookup(now, id, &failure.message);
        }
        let row = Trouble::ServerUnavailable.row();
        // If no server has sent the error, the client gets PgBouncer's words.
        let (sqlstate, message, hint) = match &failure.sqlstate {
            None => (
                row.sqlstate,
                failure.cached().message,
                "The pooler tries again every second while a client waits: see server_down_wait.",
            ),
            Some(sqlstate) => (
                &**sqlstate,
                failure.message.clone(),
                "This is what the server has answered. The pooler tries again after server_login_retry.",
            ),
        };
        self.log_pooler_error(id, &message);
        self.send(id, |w| {
            w.error(&pgweir_wire::write::ErrorText {
                severity: row.severity,
                sqlstate,
                message: &message,
                detail: "",
                hint,
            })
        });
        self.close_client(now, id, &message);
    }

    /// Links a client to a clean server and restores the client's session state there.
    pub(crate) fn link(&mut self, now: Time, id: ClientId, server_id: ServerId) -> Acquired {
        match self.between(now, id, server_id).link_as::<true>() {
            Linked::Ready => Acquired::Server(server_id),
            Linked::Differs => self.restore(now, id, server_id),
            Linked::Login => {
                let (client, server) = (id, server_id);
                self.consequences
                    .push_back(Consequence::LoginHasServer { client, server });
                Acquired::Wait
            }
        }
    }

    /// Closes the server of a client that continues without it.
    pub(crate) fn close_linked(&mut self, now: Time, id: ClientId, server_id: ServerId, reason: &str) {
        self.unlink(id, server_id);
        self.close_server(now, server_id, reason);
    }

    /// Client and server have nothing to do with each other any more. What becomes of the server is the caller's matter.
    pub(crate) fn unlink(&mut self, id: ClientId, server_id: ServerId) {
        let client = self.client_mut(id);
        client.link = None;
        client.session.leaves_server();
        self.server_mut(server_id).link = None;
    }
}

#[cfg(test)]
#[path = "link_tests.rs"]
mod tests;
