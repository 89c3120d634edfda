//! What clients, servers and pools know of sessions: plain data.

pub(crate) mod asked_right;
pub(crate) mod beyond_ascii;
pub(crate) mod client_session;
pub(crate) mod deferred_begin;
pub(crate) mod difference;
pub(crate) mod idle_limit;
pub(crate) mod pins;
pub(crate) mod probe;
pub(crate) mod restoration;
pub(crate) mod sequences;
pub(crate) mod server_session;
pub(crate) mod shape;
pub(crate) mod shape_table;
pub(crate) mod suspicion;
