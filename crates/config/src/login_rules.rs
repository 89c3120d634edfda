//! The rules for logins that are read from files of their own.

use crate::problem::Problem;
use pgweir_hba::{IdentMaps, LdapOptions, Machine, Rules};
use std::sync::Arc;

/// The rules for logins that are not in section `[pgbouncer]`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoginRules {
    /// `auth_hba_file`; `None` if no file is named or it cannot be used. While this is `None`, `auth_type` is not `hba`.
    pub hba: Option<Arc<Rules>>,
    /// Why `auth_hba_file` or `auth_ident_file` cannot be used: the first error.
    pub fault: Option<Problem>,
    /// `auth_ident_file`.
    pub ident: Arc<IdentMaps>,
    /// `auth_ldap_options`.
    pub ldap: Option<Arc<LdapOptions>>,
    /// The addresses of this machine.
    pub machine: Machine,
}
