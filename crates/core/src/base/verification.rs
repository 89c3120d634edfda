//! Questions that a login waits for. The driver asks others, and answers later.

use crate::base::address::Address;
use pgweir_auth::{Derivation, Password, ScramKeys};
use pgweir_config::hba::LdapOptions;
use std::sync::Arc;

/// What the driver must find out.
#[derive(Debug, Clone, PartialEq)]
pub enum Verification {
    /// The name of the system user with this id.
    SystemUser {
        /// The id.
        uid: u32,
    },
    /// Whether PAM accepts this password.
    Pam {
        /// The service whose modules judge.
        service: Box<str>,
        /// The user.
        user: Box<str>,
        /// The client's address: PAM_RHOST.
        peer: Address,
        /// The password; never empty.
        password: Password,
    },
    /// The keys of a clear-text password, to be compared with a SCRAM secret, or to log in to a server. Deriving them
    /// takes milliseconds of processor time.
    Keys(Derivation),
    /// Whether a directory accepts this password.
    Ldap {
        /// The directory.
        options: Arc<LdapOptions>,
        /// The user.
        user: Box<str>,
        /// The password; never empty.
        password: Password,
    },
}

/// The answer to a [`Verification`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verified {
    /// The system user's name; `None` if no user has this id.
    SystemUser(Option<String>),
    /// The password is right.
    Right,
    /// The keys of [`Verification::Keys`].
    Keys(ScramKeys),
    /// The password is wrong, or could not be checked. The reason is for the log.
    Wrong(String),
}
