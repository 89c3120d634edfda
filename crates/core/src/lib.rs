//! The pooler: clients, servers, pools, wait queue, reply queue, prepared statements, cancel, timers, console.
//!
//! **Bytes, time, settings and randomness in; bytes and requests out.** This crate opens no socket, reads no clock and
//! starts no thread; `pgweir-runtime` and `pgweir-sim` drive the very same [`Pooler`].
//!
//! The methods of [`Pooler`] fall into families:
//!
//! - `handle_*`: something happened. Each takes the current [`Time`].
//! - `poll_*`: what to do next. After **every** `handle_*` call the driver first writes out [`Pooler::outbox`], then
//!   calls [`Pooler::poll_request`] until it returns `None`, and asks [`Pooler::poll_timeout`] before it sleeps.
//! - plain getters.
#![forbid(unsafe_code)]

mod admin;
mod arrivals;
mod backend_start;
mod cancel;
mod catalog;
mod catalog_query;
mod catalog_reading;
pub mod channels;
mod client;
mod client_messages;
mod console;
mod database_ddl;
mod databases;
mod deferred_begin;
pub mod errors;
mod extended_query;
mod handover;
mod held;
mod idle_limit;
mod idle_list;
pub mod ids;
mod inspection;
mod known_code;
mod leaving;
mod link;
mod listener;
mod login;
mod lookups;
pub mod outbox;
mod own_names;
pub mod parameter_types;
mod pins;
mod pool;
pub mod pooler;
mod prepare_again;
mod prepared;
mod probe;
mod process_ids;
mod replanning;
mod reply_queue;
pub mod request;
mod resetting;
mod restoration;
mod secret_names;
mod sequences;
mod server;
mod server_login;
mod server_messages;
mod session_state;
pub mod settings;
mod signals;
mod simple_query;
mod slab;
mod startup;
mod state_stats;
pub mod stats;
pub mod time;
pub mod timers;
mod traces;
mod untracked;
mod wait_queue;
mod weakness;

pub use ids::{ClientId, ConnectionId, ServerId};
pub use outbox::{Outbox, Part, Source};
pub use pooler::{Pooler, Surroundings};
pub use request::{Accepted, Address, Command, Connected, Endpoint, LogLevel, ReloadOutcome, Request};
pub use time::{Time, WallClock};
#[cfg(feature = "weaknesses")]
pub use weakness::OwnWork;
pub use weakness::Weakness;
