//! The arithmetic behind the laboratory's advice: numbers in, numbers and verdicts out.
//!
//! Nothing here knows a server, a file, a clock or a random source (resampling takes its seed as an argument), so every
//! conclusion that a report draws can be drawn again from its `result.json`.
//!
//! | file | answers |
//! |---|---|
//! | `statistics` | median, spread, percentiles of a few numbers |
//! | `usl` | which Universal Scalability Law describes throughput over concurrency |
//! | `confidence` | how sure that fit is, from the spread between rounds |
//! | `noise` | whether two sets of rounds differ, or may be the same |
//! | `recommend` | peak, knee, `max_connections`, `default_pool_size` |
//! | `budget` | whether the memory that the settings allow exists |

mod budget;
mod confidence;
mod noise;
mod random;
mod recommend;
mod statistics;
mod usl;

pub use budget::{Budget, MemorySettings};
pub use confidence::{Confidence, FittedUsl, Interval, fit_with_confidence};
pub use noise::{Difference, compare};
pub use recommend::{Level, PeakPlace, Recommendation, Surroundings, recommend, round_connections, rule_of_thumb};
pub use statistics::{Spread, mean, median, percentile, standard_deviation};
pub use usl::{FitError, Point, Usl, fit};
