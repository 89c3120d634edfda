//! The ways to the server that are compared: direct, pooled, with TLS, with SCRAM.

use super::{path_of, reason};
use crate::server::{Server, query_error};
use crate::session::Session;
use crate::throwaway::{DATA_FOLDER, give_to};
use crate::{Error, Result};
use std::fs;
use std::os::unix::fs::PermissionsExt;

/// The role of a throwaway server that has a password, and that.
const SCRAM_ROLE: &str = "pgweir_lab_scram";
const SCRAM_PASSWORD: &str = "of a throwaway server";

/// One way to the server.
#[derive(Debug, Clone)]
pub(super) struct Way {
    /// `direct`, `direct with TLS`, ...
    pub(super) name: String,
    /// Through pgweir, whose clients log in so.
    pub(super) pooled_auth: Option<&'static str>,
    /// The server, where it is not the session's.
    pub(super) server: Option<Server>,
}

impl Way {
    fn new(name: &str, pooled_auth: Option<&'static str>, server: Option<Server>) -> Self {
        Way {
            name: name.to_owned(),
            pooled_auth,
            server,
        }
    }

    /// `direct` or `pgweir`.
    pub(super) fn path(&self) -> &'static str {
        path_of(self.pooled_auth.is_some())
    }
}

/// Those that this server offers; the others are said in `left_out`. The first two are direct and pooled.
pub(super) fn find(
    session: &mut Session,
    port: u16,
    settings: &[String],
    left_out: &mut Vec<String>,
) -> Result<Vec<Way>> {
    let mut ways = if session.target.is_throwaway() {
        on_throwaway(session, port, settings)?
    } else {
        on_users_server(session, left_out)?
    };
    ways.push(Way::new(
        "pgweir with SCRAM",
        Some("scram-sha-256"),
        ways[1].server.clone(),
    ));
    left_out.push("pgweir with TLS: the laboratory does not set it up yet".to_owned());
    Ok(ways)
}

/// All of them, on TCP: a throwaway server is given a certificate and a role with a password.
fn on_throwaway(session: &mut Session, port: u16, settings: &[String]) -> Result<Vec<Way>> {
    let Some(cluster) = &session.target.cluster else {
        return Err(Error::new("the throwaway server is gone"));
    };
    let data = cluster.folder().join(DATA_FOLDER);
    let certificate = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]);
    let certificate = certificate.map_err(|e| Error::new(format!("could not make a certificate: {e}")))?;
    let hba =
        format!("host all {SCRAM_ROLE} all scram-sha-256\nlocal all all trust\nhost all all 127.0.0.1/32 trust\n");
    for (name, text) in [
        ("server.crt", certificate.cert.pem()),
        ("server.key", certificate.signing_key.serialize_pem()),
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
    let tcp = session.target.server.clone();
    let scram = [("user", SCRAM_ROLE), ("password", SCRAM_PASSWORD)];
    let with_tls = |server: &Server| server.with(&[("sslmode", "require")]);
    Ok(vec![
        Way::new("direct", None, None),
        Way::new("pgweir", Some("plain"), None),
        Way::new("direct with TLS", None, Some(with_tls(&tcp)?)),
        Way::new("direct with SCRAM", None, Some(tcp.with(&scram)?)),
        Way::new("direct with TLS and SCRAM", None, Some(with_tls(&tcp.with(&scram)?)?)),
    ])
}

/// Without TLS and with it, if the server accepts both. The server authenticates the client by its own rules.
fn on_users_server(session: &Session, left_out: &mut Vec<String>) -> Result<Vec<Way>> {
    let server = &session.target.server;
    let plain = server.with(&[("sslmode", "disable")])?;
    let tls = match server.get("sslmode") {
        Some(mode @ ("verify-ca" | "verify-full")) => server.with(&[("sslmode", mode)])?,
        _ => server.with(&[("sslmode", "require")])?,
    };
    if let Err(e) = plain.probe() {
        return Err(
            Error::new(format!("the server takes no connections without TLS ({})", reason(e)?))
                .hint("the laboratory does not set up TLS for pgweir yet, so there is nothing to compare"),
        );
    }
    let mut ways = vec![
        Way::new("direct", None, Some(plain.clone())),
        Way::new("pgweir", Some("plain"), Some(plain)),
    ];
    match tls.probe() {
        Ok(_) if server.get("host").is_some_and(|host| host.starts_with('/')) => {
            left_out.push("direct with TLS: there is no TLS on a Unix-domain socket".to_owned());
        }
        Ok(_) => ways.push(Way::new("direct with TLS", None, Some(tls))),
        Err(e) => left_out.push(format!("direct with TLS: {}", reason(e)?)),
    }
    left_out.push("direct with SCRAM and without: the server decides how its clients prove who they are".to_owned());
    Ok(ways)
}
