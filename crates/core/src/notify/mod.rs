//! Who listens to what.

pub mod channels;
pub(crate) mod commands;
pub(crate) mod hub;
pub(crate) mod moving;
