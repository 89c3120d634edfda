//! Replays recorded conversations through the core: the client must get the server's lines as recorded, in whatever
//! pieces they come.
//!
//! The server plays the recording: it checks the client's lines, and sends what the real server sent.

#![allow(clippy::disallowed_methods, reason = "recordings are files")]

mod pooler;
mod recordings;
mod replay;
