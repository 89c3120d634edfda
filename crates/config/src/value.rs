//! Text to typed values and back: the rules that every setting's value follows.

use std::time::Duration;

use crate::mismatch::Mismatch;
use crate::number::{INTEGER_MAX, format_g, integer_within, seconds};
use crate::problem::{completed, nearest};

/// What kind of text a setting takes, for messages and documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Any text.
    Text,
    /// An integer: decimal, `0x` hexadecimal or leading-`0` octal.
    Integer,
    /// An integer that is either zero or not; other values mean the same as 1.
    Flag,
    /// Seconds; a decimal point is allowed.
    Seconds,
    /// One of a list of words, in upper or lower case.
    Choice(&'static [&'static str]),
    /// Words separated by commas.
    List,
}

impl Kind {
    /// The word that the documentation uses.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Text => "text",
            Kind::Integer => "integer",
            Kind::Flag => "0 or 1",
            Kind::Seconds => "seconds",
            Kind::Choice(_) => "choice",
            Kind::List => "list",
        }
    }
}

/// A type that a setting can have.
pub trait SettingValue: Sized {
    /// The kind of text that it takes.
    const KIND: Kind;

    /// Reads the text of an ini value, already trimmed.
    fn parse(text: &str) -> Result<Self, Mismatch>;

    /// The text that SHOW CONFIG prints; `None` for a setting that is not set.
    fn show(&self) -> Option<String>;
}

/// A count or size. Negative numbers are read as 0, because PgBouncer treats them so wherever it uses them; the loader
/// warns.
impl SettingValue for u32 {
    const KIND: Kind = Kind::Integer;

    fn parse(text: &str) -> Result<u32, Mismatch> {
        integer_within(text, i64::from(i32::MIN), INTEGER_MAX).map(|value| value.max(0) as u32)
    }

    fn show(&self) -> Option<String> {
        Some(self.to_string())
    }
}

/// A number that may not be larger than `MAX`. Negative numbers are read as 0, as those of a `u32`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AtMost<const MAX: u32>(u32);

impl<const MAX: u32> AtMost<MAX> {
    /// The number.
    pub fn get(self) -> u32 {
        self.0
    }
}

impl<const MAX: u32> SettingValue for AtMost<MAX> {
    const KIND: Kind = Kind::Integer;

    fn parse(text: &str) -> Result<AtMost<MAX>, Mismatch> {
        match u32::parse(text)? {
            value if value <= MAX => Ok(AtMost(value)),
            _ => Err(Mismatch::expected(format!("an integer from 0 to {MAX}"))),
        }
    }

    fn show(&self) -> Option<String> {
        self.0.show()
    }
}

/// PgBouncer's `unsigned int`.
impl SettingValue for u64 {
    const KIND: Kind = Kind::Integer;

    fn parse(text: &str) -> Result<u64, Mismatch> {
        integer_within(text, 0, i64::from(u32::MAX)).map(|value| value as u64)
    }

    fn show(&self) -> Option<String> {
        Some(self.to_string())
    }
}

/// A TCP port.
impl SettingValue for u16 {
    const KIND: Kind = Kind::Integer;

    fn parse(text: &str) -> Result<u16, Mismatch> {
        integer_within(text, 0, i64::from(u16::MAX)).map(|value| value as u16)
    }

    fn show(&self) -> Option<String> {
        Some(self.to_string())
    }
}

/// An integer that is either zero or not; the number itself is kept for SHOW CONFIG.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flag(pub i32);

impl Flag {
    /// Whether the number is not zero.
    pub fn is_on(self) -> bool {
        self.0 != 0
    }
}

impl SettingValue for Flag {
    const KIND: Kind = Kind::Flag;

    fn parse(text: &str) -> Result<Flag, Mismatch> {
        integer_within(text, i64::from(i32::MIN), INTEGER_MAX).map(|value| Flag(value as i32))
    }

    fn show(&self) -> Option<String> {
        Some(self.0.to_string())
    }
}

impl SettingValue for Duration {
    const KIND: Kind = Kind::Seconds;

    fn parse(text: &str) -> Result<Duration, Mismatch> {
        seconds(text)
    }

    fn show(&self) -> Option<String> {
        Some(format_g(self.as_micros() as f64 / 1e6))
    }
}

impl SettingValue for String {
    const KIND: Kind = Kind::Text;

    fn parse(text: &str) -> Result<String, Mismatch> {
        Ok(text.to_string())
    }

    fn show(&self) -> Option<String> {
        Some(self.clone())
    }
}

/// A text that may be absent. An empty value is absent too.
impl SettingValue for Option<String> {
    const KIND: Kind = Kind::Text;

    fn parse(text: &str) -> Result<Option<String>, Mismatch> {
        Ok(Some(text.to_string()).filter(|text| !text.is_empty()))
    }

    fn show(&self) -> Option<String> {
        self.clone()
    }
}

/// The check query: PgBouncer distinguishes no check from an empty query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckQuery {
    /// An empty value: released servers are not checked.
    Off,
    /// The word `<empty>`: a Query message without text, which is the cheapest round trip.
    Empty,
    /// A query to run. Its result is ignored; an error closes the server.
    Sql(String),
}

impl CheckQuery {
    /// The text of the Query message to send, or `None` when servers are not checked.
    pub fn query(&self) -> Option<&str> {
        match self {
            CheckQuery::Off => None,
            CheckQuery::Empty => Some(""),
            CheckQuery::Sql(sql) => Some(sql),
        }
    }
}

impl SettingValue for CheckQuery {
    const KIND: Kind = Kind::Text;

    fn parse(text: &str) -> Result<CheckQuery, Mismatch> {
        Ok(match text {
            "" => CheckQuery::Off,
            "<empty>" => CheckQuery::Empty,
            sql => CheckQuery::Sql(sql.to_string()),
        })
    }

    fn show(&self) -> Option<String> {
        Some(match self {
            CheckQuery::Off => String::new(),
            CheckQuery::Empty => "<empty>".into(),
            CheckQuery::Sql(sql) => sql.clone(),
        })
    }
}

/// How many clients' transactions one server may have outstanding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, pgweir_freeze::Freeze)]
pub enum PipelineDepth {
    /// As many as keep the server from sleeping.
    Auto,
    /// At most this many.
    AtMost(u32),
}

/// The most transactions that one server may have outstanding.
pub const PIPELINE_DEPTH_MAX: u32 = 64;

impl SettingValue for PipelineDepth {
    const KIND: Kind = Kind::Text;

    fn parse(text: &str) -> Result<PipelineDepth, Mismatch> {
        if text.eq_ignore_ascii_case("auto") {
            return Ok(PipelineDepth::Auto);
        }
        match integer_within(text, 1, PIPELINE_DEPTH_MAX.into()) {
            Ok(depth) => Ok(PipelineDepth::AtMost(depth as u32)),
            Err(mismatch) => Err(Mismatch {
                expected: format!("auto, or {}", mismatch.expected),
                hint: mismatch.hint,
            }),
        }
    }

    fn show(&self) -> Option<String> {
        Some(match self {
            PipelineDepth::Auto => "auto".into(),
            PipelineDepth::AtMost(depth) => depth.to_string(),
        })
    }
}

/// How many servers a pool may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolSize {
    /// The pooler finds out how many may work at once.
    Auto,
    /// At most this many; 0 is no limit.
    Fixed(u32),
}

impl PoolSize {
    /// The word for [`PoolSize::Auto`].
    pub(crate) const AUTO: &'static str = "auto";

    /// The number; `None` if the pooler finds it out.
    pub fn fixed(self) -> Option<u32> {
        match self {
            PoolSize::Auto => None,
            PoolSize::Fixed(size) => Some(size),
        }
    }
}

impl SettingValue for PoolSize {
    const KIND: Kind = Kind::Integer;

    fn parse(text: &str) -> Result<PoolSize, Mismatch> {
        if text.eq_ignore_ascii_case(PoolSize::AUTO) {
            return Ok(PoolSize::Auto);
        }
        u32::parse(text).map(PoolSize::Fixed).map_err(|mismatch| Mismatch {
            expected: format!("auto, or {}", mismatch.expected),
            hint: mismatch.hint,
        })
    }

    fn show(&self) -> Option<String> {
        match self {
            PoolSize::Auto => Some(PoolSize::AUTO.into()),
            PoolSize::Fixed(size) => size.show(),
        }
    }
}

/// Words separated by commas or blanks, kept as written for SHOW CONFIG, and as a list for use. As in PgBouncer, words
/// with blanks between them also count as one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommaList {
    text: String,
    items: Vec<String>,
}

impl CommaList {
    /// The words, empty ones dropped.
    pub fn items(&self) -> &[String] {
        &self.items
    }

    /// Whether `word` is in the list, in exactly this case: users and databases.
    pub fn contains(&self, word: &str) -> bool {
        self.items.iter().any(|item| item == word)
    }

    /// Whether `word` is in the list, in upper or lower case: names of settings and parameters.
    pub fn contains_ignore_case(&self, word: &str) -> bool {
        self.items.iter().any(|item| item.eq_ignore_ascii_case(word))
    }
}

impl SettingValue for CommaList {
    const KIND: Kind = Kind::List;

    fn parse(text: &str) -> Result<CommaList, Mismatch> {
        let mut items = split_list(text);
        let parts: Vec<String> = items
            .iter()
            .filter(|item| item.contains(char::is_whitespace))
            .flat_map(|item| item.split_whitespace().map(str::to_owned))
            .collect();
        items.extend(parts);
        Ok(CommaList {
            text: text.to_string(),
            items,
        })
    }

    fn show(&self) -> Option<String> {
        Some(self.text.clone())
    }
}

pub(crate) fn split_list(text: &str) -> Vec<String> {
    text.split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty())
        .map(str::to_string)
        .collect()
}

pub(crate) fn parse_choice<T: Copy>(text: &str, words: &'static [&'static str], values: &[T]) -> Result<T, Mismatch> {
    match words.iter().position(|word| word.eq_ignore_ascii_case(text)) {
        Some(index) => Ok(values[index]),
        None => Err(Mismatch {
            expected: one_of(words),
            hint: nearest(text, words.iter().copied())
                .or_else(|| completed(text, words.iter().copied()))
                .map(|word| format!("did you mean \"{word}\"?")),
        }),
    }
}

fn one_of(words: &[&str]) -> String {
    match words {
        [rest @ .., last] if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => words.join(""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_query_tells_no_check_from_an_empty_query() {
        assert_eq!(CheckQuery::parse("").unwrap().query(), None);
        assert_eq!(CheckQuery::parse("<empty>").unwrap().query(), Some(""));
        assert_eq!(CheckQuery::parse("select 1").unwrap().query(), Some("select 1"));
    }

    #[test]
    fn lists_keep_their_text_and_trim_their_words() {
        let list = CommaList::parse("a , b,,c ").unwrap();
        assert_eq!(list.items(), ["a", "b", "c"]);
        assert_eq!(list.show().as_deref(), Some("a , b,,c "));
        assert!(list.contains("b") && !list.contains("B") && list.contains_ignore_case("B"));
        let list = CommaList::parse("postgres alice, John Doe").unwrap();
        assert!(["postgres", "alice", "John Doe"].iter().all(|word| list.contains(word)));
        assert!(!list.contains("post") && !list.contains("e, John"));
    }
}
