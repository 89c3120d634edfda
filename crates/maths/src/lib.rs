//! The arithmetic behind the laboratory's advice: numbers in, numbers and verdicts out.
//!
//! Nothing here knows a server, a file, a clock or a random source, so every conclusion that a report draws can be drawn
//! again from its `result.json`.
//!
//! | file | answers |
//! |---|---|
//! | `statistics` | middle, spread, percentiles of a few numbers |
//! | `ratio` | one set of rounds as a multiple of another, with its interval |
//! | `rounds` | the same for cases that were measured in interleaved rounds |
//! | `enough` | which size of a sweep is enough, or that the noise decides |
//! | `student` | the distributions behind the intervals |
//! | `usl` | which Universal Scalability Law describes throughput over concurrency |
//! | `sweep` | a sweep of concurrency, each level beside the others of its round |
//! | `confidence` | how sure the peak of that law is |
//! | `recommend` | what a sweep of clients says: peak, knee, settings |
//! | `sizing` | every number of connections that is recommended, from stated inputs |
//! | `memory` | the same for every size of memory |
//! | `budget` | whether the memory that the settings allow exists |
//! | `words` | numbers in words |

mod budget;
mod confidence;
#[cfg(test)]
mod coverage;
mod enough;
mod memory;
#[cfg(test)]
mod random;
mod ratio;
mod recommend;
mod rounds;
mod sizing;
mod statistics;
mod student;
mod sweep;
mod usl;
mod words;

pub use budget::{Budget, MemorySettings};
pub use confidence::{FittedUsl, fit_with_confidence};
pub use enough::{ENOUGH_SHARE, Enough, smallest_enough};
pub use memory::{
    SessionMemory, connections_that_fit, has_default_session_memory, round_up_bytes, session_memory_that_fits,
    shared_buffers_most, shared_buffers_start,
};
pub use ratio::{Interval, Ratio, Told, times, unpaired};
pub use recommend::{Level, PeakPlace, Recommendation, Sizes, Surroundings, recommend, round_connections};
pub use rounds::{Rounds, paired};
pub use sizing::{
    ADMINISTRATORS, ConnectionInputs, PoolInputs, Sized, TogetherInputs, all_pools, max_connections, min_pool_size,
    most_at_work, pool_size,
};
pub use statistics::{Spread, mean, median};
pub use usl::{FitError, Usl};
pub use words::{number_words, with_commas};
