//! sql
#![forbid(unsafe_code)]
