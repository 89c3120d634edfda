//! The keys in lines of `[databases]`, `[users]` and `[peers]`, and how their values are read.
//!
//! Numbers here follow C's `atoi`, as in PgBouncer: whole numbers only, times in whole seconds, and a text that is not
//! a number is read as 0. Because that is rarely intended, it is reported.

use std::time::Duration;

use crate::conn_string;
use crate::mismatch::Mismatch;
use crate::number::atoi;
use crate::problem::{Place, Problem, nearest};
use crate::tls_checks;
use crate::value::{Kind, PoolSize, SettingValue};

/// A key of a line, for the documentation.
#[derive(Clone, Copy, Debug)]
pub struct LineKey {
    /// The key.
    pub name: &'static str,
    /// The kind of text that it takes.
    pub kind: Kind,
    /// The unit of its number; empty for none.
    pub unit: &'static str,
    /// In words, what applies without it.
    pub default: &'static str,
    /// One or two lines.
    pub help: &'static str,
}

/// A key, and how its value is kept in the settings `T` of its line.
pub(crate) struct Key<T> {
    pub info: LineKey,
    pub set: fn(&mut T, &str, &mut Notes) -> Result<(), Mismatch>,
}

/// What is odd about a value that was accepted nevertheless.
#[derive(Default)]
pub(crate) struct Notes {
    /// Message and hint.
    odd: Vec<(String, &'static str)>,
    /// The number was 0 or less, and this means "as the global setting".
    inherits: bool,
}

/// Collects the findings about a line.
pub(crate) struct Findings<'a> {
    pub problems: &'a mut Vec<Problem>,
    /// Values of 0 that stand for the global setting of that name. In the global setting itself, 0 has another meaning.
    pub inherited: &'a mut Vec<(Place, &'static str)>,
}

/// Declares the keys of one kind of line. An entry is the key, the field that keeps it, and the function that reads its
/// value.
macro_rules! line_keys {
    ($settings:ty; $(
        $name:ident -> $field:ident: $read:expr, {
            kind: $kind:expr, unit: $unit:literal, without: $default:literal, help: $help:literal,
        }
    )+) => {
        pub(crate) static KEYS: &[$crate::line_key::Key<$settings>] = &[ $( $crate::line_key::Key {
            info: $crate::line_key::LineKey {
                name: stringify!($name), kind: $kind, unit: $unit, default: $default, help: $help,
            },
            set: |settings, value, notes| {
                settings.$field = $read(value, notes)?;
                Ok(())
            },
        }, )+ ];
    };
}
pub(crate) use line_keys;

/// Any text.
pub(crate) fn text(value: &str, _: &mut Notes) -> Result<Option<String>, Mismatch> {
    Ok(Some(value.to_string()))
}

/// One of a list of words.
pub(crate) fn word<T: SettingValue>(value: &str, _: &mut Notes) -> Result<Option<T>, Mismatch> {
    T::parse(value).map(Some)
}

/// A size. A negative number means "as the global setting".
pub(crate) fn size(value: &str, notes: &mut Notes) -> Result<Option<u32>, Mismatch> {
    Ok(u32::try_from(whole_number(value, notes)).ok())
}

/// A pool's size: `auto`, or as [`size`].
pub(crate) fn pool_size(value: &str, notes: &mut Notes) -> Result<Option<PoolSize>, Mismatch> {
    if value.eq_ignore_ascii_case(PoolSize::AUTO) {
        return Ok(Some(PoolSize::Auto));
    }
    Ok(size(value, notes)?.map(PoolSize::Fixed))
}

/// A limit. 0 or less means "as the global setting".
pub(crate) fn limit(value: &str, notes: &mut Notes) -> Result<Option<u32>, Mismatch> {
    let limit = size(value, notes)?.filter(|limit| *limit > 0);
    notes.inherits = limit.is_none();
    Ok(limit)
}

/// A time. 0 or less means "as the global setting".
pub(crate) fn time(value: &str, notes: &mut Notes) -> Result<Option<Duration>, Mismatch> {
    Ok(limit(value, notes)?.map(|seconds| Duration::from_secs(seconds.into())))
}

/// A limit on a wait. 0 or less is no limit, which is kept as zero.
pub(crate) fn wait(value: &str, notes: &mut Notes) -> Result<Option<Duration>, Mismatch> {
    let seconds = size(value, notes)?.unwrap_or(0);
    Ok(Some(Duration::from_secs(seconds.into())))
}

/// A port. 0, and a text that is not a number, are errors.
pub(crate) fn port(text: &str, notes: &mut Notes) -> Result<u16, Mismatch> {
    let mut odd = Notes::default();
    let value = whole_number(text, &mut odd);
    match u16::try_from(value) {
        Ok(port) if port > 0 => {
            notes.odd.append(&mut odd.odd);
            Ok(port)
        }
        _ => Err(Mismatch::expected("a port from 1 to 65535")),
    }
}

/// The largest weight of a user or database.
const WEIGHT_MAX: i32 = 1000;

/// A weight. PgBouncer has none, so a text that is not a number is an error.
pub(crate) fn weight(text: &str, _: &mut Notes) -> Result<Option<u32>, Mismatch> {
    match atoi(text) {
        (value, true) if (1..=WEIGHT_MAX).contains(&value) => Ok(Some(value as u32)),
        _ => Err(Mismatch::expected("a whole number from 1 to 1000")),
    }
}

fn whole_number(text: &str, notes: &mut Notes) -> i32 {
    let (value, clean) = atoi(text);
    if !clean {
        let hint = if text.contains('.') {
            "only section [pgbouncer] takes fractions"
        } else if text.contains(',') {
            "one number serves all hosts"
        } else {
            "write decimal digits only, without a unit"
        };
        notes.odd.push((
            format!("\"{text}\" is not a whole number and is read as {value}, as PgBouncer reads it"),
            hint,
        ));
    }
    value
}

/// `before` is the key in front of it, if there is one.
fn unknown_key<T>(place: &Place, key: &str, before: Option<&str>, what: &str, keys: &[Key<T>]) -> Problem {
    let similar = suggest(key, keys.iter().map(|key| key.info.name));
    match before {
        Some(before) if similar.is_none() && conn_string::is_secret(before) => {
            Problem::error(place, format!("unknown key behind the value of \"{before}\" of {what}"))
                .hint(conn_string::NEEDS_QUOTES)
        }
        _ => {
            let kind = if what.starts_with("user ") {
                "user"
            } else {
                "connection"
            };
            let text = format!("unrecognized {kind} parameter: {key}, of {what}");
            Problem::error(place, text).maybe_hint(similar)
        }
    }
}

/// Reads a line's value into `settings` by `keys`. `what` names the line in messages; `at` and `column` are the place
/// where its value starts. Returns whether there was no error.
pub(crate) fn read_line<T>(
    settings: &mut T,
    keys: &[Key<T>],
    text: &str,
    what: &str,
    (at, column): (&Place, usize),
    findings: &mut Findings<'_>,
) -> bool {
    let problems = &mut *findings.problems;
    let errors_before = count_errors(problems);
    let (pairs, fault) = conn_string::pairs(text);
    let mut seen: Vec<&str> = Vec::new();
    for (index, pair) in pairs.iter().enumerate() {
        let place = at.at_column(column + pair.key_at);
        let Some(key) = keys.iter().find(|key| key.info.name == pair.key) else {
            let before = index.checked_sub(1).map(|before| &*pairs[before].key);
            problems.push(unknown_key(&place, &pair.key, before, what, keys));
            continue;
        };
        if seen.contains(&key.info.name) {
            problems.push(Problem::warning(
                &place,
                format!("\"{}\" is given twice; the last one counts", pair.key),
            ));
        }
        seen.push(key.info.name);
        let value_place = at.at_column(column + pair.value_at);
        if pair.value.contains('\t') {
            problems.push(
                Problem::warning(&value_place, format!("value of \"{}\" contains a tab", pair.key))
                    .hint("only spaces separate key=value pairs"),
            );
        }
        let mut notes = Notes::default();
        if let Err(mismatch) = (key.set)(settings, &pair.value, &mut notes) {
            problems.push(bad_value(&value_place, &pair.key, &pair.value, mismatch));
        }
        for (message, hint) in notes.odd {
            problems.push(Problem::warning(&value_place, format!("{}: {message}", pair.key)).hint(hint));
        }
        if notes.inherits {
            findings.inherited.push((value_place, key.info.name));
        }
    }
    if let Some(fault) = fault {
        let settings = match what.starts_with("user ") {
            true => "user settings",
            false => "connection string",
        };
        problems.push(
            Problem::error(
                &at.at_column(column + fault.at),
                format!("syntax error in {settings} of {what}: {}", fault.message),
            )
            .maybe_hint(fault.hint.map(str::to_string)),
        );
    }
    count_errors(problems) == errors_before
}

fn count_errors(problems: &[Problem]) -> usize {
    problems
        .iter()
        .filter(|problem| problem.severity == crate::Severity::Error)
        .count()
}

pub(crate) fn bad_value(place: &Place, name: &str, value: &str, mismatch: Mismatch) -> Problem {
    const SHOWN_CHARS_MAX: usize = 60;
    let shown: String = match value.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((end, _)) => format!("{}...", &value[..end]),
        None => value.to_string(),
    };
    let words = tls_checks::words_for_bad_value(name, &shown)
        .unwrap_or_else(|| format!("invalid value \"{shown}\" for parameter {name} in configuration"));
    Problem::error(place, format!("{words}: expected {}", mismatch.expected))
        .maybe_hint(trailing_comment(value).or(mismatch.hint))
}

/// A hint for a comment behind a value: an ini file takes it for a part of the value.
fn trailing_comment(value: &str) -> Option<String> {
    let is_comment = [" #", " ;", "\t#", "\t;"].iter().any(|mark| value.contains(mark));
    is_comment.then(|| "a comment needs a line of its own".to_string())
}

pub(crate) fn suggest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    nearest(word, candidates).map(|candidate| format!("did you mean \"{candidate}\"?"))
}
