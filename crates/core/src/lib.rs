//! The pooler: clients, servers, pools, wait queue, reply queue, prepared statements, cancel, timers, console.
//!
//! **Bytes, time, settings and randomness in; bytes and requests out.** This crate opens no socket, reads no clock and
//! starts no thread. `pgweir-runtime` and `pgweir-sim` drive the same [`Pooler`].
//!
//! The methods of [`Pooler`] fall into families:
//!
//! - `handle_*`: something happened. Each takes the current [`Time`].
//! - `poll_*`: what to do next. After **every** `handle_*` call the driver first writes out [`Pooler::outbox`], then
//!   calls [`Pooler::poll_request`] until it returns `None`, and asks [`Pooler::poll_timeout`] before it sleeps.
//! - plain getters.
#![forbid(unsafe_code)]

#[cfg(test)]
mod alone;
mod base;
mod catalog;
mod client;
mod client_side;
mod console;
mod contexts;
mod exchange;
mod flow;
mod frozen;
#[cfg(any(test, feature = "weaknesses"))]
mod invariants;
mod listening;
mod login;
mod notify;
mod operator;
pub mod pooler;
mod pools;
mod preparing;
mod reply;
mod server;
mod server_side;
mod session;
mod shared;
mod state;
mod statements;
mod upstream;
mod weaknesses;

pub use base::address::Address;
pub use base::dns::{DnsFacts, DnsHost, DnsZone};
pub use base::surroundings::Surroundings;
#[cfg(feature = "weaknesses")]
pub use base::weakness::InternalWork;
pub use base::weakness::Weakness;
pub use base::{errors, ids, outbox, request, settings, time, tls, verification};
pub use frozen::Predecessor;
pub use ids::{ClientId, ConnectionId, ServerId};
pub use notify::channels;
pub use operator::stats;
pub use outbox::{Outbox, Part, Source};
pub use pooler::Pooler;
pub use request::{
    Accepted, CancelEnd, Command, Connected, Endpoint, LogLevel, OrderId, ReloadOutcome, Request, TlsChange, TriedTls,
};
pub use statements::parameter_types;
pub use time::{Time, WallClock};
pub use tls::{PeerCertificate, TlsFacts};
pub use verification::{Verification, Verified};
