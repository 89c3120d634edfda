//! The admin console as drivers and exporters use it.

mod access;
mod columns;
mod protocol;
mod rows;
pub mod tables;
