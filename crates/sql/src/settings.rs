//! Which settings a SET, a RESET or the code of a function changes.

use crate::lexer::{Lexer, Token};
use crate::set_config::{ARGUMENT_BYTES_MAX, Argument, SEED, set_config_arguments};
use crate::split::Statements;
use memchr::memmem;

/// The most names that are collected from one text. Each new name is compared with all of them.
const HIDDEN_NAMES_MAX: usize = 1024;

/// How long a SET lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// SET, SET SESSION.
    Session,
    /// SET LOCAL.
    Transaction,
}

/// The object of a SET.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// A setting, its name in lower case; the parts of a custom setting's name are joined by dots.
    Setting(Box<[u8]>),
    /// SET TRANSACTION: the current transaction.
    Transaction,
    /// SET SESSION CHARACTERISTICS AS TRANSACTION: the defaults of later transactions, which are several settings.
    Characteristics,
    /// SET CONSTRAINTS: the current transaction.
    Constraints,
}

/// Settings that a session may have and that `pg_settings` and `current_setting()` show to superusers only.
const SUPERUSER_ONLY: [&str; 4] = [
    "dynamic_library_path",
    "extension_control_path",
    "extension_destdir",
    "session_preload_libraries",
];

/// Whether a session can be asked for the setting of this name, whatever its role and its encoding. `name` is in lower
/// case. The bytes of other names than ASCII ones depend on `client_encoding`.
pub fn is_askable(name: &str) -> bool {
    name.is_ascii() && !SUPERUSER_ONLY.contains(&name)
}

/// Names of the settings that `pg_settings` does not show, in the SET, RESET and `set_config('literal', ..)` of this
/// text: custom ones (with a dot), `role`, `session_authorization`, `seed`, those that only superusers see. In lower
/// case, each once, in order of appearance; bytes that are not UTF-8 become U+FFFD. Those of SET LOCAL are included,
/// because custom settings leave traces (recording F2).
///
/// `set_config()` is also searched for in constants; SET is also searched for in the code of a DO and in the body of a
/// function, whatever comes before it.
pub fn hidden_settings(text: &[u8]) -> Vec<Box<str>> {
    let mut names: Vec<Box<str>> = Vec::new();
    let mut add = |name: &[u8]| add_hidden(&mut names, name);
    for backslashes in [false, true] {
        let mut statements = Statements::new(text, backslashes);
        for statement in statements.by_ref() {
            let mut lexer = Lexer::with_backslashes(statement, backslashes);
            let target = if lexer.accept("set") {
                read_set(&mut lexer).map(|(_, target)| target)
            } else if lexer.accept("reset") {
                read_setting(&mut lexer)
            } else {
                if lexer.accept("do") || lexer.accept("create") {
                    set_in_code(statement, &mut add);
                }
                None
            };
            if let Some(Target::Setting(name)) = target {
                add(&name);
            }
        }
        if !statements.is_ambiguous() {
            break;
        }
    }
    for argument in set_config_arguments(text) {
        if let Argument::Literal(name) = argument {
            add(&name.to_ascii_lowercase());
        }
    }
    names
}

/// [`hidden_settings`] for the source of a function, without `seed`, which is one of the function's effects.
pub fn body_settings(body: &[u8]) -> Vec<Box<str>> {
    let mut names = hidden_settings(body);
    set_in_code(body, &mut |name| add_hidden(&mut names, name));
    names.retain(|name| name.as_bytes() != SEED);
    names
}

/// Adds the name of a setting, in lower case, to `names` if `pg_settings` does not show it.
fn add_hidden(names: &mut Vec<Box<str>>, name: &[u8]) {
    let name = String::from_utf8_lossy(name);
    if (is_hidden(&name) || name.as_bytes() == SEED)
        && !names.iter().any(|known| **known == *name)
        && names.len() < HIDDEN_NAMES_MAX
    {
        names.push(name.into());
    }
}

/// Whether `pg_settings` does not show the setting of this name, in lower case, to every role.
pub fn is_hidden(name: &str) -> bool {
    name.contains('.') || name == "role" || name == "session_authorization" || SUPERUSER_ONLY.contains(&name)
}

/// The constants among the arguments of an EXECUTE that look like names of custom settings, in lower case; `None` if
/// the text is anything but one EXECUTE, or some argument is not a constant.
pub fn constant_arguments(text: &[u8]) -> Option<Vec<Box<str>>> {
    let mut lexer = Lexer::new(text);
    let mut names = Vec::new();
    lexer.accept("execute").then_some(())?;
    lexer.next()?.identifier()?;
    if lexer.next()? != Token::Byte(b'(') {
        return None;
    }
    loop {
        lexer.skip_space();
        let start = lexer.position();
        let mut token = lexer.next()?;
        if token == Token::Byte(b'-') {
            token = lexer.next().filter(|token| *token == Token::Number)?;
        }
        match token {
            Token::Text(value) => {
                let plain = matches!(text[start], b'\'' | b'$') && !value.contains(&b'\\') && !value.contains(&b'\'');
                let value = std::str::from_utf8(value).ok().filter(|_| plain)?;
                add_hidden(&mut names, value.to_ascii_lowercase().as_bytes());
            }
            Token::Number => {}
            token if ["null", "true", "false"].iter().any(|word| token.is(word)) => {}
            _ => return None,
        }
        match lexer.next()? {
            Token::Byte(b',') => {}
            Token::Byte(b')') => break,
            // Two constants behind each other are one.
            _ => return None,
        }
    }
    let ends = match lexer.next() {
        Some(Token::Byte(b';')) => lexer.next().is_none(),
        other => other.is_none(),
    };
    ends.then_some(names)
}

/// Reads a SET after its verb, up to the value; `None` if no name can be read.
pub(crate) fn read_set(lexer: &mut Lexer<'_>) -> Option<(Scope, Target)> {
    let mut scope = Scope::Session;
    let before = lexer.clone();
    if lexer.accept("constraints") && !names_setting(lexer) {
        return Some((scope, Target::Constraints));
    }
    *lexer = before.clone();
    if lexer.accept("local") && !names_setting(lexer) {
        scope = Scope::Transaction;
        return Some((scope, read_setting(lexer)?));
    }
    *lexer = before.clone();
    if lexer.accept("session") && !names_setting(lexer) {
        let rest = lexer.peek()?;
        // In these two, SESSION is part of the name. In SET SESSION x it is the scope.
        if rest.is("authorization") || rest.is("characteristics") {
            *lexer = before;
        }
        return Some((scope, read_setting(lexer)?));
    }
    *lexer = before;
    Some((scope, read_setting(lexer)?))
}

/// Whether the key word that was just read is the name of a setting; the next token shows it.
fn names_setting(lexer: &Lexer<'_>) -> bool {
    matches!(lexer.peek(), Some(Token::Byte(b'.' | b'='))) || lexer.peek().is_some_and(|t| t.is("to"))
}

/// Reads the name after SET or RESET, after LOCAL or SESSION.
pub(crate) fn read_setting(lexer: &mut Lexer<'_>) -> Option<Target> {
    let first = lexer.next()?;
    let name = |name: &str| Some(Target::Setting(name.as_bytes().into()));
    if !names_setting(lexer) {
        if first.is("transaction") {
            // RESET TRANSACTION ISOLATION LEVEL also changes the current transaction.
            return Some(Target::Transaction);
        } else if first.is("session") && lexer.accept("authorization") {
            return name("session_authorization");
        } else if first.is("session") && lexer.accept("characteristics") {
            return Some(Target::Characteristics);
        } else if first.is("time") && lexer.accept("zone") {
            return name("timezone");
        } else if first.is("names") {
            return name("client_encoding");
        } else if first.is("schema") {
            return name("search_path");
        } else if first.is("xml") && lexer.accept("option") {
            return name("xmloption");
        }
    }
    let mut name = first.identifier()?.to_ascii_lowercase();
    while lexer.peek() == Some(Token::Byte(b'.')) {
        lexer.next();
        name.push(b'.');
        name.extend_from_slice(&lexer.next()?.identifier()?.to_ascii_lowercase());
    }
    Some(Target::Setting(name.into()))
}

/// The settings of all SET and RESET in a piece of code. The SET of an UPDATE adds names of columns, which do no harm.
fn set_in_code(code: &[u8], add: &mut impl FnMut(&[u8])) {
    for target in targets_in_code(code) {
        if let Place::Read(Target::Setting(name)) = target {
            add(&name);
        }
    }
}

/// Whether the name after some SET or RESET of a piece of code is too far behind it to be read.
pub(crate) fn is_set_far(code: &[u8]) -> bool {
    targets_in_code(code).any(|target| target == Place::Far)
}

/// What follows a SET or RESET.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Read(Target),
    /// No end of the name is within the bytes that are read.
    Far,
}

pub(crate) fn targets_in_code(code: &[u8]) -> impl Iterator<Item = Place> {
    let lower = code.to_ascii_lowercase();
    let places: Vec<usize> = memmem::find_iter(&lower, b"set").collect();
    places.into_iter().filter_map(move |at| {
        let before = lower[..at].strip_suffix(b"re").unwrap_or(&lower[..at]);
        if before
            .last()
            .is_some_and(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.'))
        {
            return None;
        }
        let end = code.len().min(at + ARGUMENT_BYTES_MAX);
        let mut lexer = Lexer::new(&code[at + 3..end]);
        let target = if before.len() < at {
            read_setting(&mut lexer)
        } else {
            read_set(&mut lexer).map(|(_, target)| target)
        };
        // Whatever token ends the name must be there, or the name may go on.
        if end < code.len() && matches!(lexer.peek(), None | Some(Token::Unterminated)) {
            return Some(Place::Far);
        }
        target.map(Place::Read)
    })
}

#[cfg(test)]
#[path = "settings_tests.rs"]
mod tests;
