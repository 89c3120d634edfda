//! What the functions of a database do, as far as its catalog tells.

pub(crate) mod catalog_reading;
pub(crate) mod code;
pub(crate) mod known_code;
