//! The clients of one pool that wait for a server.
//!
//! Only this type knows the order. `fair_by` chooses between the order of [`crate::pools::fair`] and that of arrival.
//! Clients whose flight must be run again stand in front of all others.

use crate::base::ids::ClientId;
use crate::base::time::Time;
use crate::pools::fair::flow::Flow;
use crate::pools::fair::groups::Groups;
use crate::pools::fair::level::Arriving;
use crate::pools::together::Together;
use pgweir_config::FairBy;

/// Stands for no entry in [`Entry::before`] and [`Entry::behind`].
const NONE: u32 = u32::MAX;

/// What the order must know of a client that waits or has used a server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Who<'a> {
    pub(crate) user: &'a str,
    pub(crate) application: &'a str,
    /// The weight of the user.
    pub(crate) weight: u32,
    /// The servers of the pool.
    pub(crate) servers: u32,
}

/// Where a waiting client stands.
#[derive(Debug, Clone, Copy, pgweir_freeze::Freeze)]
enum Standing {
    /// In front of all others.
    InFront,
    /// In order of arrival.
    Arrived,
    /// In the order of a group.
    Grouped { group: u32, weight: u32 },
}

/// A waiting client.
#[derive(Debug, pgweir_freeze::Freeze)]
struct Entry {
    client: ClientId,
    since: Time,
    /// Order of arrival; its low half is the upper half of the ticket.
    number: u64,
    standing: Standing,
    /// The places in `entries` of the client that arrived before it, and of the one that arrived after it.
    before: u32,
    behind: u32,
}

/// What has happened in the queue since [`WaitQueue::take_traffic`] was last called.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, pgweir_freeze::Freeze)]
pub(crate) struct Traffic {
    /// Clients that have got a server.
    pub(super) served: u64,
    /// The fewest clients that waited at any time.
    pub(super) fewest: usize,
}

/// Waiting clients.
#[derive(Debug, pgweir_freeze::Freeze)]
pub(crate) struct WaitQueue {
    by: FairBy,
    entries: Vec<Option<Entry>>,
    free: Vec<u32>,
    /// The ends of the list in order of arrival.
    first: u32,
    last: u32,
    waiting: usize,
    groups: Groups,
    next_number: u64,
    traffic: Traffic,
    /// Clients that are charged when the present input has been handled.
    together: Together,
    /// A buffer for the name of a group that is looked up.
    key: String,
}

impl WaitQueue {
    pub(crate) fn new(by: FairBy) -> Self {
        WaitQueue {
            by,
            entries: Vec::new(),
            free: Vec::new(),
            first: NONE,
            last: NONE,
            waiting: 0,
            groups: Groups::new(1),
            next_number: 1,
            traffic: Traffic::default(),
            together: Together::default(),
            key: String::new(),
        }
    }

    /// Adds a client. `flow`: the server time that it has used. `paused_us`: how long it has had no server. The
    /// returned ticket removes the client again.
    pub(crate) fn push(&mut self, client: ClientId, now: Time, who: &Who<'_>, flow: &mut Flow, paused_us: u64) -> u64 {
        let number = self.number();
        let at = self.free.pop().unwrap_or(self.entries.len() as u32);
        let standing = match self.by {
            FairBy::Off => Standing::Arrived,
            FairBy::Client | FairBy::Application | FairBy::User => {
                let (group, weight) = self.group_of(who);
                let arriving = Arriving {
                    number,
                    weight,
                    paused_us,
                    servers: who.servers,
                };
                self.groups.insert(group, at, flow, arriving);
                Standing::Grouped { group, weight }
            }
        };
        self.put(at, (client, now), number, standing, false)
    }

    /// Adds a client in front of all others.
    pub(crate) fn push_front(&mut self, client: ClientId, since: Time) -> u64 {
        let number = self.number();
        let at = self.free.pop().unwrap_or(self.entries.len() as u32);
        self.put(at, (client, since), number, Standing::InFront, true)
    }

    /// Adds a client behind those that stand in front of the order, when the queue is filled again.
    pub(crate) fn push_last_in_front(&mut self, client: ClientId, since: Time) -> u64 {
        let number = self.number();
        let at = self.free.pop().unwrap_or(self.entries.len() as u32);
        self.put(at, (client, since), number, Standing::InFront, false)
    }

    fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    /// The group of a client, and the client's weight in it.
    fn group_of(&mut self, who: &Who<'_>) -> (u32, u32) {
        self.key.clear();
        let (of_group, of_client) = match self.by {
            FairBy::Client | FairBy::Off => return (self.groups.only(), who.weight),
            FairBy::User => {
                self.key.push_str(who.user);
                (who.weight, 1)
            }
            FairBy::Application => {
                self.key.push_str(who.user);
                self.key.push('\0');
                self.key.push_str(who.application);
                (who.weight, 1)
            }
        };
        (self.groups.of(&self.key, of_group), of_client)
    }

    /// Puts an entry at a free place, and at the beginning or the end of the list.
    fn put(
        &mut self,
        at: u32,
        (client, since): (ClientId, Time),
        number: u64,
        standing: Standing,
        is_first: bool,
    ) -> u64 {
        let (before, behind) = match is_first {
            true => (NONE, self.first),
            false => (self.last, NONE),
        };
        let entry = Some(Entry {
            client,
            since,
            number,
            standing,
            before,
            behind,
        });
        match self.entries.get_mut(at as usize) {
            Some(place) => *place = entry,
            None => self.entries.push(entry),
        }
        self.joins(before, behind, at, at);
        self.waiting += 1;
        u64::from(at) | number << 32
    }

    /// Makes `follows` the next entry behind `before`, and `precedes` the entry before `behind`.
    fn joins(&mut self, before: u32, behind: u32, follows: u32, precedes: u32) {
        match self.entry_mut(before) {
            Some(entry) => entry.behind = follows,
            None => self.first = follows,
        }
        match self.entry_mut(behind) {
            Some(entry) => entry.before = precedes,
            None => self.last = precedes,
        }
    }

    fn entry_mut(&mut self, at: u32) -> Option<&mut Entry> {
        self.entries.get_mut(at as usize)?.as_mut()
    }

    fn entry(&self, at: u32) -> Option<&Entry> {
        self.entries.get(at as usize)?.as_ref()
    }

    /// The place of the entry that is served next.
    fn next(&self) -> Option<u32> {
        match self.entry(self.first)?.standing {
            Standing::InFront | Standing::Arrived => Some(self.first),
            Standing::Grouped { .. } => self.groups.first(),
        }
    }

    /// The client that is served next.
    pub(crate) fn front(&self) -> Option<(ClientId, Time)> {
        let entry = self.entry(self.next()?)?;
        Some((entry.client, entry.since))
    }

    /// Takes the client that is served next.
    pub(crate) fn pop(&mut self) -> Option<(ClientId, Time)> {
        let at = self.next()?;
        let entry = self.take(at)?;
        if let Standing::Grouped { group, weight } = entry.standing {
            self.groups.serve(group, at, weight);
        }
        self.traffic.served += 1;
        Some((entry.client, entry.since))
    }

    /// Removes the client with this ticket, if it is in the queue.
    pub(crate) fn remove(&mut self, ticket: u64) {
        if self.holder(ticket).is_none() {
            return;
        }
        if let Some(entry) = self.take(ticket as u32)
            && let Standing::Grouped { group, weight } = entry.standing
        {
            self.groups.remove(group, ticket as u32, weight);
        }
    }

    /// Takes an entry out of the list.
    fn take(&mut self, at: u32) -> Option<Entry> {
        let entry = self.entries.get_mut(at as usize)?.take()?;
        self.joins(entry.before, entry.behind, entry.behind, entry.before);
        self.waiting -= 1;
        self.traffic.fewest = self.traffic.fewest.min(self.waiting);
        self.free.push(at);
        if self.waiting == 0 && self.entries.capacity() > 1024 {
            (self.entries, self.free) = (Vec::new(), Vec::new());
        }
        Some(entry)
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// The client with this ticket.
    pub(crate) fn holder(&self, ticket: u64) -> Option<ClientId> {
        let entry = self.entry(ticket as u32)?;
        (entry.number as u32 == (ticket >> 32) as u32).then_some(entry.client)
    }

    /// All clients in order of arrival.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (ClientId, Time)> + '_ {
        let next = |entry: &&Entry| self.entry(entry.behind);
        std::iter::successors(self.entry(self.first), next).map(|entry| (entry.client, entry.since))
    }

    /// A client has used a server for `us` microseconds, while others waited.
    pub(crate) fn charge(&mut self, who: &Who<'_>, flow: &mut Flow, us: u64) {
        if self.by == FairBy::Off {
            return;
        }
        let (group, weight) = self.group_of(who);
        self.groups.charge(group, flow, us, weight, who.servers);
    }

    /// Clients that are charged when the present input has been handled.
    pub(crate) fn together_mut(&mut self) -> &mut Together {
        &mut self.together
    }

    /// The setting that decides the order.
    pub(crate) fn fair_by(&self) -> FairBy {
        self.by
    }

    /// Empties the queue and changes its order. Returns the clients in order of arrival, and whether each stood in
    /// front of all others.
    pub(crate) fn reorder(&mut self, by: FairBy) -> Vec<(ClientId, Time, bool)> {
        let mut all = Vec::with_capacity(self.waiting);
        while let (at, Some(entry)) = (self.first, self.take(self.first)) {
            if let Standing::Grouped { group, weight } = entry.standing {
                self.groups.remove(group, at, weight);
            }
            all.push((entry.client, entry.since, matches!(entry.standing, Standing::InFront)));
        }
        if by != self.by {
            (self.by, self.groups) = (by, self.groups.other());
        }
        all
    }

    /// Up to `count` clients for which `may` holds. Each is the one that is served last in the group that has the most
    /// clients for its weight. If that group has no such client, the search ends. With `fair_by = off`, the
    /// clients that came last.
    pub(crate) fn last(&self, count: usize, may: impl Fn(ClientId) -> bool) -> Vec<ClientId> {
        if self.by == FairBy::Off {
            let before = |entry: &&Entry| self.entry(entry.before);
            let back = std::iter::successors(self.entry(self.last), before).map(|entry| entry.client);
            return back.filter(|client| may(*client)).take(count).collect();
        }
        let client = |at: u32| self.entry(at).map(|entry| entry.client);
        let last = self.groups.last(count, |at| client(at).is_some_and(&may));
        last.into_iter().filter_map(client).collect()
    }

    /// What has happened since the last call.
    pub(crate) fn take_traffic(&mut self) -> Traffic {
        let next = Traffic {
            served: 0,
            fewest: self.waiting,
        };
        std::mem::replace(&mut self.traffic, next)
    }

    /// Compares the entries, the list, the groups and the counters with each other.
    #[cfg(any(test, feature = "weaknesses"))]
    pub(crate) fn check(&self) -> Result<(), String> {
        let weight_of = |at: u32| match self.entry(at).map(|entry| entry.standing) {
            Some(Standing::Grouped { weight, .. }) => weight,
            _ => 0,
        };
        self.groups.check(weight_of)?;
        let listed = self.iter().count();
        let grouped = |entry: &&Entry| matches!(entry.standing, Standing::Grouped { .. });
        let grouped = self.entries.iter().flatten().filter(grouped).count();
        if listed != self.waiting || grouped != self.groups.waiting() {
            return Err(format!(
                "{} wait, {listed} in the list, {grouped} in groups, {} in the orders of groups",
                self.waiting,
                self.groups.waiting()
            ));
        }
        match self.together.is_empty() {
            true => Ok(()),
            false => Err("clients whose flights were answered have not been charged".into()),
        }
    }
}

#[cfg(test)]
#[path = "wait_queue_tests.rs"]
mod tests;
