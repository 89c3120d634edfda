//! Plain values and tools that all other layers use: ids, time, the outbox, requests to the driver,
//! errors, settings.

pub(crate) mod access;
pub(crate) mod admits;
pub(crate) mod close_reason;
pub(crate) mod consequence;
pub(crate) mod deeds;
pub mod dns;
pub mod errors;
pub mod ids;
pub(crate) mod message;
pub mod outbox;
pub mod pin_reason;
pub(crate) mod pool_id;
pub(crate) mod reasons;
pub mod request;
pub(crate) mod secret_names;
pub mod settings;
pub(crate) mod slab;
pub(crate) mod state_stats;
pub mod stats;
pub mod surroundings;
pub mod time;
pub mod timers;
pub mod tls;
pub mod verification;
pub(crate) mod weakness;
