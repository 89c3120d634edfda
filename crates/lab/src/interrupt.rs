//! Ctrl-C and similar signals: a command notices them, ends in order, and leaves nothing behind.

use crate::{Error, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io::BufRead;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// The longest time that a sleep may go on after a signal.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// Whether the user has asked the command to end. All clones share the answer.
#[derive(Debug, Clone, Default)]
pub struct Interrupt {
    /// The last signal; 0 for none.
    signal: Arc<AtomicUsize>,
}

impl Interrupt {
    /// From now on SIGINT, SIGTERM and SIGHUP do not end the process; [`Interrupt::check`] sees them.
    pub fn install() -> Result<Self> {
        let interrupt = Interrupt::default();
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            let number = usize::try_from(signal).expect("numbers of signals are positive");
            signal_hook::flag::register_usize(signal, Arc::clone(&interrupt.signal), number)?;
        }
        Ok(interrupt)
    }

    /// Fails with [`Error::Interrupted`] after a signal. Call it between steps, at least every tenth of a second.
    pub fn check(&self) -> Result<()> {
        match self.signal.load(Ordering::Relaxed) {
            0 => Ok(()),
            signal => Err(Error::Interrupted {
                signal: i32::try_from(signal).unwrap_or(SIGINT),
            }),
        }
    }

    /// The outcome of a step. If it failed after a signal, the error is the signal's, because that is the cause.
    pub fn instead_of<T>(&self, outcome: Result<T>) -> Result<T> {
        if outcome.is_err() {
            self.check()?;
        }
        outcome
    }

    /// Reads a line from standard input. A signal ends the wait.
    pub fn read_line(&self) -> Result<String> {
        let (sender, answer) = channel();
        // If nobody answers, this thread stays until the process ends.
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

/// A wait that Ctrl-C (or SIGTERM) ends early, without ending the command: what comes after it is done as if the time were over.
/// The second signal ends the process, and so does the first one after the wait.
#[derive(Debug)]
pub struct EarlyEnd {
    asked: Arc<AtomicBool>,
    kills: Arc<AtomicBool>,
}

impl EarlyEnd {
    /// From now on.
    pub fn install() -> Result<Self> {
        let (asked, kills) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        for signal in [SIGINT, SIGTERM] {
            // In this order: the first signal finds `kills` as it was.
            signal_hook::flag::register_conditional_default(signal, Arc::clone(&kills))?;
            signal_hook::flag::register(signal, Arc::clone(&kills))?;
            signal_hook::flag::register(signal, Arc::clone(&asked))?;
        }
        Ok(EarlyEnd { asked, kills })
    }

    /// Sleeps; a signal ends it early.
    pub fn sleep(&self, time: Duration) {
        let started = Instant::now();
        while let Some(left) = time.checked_sub(started.elapsed()).filter(|_| !self.is_asked()) {
            thread::sleep(left.min(LOOK_INTERVAL));
        }
    }

    /// Whether a signal has come.
    pub fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// The wait is over: a signal ends the process as usual.
    pub fn over(&self) {
        self.kills.store(true, Ordering::SeqCst);
    }

    /// Another [`Interrupt`] takes the next signal.
    pub fn leave_to_others(&self) {
        self.kills.store(false, Ordering::SeqCst);
    }
}
