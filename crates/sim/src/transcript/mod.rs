//! Wire conversations as text.
//!
//! ```text
//! C> Parse "s1" "select $1" types 25
//! C> Sync
//! S< ParseComplete
//! S< ReadyForQuery I
//! ```
//!
//! One message a line: `C>` to the server, `S<` from it; `C2>` and `S2<` on a second connection. Lines that begin with
//! `#` are comments. The text after the arrow is written by [`frontend_to_text`] and [`backend_to_text`], and read by
//! [`frontend_from_text`] and [`backend_from_text`]. Nothing is lost, even if bytes are not text.

mod backend_text;
mod conversation;
mod frontend_text;
mod normal;
mod startup_text;
mod words;

pub use backend_text::{backend_from_text, backend_to_text};
pub use conversation::{Conversation, ConversationError, Line, Turn};
pub use frontend_text::{frontend_from_text, frontend_to_text};
pub use normal::normal_lines;
pub use startup_text::{startup_from_text, startup_to_text};
pub use words::TextError;

/// Splits a stream into messages. Bytes that are incomplete or no message stay together at the end.
pub fn split_messages(mut stream: &[u8]) -> Vec<&[u8]> {
    let mut messages = Vec::new();
    while let Ok(Some(header)) = pgweir_wire::Header::read(stream) {
        let bytes = header.message_bytes as usize;
        if bytes > stream.len() {
            break;
        }
        let (message, rest) = stream.split_at(bytes);
        messages.push(message);
        stream = rest;
    }
    if !stream.is_empty() {
        messages.push(stream);
    }
    messages
}
