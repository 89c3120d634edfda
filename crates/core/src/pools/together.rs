//! The server time of clients whose transactions are answered together.

use crate::base::ids::ClientId;

/// Clients whose transactions a server has answered in one input, one behind the other. How long it worked on each is
/// not seen, only how long on all.
#[derive(Debug, Default, pgweir_freeze::Freeze)]
pub(crate) struct Together {
    clients: Vec<ClientId>,
    /// The server time of all of them, microseconds.
    us: u64,
}

impl Together {
    /// One more transaction has been answered.
    pub(crate) fn add(&mut self, client: ClientId, us: u64) {
        self.clients.push(client);
        self.us += us;
    }

    #[cfg(any(test, feature = "weaknesses"))]
    pub(crate) fn is_empty(&self) -> bool {
        self.clients.is_empty()
    }

    /// Takes the clients, and the server time for which each is charged, microseconds.
    pub(crate) fn take_shares(&mut self) -> (Vec<ClientId>, u64) {
        let Together { clients, us } = std::mem::take(self);
        let share = us / clients.len().max(1) as u64;
        (clients, share)
    }
}
