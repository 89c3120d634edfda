//! Connection strings: the `key=value key='quoted value'` lists of `[databases]`, `[users]` and `[peers]`.
//!
//! Pairs are separated by spaces. A tab is part of the value that it touches, as in PgBouncer. A value in single quotes
//! may contain spaces, and `''` for one quote. An empty value is a syntax error.

use crate::ini::unquote;

/// One `key=value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pair {
    pub key: String,
    pub value: String,
    /// Byte offset of the key in the connection string.
    pub key_at: usize,
    /// Byte offset of the value, or of its opening quote.
    pub value_at: usize,
}

/// The hint for a word that is not a key.
pub(crate) const NEEDS_QUOTES: &str = "a value that contains spaces needs single quotes";

/// Whether what stands behind the value of this key may be the rest of a secret that contains a space. Messages do not
/// show it.
pub(crate) fn is_secret(key: &str) -> bool {
    key == "password"
}

/// A connection string that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SyntaxError {
    /// Byte offset of the fault.
    pub at: usize,
    pub message: String,
    pub hint: Option<&'static str>,
}

/// The pairs in order. Reading ends at the first fault.
pub(crate) fn pairs(text: &str) -> (Vec<Pair>, Option<SyntaxError>) {
    let mut pairs = Vec::new();
    let mut at = 0;
    loop {
        match next_pair(text, at, pairs.last()) {
            Ok(None) => return (pairs, None),
            Ok(Some((pair, next))) => {
                pairs.push(pair);
                at = next;
            }
            Err(error) => return (pairs, Some(error)),
        }
    }
}

/// The pair at `at`, and where it ends. `before` is the pair in front of it.
fn next_pair(text: &str, at: usize, before: Option<&Pair>) -> Result<Option<(Pair, usize)>, SyntaxError> {
    let key_at = skip_spaces(text, at);
    if key_at == text.len() {
        return Ok(None);
    }
    let key_end = key_at + text[key_at..].find(['=', ' ']).unwrap_or(text.len() - key_at);
    let equals = skip_spaces(text, key_end);
    let key = &text[key_at..key_end];
    if !text[equals..].starts_with('=') {
        let behind = match before {
            Some(before) if is_secret(&before.key) => format!("the word behind the value of \"{}\"", before.key),
            _ => format!("\"{key}\""),
        };
        return Err(fault(
            key_at,
            format!("expected \"=\" after {behind}"),
            Some(NEEDS_QUOTES),
        ));
    }
    if key.is_empty() {
        return Err(fault(key_at, "no name before \"=\"".into(), None));
    }
    let value_at = skip_spaces(text, equals + 1);
    let (value, end) = value(text, value_at)?;
    if value.is_empty() {
        let hint = "leave the key out to use its default";
        return Err(fault(value_at, format!("empty value for \"{key}\""), Some(hint)));
    }
    Ok(Some((
        Pair {
            key: key.to_string(),
            value,
            key_at,
            value_at,
        },
        end,
    )))
}

/// The value at `at`, and where it ends.
fn value(text: &str, at: usize) -> Result<(String, usize), SyntaxError> {
    let Some(body) = text[at..].strip_prefix('\'') else {
        let end = at + text[at..].find(' ').unwrap_or(text.len() - at);
        return Ok((text[at..end].to_string(), end));
    };
    let (value, used) = unquote(body, '\'')
        .ok_or_else(|| fault(at, "quoted value does not end".into(), Some("write '' for a quote")))?;
    let end = at + 1 + used;
    if !text[end..].is_empty() && !text[end..].starts_with(' ') {
        return Err(fault(
            end,
            "expected a space after the closing quote".into(),
            Some("write '' for a quote"),
        ));
    }
    Ok((value, end))
}

fn skip_spaces(text: &str, at: usize) -> usize {
    text.len() - text[at..].trim_start_matches(' ').len()
}

fn fault(at: usize, message: String, hint: Option<&'static str>) -> SyntaxError {
    SyntaxError { at, message, hint }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<(String, String)> {
        let (pairs, error) = pairs(text);
        assert_eq!(error, None, "{text}");
        pairs.into_iter().map(|pair| (pair.key, pair.value)).collect()
    }

    fn error(text: &str) -> SyntaxError {
        pairs(text).1.expect(text)
    }

    #[test]
    fn pairs_are_split_on_spaces() {
        let want = [("host".into(), "a".into()), ("port".into(), "5".into())];
        assert_eq!(read("host=a port=5"), want);
        assert_eq!(read("  host = a   port= 5  "), want);
        assert_eq!(read(""), []);
        assert_eq!(read("   "), []);
    }

    #[test]
    fn quotes_keep_spaces_and_double_for_themselves() {
        assert_eq!(
            read("q='select ''x'' = 1' p=a'b"),
            [("q".into(), "select 'x' = 1".into()), ("p".into(), "a'b".into())]
        );
    }

    #[test]
    fn a_tab_is_no_separator() {
        assert_eq!(read("host=a\tport=5"), [("host".into(), "a\tport=5".into())]);
    }

    #[test]
    fn offsets_point_into_the_text() {
        let (pairs, _) = pairs("a=1  bc='2'");
        assert_eq!((pairs[1].key_at, pairs[1].value_at), (5, 8));
    }

    #[test]
    fn faults_name_their_place() {
        assert_eq!(error("host").message, "expected \"=\" after \"host\"");
        assert_eq!(
            error("password=correct horse").message,
            "expected \"=\" after the word behind the value of \"password\""
        );
        assert_eq!(error("host=a b c=d").at, 7);
        assert_eq!(error("host= ").message, "empty value for \"host\"");
        assert_eq!(error("p=''").at, 2);
        assert_eq!(error("p='a").message, "quoted value does not end");
        assert_eq!(error("p='a'b").at, 5);
        assert_eq!(error("=x").message, "no name before \"=\"");
        assert_eq!(pairs("a=1 b").0.len(), 1);
    }
}
