//! The catalog: when it is read, and how it changes the treatment of statements that mention a name from it.

#[path = "../rig/mod.rs"]
mod rig;

mod failed_readings;
mod mentioning;
mod reading_again;
mod readings;
