//! The start of a connection.

use super::defaults;
use super::error::ServerError;
use super::session::{Phase, Session};
use pgweir_wire::{ProtocolVersion, StartupPacket};

/// Databases and users whose names begin so do not exist; all others do.
const MISSING_PREFIX: &str = "nosuch";

/// The newest protocol version of the modelled version.
fn newest(major: u32) -> ProtocolVersion {
    if major >= 18 {
        ProtocolVersion::V3_2
    } else {
        ProtocolVersion::V3_0
    }
}

impl Session {
    /// The same, if `is` holds, of a user that is no superuser.
    pub fn of_common_user(mut self, is: bool) -> Self {
        if is {
            self.settings.is_of_common_user();
        }
        self
    }

    /// From now on this is its process id.
    pub fn has_process_id(&mut self, process_id: u32) {
        self.key.process_id = process_id;
    }

    /// Reads one startup packet from the front of `bytes`; `None` if it is incomplete.
    pub(super) fn startup(&mut self, bytes: &[u8]) -> Option<usize> {
        let length = match StartupPacket::packet_bytes(bytes) {
            Ok(Some(length)) if length <= bytes.len() => length,
            Ok(_) => return None,
            Err(_) => {
                // Logged only: "invalid length of startup packet".
                self.phase = Phase::Closed;
                return Some(bytes.len());
            }
        };
        match StartupPacket::read(&bytes[..length]) {
            Ok(StartupPacket::SslRequest | StartupPacket::GssEncRequest) => {
                self.out.write_byte(b'N');
                self.out.flush();
            }
            Ok(StartupPacket::Cancel(_)) => self.phase = Phase::Closed,
            Ok(StartupPacket::Startup { version, parameters }) => {
                if let Err(e) = self.log_in(version, &parameters) {
                    self.fatal(&e);
                }
            }
            Err(e) => self.fatal(&ServerError::fatal("08P01", e.to_string())),
        }
        Some(length)
    }

    fn log_in(&mut self, version: ProtocolVersion, parameters: &[(&[u8], &[u8])]) -> Result<(), ServerError> {
        let fatal = |e: ServerError| ServerError { severity: "FATAL", ..e };
        let newest = newest(self.version.major());
        let options: Vec<&[u8]> = parameters
            .iter()
            .map(|(name, _)| *name)
            .filter(|name| name.starts_with(b"_pq_."))
            .collect();
        if version > newest || !options.is_empty() {
            self.out
                .write(|w| w.negotiate_protocol_version(newest.min(version).0, &options));
        }
        let mut user = String::new();
        let mut database = None;
        let mut settings = Vec::new();
        for (name, value) in parameters {
            let (name, value) = (
                String::from_utf8_lossy(name),
                String::from_utf8_lossy(value).into_owned(),
            );
            match name.as_ref() {
                "user" => user = value,
                "database" => database = Some(value),
                "replication" => {}
                "options" => {
                    let words: Vec<&str> = value.split_ascii_whitespace().collect();
                    for pair in words.iter().filter_map(|w| w.strip_prefix("-c").or(Some(*w))) {
                        if let Some((name, value)) = pair.split_once('=') {
                            settings.push((name.to_string(), value.to_string()));
                        }
                    }
                }
                name if name.starts_with("_pq_.") => {}
                name => settings.push((name.to_string(), value)),
            }
        }
        if user.is_empty() {
            return Err(ServerError::fatal(
                "28000",
                "no PostgreSQL user name specified in startup packet",
            ));
        }
        self.out.write(|w| w.authentication(&0u32.to_be_bytes()));
        if user.starts_with(MISSING_PREFIX) {
            return Err(ServerError::fatal("28000", format!("role \"{user}\" does not exist")));
        }
        let database = database.unwrap_or_else(|| user.clone());
        if database.starts_with(MISSING_PREFIX) {
            return Err(ServerError::fatal(
                "3D000",
                format!("database \"{database}\" does not exist"),
            ));
        }
        self.settings.set_user(&user);
        (self.user, self.database) = (user, database);
        for (name, value) in &settings {
            self.settings.set_at_startup(name, value).map_err(fatal)?;
        }
        // Database and role defaults come later, and the packet takes precedence. So `DateStyle=ISO` in a startup
        // packet does not keep their order of day and month.
        let is_named = |name: &str| settings.iter().any(|(n, _)| n.eq_ignore_ascii_case(name));
        let defaults = defaults::for_session(&self.defaults, &self.user, &self.database);
        for (name, value) in defaults.filter(|(name, _)| !is_named(name)) {
            self.settings.set_at_startup(name, value).map_err(fatal)?;
        }
        self.tell_settings();
        let key = self.key.clone();
        self.out.write(|w| w.backend_key_data(key.process_id, &key.secret));
        self.phase = Phase::Ready;
        self.tell_ready();
        Ok(())
    }
}
