//! Traces of earlier sessions that a client could notice on its server: conversations in virtual time.

mod discard_all;
mod schema;
mod settings;
mod temporary;
