//! What the functions of a database do, according to its catalog, and when the catalog is
//! read.

pub(crate) mod catalogs;
pub(crate) mod code;
pub(crate) mod debt;
pub(crate) mod known;
mod objects;
pub(crate) mod publications;
pub(crate) mod reading;
pub(crate) mod replicas;
mod runs;
pub(crate) mod schedule;
mod sources;
