//! All recordings, through session and transaction pooling.

use crate::pooler::Pieces;
use crate::replay::replay;
use pgweir_sim::transcript::{Conversation, Turn, frontend_to_text};
use pgweir_wire::Writer;
use std::path::Path;

/// Errors that the pooler sends itself, in its own words, for bytes that break the protocol.
const OWN_WORDS: [&str; 4] = [
    "copy_in_query",
    "login_without_user",
    "malformed_messages",
    "unknown_message",
];

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
