//! A running query ends when the user wants the command to end.

use super::{Server, tls};
use crate::Result;
use crate::interrupt::Interrupt;
use postgres::Client;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tokio_postgres_rustls::MakeRustlsConnect;

/// How often to look for a signal, and after one how often to cancel: what is cancelled may be between two queries.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// While it lives, a signal cancels what its connection runs. That query fails with `query_canceled`;
/// [`Interrupt::instead_of`] tells the reason.
#[derive(Debug)]
pub struct CancelOnSignal {
    /// Dropped to end the thread.
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Has a signal cancel what this connection to the server runs.
    pub fn cancel_on_signal(&self, client: &Client, interrupt: &Interrupt) -> Result<CancelOnSignal> {
        let tls = MakeRustlsConnect::new(tls::config(&self.resolved)?);
        let token = client.cancel_token();
        let interrupt = interrupt.clone();
        let (end, ended) = channel::<()>();
        let thread = thread::spawn(move || {
            while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(LOOK_INTERVAL) {
                if interrupt.check().is_err() {
                    // A server that cannot be reached any more has nothing to cancel.
                    let _ = token.cancel_query(tls.clone());
                }
            }
        });
        Ok(CancelOnSignal {
            end: Some(end),
            thread: Some(thread),
        })
    }
}

impl Drop for CancelOnSignal {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
