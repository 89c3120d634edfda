//! The admin console as drivers and exporters use it.

#[path = "../rig/mod.rs"]
mod rig;

mod access;
mod columns;
mod protocol;
mod rows;
mod tables;
