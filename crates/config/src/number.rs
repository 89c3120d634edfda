//! Numbers as PgBouncer reads and prints them: integers as C's `strtol` does, times as `strtod` and `%g` do.

use std::time::Duration;

use crate::mismatch::Mismatch;

/// The largest integer that a setting takes: PgBouncer keeps settings in a C `int`.
pub const INTEGER_MAX: i64 = i32::MAX as i64;

/// The longest time that a setting takes, about 285 years. With it, the sum of two times never overflows.
pub const SECONDS_MAX: f64 = 9_000_000_000.0;

/// The most iterations of a SCRAM verifier that the pooler computes, for itself or for a server.
pub const SCRAM_ITERATIONS_MAX: u32 = 1_000_000;

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

pub(crate) fn integer_within(text: &str, min: i64, max: i64) -> Result<i64, Mismatch> {
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

pub(crate) fn seconds(text: &str) -> Result<Duration, Mismatch> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::SettingValue;

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
}
