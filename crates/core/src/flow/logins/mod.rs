//! Carries out the logins of clients and to servers; the logins themselves are in [`crate::login`].

mod admitting;
mod clients;
mod introducing;
mod lookups;
mod opening;
mod securing;
mod servers;
mod verifying;
mod welcoming;
