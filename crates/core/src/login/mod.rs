//! Startup packets, and logging in on both sides.

pub(crate) mod arrivals;
pub(crate) mod backend_start;
pub(crate) mod client_login;
pub(crate) mod lookups;
pub(crate) mod process_ids;
pub(crate) mod server_login;
pub(crate) mod startup;
