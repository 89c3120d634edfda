//! Messages from the control plane to the data plane.

use crate::dns::Found;
use crate::tls::TlsContexts;
use crate::token::Subject;
use crate::verifier::QuestionId;
use mio::{Registry, Waker};
use pgweir_core::{Command, ConnectionId, OrderId, ReloadOutcome, Verified};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

/// A message to the event loop.
#[derive(Debug)]
pub(crate) enum Message {
    /// A signal came.
    Command(Command),
    /// The configuration was read again.
    Reloaded {
        /// The command of the console that asked, or `None` for a signal.
        by: Option<OrderId>,
        outcome: ReloadOutcome,
        /// With a new configuration.
        tls: Option<TlsContexts>,
    },
    /// A question that a login waits for has been answered.
    Verified {
        asker: ConnectionId,
        question: QuestionId,
        answer: Verified,
    },
    /// A name was looked up.
    Resolved {
        host: String,
        addresses: Result<Found, String>,
    },
    /// The serial number of a zone was looked up.
    ZoneSerial { zone: String, serial: Result<u32, String> },
    /// The TLS library has failed. The text is for the log.
    TlsPanic(String),
}

/// The sending end. Each thread of the control plane has one.
#[derive(Debug, Clone)]
pub(crate) struct InboxSender {
    messages: Sender<Message>,
    waker: Arc<Waker>,
}

impl InboxSender {
    /// Sends a message and wakes the event loop. Does nothing if the event loop has ended.
    pub(crate) fn send(&self, message: Message) {
        if self.messages.send(message).is_ok() {
            let _ = self.waker.wake();
        }
    }
}

/// Makes an inbox whose messages wake the poll of `registry`.
pub(crate) fn inbox(registry: &Registry) -> io::Result<(InboxSender, Receiver<Message>)> {
    let (messages, receiver) = channel();
    let waker = Arc::new(Waker::new(registry, Subject::Inbox.token())?);
    Ok((InboxSender { messages, waker }, receiver))
}
