//! What the text of a statement does to the session it runs in.
//!
//! This crate reads SQL text and knows nothing of the protocol: no messages, no connections, no state. It answers one
//! question, cheaply for the statements that do not matter: is this text, as a whole, one of the few statements that a
//! pooler must treat in a way of its own?
#![forbid(unsafe_code)]

pub mod effects;
mod lexer;
mod scan;
pub mod statement;

pub use effects::Effects;
pub use scan::{effects, hidden_settings};
pub use statement::{Statement, classify};
