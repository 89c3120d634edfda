//! Replays recorded conversations through the core: the client must get the server's lines as recorded, in whatever
//! pieces they come.
//!
//! The server plays the recording: it checks the client's lines, and sends what the real server sent.

#![allow(clippy::disallowed_methods, reason = "recordings are files")]

use pgweir_core::{
    Accepted, Address, ClientId, Connected, ConnectionId, Pooler, Request, ServerId, Surroundings, Time, WallClock,
};
use pgweir_sim::transcript::{Conversation, Line, Turn, backend_to_text, frontend_to_text, split_messages};
use pgweir_wire::{CancelKey, StartupPacket, Writer};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::Path;
use std::sync::Arc;

/// Errors that the pooler sends itself, in its own words, for bytes that break the protocol.
const OWN_WORDS: [&str; 4] = [
    "copy_in_query",
    "login_without_user",
    "malformed_messages",
    "unknown_message",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pieces {
    Whole,
    Bytes,
}

struct Replay {
    pooler: Pooler,
    pieces: Pieces,
    now: Time,
    clients: BTreeMap<u32, ClientId>,
    keys: BTreeMap<u32, CancelKey>,
    /// Bytes that each connection has got and the test has not looked at.
    got: HashMap<ConnectionId, Vec<u8>>,
    kept: HashMap<ConnectionId, Vec<u8>>,
    connects: VecDeque<ServerId>,
    login: Vec<u8>,
    cancels: Vec<ServerId>,
    closed: Vec<ConnectionId>,
}

impl Replay {
    fn new(mode: &str, pieces: Pieces) -> Self {
        let ini = format!(
            "[databases]\npostgres = host=127.0.0.1\n[pgbouncer]\nlisten_addr = 127.0.0.1\nauth_type = trust\n\
             auth_file = users\npool_mode = {mode}\ndeferred_begin = 0\nserver_reset_query =\nsession_state = pgbouncer\n\
             ignore_startup_parameters = options, statement_timeout\nserver_tls_sslmode = disable\n"
        );
        let files = |name: &str| -> std::io::Result<Vec<u8>> {
            match name {
                "ini" => Ok(ini.clone().into_bytes()),
                _ => Ok(b"\"postgres\" \"\"\n".to_vec()),
            }
        };
        let config = pgweir_config::load("ini", &files).expect("a good configuration").config;
        let surroundings = Surroundings {
            seed: [7; 32],
            wall: WallClock { unix_us: 0 },
            own_uid: 0,
            open_files_max: 100,
        };
        Replay {
            pooler: Pooler::new(Arc::new(config), surroundings, Time(0)),
            pieces,
            now: Time(0),
            clients: BTreeMap::new(),
            keys: BTreeMap::new(),
            got: HashMap::new(),
            kept: HashMap::new(),
            connects: VecDeque::new(),
            login: Vec::new(),
            cancels: Vec::new(),
            closed: Vec::new(),
        }
    }

    fn give(&mut self, id: ConnectionId, bytes: &[u8]) {
        match self.pieces {
            Pieces::Whole => self.give_piece(id, bytes),
            Pieces::Bytes => bytes.iter().for_each(|b| self.give_piece(id, &[*b])),
        }
    }

    fn give_piece(&mut self, id: ConnectionId, bytes: &[u8]) {
        let mut input = self.kept.remove(&id).unwrap_or_default();
        input.extend_from_slice(bytes);
        if !self.pooler.may_read(id) || self.closed.contains(&id) {
            self.kept.insert(id, input);
            return;
        }
        let consumed = match id {
            ConnectionId::Client(client) => self.pooler.handle_client_bytes(self.now, client, &input),
            ConnectionId::Server(server) => self.pooler.handle_server_bytes(self.now, server, &input),
        };
        self.settle(&input);
        self.kept.insert(id, input.split_off(consumed));
        self.requests();
    }

    fn settle(&mut self, input: &[u8]) {
        let outbox = self.pooler.outbox();
        for part in outbox.parts() {
            self.got
                .entry(part.to)
                .or_default()
                .extend_from_slice(outbox.bytes(part, input));
        }
        outbox.clear();
    }

    fn requests(&mut self) {
        self.settle(&[]);
        while let Some(request) = self.pooler.poll_request() {
            match request {
                Request::Connect { server, .. } => self.connects.push_back(server),
                Request::Cancel { server, .. } => self.cancels.push(server),
                Request::Close(id) => self.closed.push(id),
                Request::Abort(id) => self.closed.push(id.into()),
                Request::Resume(id) => self.give_piece(id, &[]),
                _ => {}
            }
        }
    }

    fn address() -> Address {
        Address::Unix { port: 1 }
    }

    fn accept(&mut self) -> ClientId {
        let accepted = Accepted {
            peer: Self::address(),
            local: Self::address(),
            peer_uid: None,
        };
        let id = self.pooler.handle_accept(self.now, accepted);
        self.requests();
        id
    }

    /// Logs a client in. Every server that it needs logs in as in the recording.
    fn log_in(&mut self, connection: u32, startup: &[u8], login: &[u8]) {
        let id = self.accept();
        self.clients.insert(connection, id);
        self.login = login.to_vec();
        self.give(id.into(), startup);
        self.connect_servers();
        let answer = self.got.remove(&id.into()).unwrap_or_default();
        let messages = split_messages(&answer);
        assert_eq!(messages.last(), Some(&&b"Z\0\0\0\x05I"[..]), "the client is logged in");
        for message in messages {
            if message[0] == b'K' {
                self.keys.insert(connection, CancelKey::read(&message[5..]).unwrap());
            }
        }
    }

    /// Logs in the servers that were asked for, as in the recording.
    fn connect_servers(&mut self) {
        while let Some(server) = self.connects.pop_front() {
            let connected = Connected {
                remote: Self::address(),
                local: Self::address(),
            };
            self.pooler.handle_server_connected(self.now, server, connected);
            self.requests();
            self.got.remove(&server.into());
            let login = self.login.clone();
            self.give(server.into(), &login);
        }
    }

    /// The bytes that the client's server has got since the last look.
    fn server_got(&mut self, client: ConnectionId) -> Vec<u8> {
        let server = self.pooler.linked(client);
        server.and_then(|s| self.got.remove(&s)).unwrap_or_default()
    }

    /// The client's server sends some lines.
    fn answer(&mut self, client: ConnectionId, lines: &[Line]) {
        if let Some(server) = self.pooler.linked(client) {
            self.give(server, &bytes_of(lines));
            self.connect_servers();
        }
    }

    fn cancel(&mut self, of: u32) {
        let id = self.accept();
        let mut packet = Vec::new();
        StartupPacket::write_cancel(&mut packet, &self.keys[&of]);
        self.give(id.into(), &packet);
        for server in std::mem::take(&mut self.cancels) {
            assert_eq!(self.pooler.linked(self.clients[&of].into()), Some(server.into()));
            self.pooler.handle_cancel_finished(self.now, server);
            self.requests();
        }
    }
}

fn conversations(folder: &str) -> Vec<(String, Conversation)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/transcripts")
        .join(folder);
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    paths.sort();
    paths
        .into_iter()
        .map(|path| {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            let text = std::fs::read_to_string(&path).unwrap();
            (name, Conversation::read(&text).unwrap())
        })
        .collect()
}

fn groups(lines: &[Line]) -> impl Iterator<Item = &[Line]> {
    lines.chunk_by(|a, b| a.turn == b.turn && a.connection == b.connection && a.turn != Turn::Wait)
}

fn bytes_of(lines: &[Line]) -> Vec<u8> {
    lines.iter().flat_map(|line| line.bytes().unwrap()).collect()
}

/// The first difference, if any.
fn replay(mode: &str, pieces: Pieces, conversation: &Conversation) -> Result<(), String> {
    let mut replay = Replay::new(mode, pieces);
    let all: Vec<&[Line]> = groups(&conversation.lines).collect();
    let mut at = 0;
    // The number of lines of the server's next turn that were sent during the client's turn.
    let mut answered = 0;
    while at < all.len() {
        let group = all[at];
        at += 1;
        let connection = group[0].connection;
        match group[0].turn {
            Turn::Client if group[0].text.starts_with("Startup") => {
                let login = bytes_of(all[at]);
                at += 1;
                replay.log_in(connection, &bytes_of(group), &login);
            }
            Turn::Client => {
                if let Some(of) = group[0].text.strip_prefix("Cancel of ") {
                    replay.cancel(of.parse().unwrap());
                    continue;
                }
                let client = replay.clients[&connection].into();
                let bytes = bytes_of(group);
                replay.give(client, &bytes);
                replay.connect_servers();
                if bytes.ends_with(b"X\0\0\0\x04") {
                    if !replay.closed.contains(&client) {
                        return Err("Terminate does not end the client".into());
                    }
                    continue;
                }
                // The server must get all of it, except messages that an idle server ignores or answers in only one
                // way: for these the pooler needs no server.
                let needless = |m: &&[u8]| matches!(m[0], b'd' | b'c' | b'f' | b'S');
                let messages = split_messages(&bytes);
                let needful = messages
                    .iter()
                    .skip_while(|m| needless(m))
                    .copied()
                    .collect::<Vec<_>>()
                    .concat();
                let mut got = replay.server_got(client);
                // Messages that wait in the core for earlier answers come after these.
                if let Some(answers) = all
                    .get(at)
                    .filter(|g| g[0].turn == Turn::Server && g[0].connection == connection)
                {
                    while got != bytes && got != needful && answered < answers.len() {
                        let lines = &answers[answered..];
                        let segment = lines.iter().position(|line| line.text.starts_with("ReadyForQuery"));
                        let lines = &lines[..segment.map_or(lines.len(), |last| last + 1)];
                        replay.answer(client, lines);
                        answered += lines.len();
                        let more = replay.server_got(client);
                        if more.is_empty() {
                            break;
                        }
                        got.extend(more);
                    }
                }
                if got != bytes && got != needful {
                    return Err(format!(
                        "to the server:\n  expected {:#?}\n  got {:#?}",
                        split_messages(&bytes)
                            .into_iter()
                            .map(frontend_to_text)
                            .collect::<Vec<_>>(),
                        split_messages(&got)
                            .into_iter()
                            .map(frontend_to_text)
                            .collect::<Vec<_>>()
                    ));
                }
            }
            Turn::Server | Turn::Wait => {
                let Some(client) = replay.clients.get(&connection).map(|c| ConnectionId::from(*c)) else {
                    continue;
                };
                if replay.closed.contains(&client) {
                    continue;
                }
                let server = replay.pooler.linked(client);
                let lines = if group[0].turn == Turn::Wait { &[] } else { group };
                let bytes = bytes_of(lines);
                if let Some(server) = server {
                    replay.give(server, &bytes_of(&lines[std::mem::take(&mut answered)..]));
                    if lines.last().is_some_and(|line| line.text == "Closed")
                        && let ConnectionId::Server(server) = server
                        && !replay.closed.contains(&server.into())
                    {
                        replay.pooler.handle_server_closed(replay.now, server);
                        replay.requests();
                    }
                }
                let got = replay.got.remove(&client).unwrap_or_default();
                if got != bytes {
                    return Err(format!(
                        "to the client:\n  expected {:#?}\n  got {:#?}",
                        split_messages(&bytes)
                            .into_iter()
                            .map(backend_to_text)
                            .collect::<Vec<_>>(),
                        split_messages(&got)
                            .into_iter()
                            .map(backend_to_text)
                            .collect::<Vec<_>>()
                    ));
                }
            }
        }
    }
    Ok(())
}

/// Whether a conversation's messages reach the server unchanged in transaction mode, too. Names of statements do not,
/// and messages that the pooler knows to be errors need not; a server that is not linked can send its client nothing;
/// and segments behind the one that runs may wait in the pooler until a cancel has arrived.
fn passes_unchanged(name: &str, conversation: &Conversation) -> bool {
    let renamed = |text: &str| {
        let named = |word: &str| text.starts_with(word) && !text.starts_with(&format!("{word} \"\""));
        named("Parse") || named("Describe S") || named("Close S") || text.starts_with("Bind") && !text.contains(" \"\"")
    };
    !["notify_other", "unnamed_statement", "shared_cancel"].contains(&name)
        && !conversation
            .lines
            .iter()
            .any(|line| line.turn == Turn::Client && renamed(&line.text))
}

#[test]
fn the_client_gets_what_was_recorded() {
    let mut failures = Vec::new();
    for folder in ["pg15", "pg18"] {
        let mut replayed = [0, 0];
        for (name, conversation) in conversations(folder) {
            if name.starts_with("login") || OWN_WORDS.contains(&name.as_str()) {
                continue;
            }
            for (index, mode) in ["session", "transaction"].into_iter().enumerate() {
                if mode == "transaction" && !passes_unchanged(&name, &conversation) {
                    continue;
                }
                replayed[index] += 1;
                for pieces in [Pieces::Whole, Pieces::Bytes] {
                    if let Err(why) = replay(mode, pieces, &conversation) {
                        failures.push(format!("{folder}/{name} in {mode} mode, {pieces:?}: {why}"));
                    }
                }
            }
        }
        assert!(
            replayed[0] > 50 && replayed[1] > 30,
            "too few recordings in {folder}: {replayed:?}"
        );
    }
    assert!(
        failures.is_empty(),
        "{} failures\n{}",
        failures.len(),
        failures.join("\n")
    );
}

/// Guards against a check that cannot fail.
#[test]
fn a_wrong_line_is_noticed() {
    let text = "C> Startup 3.0 \"user\" \"postgres\" \"database\" \"postgres\"\nS< Authentication 0\n\
                S< BackendKeyData 1 \"\\x00\\x00\\x00\\x00\"\nS< ReadyForQuery I\n\
                C> Query \"select 1\"\nS< CommandComplete \"SELECT 0\"\nS< ReadyForQuery I\n";
    let conversation = Conversation::read(text).unwrap();
    assert_eq!(replay("session", Pieces::Whole, &conversation), Ok(()));
    // One ReadyForQuery too many: the client must not get it.
    let wrong = Conversation::read(&format!("{text}S< ReadyForQuery I\n")).unwrap();
    assert!(replay("session", Pieces::Whole, &wrong).is_err());
    let mut extra = Vec::new();
    Writer::new(&mut extra).sync();
    assert_eq!(frontend_to_text(&extra), "Sync");
}
