//! Texts that set `search_path` to a value that they do not show. The value may be `pg_temp`: every object that is
//! created then is temporary.

use crate::effects::Effects;
use crate::lexer::{Lexer, Token};
use crate::search::contains;
use memchr::memmem;

/// What a text shows of the values that it gives to `search_path`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SearchPath {
    /// The text sets no `search_path`, or shows all values.
    Shown,
    /// Some are parameters of a Bind.
    InParameters,
    /// Some are made by an expression, or written with escapes.
    Computed,
}

impl SearchPath {
    /// A text that gives a value to `search_path` has at least one of these effects.
    pub const SETS: Effects = Effects::SETTINGS.union(Effects::LOCAL).union(Effects::UNTOLD);

    /// The effects of a text, and of creating objects while its value of `search_path` is in force. `values`: the
    /// values that the text's Bind gives; `None`: not known.
    pub fn adds_to(effects: Effects, text: &[u8], values: Option<&[u8]>) -> Effects {
        let hides = effects.intersects(SearchPath::SETS)
            && match SearchPath::of(text) {
                SearchPath::Shown => false,
                SearchPath::InParameters => values.is_none_or(names_temporary),
                SearchPath::Computed => true,
            };
        if hides { effects | Effects::TEMPORARY } else { effects }
    }

    /// What this text shows.
    pub fn of(text: &[u8]) -> Self {
        let lower = text.to_ascii_lowercase();
        let has = |word: &[u8]| memmem::find(&lower, word).is_some();
        if has(b"pg_settings") && has(b"update") {
            return SearchPath::Computed;
        }
        let names_call = has(b"set_config");
        // If the name of a setting is not a constant, it may be this one.
        if !names_call && !has(b"search_path") && !has(b"schema") {
            return SearchPath::Shown;
        }
        if memchr::memchr(b'\\', text).is_some() || has(b"u&") || has_continued_constant(text) {
            return SearchPath::Computed;
        }
        let name = b"set_config";
        let calls = memmem::find_iter(&lower, name).map(|at| value_of_call(&text[at + name.len()..]));
        calls.max().unwrap_or(SearchPath::Shown)
    }
}

/// Whether a value of `search_path` may name this schema. PostgreSQL folds names without quotes when it splits the
/// list. A quoted name with capital letters is another schema, which is not told apart here.
pub fn may_name_schema(path: &str, schema: &str) -> bool {
    contains(path.as_bytes(), schema.as_bytes())
}

/// Whether some constant goes on in another line: PostgreSQL joins the parts.
fn has_continued_constant(text: &[u8]) -> bool {
    let mut last = Token::Number;
    Lexer::new(text).any(|token| {
        let continues = matches!((last, token), (Token::Text(_), Token::Text(_)));
        last = token;
        continues
    })
}

fn names_temporary(values: &[u8]) -> bool {
    memmem::find(&values.to_ascii_lowercase(), b"pg_temp").is_some()
}

/// What the text behind the name `set_config` shows of the value, if the setting may be `search_path`.
fn value_of_call(rest: &[u8]) -> SearchPath {
    let rest = rest.strip_prefix(b"\"").unwrap_or(rest);
    let mut lexer = Lexer::new(rest);
    if lexer.next() != Some(Token::Byte(b'(')) {
        return SearchPath::Computed;
    }
    let is_other = match lexer.next() {
        Some(Token::Text(name)) => !name.is_empty() && !name.eq_ignore_ascii_case(b"search_path"),
        _ => false,
    };
    if lexer.next() != Some(Token::Byte(b',')) {
        return SearchPath::Computed;
    }
    if is_other {
        return SearchPath::Shown;
    }
    let value = match lexer.next() {
        Some(Token::Text(_)) => SearchPath::Shown,
        Some(Token::Parameter(_)) => SearchPath::InParameters,
        _ => SearchPath::Computed,
    };
    match lexer.next() {
        Some(Token::Byte(b',')) => value,
        _ => SearchPath::Computed,
    }
}

#[cfg(test)]
mod tests {
    use super::SearchPath::{self, Computed, InParameters, Shown};

    #[test]
    fn a_value_is_shown_if_it_is_a_constant_without_escapes() {
        for (text, shows) in [
            ("select 1", Shown),
            ("set local search_path = tenant, public", Shown),
            ("set search_path to 'tenant'", Shown),
            ("select set_config('search_path', 'tenant', true)", Shown),
            ("select set_config('app.tenant', 'a' || 'b', true)", Shown),
            ("select set_config($1, 'tenant', true)", Shown),
            ("select set_config('search_path', $1, true)", InParameters),
            ("select set_config($1, $2, true)", InParameters),
            ("set local search_path = e'pg\\x5ftemp'", Computed),
            ("set local search_path = U&\"pg!005ftemp\" uescape '!'", Computed),
            ("set schema 'pg\\137temp'", Computed),
            ("set local search_path = 'pg_'\n'temp'", Computed),
            ("set schema 'pg_' -- x\n 'temp'", Computed),
            (
                "update pg_settings set setting = 'pg_' || 'temp' where name = 'search_' || 'path'",
                Computed,
            ),
            ("select set_config('search_path', 'pg' || '_temp', true)", Computed),
            ("select set_config('SEARCH_PATH', $1 || '_temp', true)", Computed),
            ("select set_config('search' || '_path', 'x', true)", Computed),
            ("select \"set_config\"('search_path', lower($1), true)", Computed),
            (
                "select set_config(new_value => 'x', setting_name => 'search_path')",
                Computed,
            ),
            ("select set_config /* ( */ ('search_path', v, true) from t", Computed),
            ("perform set_config(''search_path'', v, true)", Computed),
        ] {
            assert_eq!(SearchPath::of(text.as_bytes()), shows, "{text}");
        }
    }
}
