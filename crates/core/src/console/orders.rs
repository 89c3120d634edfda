//! Operators' orders that stay in force.

use crate::base::ids::ClientId;
use crate::base::stats::{Periods, Stats};

/// How the process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, pgweir_freeze::Freeze)]
pub(crate) enum Ending {
    /// It does not.
    #[default]
    No,
    /// When no server is in use.
    WaitForServers,
    /// When no client is left.
    WaitForClients,
    /// Now.
    Immediate,
}

/// What has been stopped in all databases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, pgweir_freeze::Freeze)]
pub(crate) enum Halt {
    /// Nothing.
    #[default]
    No,
    /// PAUSE: no client gets a server.
    Paused,
    /// SUSPEND: nothing is read from clients and servers, and no timeout fires.
    Suspended,
}

/// Orders in force.
#[derive(Debug, Default, pgweir_freeze::Freeze)]
pub(crate) struct Orders {
    pub(crate) halt: Halt,
    pub(crate) ending: Ending,
    /// Console clients that wait for the end of a command.
    pub(crate) waiters: Vec<ClientId>,
    /// `Pooler::pause_progress` is running. It closes servers, which calls it again.
    pub(crate) progressing: bool,
    /// Counters of the console.
    pub(crate) console_stats: Stats,
    pub(crate) periods: Periods,
}

impl Orders {
    /// No client of any database gets a server now.
    #[inline]
    pub(crate) fn paused_all(&self) -> bool {
        self.halt == Halt::Paused || matches!(self.ending, Ending::WaitForServers | Ending::Immediate)
    }

    /// Nothing is read from clients and servers, and no timeout fires.
    #[inline]
    pub(crate) fn is_suspended(&self) -> bool {
        self.halt == Halt::Suspended
    }

    /// The process is about to exit: no new work begins.
    pub(crate) fn is_ending(&self) -> bool {
        self.ending == Ending::Immediate
    }

    pub(crate) fn refuses_logins(&self) -> bool {
        self.ending != Ending::No
    }

    /// Clients that would have to wait for a server are disconnected.
    #[inline]
    pub(crate) fn refuses_waiters(&self) -> bool {
        self.paused_all() && self.ending != Ending::No
    }

    pub(crate) fn client_gone(&mut self, id: ClientId) {
        self.waiters.retain(|waiter| *waiter != id);
    }
}
