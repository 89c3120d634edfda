//! Numbers in words.

/// `12,345`, and `3.4` below ten.
pub fn number_words(number: f64) -> String {
    if number.abs() < 10.0 && number.fract() != 0.0 {
        return format!("{number:.1}");
    }
    with_commas(number)
}

/// `12,345`: the nearest whole number.
pub fn with_commas(number: f64) -> String {
    let digits = format!("{:.0}", number.abs());
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    match number < 0.0 && text != "0" {
        true => format!("-{text}"),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_separated() {
        for (number, words) in [
            (0.0, "0"),
            (3.42, "3.4"),
            (999.6, "1,000"),
            (1_234_567.0, "1,234,567"),
            (-1500.0, "-1,500"),
            (-12.0, "-12"),
        ] {
            assert_eq!(number_words(number), words);
        }
    }
}
