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

#[cfg(test)]
mod tests {
    use super::*;

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
