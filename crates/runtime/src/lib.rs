//! runtime
#![allow(clippy::disallowed_methods)]
