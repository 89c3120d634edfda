//! The words, quoted texts and symbols of a console command.

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token {
    /// As written.
    Word(String),
    /// `"quoted"`, without its quotes.
    Quoted(String),
    /// `'text'`, without its quotes.
    Text(String),
    Equals,
    Semicolon,
}

/// The tokens of a text; `None` if a quote or comment does not end.
pub(super) fn tokens(text: &str) -> Option<Vec<Token>> {
    let mut tokens = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start();
        let Some(first) = rest.chars().next() else {
            return Some(tokens);
        };
        if rest.starts_with("--") {
            rest = rest.split_once('\n').map_or("", |(_, rest)| rest);
            continue;
        }
        if let Some(comment) = rest.strip_prefix("/*") {
            rest = comment.split_once("*/")?.1;
            continue;
        }
        let (token, length) = match first {
            ';' => (Token::Semicolon, 1),
            '=' => (Token::Equals, 1),
            '"' => quoted(rest, '"').map(|(text, length)| (Token::Quoted(text), length))?,
            '\'' => quoted(rest, '\'').map(|(text, length)| (Token::Text(text), length))?,
            _ => {
                let end = |c: char| c.is_whitespace() || matches!(c, ';' | '=' | '"' | '\'');
                let length = rest.find(end).unwrap_or(rest.len());
                (Token::Word(rest[..length].to_string()), length)
            }
        };
        tokens.push(token);
        rest = &rest[length..];
    }
}

/// The quoted text at the beginning, with doubled quotes halved, and its length including
/// the quotes.
fn quoted(text: &str, quote: char) -> Option<(String, usize)> {
    let mut inner = String::new();
    let mut characters = text.char_indices().skip(1).peekable();
    while let Some((at, c)) = characters.next() {
        if c != quote {
            inner.push(c);
        } else if characters.next_if(|&(_, c)| c == quote).is_some() {
            inner.push(quote);
        } else {
            return Some((inner, at + 1));
        }
    }
    None
}
