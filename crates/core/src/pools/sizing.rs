//! Limits on servers at work, one for each host whose pools have the size `auto`: see docs/sizing.md.
//!
//! The pools of a host use the same PostgreSQL, so they share one limit. It applies to clients that ask for a server.
//! A client that holds a server goes on, because others may wait for its locks.

mod host;
mod share;

use crate::base::pool_id::PoolId;
use crate::base::request::Endpoint;
use crate::base::time::Time;
use host::{Servers, bounds};
use pgweir_sizing::{Bounds, Controller, Step};
pub(crate) use share::{Share, SizingId, UNKNOWN, Work};
use std::collections::BTreeSet;
use std::time::Duration;

/// The limit at the beginning.
const LIMIT_AT_FIRST: u32 = 8;

/// Completions per second are counted over this time.
const RATE_PERIOD: Duration = Duration::from_secs(1);

/// One host, or one list of hosts, and what its pools share.
#[derive(Debug, pgweir_freeze::Freeze)]
pub(crate) struct Sizing {
    endpoints: Vec<Endpoint>,
    controller: Controller,
    /// The pools whose size is `auto`.
    pools: Vec<PoolId>,
    /// Those that have servers.
    holders: BTreeSet<PoolId>,
    /// The servers of these pools, and those among them that are [up](crate::server::Server::is_up).
    servers: Servers,
    /// Servers at work, and how many of them have worked so long that they do not count.
    working: u32,
    long: u32,
    /// Pools with clients that wait and may start, by their turns.
    waiting: BTreeSet<(u64, PoolId)>,
    /// Pools with clients that wait until the host has a place for another server, by their turns.
    owed: BTreeSet<(u64, PoolId)>,
    /// The turn of the pool that was served last.
    clock: u64,
    /// The most servers that the host allows; `None`: not known.
    allowed: Option<u32>,
    bounds: Bounds,
    /// A request was completed since the controller was last asked.
    has_news: bool,
    /// When the present period of [`RATE_PERIOD`] began, and the requests completed since then. `rate` belongs to the
    /// period before, requests per second.
    period: (Time, u64),
    rate: u64,
}

impl Sizing {
    fn new(now: Time, endpoints: Vec<Endpoint>, bounds: Bounds) -> Self {
        Sizing {
            endpoints,
            controller: Controller::new(bounds, LIMIT_AT_FIRST, now.0),
            pools: Vec::new(),
            holders: BTreeSet::new(),
            servers: Servers::default(),
            working: 0,
            long: 0,
            waiting: BTreeSet::new(),
            owed: BTreeSet::new(),
            clock: 0,
            allowed: None,
            bounds,
            has_news: false,
            period: (now, 0),
            rate: 0,
        }
    }

    pub(crate) fn controller(&self) -> &Controller {
        &self.controller
    }

    pub(crate) fn endpoints(&self) -> &[Endpoint] {
        &self.endpoints
    }

    /// Its hosts, for operators.
    pub(crate) fn hosts(&self) -> String {
        let names: Vec<String> = self.endpoints.iter().map(ToString::to_string).collect();
        names.join(",")
    }

    pub(crate) fn pools(&self) -> &[PoolId] {
        &self.pools
    }

    /// The pools that have servers.
    pub(crate) fn holders(&self) -> impl Iterator<Item = PoolId> {
        self.holders.iter().copied()
    }

    pub(crate) fn working(&self) -> u32 {
        self.working
    }

    /// Servers at work that do not count, because their work takes long.
    pub(crate) fn long(&self) -> u32 {
        self.long
    }

    /// The most servers that all its pools may have.
    pub(crate) fn servers_max(&self) -> u32 {
        self.bounds.max
    }

    /// Requests completed per second.
    pub(crate) fn rate(&self) -> u64 {
        self.rate
    }

    /// Servers that may begin to work now.
    #[inline]
    pub(crate) fn room(&self) -> u32 {
        (self.controller.limit() + self.long).saturating_sub(self.working)
    }

    /// Whether a pool has clients that wait.
    pub(crate) fn somebody_waits(&self) -> bool {
        !self.waiting.is_empty() || !self.owed.is_empty()
    }

    /// Work has ended.
    fn forget(&mut self, work: &Work) {
        self.working -= 1;
        self.long -= u32::from(work.is_long);
    }

    /// A request was completed.
    fn completed(&mut self, now: Time, class: u32, service_us: u64, waited: bool) {
        let waited = waited || self.somebody_waits();
        self.controller.completed(now.0, class, service_us, waited);
        self.has_news = true;
        self.period.1 += 1;
    }

    /// When the controller must be asked; `None` while there is nothing to learn.
    fn due(&self) -> Option<Time> {
        (self.has_news || self.somebody_waits()).then(|| Time(self.controller.due_us()))
    }

    /// Asks the controller. `connected`: servers that could work. Returns what the log says of a step to another limit.
    pub(crate) fn tick(&mut self, now: Time, connected: u32) -> Option<String> {
        self.has_news = false;
        let (since, completed) = self.period;
        let passed_us = now.us_since(since);
        if passed_us >= RATE_PERIOD.as_micros() as u64 {
            self.rate = completed.saturating_mul(1_000_000) / passed_us;
            self.period = (now, 0);
        }
        let step = self.controller.tick(now.0, connected, self.working - self.long)?;
        self.tells(&step)
    }

    /// What the log says of a step; `None` if the limit stays.
    fn tells(&self, step: &Step) -> Option<String> {
        (step.from != step.to).then(|| {
            format!(
                "sizing of {}: {} servers may work at once instead of {}: {}",
                self.hosts(),
                step.to,
                step.from,
                step.reason
            )
        })
    }

    /// Whether the host has as many servers as it allows.
    pub(crate) fn is_full(&self) -> bool {
        self.servers() >= self.servers_max()
    }

    /// The pool whose turn it is, out of those that wait. Those that wait for a place are left out while there is none.
    pub(crate) fn next_pool(&mut self) -> Option<PoolId> {
        let owed = self.owed.first().filter(|_| !self.is_full());
        let next = *self.waiting.first().into_iter().chain(owed).min()?;
        let (turn, pool) = next;
        self.waiting.remove(&next);
        self.owed.remove(&next);
        self.clock = self.clock.max(turn);
        Some(pool)
    }

    /// The pools that wait for a place, by their turns.
    pub(crate) fn owed(&self) -> impl Iterator<Item = PoolId> {
        self.owed.iter().map(|(_, pool)| *pool)
    }
}

/// All limits.
#[derive(Debug, Default, pgweir_freeze::Freeze)]
pub(crate) struct Sizings {
    all: Vec<Option<Sizing>>,
}

impl Sizings {
    /// Whether there are any.
    #[inline]
    pub(crate) fn some(&self) -> bool {
        !self.all.is_empty()
    }

    pub(crate) fn get(&self, id: SizingId) -> Option<&Sizing> {
        self.all.get(id as usize)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, id: SizingId) -> Option<&mut Sizing> {
        self.all.get_mut(id as usize)?.as_mut()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (SizingId, &Sizing)> {
        let places = self.all.iter().enumerate();
        places.filter_map(|(id, sizing)| Some((id as SizingId, sizing.as_ref()?)))
    }

    /// A pool at these endpoints, whose size is `auto`, gets its part in their limit.
    pub(crate) fn join(
        &mut self,
        now: Time,
        pool: PoolId,
        endpoints: &[Endpoint],
        weight: u32,
        servers_max: u32,
    ) -> Share {
        let bounds = bounds(servers_max, None);
        let known = self
            .all
            .iter()
            .position(|s| s.as_ref().is_some_and(|s| s.endpoints == endpoints));
        let at = known
            .or_else(|| self.all.iter().position(Option::is_none))
            .unwrap_or_else(|| {
                self.all.push(None);
                self.all.len() - 1
            });
        let sizing = self.all[at].get_or_insert_with(|| Sizing::new(now, endpoints.to_vec(), bounds));
        sizing.pools.push(pool);
        Share::new(at as SizingId, sizing.clock, weight)
    }

    /// A pool gives up its part. No server of it may be at work.
    pub(crate) fn leave(&mut self, pool: PoolId, mut share: Share) {
        self.unlist(pool, &mut share);
        let Some(place) = self.all.get_mut(share.sizing as usize) else {
            return;
        };
        if let Some(sizing) = place {
            sizing.pools.retain(|other| *other != pool);
            if sizing.pools.is_empty() {
                *place = None;
            }
        }
    }

    /// Clients of a pool wait, and may start when it is the pool's turn.
    pub(crate) fn list(&mut self, pool: PoolId, share: &mut Share) {
        if share.is_owed {
            self.unlist(pool, share);
            return self.list_again(pool, share);
        }
        let Some(sizing) = self.get_mut(share.sizing).filter(|_| share.listed.is_none()) else {
            return;
        };
        // A pool that has not waited for a while has no credit.
        share.turn = share.turn.max(sizing.clock);
        share.listed = Some(share.turn);
        sizing.waiting.insert((share.turn, pool));
    }

    fn list_again(&mut self, pool: PoolId, share: &mut Share) {
        if let Some(sizing) = self.get_mut(share.sizing).filter(|_| share.listed.is_none()) {
            share.listed = Some(share.turn);
            sizing.waiting.insert((share.turn, pool));
        }
    }

    /// A pool had its turn and could start no client, because the host has no place for another server: when it has one,
    /// the pool's turn comes before that of others.
    pub(crate) fn owes(&mut self, pool: PoolId, share: &mut Share) {
        if let Some(sizing) = self.get_mut(share.sizing).filter(|_| share.listed.is_none()) {
            (share.listed, share.is_owed) = (Some(share.turn), true);
            sizing.owed.insert((share.turn, pool));
        }
    }

    /// No client of a pool waits any more.
    pub(crate) fn unlist(&mut self, pool: PoolId, share: &mut Share) {
        if let Some(turn) = share.listed.take()
            && let Some(sizing) = self.get_mut(share.sizing)
        {
            sizing.waiting.remove(&(turn, pool));
            sizing.owed.remove(&(turn, pool));
        }
        share.is_owed = false;
    }

    /// The pool was taken out by [`Sizing::next_pool`].
    pub(crate) fn taken(share: &mut Share) {
        (share.listed, share.is_owed) = (None, false);
    }

    /// A server begins to work.
    pub(crate) fn begins(&mut self, now: Time, share: &mut Share, work: &mut Option<Work>) {
        if work.is_some() {
            return;
        }
        let charged_us = share.expected_us();
        share.turn += charged_us / u64::from(share.weight);
        *work = Some(Work {
            since: now,
            class: UNKNOWN,
            charged_us,
            is_long: false,
        });
        if let Some(sizing) = self.get_mut(share.sizing) {
            sizing.working += 1;
        }
    }

    /// A server does not work any more. `waited`: another client of its pool waits.
    pub(crate) fn ends(&mut self, now: Time, share: &mut Share, work: &mut Option<Work>, waited: bool) {
        let Some(done) = work.take() else { return };
        let service_us = now.us_since(done.since);
        share.settle(&done, service_us);
        if let Some(sizing) = self.get_mut(share.sizing) {
            sizing.forget(&done);
            if done.class != UNKNOWN {
                sizing.completed(now, done.class, service_us, waited);
            }
        }
    }

    /// Whether work has become long: it does not count from now on.
    pub(crate) fn becomes_long(&mut self, now: Time, share: &Share, work: &mut Option<Work>) -> bool {
        let Some(work) = work.as_mut().filter(|work| !work.is_long) else {
            return false;
        };
        work.is_long = now - work.since > share.long();
        if let (true, Some(sizing)) = (work.is_long, self.get_mut(share.sizing)) {
            sizing.long += 1;
        }
        work.is_long
    }

    /// A server is gone, whatever it was doing.
    pub(crate) fn is_lost(&mut self, share: &mut Share, work: Option<Work>) {
        if let (Some(work), Some(sizing)) = (work, self.get_mut(share.sizing)) {
            share.turn = share.turn.saturating_sub(work.charged_us / u64::from(share.weight));
            sizing.forget(&work);
        }
    }

    /// A server has completed one of several requests, and works on.
    pub(crate) fn goes_on(
        &mut self,
        now: Time,
        share: &mut Share,
        work: &mut Option<Work>,
        done: (u32, u64),
        waited: bool,
    ) {
        let (class, service_us) = done;
        let Some(work) = work else { return };
        share.settle(work, service_us);
        let was_long = std::mem::take(&mut work.is_long);
        (work.since, work.class, work.charged_us) = (now, UNKNOWN, 0);
        if let Some(sizing) = self.get_mut(share.sizing) {
            sizing.long -= u32::from(was_long);
            sizing.completed(now, class, service_us, waited);
        }
    }

    /// When the first controller must be asked.
    #[inline]
    pub(crate) fn due(&self) -> Option<Time> {
        self.all.iter().flatten().filter_map(Sizing::due).min()
    }

    /// The limits whose controllers must be asked now.
    pub(crate) fn due_now(&self, now: Time) -> Vec<SizingId> {
        let due = self
            .iter()
            .filter(|(_, sizing)| sizing.due().is_some_and(|at| at <= now));
        due.map(|(id, _)| id).collect()
    }
}
