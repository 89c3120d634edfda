//! How many servers of one PostgreSQL endpoint may have a request outstanding, found by experiment.
//!
//! The [`Controller`] hears of each completed request and says how many servers may work. While clients wait, it tries
//! other limits for moments, compares the work done, and moves to the limit that does the most; of equal limits, to the
//! smallest. docs/decisions/0025-sizing.md says how it was chosen.
//!
//! This crate knows no pool, no client, no server, no clock and no randomness: times are arguments, in microseconds,
//! and the same calls give the same limits.
#![forbid(unsafe_code)]

mod controller;
mod ladder;
mod map;
mod meter;
mod noise;
mod normal;
mod step;

pub use controller::{Controller, Weakness};
pub use step::{Reason, Step};

/// Between which limits the controller may choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, pgweir_freeze::Freeze)]
pub struct Bounds {
    /// The least limit, at least 1.
    pub min: u32,
    /// The greatest limit, at least `min`.
    pub max: u32,
}
