//! LISTEN and NOTIFY: who listens to which channels.

pub mod channels;
pub(crate) mod hub;
pub(crate) mod listener;
pub(crate) mod moving;
pub(crate) mod obstacle;
