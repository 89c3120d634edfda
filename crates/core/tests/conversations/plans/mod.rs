//! Shared statements and DDL: which clients get "cached plan must not change result type", and which must not.

mod looking;
mod moved_names;
mod one_table;
mod replaced;
mod rows_told;
