//! The admin console: database `pgbouncer`.

use crate::admin::Access;
use crate::errors::Trouble;
use crate::ids::ClientId;
use crate::pooler::Pooler;
use crate::time::Time;

/// A client on the console.
#[derive(Debug)]
pub(crate) struct ConsoleState {
    user: String,
    access: Access,
    busy: bool,
}

impl ConsoleState {
    pub(crate) fn user(&self) -> &str {
        &self.user
    }

    /// It waits for the outcome of a command; nothing is read from it meanwhile.
    pub(crate) fn is_busy(&self) -> bool {
        self.busy
    }
}

impl Pooler {
    pub(crate) fn console_bytes(&mut self, now: Time, id: ClientId, input: &[u8]) -> usize {
        self.fail_client(
            now,
            id,
            Trouble::ProtocolViolation,
            "the console is not built yet",
            "",
            "",
        );
        input.len()
    }
}
