//! Taking over: the pooler's state is frozen, and a pooler thawed from it goes on. Nobody may notice: the trace is the same.

use super::canary::Canary;
use super::world::World;
use crate::random::Random;
use pgweir_config::Config;
use pgweir_core::{Pooler, Surroundings};
use std::sync::Arc;

/// How often the state is frozen and thawed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TakeOvers {
    /// Not at all.
    Never,
    /// After some steps in a hundred, drawn from numbers of its own.
    Percent(u64),
}

/// One seed in this many is run with take-overs, unless it is said otherwise.
const SEEDS_WITH_TAKE_OVERS: u64 = 8;

/// Steps in a hundred that are followed by a take-over in those.
const PERCENT: u64 = 1;

impl TakeOvers {
    /// What a run of this seed has where nothing else is said.
    pub fn of_seed(seed: u64) -> TakeOvers {
        match seed % SEEDS_WITH_TAKE_OVERS {
            0 => TakeOvers::Percent(PERCENT),
            _ => TakeOvers::Never,
        }
    }
}

/// What another process is told beside the state, and when it takes over.
#[derive(Debug)]
pub(super) struct Successors {
    pub(super) config: Arc<Config>,
    pub(super) surroundings: Surroundings,
    pub(super) how_often: TakeOvers,
    pub(super) random: Random,
}

impl World {
    /// Another process takes over, or not.
    pub(super) fn perhaps_take_over(&mut self) {
        let due = match self.successors.how_often {
            TakeOvers::Never => false,
            TakeOvers::Percent(percent) => self.successors.random.percent(percent),
        };
        if due {
            self.take_over();
        }
    }

    fn take_over(&mut self) {
        let frozen = self.pooler.freeze();
        let (config, surroundings) = (self.successors.config.clone(), self.successors.surroundings.clone());
        match Pooler::thaw(&frozen, config, surroundings) {
            Ok((pooler, _)) => self.pooler = pooler,
            Err(e) => return self.fail(format!("the frozen state cannot be thawed: {e:?}")),
        }
        if let Some(Canary::Weak(weakness)) = self.canary {
            self.pooler.weaken(weakness);
        }
        if let Err(wrong) = self.pooler.check_invariants() {
            self.fail(format!("what the core keeps twice, after a take-over: {wrong}"));
        }
    }
}
