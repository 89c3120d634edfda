//! Cancels a running query when the user asks the command to end.

use super::{Server, tls};
use crate::Result;
use crate::interrupt::Interrupt;
use postgres::Client;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tokio_postgres_rustls::MakeRustlsConnect;

/// How often to check for a signal, and after one how often to cancel: the connection may be between two queries.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// While this value exists, a signal cancels the running query of its connection. The query fails with
/// `query_canceled`; [`Interrupt::instead_of`] gives the cause.
#[derive(Debug)]
pub struct CancelOnSignal {
    /// Dropped to end the thread.
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// From now on a signal cancels the running query of this connection.
    pub fn cancel_on_signal(&self, client: &Client, interrupt: &Interrupt) -> Result<CancelOnSignal> {
        let tls = MakeRustlsConnect::new(tls::config(&self.resolved)?);
        let token = client.cancel_token();
        let interrupt = interrupt.clone();
        let (end, ended) = channel::<()>();
        let thread = thread::spawn(move || {
            while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(LOOK_INTERVAL) {
                if interrupt.check().is_err() {
                    // If the server cannot be reached any more, there is nothing to cancel.
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
