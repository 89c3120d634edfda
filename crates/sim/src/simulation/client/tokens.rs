//! Tokens: the parts of values that say whose they are.

use super::Client;
use crate::transcript::backend_to_text;

impl Client {
    /// Every token in a message must be this session's.
    pub(super) fn check_tokens(&self, message: &[u8]) -> Result<(), String> {
        // Process ids and secrets are random, and now and then look like a token.
        if message.first() == Some(&b'K') {
            return Ok(());
        }
        let own = self.author.as_ref().map_or("", |a| a.token()).as_bytes();
        for at in memmem(message, b"tok") {
            if is_token(&message[at..]) && !message[at..].starts_with(own) {
                return Err(format!(
                    "{}: bytes of another: {}",
                    self.label(),
                    backend_to_text(message)
                ));
            }
        }
        Ok(())
    }
}

/// Whether a text begins with a session's token, such as `tok12x`. The random part of an internal name may spell `tok`.
fn is_token(text: &[u8]) -> bool {
    let digits = text[3..].iter().take_while(|b| b.is_ascii_digit()).count();
    digits > 0 && text.get(3 + digits) == Some(&b'x')
}

fn memmem(haystack: &[u8], needle: &[u8]) -> Vec<usize> {
    haystack
        .windows(needle.len())
        .enumerate()
        .filter(|(_, window)| *window == needle)
        .map(|(at, _)| at)
        .collect()
}
