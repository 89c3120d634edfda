//! Calls of `set_config()`: which setting each changes, as far as its text shows.

use crate::effects::Effects;
use crate::lexer::{Lexer, Token};
use crate::read_under::may_be_read_under;
use memchr::memmem;

/// The setting that calls `setseed()` whenever it is set (recording E25). Neither ROLLBACK nor DISCARD ALL takes that
/// back, and `pg_settings` does not show it.
pub const SEED: &[u8] = b"seed";

/// The first argument of a `set_config()`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Argument {
    /// A constant, without escapes.
    Literal(Vec<u8>),
    /// `$n`
    Parameter(u16),
    /// A single identifier, folded: a parameter or a variable of a function.
    Name(Box<[u8]>),
    /// Any other expression.
    Untold,
    /// Any expression or name, if the setting ends with its transaction: the third argument is `true`.
    Local,
}

/// The first argument must end within this many bytes after the function's name; otherwise it counts as unknown. So a
/// text with many calls stays cheap.
pub(crate) const ARGUMENT_BYTES_MAX: usize = 512;

/// Numbers of the parameters (`$1` is 1) that name the setting in a `set_config($1, ..)` of this text, each once.
pub fn setting_parameters(text: &[u8]) -> Vec<u16> {
    let mut numbers = Vec::new();
    for argument in set_config_arguments(text) {
        match argument {
            Argument::Parameter(number) if !numbers.contains(&number) => numbers.push(number),
            _ => {}
        }
    }
    numbers
}

/// What the calls of `set_config()` in this text may do beyond what their name shows: seed `random()`, change how
/// constants are read, and set a setting of the session whose name is neither a constant nor a parameter.
pub(crate) fn effects(text: &[u8]) -> Effects {
    let of = |argument| match argument {
        Argument::Literal(name) if name.eq_ignore_ascii_case(SEED) => Effects::SEED,
        Argument::Literal(name) if may_be_read_under(&name) => Effects::READING,
        Argument::Literal(_) => Effects::NONE,
        Argument::Parameter(_) => Effects::READING,
        Argument::Name(_) | Argument::Untold => Effects::READING | Effects::UNTOLD,
        Argument::Local => Effects::READING | Effects::MAY_SEED,
    };
    set_config_arguments(text).fold(Effects::NONE, |effects, argument| effects | of(argument))
}

/// The first arguments of all `set_config()` in a text.
pub(crate) fn set_config_arguments(text: &[u8]) -> impl Iterator<Item = Argument> {
    let lower = text.to_ascii_lowercase();
    let name = b"set_config";
    let ends: Vec<usize> = memmem::find_iter(&lower, name).map(|at| at + name.len()).collect();
    let unreadable = memmem::find(&lower, b"u&\"").map(|_| Argument::Untold);
    let called = ends.into_iter().filter_map(|at| {
        let end = text.len().min(at + ARGUMENT_BYTES_MAX);
        let rest = &text[at..end];
        let rest = rest.strip_prefix(b"\"").unwrap_or(rest);
        let mut lexer = Lexer::new(rest);
        match lexer.next() {
            Some(Token::Byte(b'(')) => {}
            // The parenthesis may come behind the bytes that are read.
            None | Some(Token::Unterminated) if end < text.len() => return Some(Argument::Untold),
            // The word is a part of another name, or in a comment. A name that is called has a parenthesis after it.
            _ => return None,
        }
        let local = is_local(lexer.clone());
        let argument = argument(rest, &mut lexer);
        Some(match argument {
            Argument::Untold | Argument::Name(_) if local => Argument::Local,
            argument => argument,
        })
    });
    called.chain(unreadable)
}

/// The first argument of a call, after its opening parenthesis.
pub(crate) fn argument<'a>(text: &'a [u8], lexer: &mut Lexer<'a>) -> Argument {
    // Arguments may be named: set_config(setting_name => ..).
    let named = lexer.clone();
    if lexer.accept("setting_name") {
        let mut given = false;
        while matches!(lexer.peek(), Some(Token::Byte(b':' | b'=' | b'>'))) {
            lexer.next();
            given = true;
        }
        if !given {
            *lexer = named;
        }
    }
    lexer.skip_space();
    let start = (*lexer).position();
    let argument = match lexer.next() {
        Some(Token::Parameter(number)) => Argument::Parameter(number),
        // Within a constant, quotes are doubled: set_config(''a.b'', ..). Otherwise an empty constant is the beginning
        // of an expression: set_config('' || x || '', ..).
        Some(Token::Text([])) => {
            let name = &text[(*lexer).position()..];
            let length = name.iter().take_while(|b| is_part_of_name(**b)).count();
            if length == 0 || !name[length..].starts_with(b"''") {
                return Argument::Untold;
            }
            let name = &name[..length];
            *lexer = Lexer::new(&text[(*lexer).position() + length + 2..]);
            Argument::Literal(name.into())
        }
        // With escapes, the name may differ from its spelling.
        Some(Token::Text(name)) => match text[start] {
            b'\'' | b'$' | b'e' | b'E' | b'n' | b'N' if !name.contains(&b'\\') && !name.contains(&b'\'') => {
                Argument::Literal(name.into())
            }
            _ => return Argument::Untold,
        },
        Some(token @ (Token::Word(_) | Token::Quoted(_))) => match token.identifier() {
            Some(name) => Argument::Name(name),
            None => return Argument::Untold,
        },
        _ => return Argument::Untold,
    };
    while lexer.peek() == Some(Token::Byte(b':')) {
        lexer.next();
        let text = ["text", "varchar"];
        let is_text = |t: Token<'_>| t == Token::Byte(b':') || text.iter().any(|name| t.is(name));
        if !lexer.next().is_some_and(is_text) {
            return Argument::Untold;
        }
        if text.iter().any(|name| lexer.accept(name)) {
            break;
        }
    }
    match lexer.next() {
        Some(Token::Byte(b',' | b')')) => argument,
        _ => Argument::Untold,
    }
}

/// Whether a byte may be a part of the name of a setting that is written without escapes.
fn is_part_of_name(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'$') || b >= 0x80
}

/// Whether the third argument of a call is the word TRUE; its parenthesis has been read.
fn is_local(mut lexer: Lexer<'_>) -> bool {
    let (mut depth, mut commas) = (0usize, 0);
    while let Some(token) = lexer.next() {
        match token {
            Token::Byte(b'(' | b'[') => depth += 1,
            Token::Byte(b')' | b']') => match depth.checked_sub(1) {
                Some(less) => depth = less,
                None => return false,
            },
            Token::Byte(b',') if depth == 0 => {
                commas += 1;
                if commas == 2 {
                    lexer.accept("is_local");
                    while matches!(lexer.peek(), Some(Token::Byte(b':' | b'=' | b'>'))) {
                        lexer.next();
                    }
                    let is_true = lexer.accept("true") && lexer.next() == Some(Token::Byte(b')'));
                    // Where backslashes escape, the arguments may be others.
                    return is_true && !lexer.is_ambiguous();
                }
            }
            // Named arguments may be in any order.
            Token::Byte(b'>') => return false,
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_that_name_a_setting_are_found() {
        let parameters = |text: &str| setting_parameters(text.as_bytes());
        assert_eq!(
            parameters("select set_config($1, $2, false), Set_Config( $12 ::text, $1, false)"),
            [1, 12]
        );
        assert_eq!(parameters("select set_config('a', $1, false)"), [0u16; 0]);
    }

    /// Where backslashes escape, the third argument is another one.
    #[test]
    fn an_argument_that_only_one_reading_shows_does_not_make_the_setting_local() {
        let untold = |text: &str| effects(text.as_bytes()).contains(Effects::UNTOLD);
        assert!(!untold("select set_config('a' || '.b', 'c', true)"));
        assert!(untold(r"select set_config('a' || '.b', 'c\', true) --', false)"));
    }
}
