//! core
#![forbid(unsafe_code)]
