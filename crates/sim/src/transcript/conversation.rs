//! A file of lines.

use super::{TextError, backend_from_text, frontend_from_text, startup_from_text};
use std::fmt::Write as _;
use thiserror::Error;

/// The direction of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// `C>`: a message to the server.
    Client,
    /// `S<`: a message from the server.
    Server,
    /// `S?`: in a script, the place for the server's answer; in a recording, nothing more comes.
    Wait,
}

/// One line of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The direction.
    pub turn: Turn,
    /// The connection; 1 is the one without a number.
    pub connection: u32,
    /// The text after the arrow.
    pub text: String,
}

/// A conversation on one or more connections.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Conversation {
    /// The comments at the top of the file, without their `#`.
    pub title: Vec<String>,
    /// The lines in the order they happened.
    pub lines: Vec<Line>,
}

/// A file that is not a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("line {line_number}: {why}")]
pub struct ConversationError {
    /// Counted from 1.
    pub line_number: usize,
    /// The reason.
    pub why: String,
}

impl Line {
    /// The bytes of a client or server line; none for [`Turn::Wait`].
    pub fn bytes(&self) -> Result<Vec<u8>, TextError> {
        let mut bytes = Vec::new();
        match self.turn {
            Turn::Client => match startup_from_text(&self.text)? {
                Some(packet) => bytes = packet,
                None => frontend_from_text(&self.text, &mut bytes)?,
            },
            Turn::Server => match self.text.as_str() {
                "Closed" => {}
                "SslRefused" => bytes.push(b'N'),
                text => backend_from_text(text, &mut bytes)?,
            },
            Turn::Wait => {}
        }
        Ok(bytes)
    }
}

impl Conversation {
    /// Reads a file. Blank lines and comments after the top are skipped; every message is checked.
    pub fn read(text: &str) -> Result<Self, ConversationError> {
        let mut conversation = Conversation::default();
        for (index, raw) in text.lines().enumerate() {
            let fail = |why: String| ConversationError {
                line_number: index + 1,
                why,
            };
            let raw = raw.trim_end();
            if let Some(remark) = raw.strip_prefix('#') {
                if conversation.lines.is_empty() {
                    conversation.title.push(remark.trim_start().into());
                }
                continue;
            }
            if raw.is_empty() {
                continue;
            }
            let (who, text) = raw.split_once(' ').unwrap_or((raw, ""));
            let (number, turn) = match who.as_bytes() {
                [b'C', number @ .., b'>'] => (number, Turn::Client),
                [b'S', number @ .., b'<'] => (number, Turn::Server),
                [b'S', number @ .., b'?'] => (number, Turn::Wait),
                _ => return Err(fail(format!("expected C>, S< or S?, got {who:?}"))),
            };
            let connection = match number {
                [] => 1,
                number => std::str::from_utf8(number)
                    .ok()
                    .and_then(|n| n.parse().ok())
                    .ok_or_else(|| fail(format!("expected the number of a connection, got {who:?}")))?,
            };
            let line = Line {
                turn,
                connection,
                text: text.into(),
            };
            if !text.starts_with("Cancel of ") {
                line.bytes().map_err(|e| fail(e.to_string()))?;
            }
            conversation.lines.push(line);
        }
        Ok(conversation)
    }

    /// The text of the file, from which [`Conversation::read`] makes the same conversation.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for remark in &self.title {
            let _ = writeln!(text, "# {remark}");
        }
        if !self.title.is_empty() {
            text.push('\n');
        }
        for line in &self.lines {
            let number = match line.connection {
                1 => String::new(),
                n => n.to_string(),
            };
            let _ = match line.turn {
                Turn::Client => writeln!(text, "C{number}> {}", line.text),
                Turn::Server => writeln!(text, "S{number}< {}", line.text),
                Turn::Wait => writeln!(text, "S{number}?"),
            };
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_reads_back_as_it_was_written() {
        let text = "# What happens\n# and why\n\nC> Startup 3.0 \"user\" \"a\"\nS< Authentication 0\nS?\n\
                    C2> SslRequest\nS2< SslRefused\nS2?\nC> Query \"select 1\"\nS< ReadyForQuery I\nS< Closed\n";
        let conversation = Conversation::read(text).unwrap();
        assert_eq!(conversation.text(), text);
        assert_eq!(conversation.title, ["What happens", "and why"]);
        assert_eq!(
            (conversation.lines[3].connection, conversation.lines[3].turn),
            (2, Turn::Client)
        );
    }

    #[test]
    fn a_bad_line_is_named_by_its_number() {
        let error = Conversation::read("C> Sync\nS< Sync\n").unwrap_err();
        assert_eq!(error.line_number, 2);
        assert!(Conversation::read("X> Sync").is_err());
        assert!(Conversation::read("Cx> Sync").is_err());
    }
}
