//! Values of settings, as PostgreSQL reads them: equal spellings of a value are one value.

/// Reads a boolean in any case of letters, abbreviated as far as it is unambiguous; `None` if the text is not a
/// boolean.
pub(crate) fn boolean(text: &str) -> Option<bool> {
    let text = text.to_ascii_lowercase();
    let begins = |word: &str, least: usize| text.len() >= least && word.starts_with(&text);
    if begins("true", 1) || begins("yes", 1) || begins("on", 2) || text == "1" {
        Some(true)
    } else if begins("false", 1) || begins("no", 1) || begins("off", 2) || text == "0" {
        Some(false)
    } else {
        None
    }
}

/// `on` or `off` for a boolean; any other value unchanged.
pub(crate) fn canonical(value: &str) -> &str {
    match boolean(value) {
        Some(true) => "on",
        Some(false) => "off",
        None => value,
    }
}

/// A time in whole seconds, for a setting whose unit is `s`. `None` if PostgreSQL would refuse the text, and for a
/// negative number or a hexadecimal fraction.
pub(crate) fn seconds(text: &str) -> Option<u32> {
    let text = text.trim_matches(is_space);
    let (number, unit) = number(text.strip_prefix('+').unwrap_or(text))?;
    // A fraction of a unit is rounded to the next smaller one.
    let (unit_s, next_s) = match unit.trim_start_matches(is_space) {
        "" => (1.0, None),
        "d" => (86_400.0, Some(3_600.0)),
        "h" => (3_600.0, Some(60.0)),
        "min" => (60.0, Some(1.0)),
        "s" => (1.0, Some(1e-3)),
        "ms" => (1e-3, Some(1e-6)),
        "us" => (1e-6, None),
        _ => return None,
    };
    let exact = number * unit_s;
    let rounded = next_s.map_or(exact, |next| (exact / next).round_ties_even() * next);
    let seconds = rounded.round_ties_even();
    (seconds <= f64::from(i32::MAX)).then_some(seconds as u32)
}

/// C's `isspace`.
fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t'..='\r')
}

/// The number at the beginning of a text, and what follows: whole numbers as C writes them, with `0x` or the `0` of an
/// octal one, and decimal fractions.
fn number(text: &str) -> Option<(f64, &str)> {
    let run = |text: &str, radix| text.find(|c: char| !c.is_digit(radix)).unwrap_or(text.len());
    let (digits, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None => (text, if text.starts_with('0') { 8 } else { 10 }),
    };
    let (whole, rest) = digits.split_at(run(digits, radix));
    if !rest.starts_with(['.', 'e', 'E']) {
        let whole = u32::from_str_radix(whole, radix).ok()?;
        return Some((f64::from(whole), rest));
    }
    if radix == 16 {
        return None;
    }
    let mut end = run(text, 10);
    if let Some(fraction) = text[end..].strip_prefix('.') {
        end += 1 + run(fraction, 10);
    }
    if let Some(exponent) = text[end..].strip_prefix(['e', 'E']) {
        let sign = usize::from(exponent.starts_with(['+', '-']));
        let digits = run(&exponent[sign..], 10);
        end += if digits > 0 { 1 + sign + digits } else { 0 };
    }
    Some((text[..end].parse().ok()?, &text[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What PostgreSQL 15 makes of these texts for tcp_keepalives_interval.
    #[test]
    fn seconds_are_read_as_postgresql_reads_them() {
        for (is, texts) in [
            (
                2,
                &[
                    "2",
                    " 2",
                    "\t2",
                    "+2 ",
                    "02",
                    "0x2",
                    "0X2",
                    "2s",
                    "2 s",
                    "2  s ",
                    "2\ns",
                    "2000ms",
                    "1.6",
                    "2.5",
                    "1.5",
                    "2e0",
                    "0.2e1s",
                    "2000000us",
                    "2.",
                    "2499ms",
                    "2500ms",
                ][..],
            ),
            (0, &["0", ".5", "0.6ms", "0.0001d", "0.0004h", "0.00001h"]),
            (6, &["1e-1min"]),
            (8, &["010"]),
            (16, &["0x10s"]),
            (60, &["1min"]),
            (90, &["1.5min"]),
            (1_000, &["1e3"]),
            (1_800, &["0.5h"]),
            (1_842, &["30.7min"]),
            (86_400, &["1d"]),
        ] {
            for text in texts {
                assert_eq!(seconds(text), Some(is), "{text:?}");
            }
        }
        for text in [
            "",
            " ",
            "x",
            "-2",
            "2S",
            "0x",
            "08",
            "1e",
            "1.2.3",
            "2 s s",
            ".",
            "+",
            "++2",
            "inf",
            "nan",
            "0x1p3",
            "0b1",
            "1e400",
            "\u{661}",
            "2\u{3bc}s",
            "4294967296",
            "2147483648",
            "1 week",
        ] {
            assert_eq!(seconds(text), None, "{text:?}");
        }
    }

    #[test]
    fn booleans_are_read_as_postgresql_reads_them() {
        for text in ["on", "ON", "true", "t", "tRu", "yes", "y", "1"] {
            assert_eq!((boolean(text), canonical(text)), (Some(true), "on"), "{text}");
        }
        for text in ["off", "of", "false", "f", "no", "N", "0"] {
            assert_eq!((boolean(text), canonical(text)), (Some(false), "off"), "{text}");
        }
        for text in ["", "o", "truee", "2", "01", " on", "database"] {
            assert_eq!((boolean(text), canonical(text)), (None, text), "{text}");
        }
    }
}
