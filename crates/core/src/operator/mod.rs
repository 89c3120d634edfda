//! What an operator uses: the console, signals, timers, statistics.

pub(crate) mod admin;
pub(crate) mod console;
mod due;
mod numbers;
mod overload;
mod shortage;
pub mod stats;
mod timers;
mod view;
mod waits;
