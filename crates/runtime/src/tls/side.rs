//! rustls's part of a session, for both roles. Everything here runs within [`super::guard`].

use super::certificate::{end_point, names};
use super::names::{suite_name, version_name};
use super::steps::{Step, advance, write};
use pgweir_core::TlsFacts;
use rustls::client::UnbufferedClientConnection;
use rustls::server::UnbufferedServerConnection;
use rustls::{CommonState, Error};
use std::sync::Arc;

/// The pooler's role in the handshake.
pub(super) enum Side {
    /// Server, for a client's connection.
    Server(UnbufferedServerConnection),
    /// Client, for a server's connection.
    Client(UnbufferedClientConnection),
}

impl Side {
    fn state(&self) -> &CommonState {
        match self {
            Side::Server(connection) => connection,
            Side::Client(connection) => connection,
        }
    }

    pub(super) fn is_handshaking(&self) -> bool {
        self.state().is_handshaking()
    }

    /// Whether the protocol was named by ALPN.
    pub(super) fn has_alpn(&self) -> bool {
        self.state().alpn_protocol().is_some()
    }

    fn advance(
        &mut self,
        records: &mut [u8],
        into: &mut [u8],
        filled: &mut usize,
        out: &mut Vec<u8>,
    ) -> (usize, Result<Step, Error>) {
        match self {
            Side::Server(c) => advance(c.process_tls_records(records), into, filled, out),
            Side::Client(c) => advance(c.process_tls_records(records), into, filled, out),
        }
    }

    /// Reads all complete records. `used` grows by the number of their bytes, and `filled` by that of the plain bytes
    /// that were written to `into`.
    pub(super) fn read(
        &mut self,
        records: &mut [u8],
        used: &mut usize,
        into: &mut [u8],
        filled: &mut usize,
        out: &mut Vec<u8>,
    ) -> Result<Step, Error> {
        loop {
            let (discard, step) = self.advance(&mut records[*used..], into, filled, out);
            *used += discard;
            match step {
                Ok(Step::Again) => {}
                other => return other,
            }
        }
    }

    /// Writes the alert after an error. rustls must not look at its input again: it may remember messages there. It
    /// does not as long as it has something to send.
    pub(super) fn write_alert(&mut self, out: &mut Vec<u8>) {
        while self.state().wants_write() {
            let (_, step) = self.advance(&mut [], &mut [], &mut 0, out);
            if !matches!(step, Ok(Step::Again)) {
                return;
            }
        }
    }

    /// Writes `plain`, or the end of the pooler's side. rustls remembers places in the bytes that it has not used up,
    /// so it must be shown these.
    pub(super) fn write(
        &mut self,
        unread: &mut Vec<u8>,
        out: &mut Vec<u8>,
        room: usize,
        plain: Option<&[u8]>,
    ) -> Result<(), ()> {
        loop {
            let (discard, step) = match self {
                Side::Server(c) => write(c.process_tls_records(unread), out, room, plain),
                Side::Client(c) => write(c.process_tls_records(unread), out, room, plain),
            };
            unread.drain(..discard);
            match step {
                Step::Again => {}
                Step::NeedsInput => return Ok(()),
                Step::Over => return Err(()),
            }
        }
    }

    /// The result of the handshake. `own` is [`TlsFacts::end_point`] of the pooler's certificate. `reports_peer`: the
    /// other side's certificate was verified, so its names are reported.
    pub(super) fn facts(&self, own: Option<Arc<[u8]>>, reports_peer: bool) -> TlsFacts {
        let state = self.state();
        let certificate = state.peer_certificates().and_then(|chain| chain.first());
        TlsFacts {
            protocol: state.protocol_version().map_or("unknown", version_name),
            cipher: state.negotiated_cipher_suite().map_or("unknown", suite_name),
            end_point: match self {
                Side::Server(_) => own,
                Side::Client(_) => certificate.and_then(|der| end_point(der)),
            },
            peer: certificate
                .filter(|_| reports_peer)
                .and_then(|der| names(der))
                .map(Arc::new),
        }
    }
}
