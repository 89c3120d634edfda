//! What the fuzz targets share: a driver of the pooler's core whose every move is spelled out by a byte string, and the
//! checks it makes on the way.
//!
//! [`world`] keeps the contract of `pgweir_core` (outbox written, requests done in order, `may_read` asked, dead ids
//! left alone) and plays the network; [`client`] and [`server`] are the peers at its two ends; [`framing`] watches what
//! the pooler writes to them. [`story`] reads the byte string.

pub mod client;
pub mod configuration;
pub mod framing;
pub mod moves;
pub mod server;
pub mod story;
pub mod world;
