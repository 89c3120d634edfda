//! Carries out the logins of clients and to servers; the logins themselves are in [`crate::login`].

pub(crate) mod admitting;
mod arrival;
mod clients;
mod introducing;
mod lookups;
pub(crate) mod opening;
mod roles;
mod securing;
mod servers;
mod verifying;
mod welcoming;
