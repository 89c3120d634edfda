//! What becomes of a message, from either side.

pub(crate) mod cancel;
pub(crate) mod client_messages;
pub(crate) mod completions;
pub(crate) mod deferred_begin;
pub(crate) mod extended_query;
pub(crate) mod leaving;
pub(crate) mod link;
pub(crate) mod ready;
pub(crate) mod refusals;
pub(crate) mod replies;
pub(crate) mod server_messages;
pub(crate) mod signals;
pub(crate) mod simple_query;
pub(crate) mod undoing;
