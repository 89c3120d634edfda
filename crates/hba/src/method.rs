//! The method column, and the options behind it.

use crate::ldap::LdapOptions;
use crate::problem::Fault;
use std::sync::Arc;

/// How a client must authenticate.
#[derive(Clone, Debug, PartialEq)]
pub enum Method {
    /// No question is asked.
    Trust,
    /// The client is refused.
    Reject,
    /// The password in clear text.
    Password,
    /// An MD5 challenge, or SCRAM where the stored secret is a SCRAM verifier.
    Md5,
    /// SCRAM-SHA-256.
    ScramSha256,
    /// The system user at the other end of a Unix-domain socket.
    Peer {
        /// The ident map from system users to database users; `None`: both have the same name.
        map: Option<Box<str>>,
    },
    /// The name in a verified TLS client certificate.
    Cert {
        /// The ident map from certificates' names to database users; `None`: both are the same.
        map: Option<Box<str>>,
    },
    /// A password that a directory checks.
    Ldap(Arc<LdapOptions>),
    /// A password that the PAM modules of this service check; `None`: those of the default service.
    Pam {
        /// `pamservice`.
        service: Option<Box<str>>,
    },
}

impl Method {
    /// The method that stands for all that demand the same of a client: the password in the user's secret may be proven
    /// in several ways.
    pub(crate) fn family(&self) -> Method {
        match self {
            Method::Password | Method::Md5 => Method::ScramSha256,
            other => other.clone(),
        }
    }
}

/// `clientcert`: what a rule of type hostssl demands of the client's certificate in addition to its
/// method.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientCert {
    /// Nothing.
    Any,
    /// A verified one.
    VerifyCa,
    /// A verified one, whose name is the user's or is mapped to it.
    VerifyFull {
        /// The ident map.
        map: Option<Box<str>>,
    },
}

const METHODS: &str = "trust, reject, password, md5, scram-sha-256, peer, cert, ldap or pam";

/// The options of a line, by name.
struct Options {
    given: Vec<(String, String)>,
    method: String,
}

impl Options {
    /// Removes an option that may be given once, and returns its value.
    fn take(&mut self, name: &str) -> Result<Option<String>, Fault> {
        let at = self.given.iter().position(|(n, _)| n == name);
        let value = at.map(|at| self.given.remove(at).1);
        if self.given.iter().any(|(n, _)| n == name) {
            return Err(Fault::new(format!("option \"{name}\" is given twice")));
        }
        Ok(value)
    }

    fn end(self) -> Result<(), Fault> {
        match self.given.first() {
            None => Ok(()),
            Some((name, _)) => {
                let text = format!(
                    "unrecognized authentication option name \"{name}\" for method {}",
                    self.method
                );
                Err(Fault::new(text))
            }
        }
    }
}

/// The method `name` with its `options`, each `name=value`.
pub(crate) fn parse(name: &str, options: &[String], is_tls_only: bool) -> Result<(Method, ClientCert), Fault> {
    let given = options
        .iter()
        .map(|option| name_and_value(option))
        .collect::<Result<_, _>>()?;
    let mut options = Options {
        given,
        method: name.into(),
    };
    let clientcert = options.take("clientcert")?;
    match options.take("clientname")?.as_deref() {
        None | Some("CN") => {}
        Some(other) => {
            return Err(Fault::new(format!(
                "clientname={other} is not supported, expected clientname=CN"
            )));
        }
    }
    let maps = matches!(name, "peer" | "cert") || clientcert.as_deref() == Some("verify-full");
    let map = if maps {
        options.take("map")?.map(String::into_boxed_str)
    } else {
        None
    };
    let method = match name {
        "trust" => Method::Trust,
        "reject" => Method::Reject,
        "password" => Method::Password,
        "md5" => Method::Md5,
        "scram-sha-256" => Method::ScramSha256,
        "peer" => Method::Peer { map: map.clone() },
        "cert" => Method::Cert { map: map.clone() },
        "pam" => pam(&mut options)?,
        "ldap" => {
            let given = std::mem::take(&mut options.given);
            Method::Ldap(Arc::new(LdapOptions::new(given).map_err(Fault::new)?))
        }
        "ident" => return Err(unsupported(name).hint("on a Unix socket, peer asks the operating system")),
        "any" => return Err(unsupported(name).hint("any is a value of auth_type; trust asks nothing either")),
        "plain" => return Err(unsupported(name).hint("here the method is called password")),
        _ => return Err(unsupported(name)),
    };
    options.end()?;
    let cert = client_cert(clientcert.as_deref(), map, is_tls_only)?;
    if matches!(method, Method::Cert { .. }) {
        if !is_tls_only {
            return Err(Fault::new(
                "cert authentication is only supported on hostssl connections",
            ));
        }
        if cert == ClientCert::VerifyCa {
            return Err(Fault::new(
                "clientcert only accepts \"verify-full\" when using \"cert\" authentication",
            ));
        }
    }
    Ok((method, cert))
}

fn name_and_value(option: &str) -> Result<(String, String), Fault> {
    let Some((name, value)) = option.split_once('=') else {
        return Err(Fault::new(format!(
            "expected an option of the form name=value, got \"{option}\""
        )));
    };
    Ok((name.to_owned(), value.to_owned()))
}

fn unsupported(name: &str) -> Fault {
    Fault::new(format!(
        "unsupported authentication method \"{name}\", expected {METHODS}"
    ))
}

fn pam(options: &mut Options) -> Result<Method, Fault> {
    match options.take("pam_use_hostname")?.as_deref() {
        None | Some("0") => {}
        Some(value) => {
            return Err(
                Fault::new(format!("pam_use_hostname={value} is not supported, expected 0"))
                    .hint("PAM_RHOST is the client's address"),
            );
        }
    }
    let service = options.take("pamservice")?;
    if service.as_deref().is_some_and(|s| s.is_empty() || s.contains('/')) {
        return Err(Fault::new(
            "pamservice must be the name of a file of /etc/pam.d, without a slash",
        ));
    }
    Ok(Method::Pam {
        service: service.map(String::into_boxed_str),
    })
}

fn client_cert(value: Option<&str>, map: Option<Box<str>>, is_tls_only: bool) -> Result<ClientCert, Fault> {
    let cert = match value {
        None => return Ok(ClientCert::Any),
        Some("verify-ca") => ClientCert::VerifyCa,
        Some("verify-full") => ClientCert::VerifyFull { map },
        Some(other) => {
            return Err(Fault::new(format!(
                "invalid value for clientcert: \"{other}\", expected verify-ca or verify-full"
            )));
        }
    };
    if !is_tls_only {
        return Err(Fault::new("clientcert can only be configured for \"hostssl\" rows"));
    }
    Ok(cert)
}
