//! The pooler under a virtual clock, a hostile network and a model PostgreSQL, driven by one seed.
//!
//! - [`model`]: a PostgreSQL made of state machines, compared with real ones.
//! - [`random`]: the seed's numbers.
//! - [`simulation`]: one seed, one run of the pooler among hostile clients, networks and servers.
//! - [`transcript`]: wire conversations as text, recorded from real servers.
#![forbid(unsafe_code)]

pub mod model;
pub mod random;
pub mod simulation;
pub mod transcript;
