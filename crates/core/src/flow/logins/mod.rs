//! Carries out what logins say, of clients and to servers: they themselves stand in [`crate::login`].

mod admitting;
mod clients;
mod introducing;
mod lookups;
mod opening;
mod securing;
mod servers;
mod verifying;
mod welcoming;
