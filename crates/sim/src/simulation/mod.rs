//! One seed, one run.
//!
//! The seed decides the topology (pools, limits, timeouts, clients), the load (what each client does and when) and the
//! faults (how bytes are cut and delayed, which clients vanish, when servers die). [`world::World`] plays the part of
//! the runtime under the same contract, with a clock that jumps from event to event. While the faults go on, the
//! checkers watch:
//!
//! - every byte that a client gets is the byte that a private server would have sent ([`oracle`]). Every statement
//!   carries a token of its client, so a byte for another client is noticed;
//! - a server gets another client only when it is idle, clean, and nothing is on its way to or from it;
//! - servers per pool, database and user, and clients, stay within their limits;
//! - a cancel request reaches the server of the client that sent it, or a server without a client;
//! - nothing happens on a connection after its end;
//! - a client finds nothing of another session on its server (temporary tables, locks, held cursors, LISTEN, PREPARE),
//!   and keeps its server only while something pins it;
//! - where hosts differ, no client gets a session on a standby;
//! - a client draws nothing from random() that another client has seeded, and no function gives it constants that another
//!   client has read under other settings.
//!
//! Besides well-behaved clients there may be some that send rubbish, flood, stop in the midst of a message and guess
//! internal names; of their answers only the tokens are checked. Some pools have a connect_query, whose settings every
//! private server begins with. Some clients set names that code reserves on some servers, or send messages longer than
//! 64 KiB.
//!
//! Visitors may come that never log in, and watchers who look at the console ([`visitors`]): there are not too many of
//! the former, and the latter are told no values.
//!
//! After the faults have stopped every client must be served to its end, and all servers must come to rest.
//!
//! In some runs the pooler's state is frozen and thawed again and again ([`takeover`]), without any effect on the
//! trace. In others it is taken over as by a process of its own, perhaps with another configuration ([`changes`]).
//!
//! Some seeds also have a [`flood`], in which the processor time of the core is measured.
//!
//! In a [`crowd`], clients wait for servers all the time, and it is checked who gets the next one.
//!
//! Some seeds are run once more, with a [`shutdown`] in their midst.
//!
//! A [`canary::Canary`] breaks the driver on purpose: the checkers must notice every one of them.

mod actors;
mod beginning;
pub mod canary;
mod changes;
mod checks;
pub mod client;
mod configured;
pub mod crowd;
mod driver;
mod faults;
pub mod flight;
pub mod flood;
mod hosts;
mod network;
pub mod oracle;
pub mod postgres;
mod reading;
pub mod seeds;
pub mod shutdown;
mod signals;
pub mod takeover;
pub mod topology;
pub mod trace;
mod visitors;
pub mod world;

use canary::Canary;
use takeover::TakeOvers;
use topology::Topology;
use world::{Outcome, World};

/// Runs one seed.
pub fn run(seed: u64, canary: Option<Canary>, print: bool) -> Outcome {
    run_with(seed, canary, TakeOvers::of_seed(seed), print)
}

/// Runs one seed with this frequency of take-overs.
pub fn run_with(seed: u64, canary: Option<Canary>, take_overs: TakeOvers, print: bool) -> Outcome {
    // Every other seed is also that of a crowd; a crowd alone can show the defects of the queue.
    let crowd = (seed.is_multiple_of(2) && canary.is_none_or(Canary::is_of_queue)).then(|| crowd::run(seed, canary));
    let mut outcome = World::new(Topology::new(seed), canary, take_overs, print).run();
    let shutdown = || shutdown::run(seed, canary, print);
    let flood = || flood::run(seed, canary);
    outcome.violation = outcome.violation.or(crowd.flatten()).or_else(shutdown).or_else(flood);
    outcome
}
