//! The code that the fuzz targets share: a driver of the pooler's core whose moves are determined by a byte string, and
//! its checks.
//!
//! [`world`] keeps the contract of `pgweir_core` (the outbox is written, requests are carried out in order, `may_read`
//! is asked, dead ids are not used) and plays the network; [`client`] and [`server`] are the peers at its two ends
//! ([`internal`]: what a good server answers to the pooler's own statements);
//! [`framing`] checks what the pooler writes to them, [`handshakes`] stands for TLS, and [`checks`] is what always
//! holds. [`story`] reads the byte string.

pub mod checks;
pub mod client;
pub mod configuration;
pub mod framing;
pub mod handshakes;
pub mod internal;
pub mod moves;
pub mod server;
pub mod story;
pub mod world;
