//! Preparing on a server the statements that it does not hold, under internal or
//! client-given names.

pub(crate) mod by_sql;
pub(crate) mod client_named;
pub(crate) mod lending;
mod parsed_under;
pub(crate) mod prepare_again;
pub(crate) mod replanning;
pub(crate) mod told_types;
pub(crate) mod untracked;
pub(crate) mod use_refusal;
