//! Groups of clients that share one tag, and the clients of each that wait.

use crate::pools::fair::flow::Flow;
use crate::pools::fair::level::{Arriving, Level};
use foldhash::fast::RandomState;
use std::collections::{BinaryHeap, HashMap};

/// The most groups without waiting clients that a pool remembers, so that no client escapes its debt by connecting
/// again. When there are more, the pool forgets those that owe the least.
pub(crate) const GROUPS_MAX: usize = 1024;

/// The clients of one group that wait.
#[derive(Debug, pgweir_freeze::Freeze)]
struct Group {
    key: Box<str>,
    weight: u32,
    flow: Flow,
    /// While any of them waits, the group itself has a place in the order of groups.
    clients: Level,
}

/// All groups of a pool.
#[derive(Debug, pgweir_freeze::Freeze)]
pub(crate) struct Groups {
    /// `None`: a free place.
    all: Vec<Option<Group>>,
    by_key: HashMap<Box<str>, u32, RandomState>,
    free: Vec<u32>,
    order: Level,
    /// The number of the latest level; no two levels have the same.
    levels: u64,
}

impl Groups {
    /// No groups. Levels are numbered from `level` on, which is not 0.
    pub(crate) fn new(level: u64) -> Self {
        Groups {
            all: Vec::new(),
            by_key: HashMap::default(),
            free: Vec::new(),
            order: Level::new(level),
            levels: level,
        }
    }

    /// No groups, for another order, in which nothing counts that clients have used in the present groups.
    pub(crate) fn other(&self) -> Self {
        Groups::new(self.levels + 1)
    }

    /// The number of the only group, which holds all clients.
    #[inline]
    pub(crate) fn only(&mut self) -> u32 {
        if self.all.is_empty() { self.of("", 1) } else { 0 }
    }

    /// The number of a group; it is made when it is first needed.
    pub(crate) fn of(&mut self, key: &str, weight: u32) -> u32 {
        if let Some(&known) = self.by_key.get(key) {
            let group = self.get_mut(known);
            if group.clients.is_empty() {
                group.weight = weight;
            }
            return known;
        }
        // Groups with waiting clients do not count: they stay in any case.
        if self.by_key.len() - self.order.len() >= GROUPS_MAX {
            self.forget_some();
        }
        self.levels += 1;
        let group = Group {
            key: key.into(),
            weight,
            flow: Flow::default(),
            clients: Level::new(self.levels),
        };
        let number = match self.free.pop() {
            Some(free) => {
                self.all[free as usize] = Some(group);
                free
            }
            None => {
                self.all.push(Some(group));
                self.all.len() as u32 - 1
            }
        };
        self.by_key.insert(key.into(), number);
        number
    }

    fn get(&self, number: u32) -> &Group {
        self.all[number as usize]
            .as_ref()
            .expect("its clients wait, or it was just looked up")
    }

    fn get_mut(&mut self, number: u32) -> &mut Group {
        self.all[number as usize]
            .as_mut()
            .expect("its clients wait, or it was just looked up")
    }

    /// Forgets the half of the groups without waiting clients that owes the least.
    fn forget_some(&mut self) {
        let at_rest = |(number, group): (usize, &Option<Group>)| {
            let group = group.as_ref().filter(|group| group.clients.is_empty())?;
            Some((group.flow.tag, number as u32))
        };
        let mut known: Vec<(u64, u32)> = self.all.iter().enumerate().filter_map(at_rest).collect();
        known.sort_unstable();
        for (_, number) in known.drain(..known.len().div_ceil(2)) {
            if let Some(group) = self.all[number as usize].take() {
                self.by_key.remove(&group.key);
                self.free.push(number);
            }
        }
    }

    /// A client of a group begins to wait. `what` is the caller's number for it.
    pub(crate) fn insert(&mut self, number: u32, what: u32, flow: &mut Flow, arriving: Arriving) {
        let group = self.all[number as usize].as_mut().expect("it was just looked up");
        if group.clients.is_empty() {
            let arriving = Arriving {
                weight: group.weight,
                // A group pauses only if all its clients do.
                paused_us: 0,
                ..arriving
            };
            self.order.insert(&mut group.flow, number, arriving);
        }
        group.clients.insert(flow, what, arriving);
    }

    /// The client that is served next, by the caller's number.
    pub(crate) fn first(&self) -> Option<u32> {
        self.get(self.order.first()?).clients.first()
    }

    /// Takes out a client that gets a server.
    pub(crate) fn serve(&mut self, number: u32, what: u32, weight: u32) {
        self.order.advance_to(number);
        self.get_mut(number).clients.serve(what, weight);
        self.leave_if_empty(number);
    }

    /// Takes out a client that does not wait any longer.
    pub(crate) fn remove(&mut self, number: u32, what: u32, weight: u32) {
        self.get_mut(number).clients.remove(what, weight);
        self.leave_if_empty(number);
    }

    fn leave_if_empty(&mut self, number: u32) {
        let group = self.all[number as usize].as_ref().expect("a client of it has waited");
        if group.clients.is_empty() {
            self.order.remove(number, group.weight);
        }
    }

    /// A client of a group has used a server.
    pub(crate) fn charge(&mut self, number: u32, flow: &mut Flow, us: u64, weight: u32, servers: u32) {
        let group = self.all[number as usize].as_mut().expect("it was just looked up");
        group.clients.charge(flow, us, weight, servers, None);
        // A single group is not compared with any other.
        if self.by_key.len() > 1 {
            let waits = (!group.clients.is_empty()).then_some(number);
            self.order.charge(&mut group.flow, us, group.weight, servers, waits);
        }
    }

    /// Up to `count` clients for which `may` holds. Each is the last one of the group that has the most clients for its
    /// weight; if that group has no such client, no further one is returned.
    pub(crate) fn last(&self, count: usize, may: impl Fn(u32) -> bool) -> Vec<u32> {
        let load = |number: u32, left: usize| left as u64 * 1000 / u64::from(self.get(number).weight.max(1));
        let with_load = |number: u32| (load(number, self.get(number).clients.len()), number);
        let mut heaviest: BinaryHeap<(u64, u32)> = self.order.iter().map(with_load).collect();
        let mut begun = HashMap::new();
        let mut last = Vec::new();
        while last.len() < count
            && let Some((_, number)) = heaviest.pop()
        {
            let clients = &self.get(number).clients;
            let (left, back) = begun
                .entry(number)
                .or_insert_with(|| (clients.len(), clients.iter_back()));
            let Some(next) = back.find(|what| may(*what)) else {
                break;
            };
            last.push(next);
            *left -= 1;
            heaviest.push((load(number, *left), number));
        }
        last
    }

    /// Compares the order of the groups with the groups. `weight_of` is the weight of a waiting client by the caller's
    /// number.
    #[cfg(any(test, feature = "weaknesses"))]
    pub(crate) fn check(&self, weight_of: impl Fn(u32) -> u32) -> Result<(), String> {
        self.order.check(|number| self.get(number).weight)?;
        let mut in_order = 0;
        for group in self.all.iter().flatten() {
            group.clients.check(&weight_of)?;
            in_order += usize::from(!group.clients.is_empty());
        }
        match in_order == self.order.len() {
            true => Ok(()),
            false => Err(format!("{in_order} groups wait, {} are in the order", self.order.len())),
        }
    }

    /// How many clients are in the order.
    #[cfg(any(test, feature = "weaknesses"))]
    pub(crate) fn waiting(&self) -> usize {
        self.all.iter().flatten().map(|group| group.clients.len()).sum()
    }

    /// How many groups are remembered.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.by_key.len()
    }
}
