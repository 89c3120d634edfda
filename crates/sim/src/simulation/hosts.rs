//! The hosts that an entry of `[databases]` names. All lead to the same PostgreSQL, as if each change were on all of them
//! at once. Hosts fail and come back; where they differ, one of them is the primary, and another takes over from it.

use super::canary::Canary;
use super::faults::Fault;
use super::network::Peer;
use super::world::{Event, World};
use crate::random::Random;
use pgweir_core::{Endpoint, ServerId};
use std::collections::BTreeMap;

/// The longest time for which a host is away, microseconds.
const AWAY_US_MAX: u64 = 8_000_000;

/// The longest time between the loss of a primary and the promotion of a standby, microseconds.
const PROMOTED_AFTER_US_MAX: u64 = 3_000_000;

/// The ways in which a host is away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Away {
    /// It refuses connections.
    Refuses,
    /// Its packets are lost: an attempt to connect has no answer.
    Silent,
}

/// What a host answers to an attempt to connect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    Refuses,
    Silent,
    /// The connection is open; where hosts differ, `is_standby` says which of them it is.
    Accepts {
        host: usize,
        is_standby: bool,
    },
}

/// The host of a session, and what it was when the session began.
#[derive(Debug, Clone, Copy)]
struct Place {
    host: usize,
    was_standby: bool,
}

#[derive(Debug)]
pub(super) struct Hosts {
    away: Vec<Option<Away>>,
    /// Where hosts differ: the primary, if there is one now.
    differ: bool,
    primary: Option<usize>,
    /// The hosts to which connections are being opened.
    asked: BTreeMap<ServerId, usize>,
    /// By process id.
    places: BTreeMap<u32, Place>,
    random: Random,
}

/// The address of a host.
pub(super) fn address_of(host: u64) -> String {
    format!("127.0.0.{}", host + 1)
}

impl Hosts {
    pub(super) fn new(count: u64, differ: bool, random: Random) -> Self {
        Hosts {
            away: vec![None; count as usize],
            differ,
            primary: Some(0),
            asked: BTreeMap::new(),
            places: BTreeMap::new(),
            random,
        }
    }

    /// A connection to this endpoint is being opened.
    pub(super) fn is_asked(&mut self, server: ServerId, endpoint: &Endpoint) {
        let host = (0..self.away.len()).find(|host| match endpoint {
            Endpoint::Tcp { host: address, .. } => *address == address_of(*host as u64),
            Endpoint::Unix { .. } => false,
        });
        self.asked.insert(server, host.unwrap_or_default());
    }

    /// What the host answers.
    pub(super) fn answers(&mut self, server: ServerId) -> Answer {
        let host = self.asked.remove(&server).unwrap_or_default();
        match self.away[host] {
            Some(Away::Refuses) => Answer::Refuses,
            Some(Away::Silent) => Answer::Silent,
            None => Answer::Accepts {
                host,
                is_standby: self.differ && self.primary != Some(host),
            },
        }
    }

    /// A session has begun.
    pub(super) fn has_session(&mut self, process_id: u32, host: usize, was_standby: bool) {
        self.places.insert(process_id, Place { host, was_standby });
    }

    fn sessions_of(&self, host: usize) -> Vec<u32> {
        let of_host = self.places.iter().filter(|(_, place)| place.host == host);
        of_host.map(|(process_id, _)| *process_id).collect()
    }

    /// A host that is there becomes the primary, unless there is one.
    pub(super) fn promote(&mut self) {
        let there = |host: &usize| self.away[*host].is_none();
        if self.primary.is_none() {
            self.primary = (0..self.away.len()).find(there);
        }
    }
}

impl World {
    /// The hosts fail now and then until the faults stop.
    pub(super) fn add_host_faults(&mut self) {
        if self.topology.hosts == 1 {
            return;
        }
        for _ in 0..self.topology.host_faults {
            let random = &mut self.hosts.random;
            let host = random.below(self.topology.hosts) as usize;
            let away = *random.pick(&[Away::Refuses, Away::Silent]);
            let at = random.below(self.topology.calm_at_us);
            let away_us = random.between(1_000, AWAY_US_MAX);
            self.schedule(at, Event::Fault(Fault::HostFails { host, away, away_us }));
        }
    }

    /// A host fails, and all its sessions end.
    pub(super) fn host_fails(&mut self, host: usize, away: Away, away_us: u64) {
        if self.hosts.away[host].is_some() {
            return;
        }
        self.hosts.away[host] = Some(away);
        self.schedule(self.now_us + away_us, Event::Fault(Fault::HostReturns(host)));
        if self.hosts.primary == Some(host) {
            self.hosts.primary = None;
            let after_us = self.hosts.random.below(PROMOTED_AFTER_US_MAX);
            self.schedule(self.now_us + after_us, Event::Fault(Fault::Promotion));
        }
        for process_id in self.hosts.sessions_of(host) {
            self.break_server(process_id);
        }
    }

    /// A host is back; a former primary has become a standby, if another has taken over meanwhile.
    pub(super) fn host_returns(&mut self, host: usize) {
        self.hosts.away[host] = None;
        self.hosts.promote();
    }

    /// No client may get a session on a standby.
    pub(super) fn check_standbys(&mut self) {
        if !self.hosts.differ {
            return;
        }
        let postgres = &self.postgres;
        self.hosts
            .places
            .retain(|process_id, _| postgres.session(*process_id).is_some());
        let on_standby = self.connections.values().find(|connection| match connection.peer {
            Peer::Server(process_id) => {
                let place = self.hosts.places.get(&process_id);
                place.is_some_and(|place| place.was_standby)
                    && !connection.closing
                    && self.pooler.linked(connection.id).is_some()
            }
            _ => false,
        });
        if let Some(id) = on_standby.map(|connection| connection.id) {
            self.fail(format!("{id:?} is a standby, and has a client"));
        }
    }

    /// Whether a new session tells that it is on a standby.
    pub(super) fn tells_standby(&mut self, is_standby: bool) -> bool {
        is_standby && !self.sings(Canary::HideStandby)
    }
}
