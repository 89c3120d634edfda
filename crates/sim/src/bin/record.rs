//! Sends the client lines of scripts to a real server and writes down its answers.
//!
//!     record --port PORT --scripts DIR --out DIR
//!
//! Every `*.script` becomes a `*.txt` of the same name. Values that differ from run to run are replaced: a process id
//! by the number of the connection, a secret by zeros, a table's OID by the first one that a new database assigns.
#![allow(
    clippy::disallowed_methods,
    reason = "a program that talks to servers and writes files"
)]

use pgweir_sim::transcript::{Conversation, Line, Turn, backend_to_text, split_messages};
use pgweir_wire::{CancelKey, Header, StartupPacket};
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// If a server has sent nothing for this long, its answer is complete, milliseconds.
const SILENCE_MS: u64 = 300;

type Failure = Box<dyn std::error::Error>;

struct Connection {
    stream: TcpStream,
    key: Option<CancelKey>,
    /// The next answer is one byte: SSLRequest or GSSENCRequest was sent.
    one_byte: bool,
    closed: bool,
}

fn main() -> Result<(), Failure> {
    let mut arguments = BTreeMap::new();
    let mut words = std::env::args().skip(1);
    while let (Some(name), Some(value)) = (words.next(), words.next()) {
        arguments.insert(name, value);
    }
    let argument = |name: &str| arguments.get(name).ok_or(format!("{name} is missing"));
    let port: u16 = argument("--port")?.parse()?;
    let out = PathBuf::from(argument("--out")?);
    std::fs::create_dir_all(&out)?;
    let mut scripts: Vec<PathBuf> = std::fs::read_dir(argument("--scripts")?)?
        .map(|entry| entry.map(|e| e.path()))
        .collect::<Result<_, _>>()?;
    scripts.retain(|path| path.extension().is_some_and(|e| e == "script"));
    scripts.sort();
    let mut names = Vec::new();
    for script in &scripts {
        let recorded = record(port, script).map_err(|e| format!("{}: {e}", script.display()))?;
        let name = Path::new(script.file_stem().unwrap_or_default()).with_extension("txt");
        std::fs::write(out.join(&name), recorded.text())?;
        names.push(name);
    }
    // A recording whose script is gone is removed, too.
    for entry in std::fs::read_dir(&out)? {
        let path = entry?.path();
        if !names.iter().any(|name| path.file_name() == Some(name.as_os_str())) {
            std::fs::remove_file(path)?;
        }
    }
    println!("{} recordings in {}", names.len(), out.display());
    Ok(())
}

fn record(port: u16, script: &Path) -> Result<Conversation, Failure> {
    setup(port)?;
    let script = Conversation::read(&std::fs::read_to_string(script)?)?;
    let mut recorded = Conversation {
        title: script.title,
        lines: Vec::new(),
    };
    let mut connections: BTreeMap<u32, Connection> = BTreeMap::new();
    for line in script.lines {
        match line.turn {
            Turn::Server => return Err("a script has no server lines: write S?".into()),
            Turn::Client => {
                let bytes = match line.text.strip_prefix("Cancel of ") {
                    Some(other) => {
                        let other = connections.get(&other.parse()?).ok_or("no such connection")?;
                        let key = other.key.as_ref().ok_or("that connection has no key")?;
                        let mut bytes = Vec::new();
                        StartupPacket::write_cancel(&mut bytes, key);
                        bytes
                    }
                    None => line.bytes()?,
                };
                let connection = match connections.entry(line.connection) {
                    std::collections::btree_map::Entry::Occupied(e) => e.into_mut(),
                    std::collections::btree_map::Entry::Vacant(e) => e.insert(connect(port)?),
                };
                connection.one_byte = matches!(line.text.as_str(), "SslRequest" | "GssEncRequest");
                connection.stream.write_all(&bytes)?;
                recorded.lines.push(line);
            }
            Turn::Wait => {
                let connection = connections.get_mut(&line.connection).ok_or("nothing was sent there")?;
                let answer = connection.listen(line.connection)?;
                if answer.is_empty() {
                    recorded.lines.push(line);
                } else {
                    recorded.lines.extend(answer.into_iter().map(|text| Line {
                        turn: Turn::Server,
                        text,
                        connection: line.connection,
                    }));
                }
            }
        }
    }
    Ok(recorded)
}

fn connect(port: u16) -> Result<Connection, Failure> {
    let stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_nodelay(true)?;
    Ok(Connection {
        stream,
        key: None,
        one_byte: false,
        closed: false,
    })
}

/// An empty `kv` for every script.
fn setup(port: u16) -> Result<(), Failure> {
    let mut connection = connect(port)?;
    let text = "C> Startup 3.0 \"user\" \"postgres\" \"database\" \"postgres\"\n\
                C> Query \"set client_min_messages = error; create table if not exists kv (k int primary key, v text); \
                truncate kv\"\nC> Terminate\n";
    for line in Conversation::read(text)?.lines {
        connection.stream.write_all(&line.bytes()?)?;
    }
    connection.stream.set_read_timeout(None)?;
    let mut answer = Vec::new();
    connection.stream.read_to_end(&mut answer)?;
    match split_messages(&answer).into_iter().find(|m| m.first() == Some(&b'E')) {
        Some(error) => Err(backend_to_text(error).into()),
        None => Ok(()),
    }
}

impl Connection {
    /// Everything that the server sends until it is silent, as text.
    fn listen(&mut self, number: u32) -> Result<Vec<String>, Failure> {
        if self.closed {
            return Ok(Vec::new());
        }
        self.stream.set_read_timeout(Some(Duration::from_millis(SILENCE_MS)))?;
        let mut answer = Vec::new();
        let mut chunk = [0; 65536];
        loop {
            match self.stream.read(&mut chunk) {
                Ok(0) => self.closed = true,
                Ok(count) => {
                    answer.extend_from_slice(&chunk[..count]);
                    continue;
                }
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(e) if e.kind() == ErrorKind::ConnectionReset => self.closed = true,
                Err(e) => return Err(e.into()),
            }
            break;
        }
        let mut lines = Vec::new();
        if self.one_byte && answer == b"N" {
            lines.push("SslRefused".into());
        } else {
            for message in split_messages(&answer) {
                lines.push(backend_to_text(&self.without_what_varies(message, number)));
            }
        }
        if self.closed {
            lines.push("Closed".into());
        }
        Ok(lines)
    }

    fn without_what_varies(&mut self, message: &[u8], number: u32) -> Vec<u8> {
        let mut message = message.to_vec();
        if !matches!(Header::read(&message), Ok(Some(h)) if h.message_bytes as usize == message.len()) {
            return message;
        }
        match message[0] {
            b'K' => {
                self.key = CancelKey::read(&message[5..]).ok();
                message[5..9].copy_from_slice(&number.to_be_bytes());
                message[9..].fill(0);
            }
            b'A' if message.len() >= 9 => message[5..9].copy_from_slice(&0u32.to_be_bytes()),
            b'T' => {
                let mut at = 7;
                while let Some(name) = message.get(at..).and_then(|rest| rest.iter().position(|&b| b == 0)) {
                    let oid = at + name + 1;
                    let Some(bytes) = message.get_mut(oid..oid + 4) else {
                        break;
                    };
                    if *bytes != [0; 4] {
                        bytes.copy_from_slice(&16384u32.to_be_bytes());
                    }
                    at = oid + 18;
                }
            }
            _ => {}
        }
        message
    }
}
