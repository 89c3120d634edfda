//! Prepared statements: the table of all, what a client's names mean, what a server holds.

pub(crate) mod catalog_query;
pub(crate) mod client_names;
pub(crate) mod client_statements;
pub(crate) mod ends;
pub(crate) mod followed;
pub(crate) mod held;
pub(crate) mod internal;
pub(crate) mod meaning;
pub mod parameter_types;
pub(crate) mod parse_settings;
pub(crate) mod prepared;
pub(crate) mod rows;
pub(crate) mod table;
pub(crate) mod unnamed;
