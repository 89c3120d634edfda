//! Take-overs: the pooler's state is frozen, and a pooler thawed from it goes on. Nothing may change: the trace is the
//! same.

use super::canary::Canary;
use super::world::World;
use crate::random::Random;
use pgweir_config::Config;
use pgweir_core::{Pooler, Surroundings};
use std::sync::Arc;

/// How often a take-over happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TakeOvers {
    /// Never.
    Never,
    /// After this many steps in a thousand, drawn from a separate source.
    PerThousand(u64),
}

/// One seed in this many has take-overs, unless the command line says otherwise.
const SEEDS_WITH_TAKE_OVERS: u64 = 8;

/// After how many steps in a thousand these seeds have a take-over. A take-over takes as long as a thousand steps.
const PER_THOUSAND: u64 = 2;

impl TakeOvers {
    /// The take-overs of a seed by default.
    pub fn of_seed(seed: u64) -> TakeOvers {
        match seed % SEEDS_WITH_TAKE_OVERS {
            0 => TakeOvers::PerThousand(PER_THOUSAND),
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
    pub(super) random: Random,
}

impl World {
    /// Another process may take over now.
    pub(super) fn perhaps_take_over(&mut self) {
        let due = match self.successors.how_often {
            TakeOvers::Never => false,
            TakeOvers::PerThousand(steps) => self.successors.random.below(1000) < steps,
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
