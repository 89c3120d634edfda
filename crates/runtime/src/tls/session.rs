//! One connection's TLS: bytes of the socket to plain bytes and back.
//!
//! rustls keeps no bytes here: what came of a record that is not complete is in [`TlsSession::unread`], and what is to be
//! sent goes to the connection's pending output, as bytes of the socket. All complete records that a read brings are
//! decrypted at once, so no plain bytes wait where no event would tell of them. An idle connection has no buffer.

use super::certificate::names;
use super::contexts::TlsContexts;
use super::names::{suite_name, version_name};
use super::steps::{Step, advance, write};
use crate::transport::{Received, Transport};
use pgweir_core::TlsFacts;
use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::ServerName;
use rustls::server::UnbufferedServerConnection;
use rustls::{CommonState, Error};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

/// Bytes that a record may have beyond its content, at most.
const RECORD_OVERHEAD_BYTES: usize = 64;

/// The content of a record, at most (RFC 8446, section 5.1).
const RECORD_CONTENT_BYTES_MAX: usize = 16 * 1024;

/// Room for an alert.
const ALERT_BYTES: usize = 128;

/// A client that began with TLS at once must name the protocol, so that nobody can make a browser talk to a server
/// (ALPACA attacks). The words are PostgreSQL's.
const NO_ALPN: &str = "received direct SSL connection request without ALPN protocol negotiation extension";

/// Which side of the handshake we are.
enum Side {
    /// A client connected to us.
    Server(UnbufferedServerConnection),
    /// We connected to a server.
    Client(UnbufferedClientConnection),
}

/// TLS on one connection.
pub(crate) struct TlsSession {
    side: Side,
    /// Records that are not complete, or all that came before the handshake began.
    unread: Vec<u8>,
    /// What is in `unread` has not been looked at.
    is_fresh: bool,
    /// The end of the handshake has been reported.
    is_secured: bool,
    /// The other side has ended its side of TLS, or has broken it: what comes is not read.
    is_over: bool,
    /// See [`TlsFacts::end_point`]; of our own certificate.
    end_point: Option<Arc<[u8]>>,
    /// Whether the other side's certificate was verified, and is to be reported.
    reports_peer: bool,
    /// Whether the protocol must have been named by ALPN.
    needs_alpn: bool,
    /// The host of a server, as the configuration has it.
    host: Box<str>,
}

/// Prints where it stands, and no key.
impl fmt::Debug for TlsSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsSession")
            .field("is_secured", &self.is_secured)
            .field("is_over", &self.is_over)
            .finish_non_exhaustive()
    }
}

/// What one read has brought.
#[derive(Debug)]
pub(crate) struct Progress {
    /// Plain bytes, at the front of the buffer that was given.
    pub(crate) bytes: usize,
    /// The socket may hold more.
    pub(crate) more: bool,
    /// The socket held nothing.
    pub(crate) is_blocked: bool,
    /// The handshake has ended in this read.
    pub(crate) secured: Option<TlsFacts>,
    /// There will be no more bytes.
    pub(crate) end: Option<End>,
}

/// Why no more bytes will come.
#[derive(Debug)]
pub(crate) enum End {
    /// The other side has closed the connection.
    Closed,
    /// The handshake has failed.
    NotSecured(String),
}

impl TlsSession {
    /// Waits for the client's part of a handshake; `early` are the bytes of it that are there already. `None`: TLS is off.
    pub(crate) fn accept(contexts: &TlsContexts, early: Vec<u8>, direct: bool) -> Option<Result<TlsSession, Error>> {
        let accepts = contexts.accepts.as_ref()?;
        let connection = UnbufferedServerConnection::new(Arc::clone(&accepts.config));
        Some(connection.map(|connection| TlsSession {
            is_fresh: !early.is_empty(),
            unread: early,
            end_point: accepts.end_point.clone(),
            reports_peer: accepts.verifies,
            needs_alpn: direct,
            ..TlsSession::new(Side::Server(connection))
        }))
    }

    /// Begins a handshake with a server. `address` stands in for a `host` that is no name of DNS.
    pub(crate) fn connect(contexts: &TlsContexts, host: &str, address: IpAddr) -> Option<Result<TlsSession, Error>> {
        let config = Arc::clone(contexts.connects.as_ref()?);
        let name = ServerName::try_from(host.to_owned()).unwrap_or(ServerName::IpAddress(address.into()));
        let connection = UnbufferedClientConnection::new(config, name);
        Some(connection.map(|connection| TlsSession {
            is_fresh: true,
            host: host.into(),
            ..TlsSession::new(Side::Client(connection))
        }))
    }

    fn new(side: Side) -> TlsSession {
        TlsSession {
            side,
            unread: Vec::new(),
            is_fresh: false,
            is_secured: false,
            is_over: false,
            end_point: None,
            reports_peer: false,
            needs_alpn: false,
            host: "".into(),
        }
    }

    /// The host of a server, as the configuration has it.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// Whether the handshake is over.
    pub(crate) fn is_secured(&self) -> bool {
        self.is_secured
    }

    fn state(&self) -> &CommonState {
        match &self.side {
            Side::Server(connection) => connection,
            Side::Client(connection) => connection,
        }
    }

    /// One read of the socket. Plain bytes go into `into`, and what is to be sent is appended to `out`. `records` is room
    /// for bytes of the socket; both must have room for some records.
    pub(crate) fn receive(
        &mut self,
        transport: &mut Transport,
        records: &mut [u8],
        into: &mut [u8],
        out: &mut Vec<u8>,
    ) -> Progress {
        let mut progress = Progress {
            bytes: 0,
            more: true,
            is_blocked: false,
            secured: None,
            end: None,
        };
        if self.is_over {
            progress.end = Some(End::Closed);
            return progress;
        }
        let room = records.len().min(into.len());
        let mut filled = self.unread.len();
        if filled >= room {
            progress.end = Some(self.failed("a message of the handshake is too long"));
            return progress;
        }
        records[..filled].copy_from_slice(&self.unread);
        if !std::mem::take(&mut self.is_fresh) {
            match transport.receive(&mut records[filled..room]) {
                Received::Bytes(count) => {
                    filled += count;
                    progress.more = filled == room;
                }
                Received::WouldBlock => {
                    progress.more = false;
                    progress.is_blocked = true;
                    return progress;
                }
                Received::Closed => {
                    let end = if self.is_secured {
                        End::Closed
                    } else {
                        self.failed("the other side has closed the connection")
                    };
                    progress.end = Some(end);
                    return progress;
                }
            }
        }
        self.unread = Vec::new();
        self.read_records(&mut records[..filled], into, out, &mut progress);
        progress
    }

    /// Reads all complete records.
    fn read_records(&mut self, records: &mut [u8], into: &mut [u8], out: &mut Vec<u8>, progress: &mut Progress) {
        let mut at = 0;
        loop {
            let (discard, step) = match &mut self.side {
                Side::Server(c) => advance(
                    c.process_tls_records(&mut records[at..]),
                    into,
                    &mut progress.bytes,
                    out,
                ),
                Side::Client(c) => advance(
                    c.process_tls_records(&mut records[at..]),
                    into,
                    &mut progress.bytes,
                    out,
                ),
            };
            at += discard;
            match step {
                Ok(Step::Again) => {}
                Ok(Step::NeedsInput) => break,
                Ok(Step::Over) => {
                    self.is_over = true;
                    progress.more = true;
                    break;
                }
                Err(e) => {
                    self.send_alert(out);
                    progress.more = true;
                    let end = self.failed(&e.to_string());
                    if !self.is_secured {
                        progress.end = Some(end);
                    }
                    return;
                }
            }
        }
        self.unread = records[at..].to_vec();
        if !self.is_secured && !self.state().is_handshaking() {
            self.is_secured = true;
            match self.facts() {
                Ok(facts) => progress.secured = Some(facts),
                Err(why) => progress.end = Some(self.failed(why)),
            }
        }
    }

    fn failed(&mut self, why: &str) -> End {
        self.is_over = true;
        End::NotSecured(why.to_owned())
    }

    /// After an error: tells the other side.
    fn send_alert(&mut self, out: &mut Vec<u8>) {
        loop {
            let (_, step) = match &mut self.side {
                Side::Server(c) => advance(c.process_tls_records(&mut []), &mut [], &mut 0, out),
                Side::Client(c) => advance(c.process_tls_records(&mut []), &mut [], &mut 0, out),
            };
            if !matches!(step, Ok(Step::Again)) {
                return;
            }
        }
    }

    /// What the handshake has agreed on.
    fn facts(&self) -> Result<TlsFacts, &'static str> {
        let state = self.state();
        if self.needs_alpn && state.alpn_protocol().is_none() {
            return Err(NO_ALPN);
        }
        let certificate = state.peer_certificates().and_then(|chain| chain.first());
        Ok(TlsFacts {
            protocol: state.protocol_version().map_or("unknown", version_name),
            cipher: state.negotiated_cipher_suite().map_or("unknown", suite_name),
            end_point: match &self.side {
                Side::Server(_) => self.end_point.clone(),
                Side::Client(_) => certificate.and_then(|der| super::certificate::end_point(der)),
            },
            peer: certificate
                .filter(|_| self.reports_peer)
                .and_then(|der| names(der))
                .map(Arc::new),
        })
    }

    /// Appends the records that carry `plain` to `out`. Fails before the end of the handshake, and when the connection has
    /// no keys left.
    pub(crate) fn seal(&mut self, plain: &[u8], out: &mut Vec<u8>) -> Result<(), ()> {
        let records = plain.len() / RECORD_CONTENT_BYTES_MAX + 1;
        self.write(out, plain.len() + records * RECORD_OVERHEAD_BYTES, Some(plain))
    }

    /// Appends the record that ends our side to `out`.
    pub(crate) fn close(&mut self, out: &mut Vec<u8>) {
        let _ = self.write(out, ALERT_BYTES, None);
    }

    fn write(&mut self, out: &mut Vec<u8>, room: usize, plain: Option<&[u8]>) -> Result<(), ()> {
        if !self.is_secured {
            return Err(());
        }
        loop {
            let step = match &mut self.side {
                Side::Server(c) => write(c.process_tls_records(&mut []), out, room, plain),
                Side::Client(c) => write(c.process_tls_records(&mut []), out, room, plain),
            };
            match step {
                Step::Again => {}
                Step::NeedsInput => return Ok(()),
                Step::Over => return Err(()),
            }
        }
    }
}
