//! pgweir
#![allow(clippy::disallowed_methods)]
fn main() {}
