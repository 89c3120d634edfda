//! SQL that names prepared statements: one namespace with Parse, on shared servers.

mod ending;
mod internal_names;
mod lending;
mod one_server;
mod preparing_again;
mod view;
