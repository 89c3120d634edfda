//! The first packet of a client connection.

use crate::base::address::Address;
use crate::base::errors::Trouble;
use crate::base::pool_id::PoolKind;
use crate::base::settings::Settings;
use crate::login::options::options;
use crate::login::rejection::Rejection;
use crate::login::spelling::boolean;
use crate::state::beyond_ascii::text_of;
use crate::state::shape::SETTINGS_MAX;
use pgweir_wire::startup::StartupError;
use pgweir_wire::{CancelKey, ProtocolVersion, StartupPacket};
use std::borrow::Cow;

/// The longest name of a user, bytes, as in PgBouncer. PostgreSQL cuts names at 63.
const USER_BYTES_MAX: usize = 127;

/// The longest name of a database, bytes.
const DATABASE_BYTES_MAX: usize = 1024;

/// The first byte of a TLS handshake: the content type of its record. Startup packets begin with a length, whose first
/// byte is 0.
const TLS_HANDSHAKE: u8 = 0x16;

/// What a connection begins with.
#[derive(Debug)]
pub(crate) enum FirstPacket<'a> {
    /// More bytes must arrive.
    NeedBytes,
    /// SSLRequest of this many bytes.
    Ssl(usize),
    /// GSSENCRequest of this many bytes. The answer is no; another first packet follows.
    GssEncryption(usize),
    /// The client begins a TLS handshake without an SSLRequest (`sslnegotiation=direct`).
    DirectTls,
    /// CancelRequest.
    Cancel(CancelKey),
    /// StartupMessage of this many bytes.
    Startup {
        bytes: usize,
        version: ProtocolVersion,
        parameters: Vec<(&'a [u8], &'a [u8])>,
    },
    /// The connection gets an error and is closed.
    Rejected(Rejection),
}

/// The requests for encryption that a connection has sent. PostgreSQL answers one of each kind.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, pgweir_freeze::Freeze)]
pub(crate) struct EncryptionRequests {
    tls: bool,
    gss: bool,
}

impl EncryptionRequests {
    /// A request has come. Returns whether it is the first one of its kind.
    pub(crate) fn comes(&mut self, is_tls: bool) -> bool {
        let asked = if is_tls { &mut self.tls } else { &mut self.gss };
        !std::mem::replace(asked, true)
    }
}

impl<'a> FirstPacket<'a> {
    /// Reads the first packet from the bytes that have arrived.
    pub(crate) fn read(input: &'a [u8]) -> Self {
        Self::try_read(input).unwrap_or_else(|error| match error {
            StartupError::Version { .. } => {
                FirstPacket::Rejected(Rejection::new(Trouble::UnsupportedVersion, error.to_string(), ""))
            }
            StartupError::Length { .. } => {
                let length = input.first_chunk::<4>().map_or(input, |length| length);
                FirstPacket::Rejected(match length {
                    [b'p', ..] => Rejection::password_first(error.to_string()),
                    _ => Rejection::bad_header(length, error.to_string()),
                })
            }
            StartupError::Layout(_) => FirstPacket::Rejected(Rejection::bad_layout(input, error.to_string())),
        })
    }

    fn try_read(input: &'a [u8]) -> Result<Self, StartupError> {
        if input.first() == Some(&TLS_HANDSHAKE) {
            return Ok(FirstPacket::DirectTls);
        }
        let bytes = match StartupPacket::packet_bytes(input)? {
            Some(bytes) if bytes <= input.len() => bytes,
            _ => return Ok(FirstPacket::NeedBytes),
        };
        Ok(match StartupPacket::read(&input[..bytes])? {
            packet @ (StartupPacket::SslRequest | StartupPacket::GssEncRequest) if input.len() > bytes => {
                let is_tls = matches!(packet, StartupPacket::SslRequest);
                FirstPacket::Rejected(Rejection::bytes_before_encryption(is_tls))
            }
            StartupPacket::SslRequest => FirstPacket::Ssl(bytes),
            StartupPacket::GssEncRequest => FirstPacket::GssEncryption(bytes),
            StartupPacket::Cancel(key) => FirstPacket::Cancel(key),
            StartupPacket::Startup { version, parameters } => FirstPacket::Startup {
                bytes,
                version,
                parameters,
            },
        })
    }
}

/// The contents of NegotiateProtocolVersion, if the client asks for more than is supported: the newest version that
/// suits it, and the protocol options that are not known.
pub(crate) fn negotiation<'a>(
    version: ProtocolVersion,
    parameters: &[(&'a [u8], &'a [u8])],
) -> Option<(u32, Vec<&'a [u8]>)> {
    let names = parameters.iter().map(|(name, _)| *name);
    let unknown: Vec<&[u8]> = names.filter(|name| name.starts_with(b"_pq_.")).collect();
    let is_due = version > ProtocolVersion::V3_2 || !unknown.is_empty();
    is_due.then(|| (version.min(ProtocolVersion::V3_2).0, unknown))
}

/// What a startup packet asks for.
#[derive(Debug, pgweir_freeze::Freeze)]
pub(crate) struct Wishes {
    pub(crate) user: String,
    pub(crate) database: String,
    /// Settings in the order of the packet, those of `options` included.
    pub(crate) settings: Vec<(String, String)>,
    /// The kind of pool that the client needs: `replication=...` has a separate kind.
    pub(crate) kind: PoolKind,
}

/// Whether PgBouncer keeps this setting of a client's for the session. If ignore_startup_parameters names `options`, it
/// ignores the others there.
fn pgbouncer_keeps(name: &str) -> bool {
    let kept = [
        "application_name",
        "client_encoding",
        "DateStyle",
        "IntervalStyle",
        "search_path",
        "standard_conforming_strings",
        "TimeZone",
    ];
    kept.iter().any(|kept| kept.eq_ignore_ascii_case(name))
}

impl Wishes {
    /// Reads the parameters of a client at `peer`; `host` is the name of this machine.
    pub(crate) fn read(
        parameters: &[(&[u8], &[u8])],
        rules: &Settings,
        peer: Address,
        host: &str,
    ) -> Result<Self, Rejection> {
        let is_ignored = |name: &str| {
            let mut ignored = rules.ignore_startup_parameters.iter();
            ignored.any(|i| i.eq_ignore_ascii_case(name))
        };
        let mut wishes = Wishes {
            user: String::new(),
            database: String::new(),
            settings: Vec::new(),
            kind: PoolKind::Clients,
        };
        let mut by_options = Vec::new();
        for (name, value) in parameters {
            let (name, value) = (text(name)?, text(value)?);
            match &*name {
                "user" => wishes.user = value,
                "database" => wishes.database = value,
                "replication" => wishes.kind = replication(&value)?,
                "options" => {
                    by_options = options(&value)?;
                    by_options
                        .retain(|(name, _)| !is_ignored(name) && (!is_ignored("options") || pgbouncer_keeps(name)));
                }
                // PgBouncer keeps it even if the list names it.
                "application_name" => wishes.settings.push((name, value)),
                _ if name.starts_with("_pq_.") || is_ignored(&name) => {}
                _ => wishes.settings.push((name, value)),
            }
        }
        // A setting of the packet counts more than the same one in `options`, wherever it stands.
        wishes.settings.splice(..0, by_options);
        refuse_keywords(&wishes.settings)?;
        // PostgreSQL ignores the setting `seed` in a startup packet. The pooler would set it later, and so seed
        // random().
        wishes
            .settings
            .retain(|(name, _)| !name.as_bytes().eq_ignore_ascii_case(pgweir_sql::SEED));
        wishes.complete()?;
        if rules.application_name_add_host {
            wishes.add_host(&peer.with_host(host));
        }
        Ok(wishes)
    }

    /// Fills in the database (by default the user's name), and refuses names that are too long.
    fn complete(&mut self) -> Result<(), Rejection> {
        if self.user.is_empty() {
            let message = "no username supplied: no PostgreSQL user name specified in startup packet";
            return Err(Rejection::new(Trouble::NotAllowed, message, ""));
        }
        if self.database.is_empty() {
            self.database.clone_from(&self.user);
        }
        if self.user.len() > USER_BYTES_MAX {
            return Err(Rejection::too_long_user(USER_BYTES_MAX));
        }
        if self.database.len() > DATABASE_BYTES_MAX {
            let message = format!("database name is too long: expected at most {DATABASE_BYTES_MAX} bytes");
            return Err(Rejection::protocol(message));
        }
        if self.settings.len() > SETTINGS_MAX {
            let message = format!("too many startup parameters: expected at most {SETTINGS_MAX}");
            return Err(Rejection::protocol(message));
        }
        Ok(())
    }

    /// `application_name_add_host`: appends the client's address to its application name, which is the last one.
    fn add_host(&mut self, peer: &str) {
        let mut settings = self.settings.iter_mut().rev();
        match settings.find(|(n, _)| n.eq_ignore_ascii_case("application_name")) {
            Some((_, name)) => *name = format!("{name} - {peer}"),
            None => {
                let name = format!("app - {peer}");
                self.settings.push(("application_name".into(), name));
            }
        }
    }

    /// Whether the client asks for a walsender without a database.
    pub(crate) fn is_physical_replication(&self) -> bool {
        self.kind == PoolKind::Replication { physical: true }
    }

    /// The log's word for `replication`.
    pub(crate) fn replication_word(&self) -> &'static str {
        match self.kind {
            PoolKind::Replication { physical: true } => "yes",
            PoolKind::Replication { physical: false } => "database",
            PoolKind::Clients | PoolKind::AuthQuery | PoolKind::Listener => "no",
        }
    }
}

/// Refuses settings with names of keywords of the packet, as PostgreSQL does: it knows no such settings. In the startup
/// packet of a server they would choose the user and the database.
fn refuse_keywords(settings: &[(String, String)]) -> Result<(), Rejection> {
    let mut names = settings.iter().map(|(name, _)| name);
    match names.find(|name| StartupPacket::is_keyword(name.as_bytes())) {
        Some(name) => Err(Rejection::no_such_setting(name)),
        None => Ok(()),
    }
}

fn text(bytes: &[u8]) -> Result<String, Rejection> {
    match text_of(bytes) {
        Some(Cow::Borrowed(text)) => Ok(text.into()),
        _ => Err(Rejection::protocol("invalid startup parameter: expected UTF-8")),
    }
}

/// The value of `replication`, which PostgreSQL reads as a boolean or the word `database`.
fn replication(value: &str) -> Result<PoolKind, Rejection> {
    match boolean(value) {
        Some(true) => Ok(PoolKind::Replication { physical: true }),
        Some(false) => Ok(PoolKind::Clients),
        None if value == "database" => Ok(PoolKind::Replication { physical: false }),
        None => Err(Rejection::bad_parameter(format!(
            "invalid value for parameter \"replication\": \"{value}\""
        ))),
    }
}

#[cfg(test)]
#[path = "startup_tests.rs"]
mod tests;
