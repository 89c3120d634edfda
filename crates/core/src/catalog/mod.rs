//! What the functions of a database do, as far as its catalog tells, and when that is read.

pub(crate) mod code;
pub(crate) mod known;
mod runs;
pub(crate) mod schedule;
