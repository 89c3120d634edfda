//! SHUTDOWN in the midst of everything: the process must end, and nothing may stop it.
//!
//! Some seeds are run once more, with a signal at some moment. From then on clients may be refused at any step, so their
//! answers are no longer checked, except for the tokens of others. They leave one after the other, and do not come back.

use super::canary::Canary;
use super::faults::Fault;
use super::takeover::TakeOvers;
use super::topology::Topology;
use super::world::{Event, World};
use crate::random::Random;
use pgweir_core::Command;

/// One seed in this many is run once more with a shutdown.
const SEEDS_WITH_SHUTDOWN: u64 = 16;

/// A client that is still connected leaves within this time.
const LEAVE_WITHIN_US: u64 = 2_000_000;

/// How far a shutdown is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// Nobody has ordered it.
    No,
    /// A signal has come.
    Ordered,
    /// The pooler wants the process to end.
    Over,
}

/// Whether a seed is run once more with a shutdown.
fn has_shutdown(seed: u64) -> bool {
    seed % SEEDS_WITH_SHUTDOWN == 1
}

/// Runs a seed once more, with a shutdown, if it is one of those that have one. Returns what went wrong.
pub(super) fn run(seed: u64, canary: Option<Canary>, print: bool) -> Option<String> {
    if !has_shutdown(seed) || canary.is_some() {
        return None;
    }
    let mut random = Random::new(seed ^ 0x5d0_0000);
    let mut world = World::new(Topology::new(seed), None, TakeOvers::Never, print);
    let at = random.below(world.topology.calm_at_us);
    let waits_for_clients = random.percent(50);
    world.schedule(at, Event::Fault(Fault::Shutdown { waits_for_clients }));
    let violation = world.run().violation;
    violation.map(|why| format!("with a shutdown: {why}"))
}

impl World {
    pub(super) fn shut_down(&mut self, waits_for_clients: bool) {
        for number in 0..self.clients.len() {
            let client = &mut self.clients[number];
            client.expects_nothing_more();
            let session = client.session_number;
            let at = self.now_us + self.random.below(LEAVE_WITHIN_US);
            self.schedule(at, Event::ClientVanishes(number as u64, session));
        }
        self.retired.clear();
        self.ending = Ending::Ordered;
        let command = match waits_for_clients {
            true => Command::ShutdownWaitForClients,
            false => Command::ShutdownWaitForServers,
        };
        self.pooler.handle_command(self.now(), command);
        self.settle();
    }

    /// Whether somebody has ordered the end: nobody gets in any more.
    pub(super) fn is_ending(&self) -> bool {
        self.ending != Ending::No
    }

    /// The pooler wants the process to end, so it must have closed all connections.
    pub(super) fn check_end(&mut self) {
        if let Some((id, _)) = self.by_id.iter().next() {
            self.fail(format!("the process ends, and {id:?} is open"));
        } else if let Err(wrong) = self.pooler.check_invariants() {
            self.fail(format!("what the core keeps twice, at the end: {wrong}"));
        }
    }
}
