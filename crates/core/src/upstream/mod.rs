//! The conversation with one server: what it still owes, and who gets it.

pub(crate) mod cancels;
pub(crate) mod conversation;
pub(crate) mod copy_in;
pub(crate) mod ended;
pub(crate) mod ended_statements;
pub(crate) mod entry;
pub(crate) mod fifo;
pub(crate) mod flight;
pub(crate) mod flights;
pub(crate) mod given_up;
pub(crate) mod job;
pub(crate) mod nature;
pub(crate) mod outstanding;
pub(crate) mod parsed;
pub(crate) mod phase;
pub(crate) mod replacement;
pub(crate) mod reply_queue;
pub(crate) mod requests;
pub(crate) mod server_login;
pub(crate) mod standing;
