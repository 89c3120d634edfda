//! The admin console's language, and the state of its clients. Its commands are carried out by `operator`.

pub(crate) mod columns;
pub(crate) mod grammar;
pub(crate) mod orders;
pub(crate) mod portals;
pub(crate) mod refusal;
pub(crate) mod rows;
pub(crate) mod state;
mod tokens;
pub(crate) mod waiting;
