//! Ctrl-C and its like: a command is told, ends in order, and leaves nothing behind.

use crate::{Error, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
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
