//! A console that is asked again and again on a thread of its own, so that keys are heard while it does not answer.

use super::look::{Console, Look};
use crate::server::Server;
use crate::{Error, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// The least time between two attempts to connect.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// What the thread tells.
#[derive(Debug)]
pub(super) enum Heard {
    /// A look, and the console's version.
    Look(Box<Look>, String),
    /// The console does not answer, for this reason; it is tried again.
    Lost(String),
}

/// Where looks come from.
#[derive(Debug)]
pub(super) struct Watching {
    heard: Receiver<Heard>,
    with_clients: Arc<AtomicBool>,
}

impl Watching {
    /// Asks this console until the watching is dropped; a connection that is lost is made again.
    pub(super) fn begin(server: Server, console: Console, interval: Duration, with_clients: bool) -> Self {
        let (sender, heard) = channel();
        let with_clients = Arc::new(AtomicBool::new(with_clients));
        let asked = Arc::clone(&with_clients);
        // The thread may wait for an answer that never comes; it ends with the process.
        thread::spawn(move || watch(&server, console, interval, &asked, &sender));
        Watching { heard, with_clients }
    }

    /// What has been told since the last call.
    pub(super) fn heard(&self) -> impl Iterator<Item = Heard> {
        self.heard.try_iter()
    }

    /// Whether clients are asked for from now on.
    pub(super) fn ask_for_clients(&self, yes: bool) {
        self.with_clients.store(yes, Ordering::Relaxed);
    }
}

/// Opens a connection to a console.
pub(super) fn connect(server: &Server) -> Result<Console> {
    let client = server.connect().map_err(|e| match e {
        // The hint of other commands names their options.
        Error::Failed { message, mut hints } if hints.iter().any(|hint| hint.contains("--server")) => {
            hints.retain(|hint| !hint.contains("--server"));
            hints.push(
                "is a pgweir or PgBouncer running there? name its console as in psql: pgweir top \"host=... port=6432 user=...\""
                    .to_owned(),
            );
            Error::Failed { message, hints }
        }
        e => e,
    });
    Console::new(client.map_err(|e| e.context("console"))?)
}

fn watch(server: &Server, first: Console, interval: Duration, with_clients: &AtomicBool, sender: &Sender<Heard>) {
    let started = Instant::now();
    let mut console = first;
    loop {
        let began = Instant::now();
        let heard = match console.look(began - started, with_clients.load(Ordering::Relaxed)) {
            Ok(look) => Heard::Look(Box::new(look), console.version.clone()),
            Err(e) => Heard::Lost(first_line(&e)),
        };
        let is_lost = matches!(heard, Heard::Lost(_));
        if sender.send(heard).is_err() {
            return;
        }
        if is_lost {
            match again(server, sender) {
                Some(anew) => console = anew,
                None => return,
            }
            continue;
        }
        thread::sleep(interval.saturating_sub(began.elapsed()));
    }
}

/// Connects as soon as that is possible; None when nobody listens any more.
fn again(server: &Server, sender: &Sender<Heard>) -> Option<Console> {
    loop {
        thread::sleep(RETRY_INTERVAL);
        match connect(server) {
            Ok(console) => return Some(console),
            Err(e) => sender.send(Heard::Lost(first_line(&e))).ok()?,
        }
    }
}

fn first_line(error: &Error) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}
