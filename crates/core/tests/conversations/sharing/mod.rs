//! How clients share servers: conversations in virtual time, each naming what it guards against.

mod cancel_requests;
mod copies;
mod deferred_begin;
mod half_messages;
mod held_cancels;
mod pool_modes;
pub mod pool_places;
mod release;
mod server_faults;
mod vanishing_clients;
