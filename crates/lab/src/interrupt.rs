//! Ctrl-C and its like: a command is told, ends in order, and leaves nothing behind.

use crate::{Error, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io::BufRead;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// How long a sleep may go on after the signal.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// Whether the user has asked the command to end. Clones tell the same.
#[derive(Debug, Clone, Default)]
pub struct Interrupt {
    /// The signal that came last; 0: none.
    signal: Arc<AtomicUsize>,
}

impl Interrupt {
    /// From now on SIGINT, SIGTERM and SIGHUP do not end the process; they are seen by [`Interrupt::check`].
    pub fn install() -> Result<Self> {
        let interrupt = Interrupt::default();
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            let number = usize::try_from(signal).expect("numbers of signals are positive");
            signal_hook::flag::register_usize(signal, Arc::clone(&interrupt.signal), number)?;
        }
        Ok(interrupt)
    }

    /// Fails with [`Error::Interrupted`] after a signal. To be called between steps, at least every tenth of a second.
    pub fn check(&self) -> Result<()> {
        match self.signal.load(Ordering::Relaxed) {
            0 => Ok(()),
            signal => Err(Error::Interrupted {
                signal: i32::try_from(signal).unwrap_or(SIGINT),
            }),
        }
    }

    /// The outcome of a step; where it failed after a signal, the signal's error, which is the reason.
    pub fn instead_of<T>(&self, outcome: Result<T>) -> Result<T> {
        if outcome.is_err() {
            self.check()?;
        }
        outcome
    }

    /// A line from standard input; a signal ends the waiting.
    pub fn read_line(&self) -> Result<String> {
        let (sender, answer) = channel();
        // Left behind where nobody answers: it ends with the process.
        thread::spawn(move || {
            let mut line = String::new();
            let _ = std::io::stdin().lock().read_line(&mut line);
            let _ = sender.send(line);
        });
        loop {
            self.check()?;
            match answer.recv_timeout(LOOK_INTERVAL) {
                Ok(line) => return Ok(line),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(String::new()),
            }
        }
    }

    /// Sleeps; a signal ends it early with the error of [`Interrupt::check`].
    pub fn sleep(&self, time: Duration) -> Result<()> {
        let started = Instant::now();
        loop {
            self.check()?;
            match time.checked_sub(started.elapsed()) {
                None | Some(Duration::ZERO) => return Ok(()),
                Some(left) => thread::sleep(left.min(LOOK_INTERVAL)),
            }
        }
    }
}
