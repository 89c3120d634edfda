//! The first packet of a client connection.

use crate::base::errors::Trouble;
use crate::base::pool_id::PoolKind;
use crate::base::request::Address;
use crate::base::settings::Settings;
use crate::login::rejection::Rejection;
use crate::login::spelling::boolean;
use crate::state::beyond_ascii::text_of;
use crate::state::shape::SETTINGS_MAX;
use pgweir_wire::startup::StartupError;
use pgweir_wire::{CancelKey, ProtocolVersion, StartupPacket};
use std::borrow::Cow;

/// The longest database and user name, bytes; PostgreSQL cuts them at 63.
const NAME_BYTES_MAX: usize = 1024;

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
    /// Not PostgreSQL's protocol at all: the connection is closed without a word, as PostgreSQL does.
    Foreign,
}

impl<'a> FirstPacket<'a> {
    /// Reads the first packet from the bytes that have arrived.
    pub(crate) fn read(input: &'a [u8]) -> Self {
        Self::try_read(input).unwrap_or_else(|error| match error {
            StartupError::Version { .. } => {
                FirstPacket::Rejected(Rejection::new(Trouble::UnsupportedVersion, error.to_string(), ""))
            }
            StartupError::Length { .. } => FirstPacket::Foreign,
            StartupError::Layout(_) => FirstPacket::Rejected(Rejection::protocol(error.to_string())),
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
            StartupPacket::SslRequest | StartupPacket::GssEncRequest if input.len() > bytes => {
                FirstPacket::Rejected(Rejection::bytes_before_encryption())
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

impl Wishes {
    /// Reads the parameters of a client at `peer`.
    pub(crate) fn read(parameters: &[(&[u8], &[u8])], rules: &Settings, peer: Address) -> Result<Self, Rejection> {
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
                "options" if is_ignored("options") => {}
                "options" => by_options = options(&value)?,
                _ if name.starts_with("_pq_.") || is_ignored(&name) => {}
                _ => wishes.settings.push((name, value)),
            }
        }
        // A setting of the packet counts more than the same one in `options`, wherever it stands.
        wishes.settings.splice(..0, by_options);
        refuse_keywords(&wishes.settings)?;
        // PostgreSQL ignores a seed that comes with the startup packet. The pooler would set it later, and that seeds.
        wishes
            .settings
            .retain(|(name, _)| !name.as_bytes().eq_ignore_ascii_case(pgweir_sql::SEED));
        wishes.complete()?;
        if rules.application_name_add_host {
            wishes.add_host(peer);
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
        for (what, name) in [("user", &self.user), ("database", &self.database)] {
            if name.len() > NAME_BYTES_MAX {
                let message = format!("{what} name is too long: expected at most {NAME_BYTES_MAX} bytes");
                return Err(Rejection::protocol(message));
            }
        }
        if self.settings.len() > SETTINGS_MAX {
            let message = format!("too many startup parameters: expected at most {SETTINGS_MAX}");
            return Err(Rejection::protocol(message));
        }
        Ok(())
    }

    /// `application_name_add_host`: appends the client's address to its application name, which is the last one.
    fn add_host(&mut self, peer: Address) {
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

fn bad_parameter(message: String) -> Rejection {
    Rejection::new(Trouble::BadStartupParameter, message, "")
}

/// The value of `replication`, which PostgreSQL reads as a boolean or the word `database`.
fn replication(value: &str) -> Result<PoolKind, Rejection> {
    match boolean(value) {
        Some(true) => Ok(PoolKind::Replication { physical: true }),
        Some(false) => Ok(PoolKind::Clients),
        None if value == "database" => Ok(PoolKind::Replication { physical: false }),
        None => Err(bad_parameter(format!(
            "invalid value for parameter \"replication\": \"{value}\""
        ))),
    }
}

/// Settings in `options`, as postgres(1) reads them: `-c name=value`, `-cname=value`, `--name=value`; a backslash keeps
/// the character behind it.
fn options(text: &str) -> Result<Vec<(String, String)>, Rejection> {
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
                let message =
                    "unsupported options startup parameter: only '-c config=val' and '--config=val' are allowed";
                let text = format!("{message}, got \"{word}\"");
                return Err(bad_parameter(text));
            }
        };
        match assignment.split_once('=') {
            Some((name, value)) if !name.is_empty() => settings.push((name.replace('-', "_"), value.to_string())),
            _ => {
                let message = format!("invalid option: expected name=value, got \"{assignment}\"");
                return Err(bad_parameter(message));
            }
        }
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A packet with this code, and its length before it.
    fn packet(code: u32, rest: &[u8]) -> Vec<u8> {
        let mut packet = (rest.len() as u32 + 8).to_be_bytes().to_vec();
        packet.extend_from_slice(&code.to_be_bytes());
        packet.extend_from_slice(rest);
        packet
    }

    const SSL_REQUEST: u32 = 1234 << 16 | 5679;

    #[test]
    fn a_first_packet_is_read_when_it_is_whole() {
        let whole = packet(ProtocolVersion::V3_0.0, b"user\0u\0\0");
        for cut in 0..whole.len() {
            assert!(
                matches!(FirstPacket::read(&whole[..cut]), FirstPacket::NeedBytes),
                "{cut}"
            );
        }
        let mut more = whole.clone();
        more.extend_from_slice(b"more");
        let FirstPacket::Startup { bytes, parameters, .. } = FirstPacket::read(&more) else {
            panic!("no startup packet");
        };
        assert_eq!(
            (bytes, &parameters[..]),
            (whole.len(), &[(&b"user"[..], &b"u"[..])][..])
        );
    }

    #[test]
    fn nothing_may_follow_a_request_for_encryption() {
        let mut request = packet(SSL_REQUEST, b"");
        assert!(matches!(FirstPacket::read(&request), FirstPacket::Ssl(8)));
        request.push(0);
        let FirstPacket::Rejected(why) = FirstPacket::read(&request) else {
            panic!("bytes of somebody else are taken");
        };
        assert_eq!(why.trouble, Trouble::BytesBeforeEncryption);
    }

    #[test]
    fn what_is_no_startup_packet_hears_nothing_and_another_version_why() {
        assert!(matches!(FirstPacket::read(b"GET / HTTP/1.0"), FirstPacket::Foreign));
        let FirstPacket::Rejected(why) = FirstPacket::read(&packet(2 << 16, b"\0")) else {
            panic!("protocol 2.0 is taken");
        };
        assert_eq!(why.trouble, Trouble::UnsupportedVersion);
    }

    #[test]
    fn a_newer_version_or_option_is_negotiated() {
        let none: [(&[u8], &[u8]); 0] = [];
        assert_eq!(negotiation(ProtocolVersion::V3_2, &none), None);
        let newer = ProtocolVersion(ProtocolVersion::V3_2.0 + 1);
        assert_eq!(negotiation(newer, &none), Some((ProtocolVersion::V3_2.0, vec![])));
        let option: [(&[u8], &[u8]); 1] = [(b"_pq_.x", b"1")];
        let expected = Some((ProtocolVersion::V3_0.0, vec![&b"_pq_.x"[..]]));
        assert_eq!(negotiation(ProtocolVersion::V3_0, &option), expected);
    }

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

    fn wishes(parameters: &[(&str, &str)]) -> Result<Wishes, Rejection> {
        let parameters: Vec<(&[u8], &[u8])> = parameters.iter().map(|(n, v)| (n.as_bytes(), v.as_bytes())).collect();
        let ini =
            "[databases]\ndb = host=h\n[pgbouncer]\nauth_type = any\nlisten_addr = *\napplication_name_add_host = 1\n";
        let files = |_: &str| -> std::io::Result<Vec<u8>> { Ok(ini.into()) };
        let settings = Settings::new(&pgweir_config::load("test.ini", &files).unwrap().config);
        Wishes::read(&parameters, &settings, Address::Unix { port: 1 })
    }

    /// PostgreSQL: FATAL 42704 unrecognized configuration parameter "user".
    #[test]
    fn a_setting_cannot_have_the_name_of_a_keyword() {
        for replication in ["database", "true", "false"] {
            for options in [
                "-c user=postgres",
                "--database=secret",
                "-cUSER=postgres",
                "-c replication=true",
                "-c options=--user=postgres",
                "-c _pq_.x=1",
                "-c -pq-.x=1",
            ] {
                let refused = wishes(&[("user", "u"), ("replication", replication), ("options", options)]).unwrap_err();
                assert_eq!(refused.trouble, Trouble::NoSuchSetting, "{options}");
            }
            let refused = wishes(&[("user", "u"), ("User", "postgres")]).unwrap_err();
            assert_eq!(refused.message, "unrecognized configuration parameter \"User\"");
        }
        assert!(wishes(&[("user", "u"), ("options", "-c user_x.user=1")]).is_ok());
    }

    #[test]
    fn the_packet_counts_more_than_options_and_the_host_is_added_to_the_name_that_counts() {
        let read = wishes(&[
            ("user", "u"),
            ("Application_Name", "first"),
            ("application_name", "last"),
            ("options", "-c application_name=hidden"),
        ]);
        let settings = read.unwrap().settings;
        let values: Vec<&str> = settings.iter().map(|(_, value)| &**value).collect();
        assert_eq!(values[..2], ["hidden", "first"]);
        assert!(values[2].starts_with("last - "), "{values:?}");
    }

    #[test]
    fn replication_takes_booleans_and_database() {
        assert_eq!(replication("database"), Ok(PoolKind::Replication { physical: false }));
        assert_eq!(replication("TRUE"), Ok(PoolKind::Replication { physical: true }));
        assert_eq!(replication("off"), Ok(PoolKind::Clients));
        assert!(replication("maybe").is_err());
    }
}
