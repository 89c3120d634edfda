//! The PostgreSQL frontend/backend protocol, versions 3.0 and 3.2: bytes to messages and back.
//!
//! This crate knows the shape of every message and nothing else: it keeps no state, reads no stream and decides
//! nothing. A [`header::Header`] says how long a message is. The views in [`frontend`] and [`backend`] borrow a
//! message's body. [`write::Writer`] appends messages to a caller's buffer. "Frontend" and "backend" name the
//! *direction* of a message (client to server, server to client), never one of the pooler's two roles.
//!
//! Source: the PostgreSQL manual, chapter "Frontend/Backend Protocol", sections "Message Flow" and "Message Formats".
#![forbid(unsafe_code)]

pub mod backend;
pub mod error_fields;
pub mod frontend;
pub mod header;
pub mod read;
pub mod startup;
pub mod write;

pub use backend::{BackendTag, TransactionStatus};
pub use error_fields::ErrorFields;
pub use frontend::FrontendTag;
pub use header::{HEADER_BYTES, Header, HeaderError, Longest, SHORT_MESSAGE_BYTES_MAX};
pub use read::{ReadError, Reader};
pub use startup::{CancelKey, ProtocolVersion, StartupPacket};
pub use write::Writer;
