//! Whether the value that a client gives for a parameter is the name of a setting as it stands.

use crate::lexer::{Lexer, Token};
use crate::set_config::{Argument, set_config_arguments};

/// Types whose values become text unchanged, by OID: text, varchar.
const TEXT_TYPES: [u32; 2] = [25, 1043];

/// Types for which the server infers a type: 0 (not given) and `unknown`.
const OPEN_TYPES: [u32; 2] = [0, 705];

/// Whether the value that a client gives for this parameter, which names a setting in the text, is the name as it
/// stands. A value of another type than text may become another text, or run a cast. `oid` is the type that Parse
/// gives, 0 if none; a PREPARE gives types in the text.
pub fn is_given_as_text(text: &[u8], number: u16, oid: u32) -> bool {
    if TEXT_TYPES.contains(&oid) {
        return true;
    }
    if !OPEN_TYPES.contains(&oid) {
        return false;
    }
    match prepared_type(text, number) {
        Some(is_text) => is_text,
        // PostgreSQL infers the type from the first use. So there must be no other use, except as a name of a setting.
        None => {
            let uses = Lexer::new(text).filter(|t| *t == Token::Parameter(number)).count();
            let names = set_config_arguments(text).filter(|a| *a == Argument::Parameter(number));
            uses == 1 || uses == names.count()
        }
    }
}

/// Whether the type that a PREPARE gives this parameter is text or varchar; `None` if it gives none.
fn prepared_type(text: &[u8], number: u16) -> Option<bool> {
    let mut lexer = Lexer::new(text);
    if !lexer.accept("prepare") {
        return None;
    }
    lexer.next();
    if lexer.next() != Some(Token::Byte(b'(')) {
        return None;
    }
    for _ in 1..number {
        loop {
            match lexer.next()? {
                Token::Byte(b',') => break,
                Token::Byte(b'(') => return Some(false),
                Token::Byte(b')') => return None,
                _ => {}
            }
        }
    }
    let is_text = ["text", "varchar"].iter().any(|name| lexer.accept(name));
    Some(is_text && matches!(lexer.next(), Some(Token::Byte(b',' | b')'))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_text_becomes_the_name_of_a_setting_as_it_stands() {
        let given = |text: &str, oid| is_given_as_text(text.as_bytes(), 1, oid);
        let text = "select set_config($1, $2, false)";
        for oid in [0, 25, 705, 1043] {
            assert!(given(text, oid), "{oid}");
        }
        for oid in [19, 1042, 16_384] {
            assert!(!given(text, oid), "{oid}");
        }
        assert!(given(
            "select set_config($1, 'a', false), set_config($1::text, 'b', false)",
            0
        ));
        let twice = "select $1 = a, set_config($1, 'x', false) from t";
        assert!(!given(twice, 0) && given(twice, 25));
        for (types, expected) in [
            ("", true),
            ("(text, text)", true),
            ("(varchar)", true),
            ("(bpchar, text)", false),
            ("(varchar(4), text)", false),
            ("(char(9), text)", false),
            ("(public.en)", false),
        ] {
            let prepare = format!("prepare p {types} as select set_config($1, $2, false)");
            assert_eq!(given(&prepare, 0), expected, "{types}");
        }
    }
}
