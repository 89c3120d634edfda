//! auth
#![forbid(unsafe_code)]
