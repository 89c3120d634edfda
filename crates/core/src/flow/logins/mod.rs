//! Carries out what logins say: they themselves stand in [`crate::login`].

mod admitting;
mod clients;
mod lookups;
mod welcoming;
