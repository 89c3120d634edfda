//! The ways to the server that are compared: direct and through pgweir, with and without TLS, each with the login that the
//! server asks for. A way is named by what it does, so that only like is compared with like.

use super::{path_of, reason};
use crate::certificate::Certificate;
use crate::server::{Authentication, Server, query_error};
use crate::session::Session;
use crate::throwaway::{DATA_FOLDER, give_to};
use crate::{Error, Result};
use std::fs;
use std::os::unix::fs::PermissionsExt;

/// The role of a throwaway server that has a password, and that.
const SCRAM_ROLE: &str = "pgweir_lab_scram";
const SCRAM_PASSWORD: &str = "of a throwaway server";

/// The most ways: on a throwaway server, and on a user's, where two logins of pgweir's own may come on top.
pub(super) const ON_THROWAWAY: u32 = 8;
pub(super) const ON_USERS_MAX: u32 = 6;

/// How a client logs in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Login {
    pub(super) tls: bool,
    pub(super) authentication: Authentication,
}

/// All logins that can be compared, the one closest to production first.
pub(super) const LOGINS: [Login; 8] = {
    use Authentication::{ClearText, Md5, NoPassword, Scram};
    const fn login(tls: bool, authentication: Authentication) -> Login {
        Login { tls, authentication }
    }
    [
        login(true, Scram),
        login(false, Scram),
        login(true, Md5),
        login(false, Md5),
        login(true, ClearText),
        login(false, ClearText),
        login(true, NoPassword),
        login(false, NoPassword),
    ]
};

impl Login {
    /// `direct with TLS and SCRAM`
    pub(super) fn named(self, path: &str) -> String {
        let login = match self.authentication {
            Authentication::NoPassword => None,
            Authentication::ClearText => Some("a password in clear text"),
            Authentication::Md5 => Some("MD5"),
            Authentication::Scram => Some("SCRAM"),
            Authentication::Other => Some("a login of another kind"),
        };
        match (self.tls.then_some("TLS"), login) {
            (None, None) => path.to_owned(),
            (Some(tls), Some(login)) => format!("{path} with {tls} and {login}"),
            (tls, login) => format!("{path} with {}", tls.or(login).unwrap_or_default()),
        }
    }

    /// The `auth_type` with which pgweir asks for the same; None where it cannot.
    pub(super) fn auth_type(self) -> Option<&'static str> {
        match self.authentication {
            Authentication::NoPassword => Some("trust"),
            Authentication::ClearText => Some("plain"),
            Authentication::Md5 => Some("md5"),
            Authentication::Scram => Some("scram-sha-256"),
            Authentication::Other => None,
        }
    }
}

/// One way to the server.
#[derive(Debug, Clone)]
pub(super) struct Way {
    /// What its clients do.
    pub(super) login: Login,
    /// Through pgweir, with this `auth_type`.
    pub(super) pooled_auth: Option<&'static str>,
    /// The server, of a pooler the one behind it.
    pub(super) server: Server,
}

impl Way {
    /// `direct with TLS`, `pgweir`, ...
    pub(super) fn name(&self) -> String {
        self.login.named(self.path())
    }

    /// `direct` or `pgweir`.
    pub(super) fn path(&self) -> &'static str {
        path_of(self.pooled_auth.is_some())
    }
}

/// Direct, and through pgweir with the same login, where it knows that.
fn both(login: Login, server: &Server) -> impl Iterator<Item = Way> {
    let way = |pooled_auth| Way {
        login,
        pooled_auth,
        server: server.clone(),
    };
    let pooled = login.auth_type().map(|auth_type| way(Some(auth_type)));
    [Some(way(None)), pooled].into_iter().flatten()
}

/// Those that this server offers; the others are said in `left_out`. The first one is direct.
pub(super) fn find(
    session: &mut Session,
    port: u16,
    settings: &[String],
    left_out: &mut Vec<String>,
) -> Result<Vec<Way>> {
    match session.target.is_throwaway() {
        true => on_throwaway(session, port, settings),
        false => on_users_server(session, left_out),
    }
}

/// All of them, on TCP: a throwaway server is given a certificate and a role with a password.
fn on_throwaway(session: &mut Session, port: u16, settings: &[String]) -> Result<Vec<Way>> {
    let Some(cluster) = &session.target.cluster else {
        return Err(Error::new("the throwaway server is gone"));
    };
    let data = cluster.folder().join(DATA_FOLDER);
    let made = Certificate::make()?;
    let hba =
        format!("host all {SCRAM_ROLE} all scram-sha-256\nlocal all all trust\nhost all all 127.0.0.1/32 trust\n");
    for (name, text) in [
        ("server.crt", made.certificate),
        ("server.key", made.key),
        ("pg_hba.conf", hba),
    ] {
        let path = data.join(name);
        fs::write(&path, text)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
        give_to(cluster.user(), &path)?;
    }
    let mut client = session.target.connect()?;
    client
        .batch_execute(&format!(
            "set password_encryption = 'scram-sha-256'; create role {SCRAM_ROLE} login password '{SCRAM_PASSWORD}'"
        ))
        .map_err(|e| query_error(&e))?;
    drop(client);
    let mut settings: Vec<String> = settings
        .iter()
        .filter(|s| !s.starts_with("listen_addresses"))
        .cloned()
        .collect();
    settings.extend([
        "listen_addresses=127.0.0.1".to_owned(),
        format!("port={port}"),
        "ssl=on".to_owned(),
    ]);
    session.target.restart(&settings)?;
    let port = port.to_string();
    session.target.reach_by(&[("host", "127.0.0.1"), ("port", &port)])?;
    let plain = session.target.server.with(&[("sslmode", "disable")])?;
    let scram = [("user", SCRAM_ROLE), ("password", SCRAM_PASSWORD)];
    let mut ways = Vec::new();
    for authentication in [Authentication::NoPassword, Authentication::Scram] {
        for tls in [false, true] {
            let server = match authentication {
                Authentication::Scram => plain.with(&scram)?,
                _ => plain.clone(),
            };
            let server = if tls {
                server.with(&[("sslmode", "require")])?
            } else {
                server
            };
            ways.extend(both(Login { tls, authentication }, &server));
        }
    }
    Ok(ways)
}

/// Without TLS and with it, as far as the server accepts them, each with the login that it asks for.
fn on_users_server(session: &Session, left_out: &mut Vec<String>) -> Result<Vec<Way>> {
    let server = &session.target.server;
    let on_socket = server.get("host").is_some_and(|host| host.starts_with('/'));
    let verifies = server.get("sslmode").filter(|mode| mode.starts_with("verify-"));
    let mode = verifies.unwrap_or("require");
    let mut ways: Vec<Way> = Vec::new();
    let mut refused = None;
    for (tls, mode) in [(false, "disable"), (true, mode)] {
        let name = if tls { "with TLS" } else { "without TLS" };
        if tls && on_socket {
            left_out.push("direct with TLS: there is no TLS on a Unix-domain socket".to_owned());
            continue;
        }
        let server = server.with(&[("sslmode", mode)])?;
        match server.probe() {
            Ok(probed) => {
                let login = Login {
                    tls,
                    authentication: probed.authentication,
                };
                ways.extend(both(login, &server));
                if login.auth_type().is_none() {
                    left_out.push(format!(
                        "pgweir {name}: the server asks for a login that the laboratory does not know"
                    ));
                }
            }
            Err(e) => {
                let why = reason(e)?;
                left_out.push(format!("direct {name}: {why}"));
                refused = Some(why);
            }
        }
    }
    let Some(first) = ways.first().cloned() else {
        return Err(Error::new(refused.unwrap_or_default()));
    };
    // What its clients would do in production, whatever the server asks for today.
    for tls in [false, true] {
        let login = Login {
            tls,
            authentication: Authentication::Scram,
        };
        if ways.iter().all(|way| way.login != login) {
            let behind = ways.iter().find(|way| way.login.tls == tls).unwrap_or(&first);
            ways.push(Way {
                login,
                pooled_auth: login.auth_type(),
                server: behind.server.clone(),
            });
        }
    }
    left_out.push("direct with other logins: the server decides how its clients prove who they are".to_owned());
    Ok(ways)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_is_named_by_what_it_does() {
        let names: Vec<String> = LOGINS.iter().map(|login| login.named("direct")).collect();
        assert_eq!(
            names,
            [
                "direct with TLS and SCRAM",
                "direct with SCRAM",
                "direct with TLS and MD5",
                "direct with MD5",
                "direct with TLS and a password in clear text",
                "direct with a password in clear text",
                "direct with TLS",
                "direct",
            ]
        );
        let auth_types: Vec<_> = LOGINS.iter().filter_map(|login| login.auth_type()).collect();
        assert_eq!(
            auth_types,
            [
                "scram-sha-256",
                "scram-sha-256",
                "md5",
                "md5",
                "plain",
                "plain",
                "trust",
                "trust"
            ]
        );
    }

    /// Guards against SCRAM that is compared with a password in clear text.
    #[test]
    fn pgweir_asks_for_what_the_server_asks_for() {
        let server = Server::new(crate::server::conninfo::Parameters::default()).unwrap();
        for login in LOGINS {
            let ways: Vec<Way> = both(login, &server).collect();
            assert_eq!(ways.len(), 2);
            assert!(ways.iter().all(|way| way.login == login));
            assert_eq!(ways[1].pooled_auth, login.auth_type());
        }
        let other = Login {
            tls: false,
            authentication: Authentication::Other,
        };
        assert_eq!(both(other, &server).count(), 1);
    }
}
