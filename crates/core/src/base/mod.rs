//! What everything else is made of: ids, time, the outbox, requests to the driver, errors, settings.

pub mod errors;
pub mod ids;
pub mod outbox;
pub mod request;
pub(crate) mod secret_names;
pub mod settings;
pub(crate) mod slab;
pub(crate) mod state_stats;
pub mod time;
pub(crate) mod weakness;
