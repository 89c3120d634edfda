//! Take-overs: the pooler's state is frozen, and a pooler thawed from it goes on.
//!
//! If only the state is thawed, nothing may change: the trace is the same. A process that takes over does more. It
//! opens again the connections to servers that the earlier one was opening, and applies its own configuration, which may
//! be another one.

use super::canary::Canary;
use super::world::World;
use crate::random::Random;
use pgweir_config::Config;
use pgweir_core::{Pooler, Predecessor, Surroundings, Time};
use std::sync::Arc;

/// What takes over, and after how many steps in a thousand, drawn from a separate source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TakeOvers {
    /// Never.
    Never,
    /// The thawed pooler goes on as it is.
    States(u64),
    /// Another process, as in the runtime.
    Processes(u64),
}

/// One seed in this many has take-overs of each kind, unless the command line says otherwise.
const SEEDS_WITH_TAKE_OVERS: u64 = 8;

/// After how many steps in a thousand these seeds have a take-over. A take-over takes as long as a thousand steps.
const PER_THOUSAND: u64 = 2;

/// Of the processes that may have another configuration, so many in a hundred have one.
const OTHERS_PERCENT: u64 = 30;

/// How long another process takes to start. Without this, a change of the configuration, which opens all connections to
/// servers again, makes steps that make the next change, and no client is ever served.
const STARTS_WITHIN_US: u64 = 20_000;

impl TakeOvers {
    /// The take-overs of a seed by default.
    pub fn of_seed(seed: u64) -> TakeOvers {
        match seed % SEEDS_WITH_TAKE_OVERS {
            0 => TakeOvers::States(PER_THOUSAND),
            4 => TakeOvers::Processes(PER_THOUSAND),
            _ => TakeOvers::Never,
        }
    }
}

/// What another process gets besides the state, and when it takes over.
#[derive(Debug)]
pub(super) struct Successors {
    pub(super) config: Arc<Config>,
    pub(super) surroundings: Surroundings,
    pub(super) how_often: TakeOvers,
    /// A process waits until cancel requests have ended.
    pub(super) waits: bool,
    /// When the next process has started at the earliest.
    pub(super) starts_at_us: u64,
    pub(super) random: Random,
}

impl World {
    /// Another process may take over now.
    pub(super) fn perhaps_take_over(&mut self) {
        let steps = match self.successors.how_often {
            TakeOvers::Never => return,
            TakeOvers::States(steps) | TakeOvers::Processes(steps) => steps,
        };
        self.successors.waits |= self.successors.random.below(1000) < steps;
        let is_process = matches!(self.successors.how_often, TakeOvers::Processes(_));
        let is_ready = || self.now_us >= self.successors.starts_at_us && self.cancels.is_empty();
        if !self.successors.waits || is_process && !is_ready() {
            return;
        }
        self.successors.waits = false;
        match is_process {
            true => self.process_takes_over(),
            false => drop(self.thaw()),
        }
        if let Err(wrong) = self.pooler.check_invariants() {
            self.fail(format!("what the core keeps twice, after a take-over: {wrong}"));
        }
    }

    /// Puts a thawed pooler in the place of the earlier one.
    fn thaw(&mut self) -> Option<Predecessor> {
        let frozen = self.pooler.freeze();
        let (config, surroundings) = (self.successors.config.clone(), self.successors.surroundings.clone());
        let (pooler, predecessor) = match Pooler::thaw(&frozen, config, surroundings) {
            Ok(thawed) => thawed,
            Err(e) => {
                self.fail(format!("the frozen state cannot be thawed: {e:?}"));
                return None;
            }
        };
        self.pooler = pooler;
        if let Some(Canary::Weak(weakness)) = self.canary {
            self.pooler.weaken(weakness);
        }
        Some(predecessor)
    }

    /// All open connections come along. Those that are still being opened do not.
    fn process_takes_over(&mut self) {
        if self.topology.successors_differ && self.successors.random.percent(OTHERS_PERCENT) {
            self.successors.config = self.next_config();
        }
        let Some(predecessor) = self.thaw() else { return };
        self.successors.starts_at_us = self.now_us + STARTS_WITHIN_US;
        self.trace
            .line(self.now_us, || format!("take-over, configuration {}", self.changes));
        self.connecting.clear();
        let has = |id| self.by_id.contains_key(&id);
        self.pooler.handle_taken_over(Time(self.now_us), predecessor, has);
        self.settle();
    }
}
