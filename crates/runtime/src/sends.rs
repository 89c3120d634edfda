//! Output that waits for the end of the turn, so that the kernel gets the output for all connections in one system call
//! (io_uring).
//!
//! A send to a socket wakes the process at the other end, and on a busy machine that process runs at the end of the
//! system call, in the place of this one. With a system call for each of sixteen replies, that happens up to sixteen
//! times; with one system call for all of them, once.
//!
//! The kernel carries out each send at once and in order, as `send()` does. Nothing is under way when
//! [`Sends::carry_out`] has returned.

#![allow(unsafe_code)]

use crate::transport::Sent;
use io_uring::{IoUring, Probe, opcode, types};
use pgweir_config::IoUringChoice;
use pgweir_core::ConnectionId;
use rustix::io::Errno;
use std::os::fd::RawFd;
use std::{fmt, fs, io};

/// The most sends of one system call.
const SENDS_MAX: usize = 32;

/// Longer output is sent at once: the system call costs little beside the copy.
const SEND_BYTES_MAX: usize = 4 * 1024;

/// How often in a row the kernel may fail to take sends, for lack of memory, before io_uring is given up.
const FAILURES_MAX: u32 = 100;

/// A send that waits.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    to: ConnectionId,
    socket: RawFd,
    /// Its bytes are those of the buffer from here to `end`.
    start: usize,
    end: usize,
}

/// What has become of a send that waited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// The kernel was not given it.
    NotGiven,
    /// The kernel was given it, and does not say what it did.
    Unknown,
    /// The result of the system call: a number of bytes, or a negative error number.
    Is(i32),
}

/// The sends of a turn.
#[derive(Default)]
pub(crate) struct Sends {
    ring: Option<Box<IoUring>>,
    waiting: Vec<Waiting>,
    /// After [`Sends::carry_out`], one for each that waited.
    outcomes: Vec<Outcome>,
    bytes: Vec<u8>,
    failure: Option<io::Error>,
}

impl Sends {
    /// From here on, sends may wait, if the setting allows it. The thread that calls this must be the one that sends.
    /// Returns what to tell the operator.
    pub(crate) fn open(&mut self, choice: IoUringChoice) -> Result<&'static str, String> {
        match choice {
            IoUringChoice::Off => return Ok("io_uring is not used: it is switched off"),
            IoUringChoice::Auto if !is_unrestricted() => {
                return Ok("io_uring is not used: a seccomp filter restricts this process (io_uring = on tries it)");
            }
            IoUringChoice::Auto | IoUringChoice::On => {}
        }
        self.ring = Some(Box::new(ring().map_err(|e| format!("io_uring is not used: {e}"))?));
        Ok("io_uring is used")
    }

    /// Whether output of this length may wait.
    #[inline]
    pub(crate) fn takes(&self, bytes: usize) -> bool {
        self.ring.is_some() && bytes <= SEND_BYTES_MAX
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Adds the only send to a connection. Returns whether further sends may wait.
    #[inline]
    pub(crate) fn push(&mut self, to: ConnectionId, socket: RawFd, bytes: &[u8]) -> bool {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        let end = self.bytes.len();
        self.waiting.push(Waiting { to, socket, start, end });
        self.waiting.len() < SENDS_MAX
    }

    /// The connection of a send, and its bytes.
    #[inline]
    pub(crate) fn get(&self, index: usize) -> (ConnectionId, &[u8]) {
        let waiting = self.waiting[index];
        (waiting.to, &self.bytes[waiting.start..waiting.end])
    }

    /// What has become of a send; `None` if it has yet to be sent.
    #[inline]
    pub(crate) fn outcome(&self, index: usize) -> Option<Sent> {
        match self.outcomes.get(index) {
            None | Some(Outcome::NotGiven) => None,
            Some(Outcome::Is(count @ 0..)) => Some(Sent::Bytes(*count as usize)),
            Some(Outcome::Is(error)) => Some(match Errno::from_raw_os_error(-error) {
                Errno::AGAIN | Errno::INTR => Sent::Bytes(0),
                _ => Sent::Failed,
            }),
            // Bytes that may have been sent cannot be sent again.
            Some(Outcome::Unknown) => Some(Sent::Failed),
        }
    }

    /// Forgets the sends.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.waiting.clear();
        self.outcomes.clear();
        self.bytes.clear();
    }

    /// Why io_uring was given up, once.
    #[inline]
    pub(crate) fn take_failure(&mut self) -> Option<io::Error> {
        self.failure.take()
    }

    /// Gives the sends to the kernel. If it does not take them, io_uring is given up.
    pub(crate) fn carry_out(&mut self) {
        let Some(ring) = &mut self.ring else { return };
        self.outcomes.clear();
        self.outcomes.resize(self.waiting.len(), Outcome::NotGiven);
        let given = enqueue(ring, &self.waiting, &self.bytes);
        if let Err(error) = complete(ring, &mut self.outcomes[..given]) {
            self.give_up(given, error);
        }
    }

    #[cold]
    fn give_up(&mut self, enqueued: usize, error: io::Error) {
        let Some(mut ring) = self.ring.take() else { return };
        // The kernel takes them in their order, and has not seen those that are still in the queue.
        let given = enqueued - ring.submission().len().min(enqueued);
        for outcome in &mut self.outcomes[..given] {
            if *outcome == Outcome::NotGiven {
                *outcome = Outcome::Unknown;
            }
        }
        if self.outcomes.contains(&Outcome::Unknown) {
            // The kernel may still read these bytes.
            let copy = self.bytes.clone();
            std::mem::forget(std::mem::replace(&mut self.bytes, copy));
        }
        self.failure = Some(error);
    }
}

impl fmt::Debug for Sends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sends")
            .field("waiting", &self.waiting)
            .finish_non_exhaustive()
    }
}

/// Whether no seccomp filter restricts this process. A filter may end a process that tries an unusual system call.
fn is_unrestricted() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mode = status.lines().find_map(|line| line.strip_prefix("Seccomp:"));
    mode.is_some_and(|mode| mode.trim() == "0")
}

fn ring() -> io::Result<IoUring> {
    let entries = SENDS_MAX as u32;
    // Only one thread uses the ring, so the kernel need not interrupt it (Linux 6.1).
    let ring = IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .build(entries)
        .or_else(|_| IoUring::new(entries))?;
    let mut probe = Probe::new();
    ring.submitter().register_probe(&mut probe)?;
    match probe.is_supported(opcode::Send::CODE) {
        true => Ok(ring),
        false => Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "this kernel cannot send by it",
        )),
    }
}

/// Puts the sends into the ring's queue. Returns how many it has taken: all, unless the ring is smaller than it was
/// asked to be.
fn enqueue(ring: &mut IoUring, waiting: &[Waiting], bytes: &[u8]) -> usize {
    let mut queue = ring.submission();
    for (index, one) in waiting.iter().enumerate() {
        let bytes = &bytes[one.start..one.end];
        let send = opcode::Send::new(types::Fd(one.socket), bytes.as_ptr(), bytes.len() as u32)
            .flags(libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT)
            .build()
            .user_data(index as u64);
        // SAFETY: the bytes stay where they are until the send is over. Nothing is added to their buffer before
        // `complete` returns, and then either all sends are over, or the buffer is never freed.
        if unsafe { queue.push(&send) }.is_err() {
            return index;
        }
    }
    waiting.len()
}

/// Submits what is in the ring's queue, and collects the outcomes.
fn complete(ring: &mut IoUring, outcomes: &mut [Outcome]) -> io::Result<()> {
    let mut left = outcomes.len();
    let mut failures = 0;
    while left > 0 {
        match ring.submit_and_wait(left) {
            Ok(_) => failures = 0,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if failures == FAILURES_MAX => return Err(error),
            Err(_) => failures += 1,
        }
        for completion in ring.completion() {
            if let Some(outcome) = outcomes.get_mut(completion.user_data() as usize) {
                *outcome = Outcome::Is(completion.result());
                left -= 1;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "sends_tests.rs"]
mod tests;
