//! How long a server takes.

use crate::random::Random;
use pgweir_wire::frontend::FrontendTag;

/// When a session pauses in front of what it is to do. A cancel that comes meanwhile ends it before it has begun.
#[derive(Debug, Default)]
pub enum Pace {
    /// Everything is done at once, but pg_sleep.
    #[default]
    AtOnce,
    /// It pauses in front of every message and every statement until it is told to go on: whoever drives it decides where a
    /// cancel hits.
    StepByStep,
    /// It pauses now and then: so often in a hundred, for so long at most, microseconds.
    Slow {
        /// Where chance comes from.
        random: Random,
        /// In a hundred.
        percent: u64,
        /// Microseconds.
        us_max: u64,
    },
}

impl Pace {
    /// How long it pauses in front of a message; for a statement inside a Query, that of Query.
    pub(super) fn pause_us(&mut self, tag: FrontendTag) -> Option<u64> {
        use FrontendTag::{Bind, Close, Describe, Execute, FunctionCall, Parse, Query};
        match self {
            Pace::AtOnce => None,
            Pace::StepByStep => {
                matches!(tag, Query | Parse | Bind | Describe | Execute | Close | FunctionCall).then_some(0)
            }
            Pace::Slow {
                random,
                percent,
                us_max,
            } => (matches!(tag, Query | Parse | Bind | Execute | FunctionCall) && random.percent(*percent))
                .then(|| random.between(1, *us_max)),
        }
    }
}
