//! The methods of client authentication.

/// A method of client authentication; the names are those of `auth_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, pgweir_freeze::Freeze)]
pub enum ClientAuthMethod {
    /// `any`: nothing is asked, and the user need not exist.
    Any,
    /// `trust`: nothing is asked, but the user must exist.
    Trust,
    /// `plain`: the password in clear text, whatever the form of the stored secret.
    Plain,
    /// `md5`: an MD5 challenge; but SCRAM if the stored secret is a SCRAM verifier, as in PostgreSQL and PgBouncer.
    Md5,
    /// `scram-sha-256`: SCRAM. A stored MD5 hash cannot be used for it.
    ScramSha256,
    /// `peer`: the operating system has said who the client is. Nothing is asked, but the user must exist.
    Peer,
    /// `cert`: a verified certificate has said who the client is. Nothing is asked, but the user must exist.
    Cert,
    /// `ldap`: the password in clear text, which a directory checks. The user need not exist.
    Ldap,
    /// `pam`: the password in clear text, which PAM modules check. The user need not exist.
    Pam,
}

impl ClientAuthMethod {
    /// The name in `auth_type`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::Trust => "trust",
            Self::Plain => "plain",
            Self::Md5 => "md5",
            Self::ScramSha256 => "scram-sha-256",
            Self::Peer => "peer",
            Self::Cert => "cert",
            Self::Ldap => "ldap",
            Self::Pam => "pam",
        }
    }

    /// Whether the user's secret is not needed, so that the user need not exist.
    pub fn needs_no_user(self) -> bool {
        matches!(self, Self::Any | Self::Ldap | Self::Pam)
    }

    /// The text for a client that fails.
    pub(crate) fn told(self) -> &'static str {
        match self {
            Self::Any | Self::Trust => "\"trust\" authentication failed",
            Self::Plain | Self::Md5 => "password authentication failed",
            Self::ScramSha256 => "SASL authentication failed",
            Self::Peer => "unix socket login rejected",
            Self::Cert => "certificate authentication failed",
            Self::Ldap => "LDAP authentication failed",
            Self::Pam => "PAM authentication failed",
        }
    }
}
