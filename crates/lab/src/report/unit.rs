//! Numbers with their units, as people read them.

use pgweir_maths::with_commas;

/// What a number counts. Decides how it is written and where an axis has its ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// A count or a rate: `1,249`.
    Number,
    /// Milliseconds: `12.3 ms`.
    Milliseconds,
    /// Seconds: `60 s`.
    Seconds,
    /// Bytes, written with 1024 as PostgreSQL does: `4.88 GB`.
    Bytes,
    /// Hundredths: `8.7 %`.
    Percent,
}

/// PostgreSQL's names of bytes (manual, "Parameter Names and Values"), each 1024 of the one before.
const BYTE_NAMES: [&str; 5] = ["B", "kB", "MB", "GB", "TB"];

impl Unit {
    /// A measured value with its unit, to three significant digits or to the whole number.
    #[must_use]
    pub fn show(self, value: f64) -> String {
        self.with_suffix(value, digits)
    }

    /// The label of a tick: a round number, so without trailing zeros.
    pub(super) fn tick(self, value: f64) -> String {
        self.with_suffix(value, |v| {
            let text = digits(v);
            match text.contains('.') {
                true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
                false => text,
            }
        })
    }

    fn with_suffix(self, value: f64, number: impl Fn(f64) -> String) -> String {
        match self {
            _ if !value.is_finite() => "–".to_owned(),
            Unit::Number => number(value),
            Unit::Milliseconds => format!("{} ms", number(value)),
            Unit::Seconds => format!("{} s", number(value)),
            Unit::Percent => format!("{} %", number(value)),
            Unit::Bytes => {
                let mut size = value;
                let mut name = 0;
                while size.abs() >= 1024.0 && name + 1 < BYTE_NAMES.len() {
                    size /= 1024.0;
                    name += 1;
                }
                format!("{} {}", number(size), BYTE_NAMES[name])
            }
        }
    }
}

/// Three significant digits, or the whole number where it has more of them, with commas.
fn digits(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude >= 100.0 || value == value.round() {
        return with_commas(value);
    }
    // 0.5 -> 3 decimals, 5.0 -> 2, 50.0 -> 1; what is smaller than a millionth is zero to a reader.
    let exponent = magnitude.log10().floor();
    let decimals = (2.0 - exponent).clamp(0.0, 6.0) as usize;
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_keep_three_digits() {
        for (value, text) in [
            (0.0, "0"),
            (64.0, "64"),
            (0.5217, "0.522"),
            (8.7341, "8.73"),
            (37.69, "37.7"),
            (426.84, "427"),
            (15423.0, "15,423"),
            (1234567.8, "1,234,568"),
            (-1249.4, "-1,249"),
            (-0.2, "-0.200"),
            (0.00000001, "0.000000"),
        ] {
            assert_eq!(Unit::Number.show(value), text);
        }
        assert_eq!(Unit::Milliseconds.show(0.6), "0.600 ms");
        assert_eq!(Unit::Percent.show(46.0), "46 %");
        assert_eq!(Unit::Seconds.show(f64::NAN), "–");
    }

    #[test]
    fn bytes_are_postgresqls() {
        for (value, text) in [
            (512.0, "512 B"),
            (8192.0, "8 kB"),
            (134217728.0, "128 MB"),
            (5239860592.0, "4.88 GB"),
            (1e18, "909,495 TB"),
        ] {
            assert_eq!(Unit::Bytes.show(value), text);
        }
    }

    #[test]
    fn ticks_have_no_trailing_zeros() {
        assert_eq!(Unit::Milliseconds.tick(0.5), "0.5 ms");
        assert_eq!(Unit::Number.tick(2500.0), "2,500");
        assert_eq!(Unit::Bytes.tick(1.5 * 1024.0), "1.5 kB");
        assert_eq!(Unit::Number.tick(0.001), "0.001");
    }
}
