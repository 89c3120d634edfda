//! Who listens to what.

pub mod channels;
pub(crate) mod hub;
pub(crate) mod moving;
