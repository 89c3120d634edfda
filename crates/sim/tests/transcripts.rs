//! Recorded conversations: the model must answer like the real servers.

#![allow(clippy::disallowed_methods, reason = "recordings are files")]

use pgweir_sim::model::{Session, Shared, Version};
use pgweir_sim::transcript::{Conversation, Line, Turn, backend_to_text, normal_lines, split_messages};
use pgweir_wire::CancelKey;
use std::collections::BTreeMap;
use std::path::Path;

/// Each group of successive server lines on one connection, and where it begins.
fn groups(lines: &[Line]) -> impl Iterator<Item = &[Line]> {
    lines.chunk_by(|a, b| a.turn == Turn::Server && b.turn == Turn::Server && a.connection == b.connection)
}

struct Model {
    version: Version,
    shared: Shared,
    sessions: BTreeMap<u32, Session>,
    now_us: u64,
    said: BTreeMap<u32, Vec<u8>>,
    closed: BTreeMap<u32, bool>,
}

impl Model {
    fn new(version: Version) -> Self {
        Model {
            version,
            shared: Shared::new(),
            sessions: BTreeMap::new(),
            now_us: 0,
            said: BTreeMap::new(),
            closed: BTreeMap::new(),
        }
    }

    fn client(&mut self, line: &Line) {
        if let Some(other) = line.text.strip_prefix("Cancel of ") {
            let other = other.parse().unwrap();
            self.sessions
                .get_mut(&other)
                .unwrap()
                .cancel(&mut self.shared, self.now_us);
            self.closed.insert(line.connection, false);
            return;
        }
        let bytes = line.bytes().unwrap();
        let session = self.sessions.entry(line.connection).or_insert_with(|| {
            let secret_bytes = if line.text.starts_with("Startup 3.2") && self.version == Version::V18 {
                32
            } else {
                4
            };
            let key = CancelKey {
                process_id: line.connection,
                secret: vec![0; secret_bytes].into(),
            };
            Session::new(self.version, key)
        });
        session.receive(&mut self.shared, self.now_us, &bytes);
    }

    /// The server's lines on a connection since the last call.
    fn server(&mut self, connection: u32) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(session) = self.sessions.get_mut(&connection) {
            let mut sent = std::mem::take(self.said.entry(connection).or_default());
            sent.extend(session.take_sent());
            if sent == b"N" {
                lines.push("SslRefused".into());
            } else {
                lines.extend(split_messages(&sent).into_iter().map(backend_to_text));
            }
        }
        let is_closed = self.sessions.get(&connection).is_none_or(Session::is_closed);
        if is_closed && !std::mem::replace(self.closed.entry(connection).or_default(), true) {
            lines.push("Closed".into());
        }
        lines
    }
}

fn conversations(folder: &str) -> Vec<(String, Conversation)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/transcripts")
        .join(folder);
    let mut paths: Vec<_> = std::fs::read_dir(&folder)
        .unwrap_or_else(|e| panic!("{}: {e}", folder.display()))
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    paths
        .into_iter()
        .map(|path| {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            let text = std::fs::read_to_string(&path).unwrap();
            let conversation = Conversation::read(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            assert_eq!(conversation.text(), text, "{name} reads back as it is written");
            (name, conversation)
        })
        .collect()
}

fn replay(version: Version, name: &str, conversation: &Conversation, failures: &mut Vec<String>) {
    let mut model = Model::new(version);
    for group in groups(&conversation.lines) {
        let first = &group[0];
        match first.turn {
            Turn::Client => model.client(first),
            Turn::Wait | Turn::Server => {
                let real: Vec<String> = match first.turn {
                    Turn::Server => group.iter().map(|line| line.text.clone()).collect(),
                    _ => Vec::new(),
                };
                let said = model.server(first.connection);
                let (real, said) = (normal_lines(real), normal_lines(said));
                if real != said {
                    failures.push(format!("{name}: {first:?}\n  real {real:#?}\n  model {said:#?}"));
                    return;
                }
            }
        }
    }
}

#[test]
fn the_model_says_what_was_recorded() {
    let mut failures = Vec::new();
    for (version, folder) in [(Version::V15, "pg15"), (Version::V18, "pg18")] {
        let mut replayed = 0;
        for (name, conversation) in conversations(folder) {
            if conversation.title.iter().any(|remark| remark == "model: no") {
                continue;
            }
            replay(version, &format!("{folder}/{name}"), &conversation, &mut failures);
            replayed += 1;
        }
        assert!(replayed > 30, "only {replayed} recordings in {folder}");
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
