//! The speed of a server.

use crate::random::Random;
use pgweir_wire::frontend::FrontendTag;

/// When a session pauses before its next work. A cancel during the pause ends that work before it has begun.
#[derive(Debug, Default)]
pub enum Pace {
    /// Everything is done at once, except pg_sleep.
    #[default]
    AtOnce,
    /// It pauses before every message and every statement until it is told to go on: the test decides where a cancel
    /// hits.
    StepByStep,
    /// It pauses now and then.
    Slow {
        /// The source of random numbers.
        random: Random,
        /// How often, in a hundred.
        percent: u64,
        /// The longest pause, microseconds.
        us_max: u64,
    },
}

impl Pace {
    /// How long it pauses before a message. Statements inside a Query pause like a Query.
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
