//! A raw connection to a real server.

use pgweir_sim::transcript::{backend_to_text, split_messages};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// The longest time for a whole script.
const ANSWER_SECONDS_MAX: u64 = 20;

/// The real servers that the runner has started: major version and port.
#[allow(clippy::disallowed_methods)]
pub fn real_servers() -> Vec<(u32, u16)> {
    [(15, "PGWEIR_TEST_PG_PORT"), (18, "PGWEIR_TEST_PG18_PORT")]
        .into_iter()
        .filter_map(|(version, name)| match std::env::var(name) {
            Ok(port) => Some((version, port.parse().expect("a port number"))),
            Err(_) => {
                println!("SKIPPED: {name} is not set, so nothing is compared with PostgreSQL {version}");
                None
            }
        })
        .collect()
}

/// Sends everything, then reads until the server closes.
#[allow(clippy::disallowed_methods)]
pub fn converse(port: u16, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("PostgreSQL listens");
    stream
        .set_read_timeout(Some(Duration::from_secs(ANSWER_SECONDS_MAX)))
        .unwrap();
    stream.write_all(bytes).unwrap();
    let mut answer = Vec::new();
    // A server that closes with unread input resets the connection; its earlier bytes have arrived.
    let _ = stream.read_to_end(&mut answer);
    answer
}

pub fn lines(stream: &[u8]) -> Vec<String> {
    split_messages(stream).into_iter().map(backend_to_text).collect()
}
