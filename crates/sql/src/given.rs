//! Whether the value that a client gives for a parameter is the name of a setting as it stands.

use crate::lexer::{Lexer, Token};

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
        // PostgreSQL infers the type from the first use, which another reading of a backslash may hide. So there must be
        // no use but as names of settings.
        None => !text.contains(&b'\\') && only_names_settings(text, number),
    }
}

/// Whether each use of a parameter is the first argument of a `set_config()`, or it is used once. A function of the
/// database may have this name, with another type, unless it is called once, or by the name of its schema.
fn only_names_settings(text: &[u8], number: u16) -> bool {
    let (mut uses, mut names) = (0, 0);
    let mut before = [Token::Number; 4];
    for token in Lexer::new(text) {
        if token == Token::Parameter(number) {
            uses += 1;
            let [schema, dot, name, parenthesis] = before;
            let is_own = schema.is("pg_catalog") && dot == Token::Byte(b'.') && name.is("set_config");
            names += u32::from(is_own && parenthesis == Token::Byte(b'('));
        }
        before.rotate_left(1);
        before[3] = token;
    }
    uses == 1 || uses > 0 && uses == names
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
        let names = "pg_catalog.set_config($1, 'a', false), pg_catalog.set_config($1::text, 'b', false)";
        assert!(given(&format!("select {names}"), 0));
        for other in [
            "select $1 = a, set_config($1, 'x', false) from t",
            r"select 'a\'', $1::name, '\'', set_config($1, 'x', false)",
            "select $1::name, 'set_config($1,', set_config($1, 'x', false)",
            "select s.set_config($1), set_config($1, 'x', false)",
        ] {
            assert!(!given(other, 0) && given(other, 25), "{other}");
        }
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
