//! Pools whose size is `auto`: which servers count for the limit on servers at work, and who starts when there is room.

use crate::base::ids::ServerId;
use crate::base::pool_id::PoolId;
use crate::base::request::LogLevel;
use crate::base::slab::Slab;
use crate::base::time::Time;
use crate::client::Client;
use crate::exchange::Exchange;
use crate::flow::logins::opening::servers_soon_free;
use crate::pooler::Pooler;
use crate::pools::idle_list::Likeness;
use crate::pools::pool;
use crate::pools::sizing::{Sizing, SizingId, Sizings};
use crate::server::Server;
use crate::state::shape::Shape;
use crate::upstream::phase::{Intake, ServerPhase};
use pgweir_wire::frontend::BindNames;
use pgweir_wire::{HEADER_BYTES, Header, TransactionStatus};
use std::time::Duration;

/// A client that has sent nothing for this long since it got its server does not use the server.
const UNUSED_AFTER: Duration = Duration::from_millis(100);

/// A class that is not [`UNKNOWN`].
fn class(number: u64) -> u32 {
    ((number ^ (number >> 32)) as u32) | 1
}

impl Server {
    /// Whether a client keeps the server, which has nothing to do until the client sends more.
    fn rests(&self) -> bool {
        let talk = &self.conversation;
        let waits_for_data = talk.intake() == Intake::CopyIn;
        matches!(self.phase, ServerPhase::Linked)
            && (talk.queue().is_empty() || waits_for_data)
            && (!talk.is_clean() || waits_for_data)
            && !self.is_inside_message()
    }

    /// Whether the server works or could work: no client keeps it without using it.
    fn could_work(&self) -> bool {
        let is_held = self.link.is_some() && self.work.is_none();
        self.is_up() && !is_held
    }
}

impl Exchange<'_> {
    /// A client sends something to its server, beginning with `next`: the server works from now on.
    #[cold]
    pub(crate) fn works(&mut self, next: &[u8]) {
        if self.server.conversation.intake() == Intake::CopyIn {
            return;
        }
        let Some(share) = self.pool.share_mut() else { return };
        self.shared.sizings.begins(self.now, share, &mut self.server.work);
        if let Some(work) = self.server.work.as_mut().filter(|work| work.has_no_class()) {
            work.is_of(cost_class(self.client, next));
        }
    }
}

/// Requests of one class cost about the same.
fn cost_class(client: &Client, next: &[u8]) -> u32 {
    let Ok(Some(header)) = Header::read(next) else { return 1 };
    let body = &next[HEADER_BYTES..next.len().min(header.message_bytes as usize).max(HEADER_BYTES)];
    let number = match header.tag {
        b'Q' => pgweir_sql::cost_class(body),
        b'P' => {
            let text = body
                .iter()
                .position(|byte| *byte == 0)
                .map_or(&[][..], |end| &body[end + 1..]);
            pgweir_sql::cost_class(text.split(|byte| *byte == 0).next().unwrap_or_default())
        }
        b'B' => {
            let names = BindNames::read(body).ok();
            let meaning = names.and_then(|names| client.statements.named(names.statement));
            meaning.map_or(0, |meaning| meaning.statement().id)
        }
        tag => tag.into(),
    };
    class(number)
}

impl Pooler {
    /// A pool gets a part in the limit of its host, or gives it up, as its settings say.
    pub(crate) fn share_limit(&mut self, now: Time, pool_id: PoolId) {
        let pool = self.pools[pool_id as usize].as_mut().expect("the caller looked it up");
        let sizings = &mut self.shared.sizings;
        let (weight, is_auto) = (pool.settings().weight, pool.settings().is_auto);
        if let Some(share) = pool.share_mut() {
            share.set_weight(weight);
            let endpoints = sizings.get(share.sizing()).map(|sizing| sizing.endpoints());
            if is_auto && endpoints == Some(&pool.settings().endpoints) {
                return;
            }
            self.give_up_share(now, pool_id);
        }
        let pool = self.pools[pool_id as usize].as_mut().expect("the caller looked it up");
        if !pool.settings().is_auto {
            return;
        }
        let settings = &self.shared.settings;
        let sizings = &mut self.shared.sizings;
        let mut share = sizings.join(
            now,
            pool_id,
            &pool.settings().endpoints,
            pool.settings().weight,
            settings.pool_size_max,
        );
        let told = sizings.configure(now, settings.pool_size_max, settings.holds_sizes);
        for id in pool.members() {
            let Some(server) = self.servers.get_mut(id.0) else {
                continue;
            };
            sizings.server_in(pool_id, share);
            if server.is_up() {
                sizings.is_up(share);
            }
            if server.link.is_some() && !server.rests() {
                sizings.begins(now, &mut share, &mut server.work);
            }
        }
        pool.gets_share(share);
        told.into_iter().for_each(|text| self.log(LogLevel::Log, text));
    }

    /// A pool gives up its part in the limit of its host.
    pub(crate) fn give_up_share(&mut self, now: Time, pool_id: PoolId) {
        let pool = self.pools[pool_id as usize].as_mut().expect("the caller looked it up");
        let Some(mut share) = pool.take_share() else { return };
        for id in pool.members() {
            let Some(server) = self.servers.get_mut(id.0) else {
                continue;
            };
            let sizings = &mut self.shared.sizings;
            sizings.ends(now, &mut share, &mut server.work, false);
            sizings.server_out(pool_id, share, true);
            if server.is_up() {
                sizings.is_down(share);
            }
        }
        self.shared.sizings.leave(pool_id, share);
    }

    /// Whether a client of this pool may start without exceeding the limit.
    pub(crate) fn has_room_to_work(&self, pool_id: PoolId) -> bool {
        self.room_to_work(pool_id).is_none_or(|room| room > 0)
    }

    /// How many more clients of this pool may start; `None`: no limit but the pool's size.
    pub(crate) fn room_to_work(&self, pool_id: PoolId) -> Option<u32> {
        let share = self.pool(pool_id).share()?;
        Some(self.shared.sizings.get(share.sizing())?.room())
    }

    /// Whether this server, which has just become free, may go to the pool's next client at once: there is room, no
    /// other pool at its host could have the turn, and no idle server could suit the client better.
    pub(crate) fn may_take_turn(&self, pool_id: PoolId, server_id: ServerId) -> bool {
        let pool = self.pool(pool_id);
        let sizing = pool.share().and_then(|share| self.shared.sizings.get(share.sizing()));
        if sizing.is_none_or(|sizing| sizing.room() == 0 || sizing.pools().len() > 1) {
            return false;
        }
        let settings = &self.shared.settings;
        if pool.idle().front().is_none() {
            return true;
        }
        if pool.ties_clients() || settings.link_adversarial || settings.server_round_robin {
            return false;
        }
        let next = pool.waiting().front().and_then(|(id, _)| self.clients.get(id.0));
        let server = self.servers.get(server_id.0);
        next.zip(server).is_some_and(|(client, server)| {
            !client.statements.may_be_lent() && Shape::same(client.session.shape(), server.session.shape())
        })
    }

    /// A client of this pool was served as [`Pooler::may_take_turn`] says. The others go on waiting.
    pub(crate) fn turn_taken(&mut self, pool_id: PoolId) {
        let pool = self.pools[pool_id as usize].as_mut().expect("the caller looked it up");
        let nobody_waits = pool.waiting().is_empty();
        let Some(share) = pool.share_mut() else { return };
        match nobody_waits {
            true => self.shared.sizings.unlist(pool_id, share),
            false => self.shared.sizings.list(pool_id, share),
        }
    }

    /// A server does not work any more.
    pub(crate) fn work_ends(&mut self, now: Time, id: ServerId) {
        let Some(server) = self.servers.get_mut(id.0).filter(|s| s.work.is_some()) else {
            return;
        };
        let pool = self.pools[server.pool as usize]
            .as_mut()
            .expect("a server's pool lives");
        let waited = !pool.waiting().is_empty();
        if let Some(share) = pool.share_mut() {
            self.shared.sizings.ends(now, share, &mut server.work, waited);
        }
    }

    /// A flight has been answered.
    pub(crate) fn flight_worked(&mut self, now: Time, id: ServerId, flight_class: u64, took_us: u64, has_next: bool) {
        let Some(server) = self.servers.get_mut(id.0) else {
            return;
        };
        let pool = self.pools[server.pool as usize]
            .as_mut()
            .expect("a server's pool lives");
        let waited = has_next || !pool.waiting().is_empty();
        if let Some(share) = pool.share_mut() {
            let done = (class(flight_class), took_us);
            self.shared.sizings.goes_on(now, share, &mut server.work, done, waited);
        }
    }

    /// A server has answered: if its client has nothing more for it to do, another server may work.
    pub(crate) fn note_rest(&mut self, now: Time, id: ServerId) {
        let Some(server) = self.servers.get(id.0) else { return };
        if server.work.is_some() && server.rests() {
            self.stops_to_work(now, id);
        }
    }

    fn stops_to_work(&mut self, now: Time, id: ServerId) {
        let Some(pool_id) = self.servers.get(id.0).map(|s| s.pool) else {
            return;
        };
        self.work_ends(now, id);
        self.start_waiters(now, pool_id);
    }

    /// A client got a server long ago and has not used it, or uses it for far longer than others do.
    pub(crate) fn time_work(&mut self, now: Time, id: ServerId) {
        let is_unused = self.servers.get(id.0).is_some_and(|server| {
            let is_old = |work: crate::pools::sizing::Work| now - work.since() > UNUSED_AFTER;
            server.link.is_some()
                && server.conversation.queue().is_empty()
                && server.conversation.status() == TransactionStatus::Idle
                && server.work.is_some_and(is_old)
        });
        if is_unused {
            return self.stops_to_work(now, id);
        }
        let Some(server) = self.servers.get_mut(id.0) else {
            return;
        };
        let pool_id = server.pool;
        let share = self.pools[pool_id as usize].as_ref().and_then(|pool| pool.share());
        if share.is_some_and(|share| self.shared.sizings.becomes_long(now, &share, &mut server.work)) {
            self.start_waiters(now, pool_id);
        }
    }

    /// Clients of a pool wait: they start when there is room and it is the pool's turn.
    pub(crate) fn list_waiters(&mut self, pool_id: PoolId) {
        if self.pool_takes_no_clients_now(pool_id) {
            return;
        }
        let pool = self.pools[pool_id as usize].as_mut().expect("the caller looked it up");
        if let Some(share) = pool.share_if_waited_for() {
            self.shared.sizings.list(pool_id, share);
        }
    }

    /// Starts clients that wait at the host of this pool, as far as there is room.
    pub(crate) fn start_waiters(&mut self, now: Time, pool_id: PoolId) {
        let Some(share) = self.pool(pool_id).share() else {
            return;
        };
        self.start_waiters_at(now, share.sizing());
    }

    fn start_waiters_at(&mut self, now: Time, sizing: SizingId) {
        loop {
            let found = self.shared.sizings.get_mut(sizing).filter(|s| s.room() > 0);
            let Some(next) = found.and_then(|sizing| sizing.next_pool()) else {
                break;
            };
            if let Some(Some(pool)) = self.pools.get_mut(next as usize)
                && let Some(share) = pool.share_mut()
            {
                Sizings::taken(share);
                if self.start_waiter(now, next) {
                    self.list_waiters(next);
                } else if self.full_host(next).is_some() {
                    self.waits_for_host(next);
                }
            }
        }
        self.make_room_at(now, sizing);
    }

    /// Clients wait for a place at a host: an idle server of another pool makes room for the one whose turn it is.
    fn make_room_at(&mut self, now: Time, sizing: SizingId) {
        let Some(full) = self.shared.sizings.get(sizing).filter(|s| s.room() > 0 && s.is_full()) else {
            return;
        };
        let may_start = |id: &PoolId| !self.pool_takes_no_clients_now(*id) && !self.pool(*id).waiting().is_empty();
        let useless: Vec<PoolId> = full.owed().take_while(|id| !may_start(id)).collect();
        let may_open = |id: &PoolId| self.wants_a_server(now, *id) && self.pool(*id).may_retry(now);
        let next = full.owed().find(|id| may_start(id) && may_open(id));
        for id in useless {
            self.owe_nothing(id);
        }
        if let Some(next) = next {
            self.open_servers_for_waiters(now, next);
        }
    }

    /// A pool waits for no place any more.
    fn owe_nothing(&mut self, pool_id: PoolId) {
        let pool = self.pools[pool_id as usize].as_mut().expect("listed pools live");
        if let Some(share) = pool.share_mut() {
            self.shared.sizings.unlist(pool_id, share);
        }
    }

    /// Gives an idle server to the first waiting client of a pool, or opens one. `false`: no other client of this pool
    /// can start now.
    fn start_waiter(&mut self, now: Time, pool_id: PoolId) -> bool {
        if self.pool_takes_no_clients_now(pool_id) {
            return false;
        }
        let Some((client_id, _)) = self.pool(pool_id).waiting().front() else {
            return false;
        };
        let Some(client) = self.clients.get(client_id.0) else {
            return false;
        };
        let likeness = Likeness::of(client.session.shape());
        let Some(server_id) = self.take_idle(pool_id, client_id, likeness) else {
            self.open_servers_for_waiters(now, pool_id);
            return false;
        };
        let server = self.servers.get(server_id.0);
        if server.is_some_and(|s| s.must_be_tested(now, &self.shared.settings)) {
            self.test_server(now, server_id);
            let pool = self.pool(pool_id);
            return pool.waiting().len() > servers_soon_free(&self.servers, pool);
        }
        if self.serve_waiter(now, pool_id, server_id) {
            return true;
        }
        self.put_back(pool_id, server_id);
        false
    }

    /// Asks the controllers whose time has come for their limits.
    pub(crate) fn tick_sizings(&mut self, now: Time) {
        if self.admin.is_suspended() {
            return;
        }
        for id in self.shared.sizings.due_now(now) {
            let found = self.shared.sizings.get(id);
            let connected = found.map_or(0, |sizing| could_work(&self.servers, &self.pools, sizing));
            let Some(sizing) = self.shared.sizings.get_mut(id) else {
                continue;
            };
            if let Some(text) = sizing.tick(now, connected) {
                self.log(LogLevel::Log, text);
            }
            self.start_waiters_at(now, id);
        }
    }

    /// The limit of a pool's host, if all servers that the host allows are there.
    pub(crate) fn full_host(&self, pool_id: PoolId) -> Option<SizingId> {
        let id = self.pool(pool_id).share()?.sizing();
        let sizing = self.shared.sizings.get(id)?;
        sizing.is_full().then_some(id)
    }
}

/// The servers of a host that could work.
fn could_work(servers: &Slab<Server>, pools: &[Option<pool::Pool>], sizing: &Sizing) -> u32 {
    let all = sizing.holders().flat_map(|id| pool::of(pools, id).members());
    let could_work = |id: &&ServerId| servers.get(id.0).is_some_and(Server::could_work);
    all.filter(could_work).count() as u32
}
