//! What becomes of a message, from either side, and of the connections that it concerns.

pub(crate) mod cancel;
pub(crate) mod catalog_reading;
pub(crate) mod client_messages;
pub(crate) mod completions;
pub(crate) mod database_ddl;
pub(crate) mod deferred_begin;
pub(crate) mod extended_query;
pub(crate) mod handover;
pub(crate) mod idle_limit;
pub(crate) mod leaving;
pub(crate) mod link;
pub(crate) mod listener;
pub(crate) mod logins;
pub(crate) mod lost_servers;
pub(crate) mod notifications;
pub(crate) mod own_server;
pub(crate) mod pools;
pub(crate) mod ready;
pub(crate) mod refusals;
pub(crate) mod replies;
pub(crate) mod restoring;
pub(crate) mod server_messages;
pub(crate) mod signals;
pub(crate) mod simple_query;
pub(crate) mod traces;
pub(crate) mod undoing;
