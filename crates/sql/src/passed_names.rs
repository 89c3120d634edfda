//! Which parameters of a function become names of settings, unchanged.
//!
//! A parameter counts only if its name or number is unique in the function, and no statement can have changed its
//! value. Otherwise the name of the setting is unknown.

use crate::bodies::Language;
use crate::lexer::{Lexer, Token};
use crate::set_config::{Argument, set_config_arguments};

/// What the list of parameters has in place of the name of a parameter whose value may differ from what the caller
/// gives: its type is neither text nor varchar, or its number is not that of the argument.
pub(crate) const UNFIT: &[u8] = b"!";

/// In a statement with one of these words a name may mean a column.
const COLUMNS: [&str; 9] = [
    "from",
    "using",
    "join",
    "update",
    "insert",
    "delete",
    "merge",
    "with",
    "returning",
];

/// Variables that PL/pgSQL declares in inner blocks, or itself.
const OWN_VARIABLES: [&[u8]; 5] = [b"found", b"sqlstate", b"sqlerrm", b"new", b"old"];

/// The parameters that name settings (bit 0 is the first); `None` if even the caller cannot tell the name of some
/// setting.
pub(crate) fn passes(language: Language, body: &[u8], parameters: &[&[u8]], backslashes: bool) -> Option<u64> {
    let (mut passes, mut calls) = (0, 0);
    // For each parameter, how often it names a setting.
    let mut given = [0_u32; 64];
    let mut names: Vec<Box<[u8]>> = Vec::new();
    for argument in set_config_arguments(body) {
        calls += 1;
        let place = match argument {
            Argument::Literal(_) | Argument::Local => continue,
            Argument::Untold => return None,
            Argument::Parameter(number) => usize::from(number).checked_sub(1)?,
            Argument::Name(name) => {
                let place = parameters.iter().position(|p| **p == *name)?;
                let own = OWN_VARIABLES.contains(&&*name) || name.starts_with(b"tg_");
                if own && language == Language::Plpgsql {
                    return None;
                }
                names.push(name);
                place
            }
        };
        let unknown = parameters == [b""] || parameters.get(place).is_none_or(|name| *name == UNFIT);
        if unknown {
            return None;
        }
        *given.get_mut(place)? += 1;
        passes |= 1 << place;
    }
    if passes == 0 {
        return Some(0);
    }
    let uses = Uses::of(body, parameters, &names, backslashes);
    // If a call is inside a constant, its parameters are those of another statement.
    let plain = uses.calls == calls && !uses.may_be_column;
    // Another use may be an assignment, a second declaration or an alias. In SQL there is none for a number.
    let changed = (0..given.len()).any(|place| {
        let by_name = parameters.get(place).is_some_and(|p| names.iter().any(|n| **n == **p));
        given[place] > 0 && given[place] != uses.of_parameter[place] && (language == Language::Plpgsql || by_name)
    });
    (plain && !changed).then_some(passes)
}

/// What the tokens of a body show.
struct Uses {
    /// How often each parameter is in the code, by its name or its number.
    of_parameter: [u32; 64],
    /// Calls of `set_config()`.
    calls: u32,
    /// One of `names` is in a statement in which it may be the name of a column.
    may_be_column: bool,
}

impl Uses {
    fn of(body: &[u8], parameters: &[&[u8]], names: &[Box<[u8]>], backslashes: bool) -> Uses {
        let mut uses = Uses {
            of_parameter: [0; 64],
            calls: 0,
            may_be_column: false,
        };
        let (mut named, mut columns, mut calls) = (false, false, false);
        for token in Lexer::with_backslashes(body, backslashes) {
            if token == Token::Byte(b'(') && std::mem::take(&mut calls) {
                uses.calls += 1;
            }
            let identifier = token.identifier();
            calls = identifier.as_deref().is_some_and(|name| name.ends_with(b"set_config"));
            let place = match (token, &identifier) {
                (Token::Parameter(number), _) => usize::from(number).checked_sub(1),
                (_, Some(name)) => parameters.iter().position(|p| *p == &**name),
                _ => None,
            };
            if let Some(uses) = place.and_then(|place| uses.of_parameter.get_mut(place)) {
                *uses += 1;
            }
            named |= identifier.is_some_and(|name| names.contains(&name));
            columns |= COLUMNS.iter().any(|word| token.is(word));
            uses.may_be_column |= named && columns;
            if token == Token::Byte(b';') {
                (named, columns) = (false, false);
            }
        }
        uses
    }
}
