//! The outcome of one step of a client's exchange.

use crate::auth_request::AuthRequest;
use crate::error::ClientAuthError;
use crate::scram::{Derivation, ScramKeys};
use crate::secret::Password;

/// What the caller does next.
#[derive(Debug, PartialEq, Eq)]
pub enum ClientStep {
    /// Send this message, and give the answer (a message with tag `p`) to [`crate::ClientAuth::handle_message`].
    Ask(AuthRequest),
    /// Check this password, and give the answer to [`crate::ClientAuth::handle_verdict`].
    Judge(Password),
    /// Derive these keys, and give them to [`crate::ClientAuth::handle_keys`].
    Derive(Derivation),
    /// The client has proved its identity. The exchange is over.
    Accepted(Accepted),
    /// The client has failed to prove its identity, or has broken the protocol. The exchange is over.
    Refused(Refused),
}

/// A client that may log in. The caller sends AuthenticationOk, together with the messages that follow it.
#[derive(Debug, PartialEq, Eq)]
pub struct Accepted {
    /// AuthenticationSASLFinal, to be sent before AuthenticationOk.
    pub closing: Option<AuthRequest>,
    /// What the exchange has shown that helps to log in to servers as this user.
    pub learned: Learned,
}

/// What the client's proof can be used for on a server connection.
#[derive(Debug, PartialEq, Eq)]
pub enum Learned {
    /// Nothing beyond the stored secret.
    Nothing,
    /// The password itself (methods `plain`, `ldap`, `pam`).
    Password(Password),
    /// Keys that log in to every server that has the same SCRAM verifier (SCRAM with a stored verifier).
    ScramKeys(ScramKeys),
}

/// A client that may not log in.
#[derive(Debug, PartialEq, Eq)]
pub struct Refused {
    /// For the log.
    pub reason: ClientAuthError,
    /// The text for the client, and for the log line that monitoring matches. It depends only on the conversation,
    /// never on the stored secret, so it does not show whether the user exists.
    pub told: &'static str,
}
