//! The catalog: when it is read, and how it changes the treatment of statements that mention a name from it.

mod definers;
mod failed_readings;
mod mentioning;
mod outdated;
mod reading_again;
mod readings;
mod replicas;
