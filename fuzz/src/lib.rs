//! The code that the fuzz targets share: a driver of the pooler's core whose moves are determined by a byte string, and
//! its checks.
//!
//! [`world`] keeps the contract of `pgweir_core` (the outbox is written, requests are carried out in order, `may_read`
//! is asked, dead ids are not used) and plays the network; [`client`] and [`server`] are the peers at its two ends;
//! [`framing`] checks what the pooler writes to them. [`story`] reads the byte string.

pub mod client;
pub mod configuration;
pub mod framing;
pub mod moves;
pub mod server;
pub mod story;
pub mod world;
