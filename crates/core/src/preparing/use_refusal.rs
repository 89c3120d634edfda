//! Why the use of a prepared statement is refused, and the errors that say so.

use crate::base::errors::TRANSACTION_FAILED;
use crate::statements::prepared::Statement;
use pgweir_wire::Writer;
use pgweir_wire::write::ErrorText;

/// The statement now returns other columns than the client was told.
const OTHER_ROWS: ErrorText<'_> = ErrorText {
    severity: "ERROR",
    sqlstate: "0A000",
    message: "cached plan must not change result type",
    detail: "",
    hint: "",
};

/// The statement would be read under other settings than when the client prepared it.
const READ_OTHERWISE: ErrorText<'_> = ErrorText {
    severity: "ERROR",
    sqlstate: "0A000",
    message: "the statement cannot be prepared again in a failed transaction block",
    detail: "The server does not hold it yet, and its text means something else under the present client_encoding or \
             standard_conforming_strings.",
    hint: "Prepare it again under the present settings, or end the block with ROLLBACK.",
};

/// Why a use is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UseRefusal {
    /// The statement now returns other columns than the client was told.
    OtherRows,
    /// A failed transaction may run the statement, and would read it otherwise than when its client prepared it.
    ReadOtherwise,
    /// A failed transaction refuses the statement.
    TransactionFailed,
}

impl UseRefusal {
    /// Why a failed transaction refuses a statement that it would read otherwise than when its client prepared it. It
    /// runs only what ends it.
    pub(super) fn in_failed_transaction(statement: &Statement) -> UseRefusal {
        match pgweir_sql::may_end_block(&statement.query) {
            true => UseRefusal::ReadOtherwise,
            false => UseRefusal::TransactionFailed,
        }
    }

    /// Writes the error.
    pub(super) fn write(self, w: &mut Writer<'_>) {
        // asyncpg and the JDBC driver prepare the statement again if the error names this routine.
        let again = [(b'F', "plancache.c"), (b'R', "RevalidateCachedQuery")];
        match self {
            UseRefusal::OtherRows => w.error_with(&OTHER_ROWS, &again),
            UseRefusal::ReadOtherwise => w.error_with(&READ_OTHERWISE, &again),
            UseRefusal::TransactionFailed => w.error(&TRANSACTION_FAILED),
        }
    }
}
