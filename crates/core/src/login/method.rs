//! How a client must authenticate: `auth_type`, or the first rule of `auth_hba_file` that fits.

use crate::base::address::Address;
use crate::base::request::Accepted;
use crate::base::verification::Verification;
use crate::login::membership::Membership;
use crate::login::rejection::Rejection;
use crate::login::startup::Wishes;
use pgweir_auth::{ClientAuthMethod, Password};
use pgweir_config::hba::{ClientCert, Connection, Found, LdapOptions, Method, Origin, Rule};
use pgweir_config::{AuthType, CONSOLE_DATABASE, Config};
use std::sync::Arc;

/// The PAM service, as in PgBouncer.
const PAM_SERVICE: &str = "pgbouncer";

/// What is known of a client's encryption.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Encryption<'a> {
    /// The connection is encrypted.
    pub(crate) is_tls: bool,
    /// The client has shown a certificate that an authority of the configuration has signed.
    pub(crate) has_certificate: bool,
    /// The common name in the certificate.
    pub(crate) common_name: Option<&'a str>,
}

/// Who checks a password that the client sends in clear text.
#[derive(Debug, Clone, PartialEq, pgweir_freeze::Freeze)]
pub(crate) enum Judge {
    Pam { service: Box<str> },
    Ldap(Arc<LdapOptions>),
}

impl Judge {
    /// The question about a password.
    pub(crate) fn question(&self, user: &str, peer: Address, password: Password) -> Verification {
        let user = user.into();
        match self {
            Judge::Pam { service } => Verification::Pam {
                service: service.clone(),
                user,
                peer,
                password,
            },
            Judge::Ldap(options) => Verification::Ldap {
                options: Arc::clone(options),
                user,
                password,
            },
        }
    }
}

/// How a client is authenticated.
#[derive(Debug, PartialEq)]
pub(crate) enum Way {
    /// By the questions of this method. The judge checks the passwords of methods `ldap` and `pam`.
    Exchange(ClientAuthMethod, Option<Judge>),
    /// By the client's system user, who has this id: that user must be the database user, or the map must allow it.
    BeSystemUser { uid: u32, map: Option<Box<str>> },
    /// It depends on whether the user is a member of these roles.
    AskRoles(Vec<Box<str>>),
    /// The client is refused. The second text is for the log.
    Refused(Rejection, String),
}

/// How one client is authenticated. `encryption` and `accepted` are the facts of its connection, `membership` is what is
/// known of its user's roles.
pub(crate) fn way(
    config: &Config,
    accepted: &Accepted,
    encryption: Encryption<'_>,
    wishes: &Wishes,
    membership: &Membership,
) -> Way {
    match config.global.auth_type {
        AuthType::Any => Way::Exchange(ClientAuthMethod::Any, None),
        AuthType::Trust => Way::Exchange(ClientAuthMethod::Trust, None),
        AuthType::Plain => Way::Exchange(ClientAuthMethod::Plain, None),
        AuthType::Md5 => Way::Exchange(ClientAuthMethod::Md5, None),
        AuthType::ScramSha256 => Way::Exchange(ClientAuthMethod::ScramSha256, None),
        AuthType::Cert => by_certificate(config, encryption, None, &wishes.user),
        AuthType::Pam => by_pam(None),
        AuthType::Ldap => by_ldap(config.login_rules.ldap.clone()),
        AuthType::Hba => match find(config, accepted, encryption, wishes, membership) {
            Found::Rule(rule) => by_rule(config, rule, accepted, encryption, wishes),
            Found::Depends(roles) => Way::AskRoles(roles.into_iter().map(Box::from).collect()),
            Found::Nothing => {
                let log = format!(
                    "no rule of auth_hba_file matches {}",
                    facts(accepted, encryption, wishes)
                );
                Way::Refused(no_rule(accepted, encryption, wishes), log)
            }
        },
    }
}

/// The error for a client that no rule matches, or of which nobody can tell which rule matches.
pub(crate) fn no_rule(accepted: &Accepted, encryption: Encryption<'_>, wishes: &Wishes) -> Rejection {
    let facts = facts(accepted, encryption, wishes);
    Rejection::no_rule(format!("No rule of auth_hba_file matches {facts}."))
}

fn find<'c>(
    config: &'c Config,
    accepted: &Accepted,
    encryption: Encryption<'_>,
    wishes: &'c Wishes,
    membership: &Membership,
) -> Found<'c> {
    let origin = match accepted.peer {
        Address::Unix { .. } => Origin::UnixSocket,
        Address::Tcp(peer) => Origin::Tcp {
            peer: peer.ip(),
            is_tls: encryption.is_tls,
        },
    };
    let connection = Connection {
        origin,
        database: &wishes.database,
        user: &wishes.user,
        // The console is no database that could be replicated: the rules for the console apply.
        is_physical_replication: wishes.is_physical_replication() && wishes.database != CONSOLE_DATABASE,
    };
    let rules = &config.login_rules;
    let Some(hba) = &rules.hba else {
        return Found::Nothing;
    };
    // Without any auth_user nobody is a member, if the rules bear that: the checks of the configuration have said so.
    let has_no_roles = || hba.are_safe_without_roles() && !config.has_auth_user();
    let is_member = |role: &str| membership.of(role).or_else(|| has_no_roles().then_some(false));
    hba.find(&connection, &rules.machine, &is_member)
}

fn by_rule(config: &Config, rule: &Rule, accepted: &Accepted, encryption: Encryption<'_>, wishes: &Wishes) -> Way {
    if let Err(log) = shows_certificate(config, &rule.client_cert, encryption, &wishes.user) {
        let log = format!("{}: {log}", rule.place);
        return Way::Refused(Rejection::certificate_refused(), log);
    }
    match &rule.method {
        Method::Trust => Way::Exchange(ClientAuthMethod::Trust, None),
        Method::Password => Way::Exchange(ClientAuthMethod::Plain, None),
        Method::Md5 => Way::Exchange(ClientAuthMethod::Md5, None),
        Method::ScramSha256 => Way::Exchange(ClientAuthMethod::ScramSha256, None),
        Method::Reject => {
            let told = format!(
                "A rule of auth_hba_file rejects {}.",
                facts(accepted, encryption, wishes)
            );
            Way::Refused(Rejection::login_rejected(told), format!("rejected by {}", rule.place))
        }
        Method::Cert { map } => by_certificate(config, encryption, map.as_deref(), &wishes.user),
        Method::Pam { service } => by_pam(service.as_deref()),
        Method::Ldap(options) => by_ldap(Some(Arc::clone(options))),
        Method::Peer { map } => match accepted.peer_uid {
            Some(uid) => Way::BeSystemUser { uid, map: map.clone() },
            None => Way::Refused(
                Rejection::not_peer(),
                "the operating system does not tell who the client is".into(),
            ),
        },
    }
}

fn by_pam(service: Option<&str>) -> Way {
    let service = service.unwrap_or(PAM_SERVICE).into();
    Way::Exchange(ClientAuthMethod::Pam, Some(Judge::Pam { service }))
}

/// Options may be missing only if the checks of the configuration have failed; then nobody could check a
/// password.
fn by_ldap(options: Option<Arc<LdapOptions>>) -> Way {
    match options {
        Some(options) => Way::Exchange(ClientAuthMethod::Ldap, Some(Judge::Ldap(options))),
        None => {
            let log = "auth_ldap_options is not set";
            Way::Refused(
                Rejection::login_rejected("The pooler knows no directory that could check passwords."),
                log.into(),
            )
        }
    }
}

fn by_certificate(config: &Config, encryption: Encryption<'_>, map: Option<&str>, user: &str) -> Way {
    let wanted = ClientCert::VerifyFull {
        map: map.map(Box::from),
    };
    match shows_certificate(config, &wanted, encryption, user) {
        Ok(()) => Way::Exchange(ClientAuthMethod::Cert, None),
        Err(log) => Way::Refused(Rejection::certificate_refused(), log),
    }
}

/// Whether the client's certificate is accepted; if not, PgBouncer's text for the log.
fn shows_certificate(
    config: &Config,
    wanted: &ClientCert,
    encryption: Encryption<'_>,
    user: &str,
) -> Result<(), String> {
    if *wanted == ClientCert::Any {
        return Ok(());
    }
    if !encryption.is_tls {
        return Err("TLS connection required".into());
    }
    if !encryption.has_certificate {
        return Err("TLS client certificate required".into());
    }
    let ClientCert::VerifyFull { map } = wanted else {
        return Ok(());
    };
    let Some(name) = encryption.common_name.filter(|name| !name.is_empty()) else {
        return Err("TLS certificate name mismatch: the certificate has no common name".into());
    };
    if config.login_rules.ident.allows(map.as_deref(), name, user) {
        return Ok(());
    }
    let name = name.escape_default();
    // PgBouncer's words.
    Err(match map {
        Some(map) => format!("ident map: {map} does not have a match: the certificate is of \"{name}\""),
        None => format!("TLS certificate name mismatch: the certificate is of \"{name}\""),
    })
}

/// The facts that a rule looks at, in PostgreSQL's words. The client knows all of them.
fn facts(accepted: &Accepted, encryption: Encryption<'_>, wishes: &Wishes) -> String {
    let (user, database) = (&wishes.user, &wishes.database);
    let encrypted = if encryption.is_tls { "TLS" } else { "no encryption" };
    let what = if wishes.is_physical_replication() {
        format!("replication connection, user \"{user}\"")
    } else {
        format!("user \"{user}\", database \"{database}\"")
    };
    match accepted.peer {
        Address::Unix { .. } => format!("local connection, {what}"),
        Address::Tcp(peer) => format!("host \"{}\", {what}, {encrypted}", peer.ip()),
    }
}

#[cfg(test)]
#[path = "method_tests.rs"]
mod tests;
