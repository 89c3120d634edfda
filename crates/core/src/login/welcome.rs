//! The messages for a client whose login succeeds: AuthenticationOk, ParameterStatus, BackendKeyData,
//! ReadyForQuery.

use crate::state::beyond_ascii::bytes_of;
use pgweir_wire::write::ErrorText;
use pgweir_wire::{CancelKey, TransactionStatus, Writer};

/// The end of a login.
#[derive(Debug)]
pub(crate) struct Welcome<'a> {
    /// AuthenticationSASLFinal, if the client was authenticated by SCRAM.
    pub(crate) closing: Option<&'a [u8]>,
    /// The key for its cancel requests.
    pub(crate) key: &'a CancelKey,
    /// `login_notify_message`; empty: none.
    pub(crate) notice: &'a str,
    pub(crate) status: TransactionStatus,
}

impl Welcome<'_> {
    /// Writes the messages, with these settings as ParameterStatus.
    pub(crate) fn write<'p>(&self, w: &mut Writer<'_>, parameters: impl IntoIterator<Item = (&'p str, &'p str)>) {
        if let Some(closing) = self.closing {
            w.authentication(closing);
        }
        w.authentication(&0u32.to_be_bytes());
        for (name, value) in parameters {
            w.parameter_status(name.as_bytes(), &bytes_of(value));
        }
        w.backend_key_data(self.key.process_id, &self.key.secret);
        if !self.notice.is_empty() {
            let (severity, sqlstate, message) = ("NOTICE", "00000", self.notice);
            w.notice(&ErrorText {
                severity,
                sqlstate,
                message,
                detail: "",
                hint: "",
            });
        }
        w.ready_for_query(self.status);
    }
}
