//! Plays a conversation and finds the first difference.

use crate::pooler::{Pieces, Replay, bytes_of};
use pgweir_core::ConnectionId;
use pgweir_sim::transcript::{Conversation, Line, Turn, backend_to_text, frontend_to_text, split_messages};

fn groups(lines: &[Line]) -> impl Iterator<Item = &[Line]> {
    lines.chunk_by(|a, b| a.turn == b.turn && a.connection == b.connection && a.turn != Turn::Wait)
}

/// The first difference, if any.
pub fn replay(mode: &str, pieces: Pieces, conversation: &Conversation) -> Result<(), String> {
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
