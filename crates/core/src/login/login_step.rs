//! What a login asks for: the values that [`crate::login::client_login::Login`] returns to its caller, and takes.

use crate::base::pool_id::{PoolKind, StartupValue};
use crate::login::kept_secrets::KeptSecret;
use crate::login::rejection::Rejection;
use pgweir_auth::{AuthRequest, Derivation, Learned, Password, Refused, Secret};

/// Where a user's secret comes from.
#[derive(Debug, pgweir_freeze::Freeze)]
pub(crate) enum SecretSource {
    /// From auth_file; `None` if the user is unknown and auth_query cannot be asked.
    Known(Option<Secret>),
    /// From auth_query, which was asked a short time ago.
    Kept(KeptSecret),
    /// From auth_query.
    AuthQuery,
}

/// What must be done next for a login.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LoginStep {
    /// Nothing: the login waits for more bytes of its client, or for an answer.
    Wait,
    /// Send this to the client. The client's next message is the answer.
    Ask(AuthRequest),
    /// Ask the login's judge about this password.
    Judge(Password),
    /// Have these keys derived.
    Derive(Derivation),
    /// Get the client a server on which auth_query looks up the user's secret.
    LookUp,
    /// The client is authenticated.
    Accept(Learned),
    /// Authentication has failed: the client gets an error.
    Refuse(Refused),
    /// The client has broken the protocol.
    Reject(Rejection),
    /// The client has sent Terminate.
    Leave,
}

/// What a login does with a server that it has been given.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ServerUse<'a> {
    /// The login asks whether this user is a member of these roles.
    AskRoles { user: &'a str, roles: &'a [Box<str>] },
    /// The login looks up the secret of this user by auth_query.
    AskSecret { user: &'a str, database: &'a str },
    /// The login asks for the server's answer to these startup parameters.
    TryValues,
    /// Nothing: the settings of a new server are known by now.
    Nothing,
}

/// The pool that a client asks for.
#[derive(Debug, pgweir_freeze::Freeze)]
pub(crate) struct Destination {
    pub(crate) database: String,
    pub(crate) user: String,
    pub(crate) kind: PoolKind,
    /// Settings with which its servers must be started.
    pub(crate) start: Box<[StartupValue]>,
}
