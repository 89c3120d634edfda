//! A model PostgreSQL: what a server process does with the bytes of one connection.
//!
//! Bytes in, bytes out, no clock and no randomness. The protocol is modelled completely: startup, simple and extended
//! query, implicit and explicit transactions, savepoints, prepared statements and portals with their lifetimes,
//! temporary tables, held cursors, advisory locks, LISTEN and NOTIFY, error recovery up to Sync, COPY in both
//! directions, FunctionCall, ParameterStatus, cancel, and when output is sent. The model knows a small subset of SQL
//! ([`statement`] lists it), enough to bring a session into every state.
//!
//! The model is compared with real servers by `tests/model_and_postgresql` (random scripts) and by the recorded
//! transcripts; where they differ the model is wrong.

mod analyse;
pub mod audit;
mod catalog_locks;
pub mod code;
mod commands;
mod copy;
mod cursor;
mod defaults;
mod encoding;
mod error;
mod execute;
mod expression;
mod extended;
mod function;
mod function_call;
mod idle_limit;
mod later;
mod left_behind;
mod lexer;
mod numbers;
mod objects;
mod output;
mod pace;
mod parser;
mod portal;
pub mod rights;
mod session;
mod settings;
mod simple;
mod startup;
pub mod statement;
mod transaction;
mod transaction_control;
mod utility;
mod value;
mod version;
mod views;

pub use catalog_locks::CatalogLocks;
pub use defaults::RoleDefault;
pub use error::ServerError;
pub use objects::Ties;
pub use pace::Pace;
pub use session::{Session, drops_unnamed};
pub use settings::Snapshot;
pub use transaction::Shared;
pub use version::Version;
