//! The options of method `ldap`.

use crate::ldap_url;
use crate::token;
use std::fmt;
use zeroize::Zeroizing;

/// Whether the connection begins with TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, pgweir_freeze::Freeze)]
pub enum LdapScheme {
    /// `ldap`: it does not, but StartTLS may follow.
    Ldap,
    /// `ldaps`.
    Ldaps,
}

impl LdapScheme {
    /// The default port of a server.
    pub fn port(self) -> u16 {
        match self {
            LdapScheme::Ldap => 389,
            LdapScheme::Ldaps => 636,
        }
    }
}

/// Where users are searched for, relative to `ldapbasedn`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, pgweir_freeze::Freeze)]
pub enum LdapScope {
    /// The entry itself.
    Base,
    /// Its children.
    One,
    /// The entry and everything below it.
    Sub,
}

/// How users are searched for.
#[derive(Clone, Debug, PartialEq, Eq, pgweir_freeze::Freeze)]
pub enum SearchFilter {
    /// By an attribute that has the user's name.
    Attribute(String),
    /// By a filter in which `$username` stands for the user's name.
    Template(String),
}

/// The question to the directory.
#[derive(Clone, PartialEq, Eq, pgweir_freeze::Freeze)]
pub enum LdapBind {
    /// A bind as this user, under a name that contains the user's.
    Simple {
        /// The text before the user's name.
        prefix: String,
        /// The text after it.
        suffix: String,
    },
    /// A search for the user's entry, and then a bind as that entry.
    Search {
        /// Where to look.
        base_dn: String,
        /// The depth of the search.
        scope: LdapScope,
        /// The name for the bind before the search; empty for an anonymous one.
        bind_dn: String,
        /// The password for it.
        bind_password: Zeroizing<String>,
        /// The filter.
        filter: SearchFilter,
    },
}

impl fmt::Debug for LdapBind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LdapBind::Simple { prefix, suffix } => write!(f, "Simple({prefix}, {suffix})"),
            LdapBind::Search {
                base_dn,
                bind_dn,
                filter,
                ..
            } => write!(f, "Search({base_dn}, {bind_dn}, {filter:?})"),
        }
    }
}

/// The directory that checks passwords.
#[derive(Clone, Debug, PartialEq, Eq, pgweir_freeze::Freeze)]
pub struct LdapOptions {
    /// Names or addresses of servers, which are tried in this order, with their ports.
    pub servers: Vec<(String, u16)>,
    /// Whether the connection begins with TLS.
    pub scheme: LdapScheme,
    /// `ldaptls=1`: StartTLS comes before anything else.
    pub starttls: bool,
    /// The question.
    pub bind: LdapBind,
}

/// The options as they are written.
#[derive(Default)]
pub(crate) struct Given {
    pub(crate) server: Option<String>,
    pub(crate) port: Option<u16>,
    pub(crate) scheme: Option<LdapScheme>,
    starttls: bool,
    pub(crate) base_dn: Option<String>,
    pub(crate) scope: Option<LdapScope>,
    bind_dn: Option<String>,
    bind_password: Option<Zeroizing<String>>,
    pub(crate) attribute: Option<String>,
    pub(crate) filter: Option<String>,
    prefix: Option<String>,
    suffix: Option<String>,
}

impl LdapOptions {
    /// Reads options from one text, separated by blanks or commas, as in `auth_ldap_options`.
    pub fn parse(text: &str) -> Result<LdapOptions, String> {
        let fields = token::fields(text).map_err(|fault| fault.message)?;
        let mut given = Vec::new();
        for word in fields.into_iter().flatten() {
            match word.text.split_once('=') {
                Some((name, value)) => given.push((name.to_owned(), value.to_owned())),
                None => {
                    return Err(format!(
                        "expected an option of the form name=value, got \"{}\"",
                        word.text
                    ));
                }
            }
        }
        LdapOptions::new(given)
    }

    /// From names and values.
    pub(crate) fn new(options: Vec<(String, String)>) -> Result<LdapOptions, String> {
        let mut given = Given::default();
        let mut seen: Vec<String> = Vec::new();
        for (name, value) in options {
            if seen.contains(&name) {
                return Err(format!("option \"{name}\" is given twice"));
            }
            if value.is_empty() && !matches!(name.as_str(), "ldapprefix" | "ldapsuffix") {
                return Err(format!("option \"{name}\" has no value"));
            }
            given.take(&name, value)?;
            seen.push(name);
        }
        given.check()
    }
}

impl Given {
    fn take(&mut self, name: &str, value: String) -> Result<(), String> {
        match name {
            "ldapserver" => self.server = Some(value),
            "ldapport" => self.port = Some(port(&value)?),
            "ldapscheme" => self.scheme = Some(scheme(&value)?),
            "ldaptls" => match value.as_str() {
                "0" => self.starttls = false,
                "1" => self.starttls = true,
                _ => return Err(format!("invalid ldaptls value: \"{value}\", expected 0 or 1")),
            },
            "ldapbasedn" => self.base_dn = Some(value),
            "ldapbinddn" => self.bind_dn = Some(value),
            "ldapbindpasswd" => self.bind_password = Some(Zeroizing::new(value)),
            "ldapsearchattribute" => self.attribute = Some(value),
            "ldapsearchfilter" => self.filter = Some(value),
            "ldapprefix" => self.prefix = Some(value),
            "ldapsuffix" => self.suffix = Some(value),
            "ldapurl" => ldap_url::read(&value, self)?,
            _ => return Err(format!("unrecognized authentication option name: \"{name}\"")),
        }
        Ok(())
    }

    fn check(mut self) -> Result<LdapOptions, String> {
        let searches = self.base_dn.is_some()
            || self.bind_dn.is_some()
            || self.bind_password.is_some()
            || self.attribute.is_some()
            || self.filter.is_some();
        let is_simple = self.prefix.is_some() || self.suffix.is_some();
        if is_simple && searches {
            return Err(
                "cannot use ldapbasedn, ldapbinddn, ldapbindpasswd, ldapsearchattribute, ldapsearchfilter, or \
                        ldapurl together with ldapprefix"
                    .into(),
            );
        }
        let scheme = self.scheme.unwrap_or(LdapScheme::Ldap);
        if self.starttls && scheme == LdapScheme::Ldaps {
            return Err("cannot use ldaptls together with ldaps, which is encrypted from the beginning".into());
        }
        let servers = self.servers(scheme)?;
        let starttls = self.starttls;
        let bind = if is_simple {
            let (prefix, suffix) = (self.prefix.unwrap_or_default(), self.suffix.unwrap_or_default());
            LdapBind::Simple { prefix, suffix }
        } else {
            self.search()?
        };
        Ok(LdapOptions {
            servers,
            scheme,
            starttls,
            bind,
        })
    }

    fn servers(&mut self, scheme: LdapScheme) -> Result<Vec<(String, u16)>, String> {
        let list = self.server.take().unwrap_or_default();
        let common = self.port.unwrap_or(scheme.port());
        let mut servers = Vec::new();
        for server in list.split_whitespace() {
            let own = match server.rsplit_once(':') {
                Some((host, digits)) if !host.is_empty() && (!host.contains(':') || host.ends_with(']')) => {
                    (host, port(digits)?)
                }
                _ => (server, common),
            };
            servers.push((own.0.trim_start_matches('[').trim_end_matches(']').to_owned(), own.1));
        }
        if servers.is_empty() {
            return Err(
                "authentication method \"ldap\" requires argument \"ldapserver\" or \"ldapurl\" to be set".into(),
            );
        }
        Ok(servers)
    }

    fn search(self) -> Result<LdapBind, String> {
        let Some(base_dn) = self.base_dn else {
            return Err(
                "authentication method \"ldap\" requires argument \"ldapbasedn\", \"ldapprefix\", or \
                        \"ldapsuffix\" to be set"
                    .into(),
            );
        };
        let filter = match (self.attribute, self.filter) {
            (Some(_), Some(_)) => return Err("cannot use ldapsearchattribute together with ldapsearchfilter".into()),
            (_, Some(filter)) => template(filter)?,
            (attribute, None) => {
                let attribute = attribute.unwrap_or_else(|| "uid".into());
                if !attribute
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b"-.;".contains(&b))
                {
                    return Err(format!("invalid attribute \"{attribute}\" in ldapsearchattribute"));
                }
                SearchFilter::Attribute(attribute)
            }
        };
        let bind_dn = self.bind_dn.unwrap_or_default();
        let bind_password = self.bind_password.unwrap_or_default();
        if !bind_dn.is_empty() && bind_password.is_empty() {
            // A directory takes such a bind for an anonymous one, and accepts it.
            return Err("ldapbinddn needs ldapbindpasswd: a name without a password is an anonymous bind".into());
        }
        let scope = self.scope.unwrap_or(LdapScope::Sub);
        Ok(LdapBind::Search {
            base_dn,
            scope,
            bind_dn,
            bind_password,
            filter,
        })
    }
}

fn template(filter: String) -> Result<SearchFilter, String> {
    if !filter.contains("$username") {
        return Err("ldapsearchfilter does not contain $username: it would find the same entry for every user".into());
    }
    Ok(SearchFilter::Template(filter))
}

pub(crate) fn port(text: &str) -> Result<u16, String> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    match text.parse() {
        Ok(port) if digits && port > 0 => Ok(port),
        _ => Err(format!(
            "invalid LDAP port number: \"{text}\", expected a number from 1 to 65535"
        )),
    }
}

pub(crate) fn scheme(text: &str) -> Result<LdapScheme, String> {
    match text {
        "ldap" => Ok(LdapScheme::Ldap),
        "ldaps" => Ok(LdapScheme::Ldaps),
        _ => Err(format!("invalid ldapscheme value: \"{text}\", expected ldap or ldaps")),
    }
}

#[cfg(test)]
#[path = "ldap_tests.rs"]
mod tests;
