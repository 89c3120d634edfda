//! A pooler without sockets: the test plays the driver, the clients and the servers, in virtual time.

// Each test file is a crate of its own and uses only a part of this.
#![allow(dead_code)]

use pgweir_config::{Config, load};
use pgweir_core::{
    Accepted, Address, ClientId, Connected, ConnectionId, Endpoint, LogLevel, Pooler, ReloadOutcome, Request, ServerId,
    Source, Surroundings, Time, Verification, Verified, WallClock,
};
use pgweir_wire::write::ErrorText;
use pgweir_wire::{CancelKey, HEADER_BYTES, Header, ProtocolVersion, StartupPacket, TransactionStatus, Writer};
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// What every server of these tests reports at login.
pub const REPORTED: [(&str, &str); 5] = [
    ("application_name", ""),
    ("client_encoding", "UTF8"),
    ("DateStyle", "ISO, MDY"),
    ("server_version", "15.1"),
    ("TimeZone", "UTC"),
];

/// The beginning of the question for the number of connections that a server allows, and the answer.
const LIMIT_QUESTION: &str = "Query SELECT pg_catalog.current_setting('max_connections')";
const CONNECTIONS_ALLOWED: u32 = 97;

/// The first question to a new server.
pub const NATURE_QUESTION: &str = "SELECT pg_catalog.pg_backend_pid()";

/// A pooler and everything around it.
pub struct Rig {
    pub pooler: Pooler,
    pub now: Time,
    /// Bytes written to each connection that the test has not looked at.
    written: HashMap<ConnectionId, Vec<u8>>,
    /// Bytes the core did not consume.
    kept: HashMap<ConnectionId, Vec<u8>>,
    /// Servers that the pooler wants to be connected.
    pub connects: VecDeque<ServerId>,
    /// The address of each server.
    pub endpoints: HashMap<ServerId, Endpoint>,
    pub cancels: VecDeque<(ServerId, CancelKey)>,
    /// Cancel requests for peers: the peer, the connection that asked, the key.
    pub passed_on: VecDeque<(u32, ClientId, CancelKey)>,
    /// Connections on which the pooler wants a TLS handshake; `true` if the client begins with it at once.
    pub handshakes: VecDeque<(ConnectionId, bool)>,
    pub closed: HashSet<ConnectionId>,
    /// Servers whose connection was reset.
    pub aborted: Vec<ServerId>,
    pub log: Vec<(LogLevel, String)>,
    pub exited: bool,
    pub stopped_listening: bool,
    /// The configuration after SET.
    pub configured: Option<Arc<Config>>,
    /// Requests to read the configuration again.
    pub reloads: VecDeque<Option<ClientId>>,
    /// Questions to the driver about clients.
    pub questions: VecDeque<(ClientId, Verification)>,
    /// Internal names that were sent to any connection, by their form after [`without_secrets`].
    names: HashMap<String, String>,
    /// Servers that are asked for their catalog at login answer at once that it contains no name that matters.
    pub catalogs_are_empty: bool,
}

impl Rig {
    /// A pooler with one database, `db`, that every client may use as user `u`; `settings` are lines of [pgbouncer].
    pub fn new(settings: &str) -> Rig {
        Rig::with("db = host=127.0.0.1 user=u", settings)
    }

    pub fn with(databases: &str, settings: &str) -> Rig {
        Rig::of(&configuration(databases, settings))
    }

    /// A pooler with the database `db` and `auth_type = trust`; `users` are the lines of `auth_file`.
    pub fn with_users(users: &str, settings: &str) -> Rig {
        Rig::of(&configuration_with_users("db = host=127.0.0.1 user=u", settings, users))
    }

    /// A pooler with these settings for logins, and the files that they name.
    pub fn with_files(settings: &str, files: &[(&str, &str)]) -> Rig {
        Rig::of(&configuration_with_files(settings, files))
    }

    fn of(config: &Config) -> Rig {
        let surroundings = Surroundings {
            seed: [7; 32],
            wall: WallClock { unix_us: 0 },
            own_uid: 0,
            open_files_max: 1000,
        };
        Rig {
            pooler: Pooler::new(Arc::new(config.clone()), surroundings, Time(0)),
            now: Time(0),
            written: HashMap::new(),
            kept: HashMap::new(),
            connects: VecDeque::new(),
            endpoints: HashMap::new(),
            cancels: VecDeque::new(),
            passed_on: VecDeque::new(),
            handshakes: VecDeque::new(),
            closed: HashSet::new(),
            aborted: Vec::new(),
            log: Vec::new(),
            exited: false,
            stopped_listening: false,
            configured: None,
            reloads: VecDeque::new(),
            questions: VecDeque::new(),
            names: HashMap::new(),
            catalogs_are_empty: true,
        }
    }

    /// Writes out the outbox and carries out the requests, as a driver must after every `handle_*` call, and ends the turn.
    pub fn settle(&mut self, input: &[u8]) {
        self.settle_call(input);
        while self.pooler.awaits_turn_end() {
            self.pooler.handle_turn_end(self.now);
            self.settle_call(&[]);
        }
    }

    fn settle_call(&mut self, input: &[u8]) {
        let mut input = input.to_vec();
        loop {
            let outbox = self.pooler.outbox();
            for part in outbox.parts() {
                let bytes = match part.source {
                    Source::Input => &input[part.range()],
                    Source::Arena => &outbox.arena()[part.range()],
                };
                assert!(!self.closed.contains(&part.to), "bytes for a closed connection");
                self.written.entry(part.to).or_default().extend_from_slice(bytes);
            }
            outbox.clear();
            match self.pooler.poll_request() {
                None => return,
                Some(Request::Connect { server, endpoint }) => {
                    self.connects.push_back(server);
                    self.endpoints.insert(server, endpoint);
                }
                Some(Request::Cancel { server, key }) => self.cancels.push_back((server, key)),
                Some(Request::PassOn { peer, by, key, .. }) => self.passed_on.push_back((peer, by, key)),
                Some(Request::SecureClient { client, direct }) => self.handshakes.push_back((client.into(), direct)),
                Some(Request::SecureServer { server, .. }) => self.handshakes.push_back((server.into(), false)),
                Some(Request::Close(id)) => drop(self.closed.insert(id)),
                Some(Request::Abort(id)) => {
                    self.aborted.push(id);
                    self.closed.insert(id.into());
                }
                Some(Request::Log { level, text }) => self.log.push((level, text)),
                Some(Request::Resume(id)) if !self.closed.contains(&id) => {
                    input = self.kept.remove(&id).unwrap_or_default();
                    self.pass(id, &input);
                }
                Some(Request::Verify { client, question }) => self.questions.push_back((client, *question)),
                Some(Request::Exit) => self.exited = true,
                Some(Request::StopListening) => self.stopped_listening = true,
                Some(Request::Reload { by }) => self.reloads.push_back(by),
                Some(Request::Configure(config)) => self.configured = Some(config),
                Some(Request::Resume(_)) => {}
            }
        }
    }

    fn pass(&mut self, id: ConnectionId, input: &[u8]) {
        let consumed = match id {
            ConnectionId::Client(client) => self.pooler.handle_client_bytes(self.now, client, input),
            ConnectionId::Server(server) => self.pooler.handle_server_bytes(self.now, server, input),
        };
        assert!(consumed <= input.len());
        if consumed < input.len() {
            self.kept.insert(id, input[consumed..].to_vec());
        }
    }

    /// A connection sends bytes.
    pub fn comes(&mut self, id: impl Into<ConnectionId>, bytes: &[u8]) {
        let id = id.into();
        let mut input = self.kept.remove(&id).unwrap_or_default();
        input.extend_from_slice(bytes);
        self.pass(id, &input);
        self.settle(&input);
    }

    /// A connection sends messages.
    pub fn says(&mut self, id: impl Into<ConnectionId>, write: impl FnOnce(&mut Writer<'_>)) {
        let mut bytes = Vec::new();
        write(&mut Writer::new(&mut bytes));
        self.comes(id, &bytes);
    }

    /// A server completes a simple query.
    pub fn completes(&mut self, server: ServerId, tag: &str) {
        self.says(server, |w| {
            w.command_complete(tag);
            w.ready_for_query(TransactionStatus::Idle);
        });
    }

    /// A server answers everything that it was sent without an error, each Query and Execute with this command tag;
    /// returns what it was sent.
    pub fn serves(&mut self, server: ServerId, tag: &str) -> Vec<String> {
        let told = self.told(server);
        for line in &told {
            match line.split(' ').next().unwrap_or_default() {
                "Parse" => self.says(server, |w| w.empty(b'1')),
                "Bind" => self.says(server, |w| w.empty(b'2')),
                "Close" => self.says(server, |w| w.empty(b'3')),
                "Execute" => self.says(server, |w| w.command_complete(tag)),
                "Sync" => self.says(server, |w| w.ready_for_query(TransactionStatus::Idle)),
                "Query" => self.completes(server, tag),
                other => panic!("nobody answers {other}"),
            }
        }
        told
    }

    /// A client that connects and sends nothing.
    pub fn silent_client(&mut self) -> ClientId {
        let peer = Address::Tcp(([127, 0, 0, 1], 5000).into());
        let id = self.pooler.handle_accept(
            self.now,
            Accepted {
                peer,
                local: peer,
                peer_uid: None,
            },
        );
        self.settle(&[]);
        id
    }

    pub fn connect_fails(&mut self, id: ServerId) {
        self.closed.insert(id.into());
        self.pooler.handle_server_connect_failed(self.now, id, "connect failed");
        self.settle(&[]);
    }

    /// The driver answers a question about a client.
    pub fn verified(&mut self, client: ClientId, answer: Verified) {
        self.pooler.handle_verified(self.now, client, answer);
        self.settle(&[]);
    }

    /// A client connects and asks for a database; its login may still wait.
    pub fn client_begins(&mut self, parameters: &[(&str, &str)]) -> ClientId {
        let peer = Address::Tcp(([127, 0, 0, 1], 5000).into());
        let accepted = Accepted {
            peer,
            local: peer,
            peer_uid: None,
        };
        self.client_begins_at(accepted, parameters)
    }

    /// The same over a connection with these facts.
    pub fn client_begins_at(&mut self, accepted: Accepted, parameters: &[(&str, &str)]) -> ClientId {
        let id = self.pooler.handle_accept(self.now, accepted);
        self.settle(&[]);
        let mut packet = Vec::new();
        let parameters = parameters.iter().map(|(n, v)| (n.as_bytes(), v.as_bytes()));
        StartupPacket::write_startup(&mut packet, ProtocolVersion::V3_0, parameters);
        self.comes(id, &packet);
        id
    }

    /// A client logs in to `db`, with a first server if one is needed.
    pub fn client(&mut self) -> ClientId {
        let id = self.client_begins(&[("user", "u"), ("database", "db")]);
        self.servers_log_in();
        let welcome = self.told(id);
        assert!(
            welcome.ends_with(&["ReadyForQuery I".into()]),
            "not welcome: {welcome:?}"
        );
        id
    }

    /// Every server that the pooler wants logs in.
    pub fn servers_log_in(&mut self) -> Vec<ServerId> {
        let mut up = Vec::new();
        while let Some(id) = self.connects.pop_front() {
            if !self.closed.contains(&id.into()) {
                self.server_logs_in(id);
                up.push(id);
            }
        }
        up
    }

    pub fn server_connects(&mut self, id: ServerId) {
        let remote = Address::Tcp(([127, 0, 0, 1], 5432).into());
        self.pooler
            .handle_server_connected(self.now, id, Connected { remote, local: remote });
        self.settle(&[]);
        self.written.remove(&id.into());
    }

    pub fn server_logs_in(&mut self, id: ServerId) {
        self.server_logs_in_with(id, &[]);
    }

    /// A server accepts the login and reports these settings, too.
    pub fn server_logs_in_with(&mut self, id: ServerId, reports: &[(&str, &str)]) {
        self.server_connects(id);
        self.says(id, |w| {
            w.authentication(&0u32.to_be_bytes());
            for (name, value) in REPORTED.iter().chain(reports) {
                w.parameter_status(name.as_bytes(), value.as_bytes());
            }
            w.backend_key_data(process_id(id), b"key!");
            w.ready_for_query(TransactionStatus::Idle);
        });
        if self.is_asked(id, &format!("Query {NATURE_QUESTION}")) {
            self.tells_process_id(id, process_id(id));
        }
        if self.is_asked_for_limit(id) {
            self.tells_process_id(id, CONNECTIONS_ALLOWED);
        }
        if self.is_asked(id, "Bind  pgweir_7") {
            self.tells_rows(id, |_| vec![vec![Some(b"role"), Some(b"none")]]);
        }
        if self.is_asked(id, "Bind  pgweir_9") && self.catalogs_are_empty {
            self.tells_catalog(id, &[], &[]);
        }
    }

    /// A server answers internal requests, and no Query.
    pub fn answers(&mut self, server: ServerId, told: &[String], reports: &[(&str, &str)]) {
        self.says(server, |w| {
            for line in told {
                match line.split_once(' ').map_or(&**line, |(word, _)| word) {
                    "Parse" => w.empty(b'1'),
                    "Bind" => w.empty(b'2'),
                    "Close" => w.empty(b'3'),
                    "Execute" => w.command_complete("SELECT 1"),
                    "Sync" => {
                        for (name, value) in reports {
                            w.parameter_status(name.as_bytes(), value.as_bytes());
                        }
                        w.ready_for_query(TransactionStatus::Idle);
                    }
                    _ => {}
                }
            }
        });
    }

    /// A server answers the question for its process id.
    pub fn tells_process_id(&mut self, id: ServerId, process_id: u32) {
        self.written.remove(&id.into());
        self.says(id, |w| {
            w.data_row(1, [Some(process_id.to_string().as_bytes())]);
            w.command_complete("SELECT 1");
            w.ready_for_query(TransactionStatus::Idle);
        });
    }

    /// Whether a server was asked how many connections it allows.
    fn is_asked_for_limit(&self, id: ServerId) -> bool {
        let written = self.written.get(&id.into()).map_or(&[][..], Vec::as_slice);
        let asks = |(tag, body): (u8, &[u8])| line(true, tag, body).starts_with(LIMIT_QUESTION);
        messages(written).into_iter().any(asks)
    }

    /// Whether a server has been sent a message that the test has not looked at.
    fn is_asked(&self, id: ServerId, what: &str) -> bool {
        messages(self.written.get(&id.into()).map_or(&[], Vec::as_slice))
            .iter()
            .any(|(tag, body)| line(true, *tag, body) == what)
    }

    /// A server answers the segment that reads the catalog.
    pub fn tells_catalog(&mut self, id: ServerId, objects: &[[&str; 4]], sources: &[[&str; 3]]) {
        fn row<'a>(values: &[&'a str]) -> Vec<Option<&'a [u8]>> {
            values.iter().map(|v| Some(v.as_bytes())).collect()
        }
        self.tells_rows(id, |statement| match statement {
            "pgweir_3" => vec![row(&["a_setting", "before", "after"])],
            "pgweir_9" => objects.iter().map(|r| row(r)).collect(),
            "pgweir_a" => sources.iter().map(|r| [row(r), vec![None]].concat()).collect(),
            other => panic!("{other} is no part of it"),
        });
    }

    /// A server answers the question for its settings.
    pub fn tells_settings(&mut self, id: ServerId, settings: &[(&str, &str)]) {
        self.tells_rows(id, |_| {
            let rows = settings.iter();
            rows.map(|(name, value)| vec![Some(name.as_bytes()), Some(value.as_bytes())])
                .collect()
        });
    }

    /// A server answers a segment of internal statements, each with these rows.
    fn tells_rows<'r>(&mut self, id: ServerId, rows_of: impl Fn(&str) -> Vec<Vec<Option<&'r [u8]>>>) {
        let mut rows: Vec<Vec<Option<&[u8]>>> = Vec::new();
        let mut answer = Vec::new();
        let mut writer = Writer::new(&mut answer);
        for message in self.told(id) {
            match message.split_once(' ').unwrap_or((&message, "")) {
                ("Parse", _) => writer.empty(b'1'),
                ("Close", _) => writer.empty(b'3'),
                ("Bind", statement) => {
                    writer.empty(b'2');
                    rows = rows_of(statement.trim());
                }
                ("Execute", _) => {
                    rows.drain(..).for_each(|row| writer.data_row(row.len(), row));
                    writer.command_complete("SELECT 1");
                }
                ("Sync", _) => writer.ready_for_query(TransactionStatus::Idle),
                other => panic!("{other:?} is no part of it"),
            }
        }
        self.comes(id, &answer);
    }

    /// The bytes written to a connection since the last look.
    pub fn raw(&mut self, id: impl Into<ConnectionId>) -> Vec<u8> {
        self.written.remove(&id.into()).unwrap_or_default()
    }

    /// The messages written to a connection since the last look, one line each.
    pub fn told(&mut self, id: impl Into<ConnectionId>) -> Vec<String> {
        let id = id.into();
        let bytes = self.written.remove(&id).unwrap_or_default();
        let to_server = matches!(id, ConnectionId::Server(_));
        self.note_names(&String::from_utf8_lossy(&bytes));
        messages(&bytes)
            .into_iter()
            .map(|(tag, body)| line(to_server, tag, body))
            .collect()
    }

    fn note_names(&mut self, text: &str) {
        for (at, _) in text.match_indices("pgweir_") {
            let is_end = |c: char| !c.is_ascii_alphanumeric() && c != '_';
            let name = text[at..].split(is_end).next().unwrap_or_default();
            self.names.insert(without_secrets(name), name.to_string());
        }
    }

    /// An ERROR about an internal object `pgweir_10`, with the full name that was sent to a server.
    pub fn error_about(&self, sqlstate: &'static str, message: &str) -> ErrorText<'static> {
        let word = message.split('"').nth(1).expect("a name in quotes");
        error(sqlstate, message.replace(word, &self.names[word]).leak())
    }

    /// The messages written to a connection since the last look, as tags and bodies.
    pub fn hears(&mut self, id: impl Into<ConnectionId>) -> Vec<(u8, Vec<u8>)> {
        let bytes = self.written.remove(&id.into()).unwrap_or_default();
        let owned = |(tag, body): (u8, &[u8])| (tag, body.to_vec());
        messages(&bytes).into_iter().map(owned).collect()
    }

    /// The number of bytes that the test has not looked at.
    pub fn bytes_written(&self, id: impl Into<ConnectionId>) -> usize {
        self.written.get(&id.into()).map_or(0, Vec::len)
    }

    /// The cancel key in the messages to a client, which are not removed.
    pub fn key_told(&self, id: ClientId) -> CancelKey {
        let welcome = messages(&self.written[&id.into()]);
        let (_, body) = welcome.iter().find(|(tag, _)| *tag == b'K').expect("BackendKeyData");
        CancelKey::read(body).expect("a key")
    }

    /// The server that a client is linked to.
    pub fn server_of(&self, id: ClientId) -> Option<ServerId> {
        match self.pooler.linked(id.into())? {
            ConnectionId::Server(server) => Some(server),
            ConnectionId::Client(_) => None,
        }
    }

    /// Time passes.
    pub fn wait(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            let soonest = self.now + Duration::from_millis(1);
            self.now = self.pooler.poll_timeout().unwrap_or(end).max(soonest).min(end);
            self.pooler.handle_timeout(self.now);
            self.settle(&[]);
        }
    }

    pub fn client_leaves(&mut self, id: ClientId) {
        self.closed.insert(id.into());
        self.pooler.handle_client_closed(self.now, id);
        self.settle(&[]);
    }

    pub fn server_dies(&mut self, id: ServerId) {
        self.closed.insert(id.into());
        self.pooler.handle_server_closed(self.now, id);
        self.settle(&[]);
    }

    pub fn cancel_arrives(&mut self, server: ServerId) {
        self.pooler.handle_cancel_finished(self.now, server);
        self.settle(&[]);
    }

    /// The driver reports that a cancel request has been passed on to a peer.
    pub fn passed_on_ends(&mut self, peer: u32, by: ClientId) {
        self.pooler.handle_passed_on(self.now, peer, by);
        self.settle(&[]);
    }

    /// The configuration is read again; this is the new one.
    pub fn reloads(&mut self, config: Config) {
        let outcome = ReloadOutcome::New(Arc::new(config), Vec::new());
        self.pooler.handle_reload(self.now, None, outcome);
        self.settle(&[]);
    }

    /// Sends a CancelRequest on a connection of its own; returns that connection.
    pub fn cancel_request(&mut self, key: &CancelKey) -> ClientId {
        let peer = Address::Tcp(([127, 0, 0, 1], 5001).into());
        let id = self.pooler.handle_accept(
            self.now,
            Accepted {
                peer,
                local: peer,
                peer_uid: None,
            },
        );
        let mut packet = Vec::new();
        StartupPacket::write_cancel(&mut packet, key);
        self.comes(id, &packet);
        id
    }
}

/// The process id of a server.
pub fn process_id(server: ServerId) -> u32 {
    4711 + server.0.index
}

fn ini(databases: &str, settings: &str) -> String {
    // Scripted servers answer no probes unless a test asks for them.
    let session_state = if settings.contains("session_state") {
        ""
    } else {
        "session_state = pgbouncer\n"
    };
    // Nor do they answer an SSLRequest.
    let server_tls = if settings.contains("server_tls_sslmode") {
        ""
    } else {
        "server_tls_sslmode = disable\n"
    };
    format!(
        "[databases]\n{databases}\n[pgbouncer]\nauth_type = any\npool_mode = transaction\nserver_check_query =\n{session_state}{server_tls}{settings}\n"
    )
}

/// The configuration in a file with these lines of [databases] and [pgbouncer].
pub fn configuration(databases: &str, settings: &str) -> Config {
    read(&ini(databases, settings), "")
}

/// The same with `auth_type = trust` and these lines of `auth_file`.
pub fn configuration_with_users(databases: &str, settings: &str, users: &str) -> Config {
    let settings = format!("auth_type = trust\nauth_file = users.txt\n{settings}");
    read(&ini(databases, &settings), users)
}

/// The same with these settings for logins and the files that they name.
pub fn configuration_with_files(settings: &str, files: &[(&str, &str)]) -> Config {
    let ini = ini("db = host=127.0.0.1 user=u", settings);
    let mut files = files.to_vec();
    files.push(("test.ini", &ini));
    read_from(&files)
}

fn read(ini: &str, users: &str) -> Config {
    read_from(&[("test.ini", ini), ("users.txt", users)])
}

fn read_from(files: &[(&str, &str)]) -> Config {
    let files = |name: &str| -> std::io::Result<Vec<u8>> {
        let found = files.iter().find(|(n, _)| *n == name);
        found
            .map(|(_, text)| text.as_bytes().to_vec())
            .ok_or_else(|| std::io::ErrorKind::NotFound.into())
    };
    let loaded = load("test.ini", &files).unwrap_or_else(|problems| panic!("{problems:?}"));
    loaded.config
}

/// An ERROR from a server.
pub fn error(sqlstate: &'static str, message: &'static str) -> ErrorText<'static> {
    ErrorText {
        severity: "ERROR",
        sqlstate,
        message,
        detail: "",
        hint: "",
    }
}

/// A FATAL from a server.
pub fn fatal(sqlstate: &'static str, message: &'static str) -> ErrorText<'static> {
    ErrorText {
        severity: "FATAL",
        ..error(sqlstate, message)
    }
}

fn messages(mut rest: &[u8]) -> Vec<(u8, &[u8])> {
    let mut messages = Vec::new();
    while let Some(header) = Header::read(rest).expect("a valid message") {
        let (message, more) = rest.split_at(header.message_bytes as usize);
        messages.push((header.tag, &message[HEADER_BYTES..]));
        rest = more;
    }
    assert!(rest.is_empty(), "half a message");
    messages
}

fn text(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes).replace('\0', " ").trim_end().to_string();
    without_secrets(&text)
}

/// The number of digits after `pgweir_10_` in the names of statements, and after `pgweir_portal_` in other names.
const SECRET_DIGITS: [usize; 2] = [22, 32];

/// Shortens `pgweir_10_0a1B2c3D4e5F6g7H8i9JkL` to `pgweir_10`, because the secret part differs in each test.
pub fn without_secrets(text: &str) -> String {
    let mut rest = text;
    let mut out = String::new();
    while let Some(at) = rest.find("pgweir_") {
        let (before, name) = rest.split_at(at + "pgweir_".len());
        out.push_str(before);
        let word = name.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(name.len());
        out.push_str(&name[..word]);
        let behind = name[word..].strip_prefix('_').unwrap_or_default();
        let digits = behind
            .find(|c: char| !c.is_ascii_alphanumeric())
            .unwrap_or(behind.len());
        rest = if SECRET_DIGITS.contains(&digits) {
            &behind[digits..]
        } else {
            &name[word..]
        };
    }
    out + rest
}

fn line(to_server: bool, tag: u8, body: &[u8]) -> String {
    let name = match (to_server, tag) {
        (true, b'Q') => "Query",
        (true, b'P') => "Parse",
        (true, b'B') => "Bind",
        (true, b'D') => "Describe",
        (true, b'E') => return "Execute".into(),
        (true, b'C') => "Close",
        (true, b'S') => return "Sync".into(),
        (true, b'H') => return "Flush".into(),
        (true, b'X') => return "Terminate".into(),
        (true, b'f') => return "CopyFail".into(),
        (true, b'd') => return "CopyData".into(),
        (false, b'Z') => "ReadyForQuery",
        (false, b'C') => "CommandComplete",
        (false, b'1') => return "ParseComplete".into(),
        (false, b'2') => return "BindComplete".into(),
        (false, b'3') => return "CloseComplete".into(),
        (false, b'n') => return "NoData".into(),
        (false, b'D') => return "DataRow".into(),
        (false, b'S') => "ParameterStatus",
        (false, b'R') => return "Authentication".into(),
        (false, b'K') => return "BackendKeyData".into(),
        (false, b'E' | b'N') => {
            let fields = pgweir_wire::ErrorFields::read(body).expect("an error's fields");
            let kind = if tag == b'E' { "Error" } else { "Notice" };
            return format!("{kind} {} {}", text(fields.sqlstate), text(fields.message));
        }
        _ => return format!("{}?", char::from(tag)),
    };
    if name == "Bind" || name == "Parse" {
        // Two names, or the name and the text.
        let fields: Vec<_> = body.split(|&b| b == 0).take(2).map(text).collect();
        return format!("{name} {}", fields.join(" "));
    }
    format!("{name} {}", text(body))
}
