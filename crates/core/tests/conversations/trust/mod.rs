//! A client's statement runs in exactly its own session, or not at all, whatever cancels, disconnects and refusals
//! happen meanwhile.

mod cancel_requests;
mod connect_query;
mod left_behind;
mod refused_settings;
pub mod restorations;
mod signal_calls;
