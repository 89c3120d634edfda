use super::*;

fn tokens(text: &str) -> Vec<Token<'_>> {
    Lexer::new(text.as_bytes()).collect()
}

fn text(token: &str) -> Token<'_> {
    Token::Text(token.as_bytes())
}

#[test]
fn strings_of_every_kind_are_one_token() {
    assert_eq!(tokens("'a''b;'"), [text("a''b;")]);
    assert_eq!(tokens(r"e'a\';'"), [text(r"a\';")]);
    assert_eq!(tokens(r"E'a\\'';'"), [text(r"a\\'';")]);
    assert_eq!(tokens("x'1f' B'01'"), [text("1f"), text("01")]);
    assert_eq!(tokens("n'x'"), [Token::Word(b"n"), text("x")]);
    assert_eq!(tokens("u&'x' U&\"y\""), [text("x"), Token::UnicodeQuoted(b"y")]);
    assert_eq!(tokens("$$a'b;$$ $x$ $$ $xx$ $x$"), [text("a'b;"), text(" $$ $xx$ ")]);
    assert_eq!(tokens("$é1$;$é1$"), [text(";")]);
}

#[test]
fn what_looks_like_a_string_and_is_none() {
    let word = |w: &'static str| Token::Word(w.as_bytes());
    assert_eq!(tokens("a$b$c"), [word("a$b$c")]);
    assert_eq!(tokens("$1$2"), [Token::Parameter(1), Token::Parameter(2)]);
    assert_eq!(tokens("$99999999"), [Token::Number]);
    assert_eq!(tokens("$a"), [Token::Byte(b'$'), word("a")]);
    assert_eq!(tokens(r"xe'a\'"), [word("xe"), text(r"a\")]);
    assert_eq!(tokens("1.5e'x'"), [Token::Number, text("x")]);
}

#[test]
fn comments_hide_behind_operators_and_within_each_other() {
    let word = |w: &'static str| Token::Word(w.as_bytes());
    assert_eq!(tokens("a +--x'\n b"), [word("a"), Token::Byte(b'+'), word("b")]);
    assert_eq!(
        tokens("a*/* ' /* ; */ \" */b"),
        [word("a"), Token::Byte(b'*'), word("b")]
    );
    assert_eq!(tokens("a /* /* */"), [word("a"), Token::Unterminated]);
}

/// An escape string goes on in the next line, with escapes: a quote there must not end it early.
#[test]
fn an_escape_string_goes_on_in_the_next_line() {
    assert_eq!(tokens("e'a' -- x\n '\\';'"), [text("a' -- x\n '\\';")]);
    assert_eq!(tokens("e'a' '\\'"), [text("a"), text("\\")]);
    assert_eq!(tokens("'a'\n'\\'"), [text("a"), text("\\")]);
}

#[test]
fn backslashes_in_plain_strings_are_noted_where_they_matter() {
    let ambiguous = |text: &str| {
        let mut lexer = Lexer::new(text.as_bytes());
        lexer.by_ref().for_each(drop);
        lexer.is_ambiguous()
    };
    assert!(ambiguous(r"'\'; set x = '1'"));
    assert!(ambiguous(r"'a\''"));
    for text in [r"'a\b'", r"e'\''", "''", r"$$\'$$", r"x'\'", r#""\'""#] {
        assert!(!ambiguous(text), "{text}");
    }
    let off: Vec<_> = Lexer::with_backslashes(br"'\';' 'x'", true).collect();
    assert_eq!(off, [text(r"\';"), text("x")]);
}

#[test]
fn names_are_folded_unquoted_and_cut_between_characters() {
    let name = |text: &str| Lexer::new(text.as_bytes()).next().unwrap().identifier();
    assert_eq!(name("Foo").unwrap(), b"foo"[..].into());
    assert_eq!(name("\"Foo \"\"x\"\"\"").unwrap(), b"Foo \"x\""[..].into());
    assert_eq!(name("\"\""), None);
    assert_eq!(name(&"x".repeat(80)).unwrap().len(), 63);
    assert_eq!(name(&format!("\"x{}\"", "é".repeat(40))).unwrap().len(), 63);
    assert_eq!(name(&format!("\"{}\"", "é".repeat(40))).unwrap().len(), 62);
}
