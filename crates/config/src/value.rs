//! Text to typed values and back: the rules that every setting's value follows.

use std::time::Duration;

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

/// Why a text is not a value of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The kind of value that the setting takes, as a noun phrase.
    pub expected: String,
    /// What to write instead, if that can be guessed.
    pub hint: Option<String>,
}

impl Mismatch {
    pub(crate) fn expected(expected: impl Into<String>) -> Mismatch {
        Mismatch {
            expected: expected.into(),
            hint: None,
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

/// The largest integer that a setting takes: PgBouncer keeps settings in a C `int`.
pub const INTEGER_MAX: i64 = i32::MAX as i64;

/// The longest time that a setting takes, about 285 years. With it, the sum of two times never overflows.
pub const SECONDS_MAX: f64 = 9_000_000_000.0;

/// C's `strtol(text, &end, 0)`, where the whole text must be the number: base 16 after `0x`, base 8 after `0`,
/// otherwise base 10.
pub(crate) fn integer(text: &str) -> Result<i64, Mismatch> {
    let mismatch = || Mismatch {
        expected: "an integer".into(),
        hint: integer_hint(text),
    };
    let body = text.trim_start();
    let (negative, digits) = match body.as_bytes().first() {
        Some(b'-') => (true, &body[1..]),
        Some(b'+') => (false, &body[1..]),
        _ => (false, body),
    };
    let (digits, radix) = match digits.as_bytes() {
        [b'0', b'x' | b'X', _, ..] => (&digits[2..], 16),
        [b'0', _, ..] => (&digits[1..], 8),
        _ => (digits, 10),
    };
    // from_str_radix accepts a sign here, and strtol does not.
    if !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(mismatch());
    }
    let value = match i64::from_str_radix(digits, radix) {
        Ok(value) => value,
        Err(e) if *e.kind() == std::num::IntErrorKind::PosOverflow => i64::MAX,
        Err(_) => return Err(mismatch()),
    };
    Ok(if negative { -value } else { value })
}

fn integer_hint(text: &str) -> Option<String> {
    match text.to_ascii_lowercase().as_str() {
        "yes" | "true" | "on" | "y" | "t" => Some("use 1 for yes".into()),
        "no" | "false" | "off" | "n" | "f" => Some("use 0 for no".into()),
        "" => Some("leave the line out to use the default".into()),
        lower if lower.ends_with("ms") || lower.ends_with('s') || lower.ends_with("min") => {
            Some("write the number without a unit".into())
        }
        lower if lower.starts_with('0') && lower.bytes().all(|b| b.is_ascii_digit()) => {
            Some("a leading 0 makes the number octal, which has no digits 8 and 9".into())
        }
        _ => None,
    }
}

fn integer_within(text: &str, min: i64, max: i64) -> Result<i64, Mismatch> {
    let value = integer(text)?;
    if (min..=max).contains(&value) {
        Ok(value)
    } else {
        Err(Mismatch::expected(format!("an integer from {min} to {max}")))
    }
}

/// C's `atoi`: leading blanks, a sign, decimal digits. The rest of the text is ignored, and a text without digits is 0.
/// Numbers outside a C `int` become its smallest or largest value.
///
/// The second value says whether the whole text was a number.
pub(crate) fn atoi(text: &str) -> (i32, bool) {
    let body = text.trim_start_matches([' ', '\t']);
    let (negative, digits) = match body.as_bytes().first() {
        Some(b'-') => (true, &body[1..]),
        Some(b'+') => (false, &body[1..]),
        _ => (false, body),
    };
    let count = digits.bytes().take_while(u8::is_ascii_digit).count();
    let clean = count > 0 && count == digits.len();
    let value = digits.bytes().take(count).fold(0i64, |sum, digit| {
        (sum * 10 + i64::from(digit - b'0')).min(INTEGER_MAX + 1)
    });
    let value = if negative { -value } else { value };
    let clamped = value.clamp(i64::from(i32::MIN), INTEGER_MAX);
    (clamped as i32, clean && clamped == value)
}

fn seconds(text: &str) -> Result<Duration, Mismatch> {
    let mismatch = || Mismatch {
        expected: "a number of seconds, 0 or more".into(),
        hint: seconds_hint(text),
    };
    let numeric = text
        .bytes()
        .all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'+' | b'-' | b'e' | b'E'));
    let value: f64 = text.parse().ok().filter(|_| numeric).ok_or_else(mismatch)?;
    if value < 0.0 || !value.is_finite() {
        return Err(mismatch());
    }
    if value > SECONDS_MAX {
        return Err(Mismatch::expected(format!("at most {SECONDS_MAX} seconds")));
    }
    // Microseconds are PgBouncer's resolution.
    Ok(Duration::from_micros((value * 1e6) as u64))
}

fn seconds_hint(text: &str) -> Option<String> {
    let digits_end = text.bytes().take_while(|b| b.is_ascii_digit() || *b == b'.').count();
    let number: f64 = text[..digits_end].parse().ok()?;
    let factor = match text[digits_end..].trim().to_ascii_lowercase().as_str() {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
        "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
        "h" | "hour" | "hours" => 3600.0,
        "d" | "day" | "days" => 86400.0,
        _ => return None,
    };
    Some(format!("times are plain seconds: write {}", number * factor))
}

/// C's `printf("%g")`: six significant digits, no trailing zeros, an exponent from 1e+06 up and below 1e-04.
pub(crate) fn format_g(value: f64) -> String {
    const DIGITS: i32 = 6;
    if value == 0.0 {
        return "0".into();
    }
    let scientific = format!("{:.*e}", (DIGITS - 1) as usize, value);
    // format! always writes the e.
    let Some((mantissa, exponent)) = scientific.split_once('e') else {
        return scientific;
    };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..DIGITS).contains(&exponent) {
        trim_zeros(&format!("{:.*}", (DIGITS - 1 - exponent) as usize, value)).to_string()
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{}e{sign}{:02}", trim_zeros(mantissa), exponent.abs())
    }
}

fn trim_zeros(number: &str) -> &str {
    if number.contains('.') {
        number.trim_end_matches('0').trim_end_matches('.')
    } else {
        number
    }
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

/// Words separated by commas, kept as written for SHOW CONFIG, and as a list for use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommaList {
    text: String,
    items: Vec<String>,
}

impl CommaList {
    /// The words, blanks around them removed and empty ones dropped.
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
        Ok(CommaList {
            text: text.to_string(),
            items: split_list(text),
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
    fn integers_follow_strtol_base_0() {
        for (text, value) in [
            ("0", 0),
            ("10", 10),
            ("-3", -3),
            ("+3", 3),
            ("0x1F", 31),
            ("-0x10", -16),
            ("0777", 511),
            ("00", 0),
            ("2147483647", 2147483647),
        ] {
            assert_eq!(integer(text), Ok(value), "{text}");
        }
        for text in [
            "", "yes", "on", "1.5", "5s", "08", "0x", "--1", "+-1", "0x-1", "1 2", "1_000", "０",
        ] {
            assert!(integer(text).is_err(), "{text}");
        }
        assert_eq!(integer("99999999999999999999"), Ok(i64::MAX));
    }

    #[test]
    fn integer_hints_say_what_to_write() {
        assert_eq!(integer("yes").unwrap_err().hint.as_deref(), Some("use 1 for yes"));
        assert_eq!(integer("Off").unwrap_err().hint.as_deref(), Some("use 0 for no"));
        assert!(integer("08").unwrap_err().hint.unwrap().contains("octal"));
        assert!(integer("5s").unwrap_err().hint.unwrap().contains("without a unit"));
    }

    #[test]
    fn integers_stay_in_a_c_int() {
        assert_eq!(u32::parse("2147483647"), Ok(2147483647));
        assert!(u32::parse("2147483648").unwrap_err().expected.contains("2147483647"));
        assert_eq!(u32::parse("-1"), Ok(0));
        assert_eq!(u64::parse("4294967295"), Ok(4294967295));
        assert!(u64::parse("-1").is_err());
        assert!(u16::parse("65536").is_err());
        assert_eq!(u16::parse("0x1932"), Ok(6450));
    }

    #[test]
    fn atoi_reads_a_prefix_and_says_so() {
        assert_eq!(atoi("12"), (12, true));
        assert_eq!(atoi("-12"), (-12, true));
        assert_eq!(atoi("12abc"), (12, false));
        assert_eq!(atoi("abc"), (0, false));
        assert_eq!(atoi("0.5"), (0, false));
        assert_eq!(atoi("0x10"), (0, false));
        assert_eq!(atoi("010"), (10, true));
        assert_eq!(atoi("99999999999999999999999"), (i32::MAX, false));
        assert_eq!(atoi("-2147483648"), (i32::MIN, true));
        assert_eq!(atoi(""), (0, false));
    }

    #[test]
    fn seconds_are_floats_without_units() {
        assert_eq!(Duration::parse("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(Duration::parse("1e3"), Ok(Duration::from_secs(1000)));
        assert_eq!(Duration::parse(".5"), Ok(Duration::from_millis(500)));
        for text in ["", "-1", "inf", "nan", "5s", "1,5", "0x10", "infinity", "1e300", "yes"] {
            assert!(Duration::parse(text).is_err(), "{text}");
        }
        assert_eq!(
            Duration::parse("5min").unwrap_err().hint.as_deref(),
            Some("times are plain seconds: write 300")
        );
        assert_eq!(
            Duration::parse("250 ms").unwrap_err().hint.as_deref(),
            Some("times are plain seconds: write 0.25")
        );
    }

    #[test]
    fn times_print_like_percent_g() {
        for (seconds, text) in [
            ("0", "0"),
            ("0.5", "0.5"),
            ("3600", "3600"),
            ("604800", "604800"),
            ("1000000", "1e+06"),
            ("2592000", "2.592e+06"),
            ("0.0001", "0.0001"),
            ("0.00001", "1e-05"),
            ("123456.7", "123457"),
            ("15.25", "15.25"),
            ("999999.9", "1e+06"),
        ] {
            assert_eq!(
                Duration::parse(seconds).unwrap().show().as_deref(),
                Some(text),
                "{seconds}"
            );
        }
    }

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
    }
}
