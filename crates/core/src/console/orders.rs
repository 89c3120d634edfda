//! Operators' orders that stay in force.

use crate::base::ids::ClientId;
use crate::base::stats::{Periods, Stats};
use crate::console::refusal::Refusal;
use crate::console::waiting::Waits;
use crate::pools::databases::Databases;

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
    /// Something has happened that an order may wait for: `Pooler::follow_orders` looks at the end of the turn.
    pub(crate) is_due: bool,
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

    fn may_halt(&self) -> Result<(), Refusal> {
        if self.ending != Ending::No {
            return Err(Refusal::not_in_state("pooler is shutting down"));
        }
        if self.halt != Halt::No {
            return Err(Refusal::not_in_state("already paused"));
        }
        Ok(())
    }

    /// PAUSE: no client gets a server, and servers are closed when they become free.
    pub(crate) fn pause(&mut self, databases: &mut Databases, database: Option<&str>) -> Result<(), Refusal> {
        self.may_halt()?;
        match database {
            None => self.halt = Halt::Paused,
            Some(database) => databases.pause(database),
        }
        Ok(())
    }

    /// SUSPEND: pending output is still written, and nothing more is read.
    pub(crate) fn suspend(&mut self) -> Result<(), Refusal> {
        self.may_halt()?;
        self.halt = Halt::Suspended;
        Ok(())
    }

    /// RESUME: undoes PAUSE, KILL and SUSPEND. Without a database it ends the PAUSE or SUSPEND that was given without
    /// one. If none is in force, it resumes every database.
    pub(crate) fn resume(&mut self, databases: &mut Databases, database: Option<&str>) -> Result<(), Refusal> {
        if self.ending != Ending::No {
            return Err(Refusal::not_in_state("pooler is shutting down"));
        }
        match database {
            None if self.halt != Halt::No => self.halt = Halt::No,
            None if databases.some_are_paused() => databases.resume_all(),
            None => return Err(Refusal::not_in_state("pooler is not paused")),
            Some(database) => {
                if !databases.resume(database) {
                    return Err(Refusal::not_in_state(format!("database {database} is not paused")));
                }
            }
        }
        Ok(())
    }

    /// Whether RESUME has ended what a console client waits for.
    pub(crate) fn is_resumed(&self, databases: &Databases, waits: &Waits) -> bool {
        let paused = self.halt == Halt::Paused;
        match waits {
            Waits::Paused(None) => !paused,
            Waits::Paused(Some(database)) => !paused && !databases.is_paused(database),
            Waits::Closed(_) | Waits::Reloaded | Waits::Set => false,
        }
    }

    /// Ends SUSPEND. Returns whether it was in force.
    pub(crate) fn end_suspension(&mut self) -> bool {
        let was_suspended = self.is_suspended();
        if was_suspended {
            self.halt = Halt::No;
        }
        was_suspended
    }

    pub(crate) fn client_gone(&mut self, id: ClientId) {
        self.waiters.retain(|waiter| *waiter != id);
    }
}
