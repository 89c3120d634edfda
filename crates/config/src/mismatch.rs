//! A text that is not a value of its setting.

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
