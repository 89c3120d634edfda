//! A stream that remembers the first bytes that were read from it: the server's first message says how it asks who its
//! client is (PostgreSQL manual, "Message Formats", the messages that begin with Authentication).
//!
//! ```text
//! without TLS     [N]  R  length  code  ...       N is the answer to an SSLRequest
//! with TLS         S   then TLS, and within it    R  length  code  ...
//! ```

use super::probe::Authentication;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, TlsStream};

/// Bytes to remember: N, R, the length and the code.
const HEARD_MAX: usize = 10;

/// The first bytes. All clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct Heard(Arc<Mutex<Vec<u8>>>);

impl Heard {
    /// What the server asked for; None where its first message is not in these bytes.
    pub(super) fn authentication(&self) -> Option<Authentication> {
        let heard = self.0.lock().ok()?;
        let message = heard.strip_prefix(b"N").unwrap_or(&heard);
        let code = message.strip_prefix(b"R")?.get(4..8)?;
        Some(match u32::from_be_bytes(code.try_into().ok()?) {
            0 => Authentication::NoPassword,
            3 => Authentication::ClearText,
            5 => Authentication::Md5,
            10 => Authentication::Scram,
            _ => Authentication::Other,
        })
    }

    fn add(&self, bytes: &[u8]) {
        if let Ok(mut heard) = self.0.lock() {
            let missing = HEARD_MAX.saturating_sub(heard.len());
            heard.extend(bytes.iter().take(missing));
        }
    }
}

/// The stream.
pub(super) struct Spy<S> {
    inner: S,
    heard: Heard,
}

impl<S> Spy<S> {
    pub(super) fn new(inner: S, heard: Heard) -> Self {
        Spy { inner, heard }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Spy<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let outcome = Pin::new(&mut self.inner).poll_read(context, buffer);
        self.heard.add(&buffer.filled()[before..]);
        outcome
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Spy<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

impl<S: TlsStream + Unpin> TlsStream for Spy<S> {
    fn channel_binding(&self) -> ChannelBinding {
        self.inner.channel_binding()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_message_says_how_the_server_asks() {
        let authentication = |pieces: &[&[u8]]| {
            let heard = Heard::default();
            pieces.iter().for_each(|piece| heard.add(piece));
            heard.authentication()
        };
        for (code, expected) in [
            (0, Authentication::NoPassword),
            (3, Authentication::ClearText),
            (5, Authentication::Md5),
            (10, Authentication::Scram),
            (7, Authentication::Other),
        ] {
            let message = [b'R', 0, 0, 0, 23, 0, 0, 0, code, b'x', b'y'];
            assert_eq!(authentication(&[&message]), Some(expected));
            assert_eq!(authentication(&[b"N", &message[..3], &message[3..]]), Some(expected));
        }
        // TLS begins, the server refuses, nothing came.
        assert_eq!(authentication(&[b"S\x16\x03\x03\0\0\0\0\0\0"]), None);
        assert_eq!(authentication(&[b"E\0\0\0\x50SFATAL"]), None);
        assert_eq!(authentication(&[b"R\0\0\0"]), None);
    }
}
