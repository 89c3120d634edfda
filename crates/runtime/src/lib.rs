//! Sockets, the event loop, DNS, signals, log and process: the only crate of the pooler that calls the system.
//!
//! This crate decides nothing about clients, servers and pools. Bytes and events go into [`pgweir_core::Pooler`]; its
//! output is written, and its requests are carried out. The data plane ([`event_loop`](crate)) is one thread. Work that
//! may block (name look-up, reading files) runs on other threads, and its result comes back as a message.
#![deny(unsafe_code)]
// This crate may call the system: see clippy.toml.
#![allow(clippy::disallowed_methods)]

mod accept;
mod activation;
mod cancel;
mod closing;
mod configuration;
mod connect;
mod connection;
mod connections;
mod control;
mod credentials;
mod daemon;
mod defer_accept;
mod dns;
mod event_loop;
mod handshakes;
mod inbox;
mod interfaces;
mod ldap;
mod limits;
mod listener;
mod log;
mod machine;
mod name_server;
mod pam;
mod peers;
mod pending;
mod pidfile;
mod privileges;
mod reading;
mod refusal;
mod relayed;
mod requests;
mod securing;
mod sends;
mod service_manager;
mod settings;
mod signals;
mod slab;
mod socket;
mod start;
mod start_error;
mod syslog;
mod takeover;
mod timers;
mod tls;
mod token;
mod transport;
mod turns;
mod verifier;

pub use configuration::read_file;
pub use machine::check_machine;
pub use privileges::change_user;
pub use signals::Interrupt;
pub use start::{OnReady, RunOptions, run};
pub use start_error::StartError;
pub use tls::{TlsFailure, check_tls_files};
