//! The faults.

use super::hosts::Away;
use super::network::Peer;
use super::world::{Event, World};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fault {
    /// The server crashes, and is back after this many microseconds.
    Crash(u64),
    /// It is back.
    Recover,
    /// An administrator ends one connection.
    TerminateOne,
    /// One connection breaks without a message.
    BreakOne,
    /// The same, and replies on it are lost.
    BreakUnheard,
    /// One of several hosts fails, and is back after this many microseconds.
    HostFails {
        /// Its place in the list.
        host: usize,
        /// The way in which it is away.
        away: Away,
        /// For how long.
        away_us: u64,
    },
    /// It is back.
    HostReturns(usize),
    /// A standby becomes the primary, if there is none.
    Promotion,
    /// A RELOAD gives all databases other servers.
    Reload,
    /// The pooler gets SIGTERM or SIGINT.
    Shutdown {
        /// It is SIGTERM.
        waits_for_clients: bool,
    },
}

impl World {
    pub(super) fn fault(&mut self, fault: Fault) {
        self.trace.line(self.now_us, || format!("{fault:?}"));
        match fault {
            Fault::Crash(down_us) => {
                self.postgres.down = true;
                let all: Vec<u32> = self.postgres.sessions().map(|(id, _)| id).collect();
                for process_id in all {
                    self.break_server(process_id);
                }
                let at = self.now_us + down_us;
                self.schedule(at, Event::Fault(Fault::Recover));
            }
            Fault::Recover => self.postgres.down = false,
            Fault::HostFails { host, away, away_us } => self.host_fails(host, away, away_us),
            Fault::HostReturns(host) => self.host_returns(host),
            Fault::Promotion => self.hosts.promote(),
            Fault::Reload => self.reload(),
            Fault::Shutdown { waits_for_clients } => self.shut_down(waits_for_clients),
            Fault::BreakUnheard => {
                let servers = self.connections.values().filter(|c| !c.inbox.is_empty());
                let unheard = servers.filter_map(|c| match c.peer {
                    Peer::Server(process_id) => Some((c.inbox.len(), process_id)),
                    _ => None,
                });
                if let Some((_, process_id)) = unheard.max() {
                    self.break_server(process_id);
                }
            }
            Fault::TerminateOne | Fault::BreakOne => {
                let all: Vec<u32> = self.postgres.sessions().map(|(id, _)| id).collect();
                if all.is_empty() {
                    return;
                }
                let process_id = *self.random.pick(&all);
                if fault == Fault::BreakOne {
                    self.break_server(process_id);
                } else {
                    self.postgres.with(process_id, |session, _| session.terminate());
                    self.pump_server(process_id);
                }
            }
        }
    }

    /// Breaks a server's connection at once: its latest bytes may be lost.
    pub(super) fn break_server(&mut self, process_id: u32) {
        self.postgres.with(process_id, |session, _| session.client_closed());
        self.postgres.remove(process_id);
        let Some(&key) = self.by_process.get(&process_id) else {
            return;
        };
        let random = &mut self.random;
        if let Some(connection) = self.connections.get_mut(&key) {
            let keeps = random.below(connection.inbox.len() as u64 + 1) as usize;
            connection.inbox.truncate(keeps);
            connection.peer_closed = true;
        }
        self.read_later(key);
    }
}
