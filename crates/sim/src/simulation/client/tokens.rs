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
        match tokens(message).all(|at| message[at..].starts_with(own)) {
            true => Ok(()),
            false => Err(format!(
                "{}: bytes of another: {}",
                self.label(),
                backend_to_text(message)
            )),
        }
    }
}

/// Whether these bytes contain a session's token.
pub(in crate::simulation) fn has_token(bytes: &[u8]) -> bool {
    tokens(bytes).next().is_some()
}

/// Where sessions' tokens begin.
fn tokens(bytes: &[u8]) -> impl Iterator<Item = usize> {
    let places = memmem(bytes, b"tok").into_iter();
    places.filter(|&at| is_token(&bytes[at..]) && !is_in_internal_name(&bytes[..at]))
}

/// Whether a text begins with a session's token, such as `tok12x`.
fn is_token(text: &[u8]) -> bool {
    let digits = text[3..].iter().take_while(|b| b.is_ascii_digit()).count();
    digits > 0 && text.get(3 + digits) == Some(&b'x')
}

/// Whether what follows these bytes is part of an internal name, whose random part may spell a token.
fn is_in_internal_name(before: &[u8]) -> bool {
    let name = before
        .iter()
        .rev()
        .take_while(|&&b| b.is_ascii_alphanumeric() || b == b'_')
        .count();
    before[before.len() - name..].starts_with(b"pgweir_")
}

fn memmem(haystack: &[u8], needle: &[u8]) -> Vec<usize> {
    haystack
        .windows(needle.len())
        .enumerate()
        .filter(|(_, window)| *window == needle)
        .map(|(at, _)| at)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_part_of_internal_name_is_no_token() {
        let message = b"prepared statement \"pgweir_0_oH3kx4qqTtok91x3kdxBs0\" does not exist";
        let at = memmem(message, b"tok")[0];
        assert!(is_token(&message[at..]));
        assert!(is_in_internal_name(&message[..at]));
        assert!(!is_in_internal_name(b"pgweir_0_oH3kx4qqT "));
        assert!(!is_in_internal_name(b"value of "));
    }
}
