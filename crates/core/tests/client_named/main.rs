//! SQL that names prepared statements: one namespace with Parse, on shared servers.

#[path = "../rig/mod.rs"]
mod rig;

mod ending;
mod lending;
mod one_server;
mod preparing_again;
mod view;
