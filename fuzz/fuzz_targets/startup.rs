//! Guards against first packets that make their reader panic, and against a pooler whose answer depends on how the
//! bytes of a new connection are cut: whole or in pieces, it must send the same messages, and close the connection or
//! not. Bytes right behind an encryption request are refused. A handshake succeeds at once, except one that begins
//! without a request.
//!
//! The first byte determines the cuts; the others are what the client sends.
#![no_main]

use pgweir_core::{Accepted, Address, ClientId, ConnectionId, Pooler, Request, Source, Surroundings, Time, WallClock};
use pgweir_fuzz::configuration;
use pgweir_fuzz::handshakes::facts;
use pgweir_fuzz::story::Story;
use pgweir_wire::{ProtocolVersion, StartupPacket};
use std::net::SocketAddr;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    packet(bytes);
    let Some((&cut, bytes)) = bytes.split_first() else {
        return;
    };
    // The eight choices of a configuration; no login reaches a server that answers.
    let (choices, bytes) = bytes.split_at(bytes.len().min(8));
    let (requests, rest) = bytes.split_at(requests_bytes(bytes));
    // Bytes that come together with an encryption request are refused (as by PostgreSQL, CVE-2021-23222).
    if !requests.is_empty() && bytes.len() > REQUEST_BYTES {
        let (said, closed) = conversation(choices, &[bytes]);
        let is_refused = said.windows(UNENCRYPTED.len()).any(|said| said == UNENCRYPTED);
        assert!(is_refused && closed, "bytes behind an encryption request are read");
    }
    // A client that waits for the answers to its requests is answered alike, however its bytes are cut.
    let requests: Vec<&[u8]> = requests.chunks(REQUEST_BYTES).collect();
    let behind = |pieces: &[&[u8]]| conversation(choices, &[&requests, pieces].concat());
    let whole = behind(&[rest]);
    let cut = usize::from(cut);
    let at = cut.min(rest.len());
    assert_eq!(whole, behind(&[&rest[..at], &rest[at..]]), "cut in two at {at}");
    let length = cut % 7 + 1;
    let pieces = requests.iter().chain([&rest]).flat_map(|bytes| bytes.chunks(length));
    let pieces: Vec<&[u8]> = pieces.collect();
    assert_eq!(whole, conversation(choices, &pieces), "cut into pieces of {length}");
});

const UNENCRYPTED: &[u8] = b"received unencrypted data after";

/// An SSLRequest or a GSSENCRequest.
const REQUEST_BYTES: usize = 8;

/// The bytes of the encryption requests at the beginning.
fn requests_bytes(bytes: &[u8]) -> usize {
    let is_request = |packet: &&[u8]| {
        let packet =
            (packet.len() == REQUEST_BYTES && packet.starts_with(&[0, 0, 0, 8])).then(|| StartupPacket::read(packet));
        matches!(
            packet,
            Some(Ok(StartupPacket::SslRequest | StartupPacket::GssEncRequest))
        )
    };
    bytes.chunks(REQUEST_BYTES).take_while(is_request).count() * REQUEST_BYTES
}

fn packet(bytes: &[u8]) {
    let length = StartupPacket::packet_bytes(bytes);
    if let Ok(Some(length)) = length {
        assert_eq!(bytes[..4], (length as u32).to_be_bytes());
    }
    let whole = match length {
        Ok(Some(length)) => bytes.get(..length),
        _ => None,
    };
    // The reader does not rely on the length.
    for packet in [Some(bytes), whole].into_iter().flatten() {
        let mut again = Vec::new();
        match StartupPacket::read(packet) {
            Ok(StartupPacket::SslRequest) => StartupPacket::write_ssl_request(&mut again),
            Ok(StartupPacket::Cancel(key)) => StartupPacket::write_cancel(&mut again, &key),
            Ok(StartupPacket::Startup { version, parameters }) => {
                assert_eq!(version.major(), ProtocolVersion::V3_0.major());
                StartupPacket::write_startup(&mut again, version, parameters);
            }
            Ok(StartupPacket::GssEncRequest) | Err(_) => continue,
        }
        assert_eq!(again[4..], packet[4..], "written as it was read");
        assert_eq!(again.len(), packet.len());
    }
}

/// The messages that the client got, and whether it was closed.
fn conversation(choices: &[u8], pieces: &[&[u8]]) -> (Vec<u8>, bool) {
    let surroundings = Surroundings {
        seed: [7; 32],
        wall: WallClock::default(),
        own_uid: 1000,
        host_name: "here".into(),
        open_files_max: 1024,
    };
    let mut pooler = Pooler::new(configuration::read(&mut Story::new(choices)), surroundings, Time(0));
    let address = Address::Tcp(SocketAddr::from(([127, 0, 0, 1], 6432)));
    let accepted = Accepted {
        peer: address,
        local: address,
        peer_uid: None,
    };
    let mut side = Side {
        id: pooler.handle_accept(Time(0), accepted),
        pooler,
        unread: Vec::new(),
        kept: Vec::new(),
        said: Vec::new(),
        closed: false,
    };
    for piece in pieces {
        side.unread.extend_from_slice(piece);
        side.read();
    }
    (side.said, side.closed)
}

struct Side {
    pooler: Pooler,
    id: ClientId,
    /// Bytes that the client sends while it may not be read.
    unread: Vec<u8>,
    kept: Vec<u8>,
    said: Vec<u8>,
    closed: bool,
}

impl Side {
    fn read(&mut self) {
        if !self.closed && !self.unread.is_empty() && self.pooler.may_read(self.id.into()) {
            self.pass();
        }
    }

    fn pass(&mut self) {
        if self.pooler.may_read(self.id.into()) {
            self.kept.append(&mut self.unread);
        }
        let input = std::mem::take(&mut self.kept);
        let consumed = self.pooler.handle_client_bytes(Time(1), self.id, &input);
        assert!(consumed <= input.len());
        self.write(&input);
        self.kept = input[consumed..].to_vec();
        while let Some(request) = self.pooler.poll_request() {
            match request {
                // Servers' answers are the subject of the target `core`; here no server can be reached.
                Request::Connect { server, .. } => {
                    let why = "connection refused";
                    self.pooler.handle_server_connect_failed(Time(1), server, why);
                    self.write(&[]);
                }
                Request::Close(ConnectionId::Client(id)) => {
                    assert_eq!(id, self.id);
                    assert!(!self.closed, "closed twice");
                    self.closed = true;
                }
                Request::SecureClient { client, direct: false } => {
                    assert!(self.kept.is_empty(), "bytes of before the handshake are kept");
                    self.pooler.handle_client_secured(Time(1), client, facts(None));
                    self.write(&[]);
                }
                Request::SecureClient { client, direct: true } => {
                    self.pooler.handle_client_not_secured(Time(1), client, "no");
                    self.write(&[]);
                }
                Request::Resume(id) if !self.closed && id == ConnectionId::Client(self.id) => self.pass(),
                _ => {}
            }
        }
    }

    fn write(&mut self, input: &[u8]) {
        let outbox = self.pooler.outbox();
        for part in outbox.parts() {
            assert_eq!(part.to, ConnectionId::Client(self.id));
            assert_eq!(part.source, Source::Arena, "there is nobody to pass anything on to");
            assert!(!self.closed, "words for a closed connection");
            self.said.extend_from_slice(outbox.bytes(part, input));
        }
        outbox.clear();
    }
}
