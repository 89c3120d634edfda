//! LISTEN and NOTIFY across shared servers.

pub mod channels;
pub(crate) mod handover;
pub(crate) mod listener;
