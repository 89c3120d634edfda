//! LISTEN through listener connections: conversations with servers that answer the pooler's requests.

mod encodings;
mod lost_listeners;
mod many_channels;
mod moving;
mod own_notifications;
mod servers;
mod unlisten;
