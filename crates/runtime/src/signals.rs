//! Turning signals into commands.

use crate::inbox::{InboxSender, Message};
use pgweir_core::Command;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;
use std::io;
use std::thread;

/// What SIGINT and SIGTERM mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Interrupt {
    /// As in PgBouncer: the first waits for servers (INT) or clients (TERM), the second ends at once.
    #[default]
    Graceful,
    /// The first signal ends the process at once. For `pgweir try`, where nothing outlives the process.
    AtOnce,
}

/// Signals that were caught but not yet passed on. They are caught from this point on, so that a signal during the
/// start is not lost.
#[derive(Debug)]
pub(crate) struct CaughtSignals {
    signals: Signals,
    /// Those that have been looked at.
    seen: Vec<i32>,
}

/// Begins to catch signals.
pub(crate) fn catch() -> io::Result<CaughtSignals> {
    Ok(CaughtSignals {
        signals: Signals::new([SIGHUP, SIGTERM, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2])?,
        seen: Vec::new(),
    })
}

impl CaughtSignals {
    /// Whether a signal has asked this process to end.
    pub(crate) fn ask_for_end(&mut self) -> bool {
        self.seen.extend(self.signals.pending());
        let ends = |signal: &i32| matches!(*signal, SIGTERM | SIGINT | SIGQUIT);
        self.seen.iter().any(ends)
    }

    /// Passes every signal on to the data plane, from a separate thread.
    pub(crate) fn pass_on(mut self, interrupt: Interrupt, inbox: InboxSender) -> io::Result<()> {
        thread::Builder::new().name("signals".into()).spawn(move || {
            for signal in self.seen.into_iter().chain(self.signals.forever()) {
                if let Some(command) = command(signal, interrupt) {
                    inbox.send(Message::Command(command));
                }
            }
        })?;
        Ok(())
    }
}

fn command(signal: i32, interrupt: Interrupt) -> Option<Command> {
    Some(match (signal, interrupt) {
        (SIGHUP, _) => Command::Reload,
        (SIGTERM | SIGINT, Interrupt::AtOnce) | (SIGQUIT, _) => Command::ShutdownImmediate,
        (SIGTERM, _) => Command::ShutdownWaitForClients,
        (SIGINT, _) => Command::ShutdownWaitForServers,
        (SIGUSR1, _) => Command::Pause,
        (SIGUSR2, _) => Command::Resume,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_signal_arrives_as_a_command() {
        let poll = mio::Poll::new().unwrap();
        let (sender, inbox) = crate::inbox::inbox(poll.registry()).unwrap();
        let caught = catch().unwrap();
        // No thread passes signals on yet; this one must not be lost.
        signal_hook::low_level::raise(SIGUSR1).unwrap();
        caught.pass_on(Interrupt::Graceful, sender).unwrap();
        let message = inbox.recv_timeout(Duration::from_secs(10)).unwrap();
        assert!(matches!(message, Message::Command(Command::Pause)), "{message:?}");
        signal_hook::low_level::raise(SIGHUP).unwrap();
        let message = inbox.recv_timeout(Duration::from_secs(10)).unwrap();
        assert!(matches!(message, Message::Command(Command::Reload)), "{message:?}");
    }

    #[test]
    fn a_signal_that_was_looked_at_is_passed_on_all_the_same() {
        let poll = mio::Poll::new().unwrap();
        let (sender, inbox) = crate::inbox::inbox(poll.registry()).unwrap();
        let mut caught = catch().unwrap();
        signal_hook::low_level::raise(SIGUSR2).unwrap();
        assert!(!caught.ask_for_end());
        signal_hook::low_level::raise(SIGINT).unwrap();
        assert!(caught.ask_for_end() && caught.ask_for_end());
        caught.pass_on(Interrupt::Graceful, sender).unwrap();
        let received = || inbox.recv_timeout(Duration::from_secs(10)).unwrap();
        assert!(matches!(received(), Message::Command(Command::Resume)));
        assert!(matches!(received(), Message::Command(Command::ShutdownWaitForServers)));
    }

    #[test]
    fn interrupts_wait_or_do_not() {
        assert_eq!(
            command(SIGINT, Interrupt::Graceful),
            Some(Command::ShutdownWaitForServers)
        );
        assert_eq!(
            command(SIGTERM, Interrupt::Graceful),
            Some(Command::ShutdownWaitForClients)
        );
        assert_eq!(command(SIGQUIT, Interrupt::Graceful), Some(Command::ShutdownImmediate));
        assert_eq!(command(SIGINT, Interrupt::AtOnce), Some(Command::ShutdownImmediate));
        assert_eq!(command(SIGHUP, Interrupt::AtOnce), Some(Command::Reload));
    }
}
