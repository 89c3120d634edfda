//! Operators' orders that stay in force.

use crate::base::ids::ClientId;
use crate::base::request::OrderId;
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
    halt: Halt,
    ending: Ending,
    /// Console clients that wait for the end of a command.
    waiters: Vec<ClientId>,
    /// The number of the last [`OrderId`].
    last_order: u64,
    /// Something has happened that an order may wait for: `Pooler::follow_orders` looks at the end of the turn.
    is_due: bool,
    console_stats: Stats,
    periods: Periods,
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

    /// SHUTDOWN has been ordered.
    pub(crate) fn is_shutting_down(&self) -> bool {
        self.ending != Ending::No
    }

    /// How the process ends.
    pub(crate) fn ending(&self) -> Ending {
        self.ending
    }

    /// SHUTDOWN. Returns whether it is the first one.
    pub(crate) fn shut_down(&mut self, how: Ending) -> bool {
        std::mem::replace(&mut self.ending, how) == Ending::No
    }

    fn may_halt(&self) -> Result<(), Refusal> {
        self.may_change()?;
        self.may_kill()
    }

    fn may_change(&self) -> Result<(), Refusal> {
        match self.is_shutting_down() {
            true => Err(Refusal::not_in_state("pooler is shutting down")),
            false => Ok(()),
        }
    }

    /// KILL is refused while everything is paused.
    pub(crate) fn may_kill(&self) -> Result<(), Refusal> {
        match self.halt {
            Halt::No => Ok(()),
            Halt::Paused | Halt::Suspended => Err(Refusal::not_in_state("already paused")),
        }
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
        self.may_change()?;
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

    /// The identity of a command that is answered later.
    pub(crate) fn next_order(&mut self, client: ClientId) -> OrderId {
        self.last_order += 1;
        OrderId {
            client,
            number: self.last_order,
        }
    }

    /// Whether RESUME has ended what a console client waits for.
    pub(crate) fn is_resumed(&self, databases: &Databases, waits: &Waits) -> bool {
        let paused = self.halt == Halt::Paused;
        match waits {
            Waits::Paused(None) => !paused,
            Waits::Paused(Some(database)) => !paused && !databases.is_paused(database),
            Waits::Closed(_) | Waits::Reloaded(_) | Waits::Set(_) => false,
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

    /// This console client waits for the end of its command.
    pub(crate) fn client_waits(&mut self, id: ClientId) {
        self.waiters.push(id);
    }

    /// This console client waits no longer, or has left.
    pub(crate) fn client_gone(&mut self, id: ClientId) {
        self.waiters.retain(|waiter| *waiter != id);
    }

    /// The console clients that wait for the end of a command.
    pub(crate) fn waiters(&self) -> &[ClientId] {
        &self.waiters
    }

    /// Something has happened that an order may wait for.
    pub(crate) fn becomes_due(&mut self) {
        self.is_due = true;
    }

    /// Whether something has happened since [`Orders::take_due`] that an order may wait for.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.is_due
    }

    /// What has happened is looked at.
    pub(crate) fn take_due(&mut self) -> bool {
        std::mem::take(&mut self.is_due)
    }

    /// The counters of the console's clients.
    pub(crate) fn console_stats(&self) -> &Stats {
        &self.console_stats
    }

    pub(crate) fn console_stats_mut(&mut self) -> &mut Stats {
        &mut self.console_stats
    }

    /// The counters of databases that are gone, and of the last `stats_period`.
    pub(crate) fn periods(&self) -> &Periods {
        &self.periods
    }

    pub(crate) fn periods_mut(&mut self) -> &mut Periods {
        &mut self.periods
    }
}
