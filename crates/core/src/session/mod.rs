//! What belongs to a session: settings, restoration, pins, probes, RESET, sequences.

pub(crate) mod deferred_begin;
pub(crate) mod idle_limit;
pub(crate) mod inspection;
pub(crate) mod pins;
pub(crate) mod probe;
pub(crate) mod resetting;
pub(crate) mod restoration;
pub(crate) mod sequences;
pub(crate) mod session_state;
pub(crate) mod traces;
