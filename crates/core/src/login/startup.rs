//! The first packet of a client connection.

use crate::base::errors::Trouble;
use crate::base::ids::ClientId;
use crate::base::request::{Address, LogLevel};
use crate::base::time::Time;
use crate::client::ClientPhase;
use crate::login::client_login::Login;
use crate::login::process_ids::{SECRET_BYTES_V3_0, SECRET_BYTES_V3_2};
use crate::pooler::Pooler;
use crate::state::shape::SETTINGS_MAX;
use pgweir_config::CONSOLE_DATABASE;
use pgweir_wire::startup::StartupError;
use pgweir_wire::{ProtocolVersion, StartupPacket};

/// The longest database and user name, bytes; PostgreSQL cuts them at 63.
const NAME_BYTES_MAX: usize = 1024;

/// What a startup packet asks for.
#[derive(Debug, Default)]
pub(crate) struct Wishes {
    pub(crate) user: String,
    pub(crate) database: String,
    /// Settings in the order they came, those of `options` included.
    pub(crate) settings: Vec<(String, String)>,
    /// `replication=...`: physical or not.
    pub(crate) replication: Option<bool>,
}

impl Pooler {
    pub(crate) fn startup_bytes(&mut self, now: Time, id: ClientId, input: &[u8]) -> usize {
        let bytes = match StartupPacket::packet_bytes(input) {
            Ok(Some(bytes)) if bytes <= input.len() => bytes,
            Ok(_) => return 0,
            Err(error) => {
                self.refuse_startup(now, id, &error);
                return input.len();
            }
        };
        match StartupPacket::read(&input[..bytes]) {
            Ok(StartupPacket::SslRequest | StartupPacket::GssEncRequest) => {
                if input.len() > bytes {
                    // Somebody between us and the client put words in its mouth (CVE-2021-23214 and its kin).
                    let message = "received unencrypted data after an encryption request";
                    let hint = "This could be either a client-software bug or evidence of an attempted man-in-the-middle attack.";
                    self.fail_client(now, id, Trouble::BytesBeforeEncryption, message, "", hint);
                    return input.len();
                }
                self.shared.outbox.insert(id.into(), |to| to.push(b'N'));
                bytes
            }
            Ok(StartupPacket::Cancel(key)) => {
                self.cancel_request(now, id, &key);
                input.len()
            }
            Ok(StartupPacket::Startup { version, parameters }) => {
                self.startup(now, id, version, &parameters);
                if bytes < input.len() {
                    self.shared
                        .requests
                        .push_back(crate::base::request::Request::Resume(id.into()));
                }
                bytes
            }
            Err(error) => {
                self.refuse_startup(now, id, &error);
                input.len()
            }
        }
    }

    fn refuse_startup(&mut self, now: Time, id: ClientId, error: &StartupError) {
        match error {
            StartupError::Version { .. } => {
                self.fail_client(now, id, Trouble::UnsupportedVersion, &error.to_string(), "", "");
            }
            // Not PostgreSQL's protocol at all: say nothing, as PostgreSQL does.
            StartupError::Length { .. } => self.close_client(now, id, "bad packet header"),
            StartupError::Layout(_) => {
                self.fail_client(now, id, Trouble::ProtocolViolation, &error.to_string(), "", "")
            }
        }
    }

    fn startup(&mut self, now: Time, id: ClientId, version: ProtocolVersion, parameters: &[(&[u8], &[u8])]) {
        let unknown: Vec<&[u8]> = parameters
            .iter()
            .map(|(n, _)| *n)
            .filter(|n| n.starts_with(b"_pq_."))
            .collect();
        if version > ProtocolVersion::V3_2 || !unknown.is_empty() {
            let newest = version.min(ProtocolVersion::V3_2).0;
            self.send(id, |w| w.negotiate_protocol_version(newest, &unknown));
        }
        let client = self.client_mut(id);
        client.cancel_key_bytes = if version >= ProtocolVersion::V3_2 {
            SECRET_BYTES_V3_2
        } else {
            SECRET_BYTES_V3_0
        };
        let wishes = match self.read_wishes(id, parameters) {
            Ok(wishes) => wishes,
            Err((trouble, message)) => return self.fail_client(now, id, trouble, &message, "", ""),
        };
        let console = wishes.database == CONSOLE_DATABASE;
        if self.shared.settings.log_connections {
            let replication = match wishes.replication {
                None => "no",
                Some(true) => "yes",
                Some(false) => "database",
            };
            let label = format!(
                "{id}: {}/{}@{}",
                "(nodb)",
                "(nouser)",
                self.client_mut(id).accepted.peer
            );
            let (database, user) = (&wishes.database, &wishes.user);
            self.log(
                LogLevel::Log,
                format!("{label} login attempt: db={database} user={user} tls=no replication={replication}"),
            );
        }
        if self.admin.refuses_logins() && !console {
            return self.fail_client(
                now,
                id,
                Trouble::ShuttingDown,
                "the pooler is shutting down",
                "",
                "Try again in a moment.",
            );
        }
        if self.client_count >= self.shared.settings.max_client_conn && !console {
            let message = "no more connections allowed (max_client_conn)";
            let detail = format!("max_client_conn is {}", self.shared.settings.max_client_conn);
            return self.fail_client(
                now,
                id,
                Trouble::TooManyClients,
                message,
                &detail,
                "Close idle clients, or raise max_client_conn.",
            );
        }
        let login = Login::new(wishes, version);
        self.client_mut(id).phase = ClientPhase::Login(Box::new(login));
        self.begin_authentication(now, id);
    }

    fn read_wishes(&mut self, id: ClientId, parameters: &[(&[u8], &[u8])]) -> Result<Wishes, (Trouble, String)> {
        let mut wishes = Wishes::default();
        for (name, value) in parameters {
            let text = |bytes: &[u8]| match std::str::from_utf8(bytes) {
                Ok(text) => Ok(text.to_string()),
                Err(_) => Err((
                    Trouble::ProtocolViolation,
                    "invalid startup parameter: expected UTF-8".to_string(),
                )),
            };
            let (name, value) = (text(name)?, text(value)?);
            match &*name {
                "user" => wishes.user = value,
                "database" => wishes.database = value,
                "replication" => wishes.replication = replication(&value)?,
                "options" if self.ignores("options") => {}
                "options" => wishes.settings.extend(options(&value)?),
                _ if name.starts_with("_pq_.") || self.ignores(&name) => {}
                _ => wishes.settings.push((name, value)),
            }
        }
        if wishes.user.is_empty() {
            let message = "no PostgreSQL user name specified in startup packet";
            return Err((Trouble::NotAllowed, message.into()));
        }
        if wishes.database.is_empty() {
            wishes.database.clone_from(&wishes.user);
        }
        for (what, name) in [("user", &wishes.user), ("database", &wishes.database)] {
            if name.len() > NAME_BYTES_MAX {
                return Err((
                    Trouble::ProtocolViolation,
                    format!("{what} name is too long: expected at most {NAME_BYTES_MAX} bytes"),
                ));
            }
        }
        if wishes.settings.len() > SETTINGS_MAX {
            return Err((
                Trouble::ProtocolViolation,
                format!("too many startup parameters: expected at most {SETTINGS_MAX}"),
            ));
        }
        if self.shared.settings.application_name_add_host {
            self.add_host(id, &mut wishes);
        }
        Ok(wishes)
    }

    fn ignores(&self, name: &str) -> bool {
        self.shared
            .settings
            .ignore_startup_parameters
            .iter()
            .any(|i| i.eq_ignore_ascii_case(name))
    }

    /// `application_name_add_host`: who it is, behind what it calls itself.
    fn add_host(&mut self, id: ClientId, wishes: &mut Wishes) {
        let peer = match self.client_mut(id).accepted.peer {
            Address::Tcp(a) => a.to_string(),
            Address::Unix { port } => format!("unix:{port}"),
        };
        match wishes
            .settings
            .iter_mut()
            .find(|(n, _)| n.eq_ignore_ascii_case("application_name"))
        {
            Some((_, name)) => *name = format!("{name} - {peer}"),
            None => wishes
                .settings
                .push(("application_name".into(), format!("app - {peer}"))),
        }
    }
}

/// The value of `replication`, which PostgreSQL reads as a boolean or the word `database`.
fn replication(value: &str) -> Result<Option<bool>, (Trouble, String)> {
    match &*value.to_ascii_lowercase() {
        "database" => Ok(Some(false)),
        "true" | "on" | "yes" | "1" | "t" | "y" => Ok(Some(true)),
        "false" | "off" | "no" | "0" | "f" | "n" => Ok(None),
        _ => Err((
            Trouble::BadStartupParameter,
            format!("invalid value for parameter \"replication\": \"{value}\""),
        )),
    }
}

/// Settings in `options`, as postgres(1) takes them: `-c name=value`, `-cname=value`, `--name=value`; a backslash keeps
/// the character behind it.
fn options(text: &str) -> Result<Vec<(String, String)>, (Trouble, String)> {
    let mut words: Vec<String> = Vec::new();
    let mut word: Option<String> = None;
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        match c {
            '\\' => word.get_or_insert_default().extend(characters.next()),
            c if c.is_ascii_whitespace() => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    let mut settings = Vec::new();
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let assignment = match word.strip_prefix("--").or_else(|| word.strip_prefix("-c")) {
            Some("") => words.next().unwrap_or_default(),
            Some(assignment) => assignment.to_string(),
            None => {
                let message = format!("unsupported startup parameter in options: {word}");
                return Err((Trouble::BadStartupParameter, message));
            }
        };
        match assignment.split_once('=') {
            Some((name, value)) if !name.is_empty() => settings.push((name.replace('-', "_"), value.to_string())),
            _ => {
                let message = format!("invalid option: expected name=value, got \"{assignment}\"");
                return Err((Trouble::BadStartupParameter, message));
            }
        }
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_as_postgres_reads_them() {
        let read = |text: &str| {
            let pairs = options(text).unwrap();
            pairs.into_iter().map(|(n, v)| format!("{n}={v}")).collect::<Vec<_>>()
        };
        assert_eq!(
            read("-c work_mem=1MB -cjit=off --search-path=a,b"),
            ["work_mem=1MB", "jit=off", "search_path=a,b"]
        );
        assert_eq!(
            read(r"-c search_path=a\ b -c x.y=a\\b"),
            ["search_path=a b", r"x.y=a\b"]
        );
        assert!(read("  ").is_empty());
        assert!(options("-d 5").is_err() && options("-c work_mem").is_err() && options("-c").is_err());
    }

    #[test]
    fn replication_takes_booleans_and_database() {
        assert_eq!(replication("database"), Ok(Some(false)));
        assert_eq!(replication("TRUE"), Ok(Some(true)));
        assert_eq!(replication("off"), Ok(None));
        assert!(replication("maybe").is_err());
    }
}
