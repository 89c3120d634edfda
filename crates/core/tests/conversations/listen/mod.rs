//! LISTEN through listener connections: conversations with servers that answer the pooler's requests.

mod lost_listeners;
mod moving;
mod own_notifications;
mod servers;
mod unlisten;
