//! TLS on one connection: from the bytes of the socket to plain bytes, and back.
//!
//! rustls keeps no bytes here. The bytes of an incomplete record are in [`TlsSession::unread`]. Records to be sent
//! become pending output of the connection. All complete records of a read are decrypted at once, because no event
//! would report plain bytes that wait here. An idle connection has no buffer.

use super::contexts::{Connects, TlsContexts};
use super::guard::{Guarded, Panicked, guarded};
use super::side::Side;
use super::steps::Step;
use crate::handshakes::Turn;
use crate::transport::{Received, Transport};
use pgweir_core::TlsFacts;
use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::ServerName;
use rustls::server::UnbufferedServerConnection;
use rustls::{CertificateError, Error};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

/// The most bytes that a record may have in addition to its content.
const RECORD_OVERHEAD_BYTES: usize = 64;

/// The most bytes of content in a record (RFC 8446, section 5.1).
const RECORD_CONTENT_BYTES_MAX: usize = 16 * 1024;

/// Room for an alert, or for updates of the keys that rustls may put in front of a record.
const ALERT_BYTES: usize = 128;

/// The error for a client that begins with TLS at once and does not name the protocol. It must, so that nobody can make
/// a browser talk to a server (ALPACA attacks). The words are PostgreSQL's.
const NO_ALPN_ASKED: &str = "received direct SSL connection request without ALPN protocol negotiation extension";

/// The error for a server that begins TLS and does not choose the protocol. The words are libpq's.
const NO_ALPN_CHOSEN: &str = "direct SSL connection was established without ALPN protocol negotiation extension";

/// The error for a connection that ends before the handshake does.
pub(crate) const LEFT: &str = "the other side has closed the connection";

/// The error for a server that was sent a TLS handshake at once and ends the connection.
const LEFT_AT_ONCE: &str = "the other side has closed the connection (PostgreSQL before 17 does not accept TLS without an \
                            SSLRequest: see server_tls_sslnegotiation)";

/// TLS on one connection.
pub(crate) struct TlsSession {
    library: Guarded,
    /// The bytes of an incomplete record, or all bytes from before the handshake.
    unread: Vec<u8>,
    /// `unread` contains bytes that rustls has not seen.
    is_fresh: bool,
    /// When the handshake goes on.
    pub(crate) turn: Turn,
    /// The other side has been sent records.
    has_answered: bool,
    /// The end of the handshake has been reported.
    is_secured: bool,
    /// The other side has ended TLS or broken it: further bytes are not read.
    is_over: bool,
    /// The other side has broken TLS: nothing can be sent any more.
    is_broken: bool,
    /// [`TlsFacts::end_point`] of the pooler's certificate.
    end_point: Option<Arc<[u8]>>,
    /// Whether the other side's certificate was verified, so that its names are reported.
    reports_peer: bool,
    /// Whether the protocol must have been named by ALPN.
    needs_alpn: bool,
    /// The host of a server, as in the configuration.
    host: Box<str>,
    /// The settings of a connection to a server.
    connects: Option<Connects>,
}

/// Prints the state, and no key.
impl fmt::Debug for TlsSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsSession")
            .field("is_secured", &self.is_secured)
            .field("is_over", &self.is_over)
            .finish_non_exhaustive()
    }
}

/// The outcome of one read.
#[derive(Debug)]
pub(crate) struct Progress {
    /// Number of plain bytes, which are at the beginning of the caller's buffer.
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
    /// Waits for a client's handshake. `early` are bytes of it that have already arrived. `None`: TLS is off.
    pub(crate) fn accept(contexts: &TlsContexts, early: Vec<u8>, direct: bool) -> Option<Result<TlsSession, Error>> {
        let accepts = contexts.accepts.as_ref()?;
        let connection = created(|| UnbufferedServerConnection::new(Arc::clone(&accepts.config)));
        Some(connection.map(|connection| TlsSession {
            is_fresh: !early.is_empty(),
            unread: early,
            end_point: accepts.end_point.clone(),
            reports_peer: accepts.verifies,
            needs_alpn: direct,
            ..TlsSession::new(Side::Server(connection))
        }))
    }

    /// Begins a handshake with a server. If `host` is not a DNS name, `address` is used instead, unless the certificate
    /// must be for the host. `direct`: the server
    /// has not been asked before, and must choose PostgreSQL's protocol.
    pub(crate) fn connect(
        contexts: &TlsContexts,
        host: &str,
        address: IpAddr,
        direct: bool,
    ) -> Option<Result<TlsSession, Error>> {
        let connects = contexts.connects.clone()?;
        let name = match ServerName::try_from(host.to_owned()) {
            Ok(name) => name,
            // A certificate for the address would not be one for the host.
            Err(_) if connects.checks_name => return Some(Err(CertificateError::NotValidForName.into())),
            Err(_) => ServerName::IpAddress(address.into()),
        };
        let connection = created(|| UnbufferedClientConnection::new(Arc::clone(&connects.config), name));
        Some(connection.map(|connection| TlsSession {
            is_fresh: true,
            host: host.into(),
            connects: Some(connects),
            needs_alpn: direct,
            ..TlsSession::new(Side::Client(connection))
        }))
    }

    fn new(side: Side) -> TlsSession {
        TlsSession {
            library: Guarded::new(side),
            unread: Vec::new(),
            is_fresh: false,
            turn: Turn::None,
            has_answered: false,
            is_secured: false,
            is_over: false,
            is_broken: false,
            end_point: None,
            reports_peer: false,
            needs_alpn: false,
            host: "".into(),
            connects: None,
        }
    }

    /// The host of a server, as in the configuration.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// The settings of this connection to a server. Its cancel requests go by them, whatever a RELOAD has changed.
    pub(crate) fn settings(&self) -> Option<TlsContexts> {
        let connects = self.connects.clone()?;
        Some(TlsContexts {
            accepts: None,
            connects: Some(connects),
            connects_directly: self.needs_alpn,
        })
    }

    /// Whether the handshake is over.
    pub(crate) fn is_secured(&self) -> bool {
        self.is_secured
    }

    /// The error if the other side closes the connection before the handshake ends.
    fn left(&self) -> &'static str {
        match &self.connects {
            Some(_) if self.needs_alpn => LEFT_AT_ONCE,
            _ => LEFT,
        }
    }

    /// Whether the other side has been sent records.
    pub(crate) fn has_answered(&self) -> bool {
        self.has_answered
    }

    /// Reads the socket once. Plain bytes are written to `into`, and records to be sent are appended to `out`.
    /// `records` is room for bytes of the socket. Both buffers must have room for several records.
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
                        self.failed(self.left())
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
        let (mut used, own) = (0, out.len());
        let bytes = &mut progress.bytes;
        let step = self
            .library
            .with(|side| side.read(records, &mut used, into, bytes, out));
        match step {
            Ok(Ok(Step::Again | Step::NeedsInput)) => {}
            Ok(Ok(Step::Over)) => {
                self.is_over = true;
                progress.more = true;
            }
            Ok(Err(e)) => {
                let _ = self.library.with(|side| side.write_alert(out));
                return self.broken(&e.to_string(), progress);
            }
            Err(Panicked) => {
                out.truncate(own);
                return self.broken(&Panicked.to_string(), progress);
            }
        }
        self.has_answered |= !out.is_empty();
        self.unread = records[used..].to_vec();
        if !self.is_secured && matches!(self.library.with(|side| side.is_handshaking()), Ok(false)) {
            self.is_secured = true;
            match self.facts() {
                Ok(facts) => progress.secured = Some(facts),
                Err(why) => progress.end = Some(self.failed(&why)),
            }
        }
    }

    /// The other side has broken TLS, or the library has failed. Plain bytes from before are still delivered.
    fn broken(&mut self, why: &str, progress: &mut Progress) {
        self.is_broken = true;
        progress.more = true;
        let end = self.failed(why);
        if !self.is_secured {
            progress.end = Some(end);
        }
    }

    fn failed(&mut self, why: &str) -> End {
        self.is_over = true;
        End::NotSecured(why.to_owned())
    }

    /// The result of the handshake.
    fn facts(&mut self) -> Result<TlsFacts, String> {
        let (needs_alpn, reports_peer) = (self.needs_alpn, self.reports_peer);
        let own = self.end_point.clone();
        let facts = self
            .library
            .with(|side| (!needs_alpn || side.has_alpn()).then(|| side.facts(own, reports_peer)));
        match facts {
            Ok(Some(facts)) => Ok(facts),
            Ok(None) if self.connects.is_some() => Err(NO_ALPN_CHOSEN.into()),
            Ok(None) => Err(NO_ALPN_ASKED.into()),
            Err(Panicked) => {
                self.is_broken = true;
                Err(Panicked.to_string())
            }
        }
    }

    /// Encrypts `plain` and appends the records to `out`. Fails before the end of the handshake, and when the
    /// connection's keys are used up.
    pub(crate) fn seal(&mut self, plain: &[u8], out: &mut Vec<u8>) -> Result<(), ()> {
        let records = plain.len() / RECORD_CONTENT_BYTES_MAX + 1;
        let room = plain.len() + records * RECORD_OVERHEAD_BYTES + ALERT_BYTES;
        self.write(out, room, Some(plain))
    }

    /// Appends the record that ends the pooler's side to `out`. Nothing is read after that: rustls could not send an
    /// alert any more.
    pub(crate) fn close(&mut self, out: &mut Vec<u8>) {
        let _ = self.write(out, ALERT_BYTES, None);
        self.is_over = true;
    }

    fn write(&mut self, out: &mut Vec<u8>, room: usize, plain: Option<&[u8]>) -> Result<(), ()> {
        if !self.is_secured || self.is_broken {
            return Err(());
        }
        let (unread, own) = (&mut self.unread, out.len());
        let written = self.library.with(|side| side.write(unread, out, room, plain));
        if written == Err(Panicked) {
            out.truncate(own);
            self.is_broken = true;
        }
        // The other side would wait for ever for what cannot be written.
        self.is_over |= written != Ok(Ok(()));
        written.unwrap_or(Err(()))
    }
}

/// Creates rustls's part of a session.
fn created<C>(create: impl FnOnce() -> Result<C, Error>) -> Result<C, Error> {
    guarded(create).unwrap_or_else(|panicked| Err(Error::General(panicked.to_string())))
}

#[cfg(test)]
#[path = "session_tests/mod.rs"]
mod tests;
