//! Questions about a client that is logging in, whose answers take time: the driver asks others, and answers later.

use crate::base::request::Address;
use pgweir_auth::{Derivation, Password, ScramKeys};
use pgweir_config::hba::LdapOptions;
use std::sync::Arc;

/// What is to be found out.
#[derive(Debug, Clone, PartialEq)]
pub enum Verification {
    /// The name of the system user with this id.
    SystemUser {
        /// The id.
        uid: u32,
    },
    /// Whether PAM takes this password.
    Pam {
        /// The service whose modules judge.
        service: Box<str>,
        /// The user.
        user: Box<str>,
        /// Where the user comes from: PAM_RHOST.
        peer: Address,
        /// The password; never empty.
        password: Password,
    },
    /// The keys of a password in clear text, to be compared with a SCRAM secret. Deriving them takes milliseconds of a processor.
    Keys(Derivation),
    /// Whether a directory takes this password.
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
    /// The system user's name; `None`: there is none with this id.
    SystemUser(Option<String>),
    /// The password is right.
    Right,
    /// The keys of [`Verification::Keys`].
    Keys(ScramKeys),
    /// It is not, or nobody could judge it: the reason, for the log.
    Wrong(String),
}
