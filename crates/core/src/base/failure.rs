//! An error with its texts.

use crate::base::errors::Trouble;
use pgweir_wire::write::ErrorText;

/// An error that a client gets. `trouble` determines the consequences.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Failure<'t> {
    pub(crate) trouble: Trouble,
    pub(crate) message: &'t str,
    /// May be empty.
    pub(crate) detail: &'t str,
    /// May be empty.
    pub(crate) hint: &'t str,
}

impl<'t> Failure<'t> {
    /// An error without detail and hint.
    pub(crate) fn new(trouble: Trouble, message: &'t str) -> Self {
        Failure {
            trouble,
            message,
            detail: "",
            hint: "",
        }
    }

    pub(crate) fn with_detail(self, detail: &'t str) -> Self {
        Failure { detail, ..self }
    }

    pub(crate) fn with_hint(self, hint: &'t str) -> Self {
        Failure { hint, ..self }
    }

    /// Its error message.
    pub(crate) fn text(self) -> ErrorText<'t> {
        self.trouble.text(self.message, self.detail, self.hint)
    }
}
