//! Opening a connection to the server with resolved parameters.

use super::conninfo::Parameters;
use super::tls;
use crate::{Error, Result};
use postgres::Client;
use postgres::error::SqlState;
use std::error::Error as _;
use std::time::Duration;
use tokio_postgres::Config;
use tokio_postgres::config::{ChannelBinding, LoadBalanceHosts, SslMode, SslNegotiation, TargetSessionAttrs};
use tokio_postgres_rustls::MakeRustlsConnect;

/// Opens a connection; the parameters are resolved ones.
pub(super) fn connect(parameters: &Parameters) -> Result<Client> {
    let config = postgres::Config::from(config(parameters).map_err(Error::new)?);
    let tls = MakeRustlsConnect::new(tls::config(parameters)?);
    let first = config.connect(tls);
    let outcome = match first {
        // sslmode=allow: first without TLS, and with TLS if that is refused.
        Err(_) if parameters.get("sslmode") == Some("allow") => {
            let mut config = config.clone();
            config.ssl_mode(SslMode::Require);
            config.connect(MakeRustlsConnect::new(tls::config(parameters)?))
        }
        outcome => outcome,
    };
    outcome.map_err(|e| readable(&e, parameters))
}

/// The message that libpq would give: the address, and the answer of the server or the system.
pub(super) fn readable(error: &postgres::Error, parameters: &Parameters) -> Error {
    let place = place(parameters);
    let Some(answer) = error.as_db_error() else {
        let cause = error.source().map_or_else(|| error.to_string(), ToString::to_string);
        let failed = Error::new(format!("could not connect to {place}: {cause}"));
        return if cause.contains("password missing") {
            failed.hint("set PGPASSWORD, or add a line to ~/.pgpass")
        } else if cause.contains("refused") || cause.contains("No such file") {
            failed.hint("is PostgreSQL running there, and does it accept connections there? name the server as in psql: --server \"host=... port=...\"")
        } else {
            failed
        };
    };
    let failed = Error::new(format!("could not connect to {place}: {}", answer.message()));
    let failed = match answer.hint() {
        Some(hint) => failed.hint(hint),
        None => failed,
    };
    match *answer.code() {
        SqlState::INVALID_PASSWORD => failed.hint("set PGPASSWORD, or add a line to ~/.pgpass"),
        _ => failed,
    }
}

/// `server at "db.example", port 5432, database "shop", user "bob"`
pub(super) fn place(parameters: &Parameters) -> String {
    let get = |name| parameters.get(name).unwrap_or_default();
    let host = parameters
        .get("host")
        .or(parameters.get("hostaddr"))
        .unwrap_or_default();
    format!(
        "server at \"{host}\", port {}, database \"{}\", user \"{}\"",
        get("port"),
        get("dbname"),
        get("user")
    )
}

pub(super) fn config(parameters: &Parameters) -> Result<Config, String> {
    let mut config = Config::new();
    let get = |name| parameters.get(name);
    if let Some(user) = get("user") {
        config.user(user);
    }
    if let Some(password) = get("password") {
        config.password(password);
    }
    if let Some(database) = get("dbname") {
        config.dbname(database);
    }
    if let Some(options) = get("options") {
        config.options(options);
    }
    if let Some(name) = get("application_name").or(get("fallback_application_name")) {
        config.application_name(name);
    }
    set_hosts(&mut config, parameters)?;
    set_modes(&mut config, parameters)?;
    set_times(&mut config, parameters)?;
    if get("gssencmode") == Some("require") {
        return Err("gssencmode=require is not possible here: GSSAPI encryption is not supported".to_owned());
    }
    Ok(config)
}

/// Where to, each of several hosts with its address and port.
fn set_hosts(config: &mut Config, parameters: &Parameters) -> Result<(), String> {
    let get = |name| parameters.get(name);
    for host in get("host").into_iter().flat_map(|hosts| hosts.split(',')) {
        config.host(if host.is_empty() { "localhost" } else { host });
    }
    for address in get("hostaddr").into_iter().flat_map(|list| list.split(',')) {
        config.hostaddr(
            address
                .parse()
                .map_err(|_| format!("could not parse network address \"{address}\""))?,
        );
    }
    for port in get("port").into_iter().flat_map(|list| list.split(',')) {
        let port = if port.is_empty() { "5432" } else { port };
        config.port(port.parse().map_err(|_| format!("invalid port number: \"{port}\""))?);
    }
    if get("load_balance_hosts") == Some("random") {
        config.load_balance_hosts(LoadBalanceHosts::Random);
    }
    Ok(())
}

/// TLS, channel binding, and what the server must be.
fn set_modes(config: &mut Config, parameters: &Parameters) -> Result<(), String> {
    let get = |name| parameters.get(name);
    config.ssl_mode(match get("sslmode") {
        Some("disable" | "allow") => SslMode::Disable,
        None | Some("prefer") => SslMode::Prefer,
        Some("require" | "verify-ca" | "verify-full") => SslMode::Require,
        Some(other) => return Err(format!("invalid sslmode value: \"{other}\"")),
    });
    config.ssl_negotiation(match get("sslnegotiation") {
        Some("direct") => SslNegotiation::Direct,
        _ => SslNegotiation::Postgres,
    });
    config.channel_binding(match get("channel_binding") {
        Some("disable") => ChannelBinding::Disable,
        Some("require") => ChannelBinding::Require,
        _ => ChannelBinding::Prefer,
    });
    config.target_session_attrs(match get("target_session_attrs") {
        None | Some("any" | "prefer-standby") => TargetSessionAttrs::Any,
        Some("read-write" | "primary") => TargetSessionAttrs::ReadWrite,
        Some("read-only" | "standby") => TargetSessionAttrs::ReadOnly,
        Some(other) => return Err(format!("invalid target_session_attrs value: \"{other}\"")),
    });
    Ok(())
}

fn set_times(config: &mut Config, parameters: &Parameters) -> Result<(), String> {
    let seconds = |name: &str| -> Result<Option<u64>, String> {
        parameters
            .get(name)
            .map(|text| {
                text.parse::<i64>()
                    .map_err(|_| format!("invalid integer value \"{text}\" for connection option \"{name}\""))
            })
            .transpose()
            .map(|n| n.and_then(|n| u64::try_from(n).ok()).filter(|n| *n > 0))
    };
    if let Some(time) = seconds("connect_timeout")? {
        // libpq waits at least two seconds.
        config.connect_timeout(Duration::from_secs(time.max(2)));
    }
    if let Some(time) = seconds("tcp_user_timeout")? {
        config.tcp_user_timeout(Duration::from_millis(time));
    }
    config.keepalives(parameters.get("keepalives") != Some("0"));
    if let Some(time) = seconds("keepalives_idle")? {
        config.keepalives_idle(Duration::from_secs(time));
    }
    Ok(())
}
