//! Prepared statements: the table of all, what a client's names mean, what a server holds, and preparing again.

pub(crate) mod held;
pub(crate) mod own_names;
pub mod parameter_types;
pub(crate) mod prepare_again;
pub(crate) mod prepared;
pub(crate) mod replanning;
pub(crate) mod untracked;
