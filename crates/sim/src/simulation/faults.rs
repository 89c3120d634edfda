//! The faults.

use super::hosts::Away;
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
