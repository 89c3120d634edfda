//! Cancel requests that find nothing to cancel yet: whose they are, and when they are looked at again.

use crate::base::ids::ClientId;
use crate::base::time::Time;
use std::time::Duration;

/// The most cancel requests that are held. If another one comes, its connection is closed at once, as if the client had
/// nothing to cancel.
pub(crate) const HELD_CANCELS_MAX: usize = 1024;

/// How long a held cancel request waits until it is looked at again. PostgreSQL ignores a cancel that comes before the
/// request that it is for. So the server has this time to read a request that the pooler has just passed on.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// A cancel request that is held.
#[derive(Debug, pgweir_freeze::Freeze)]
struct HeldCancel {
    /// The connection that asked. It stays open until the cancel has been carried out or given up.
    by: ClientId,
    /// Whose work is to be cancelled.
    client: ClientId,
    /// When it is looked at again; `None` until the driver has read the client's connection, or until RESUME.
    look_at: Option<Time>,
}

/// All of them, oldest first.
#[derive(Debug, Default, pgweir_freeze::Freeze)]
pub(crate) struct HeldCancels(Vec<HeldCancel>);

impl HeldCancels {
    /// Holds a request. `false`: too many are held already.
    pub(crate) fn hold(&mut self, by: ClientId, client: ClientId) -> bool {
        if self.0.len() >= HELD_CANCELS_MAX {
            return false;
        }
        self.0.push(HeldCancel {
            by,
            client,
            look_at: None,
        });
        true
    }

    /// The client that the request of this connection is for, if it is held.
    pub(crate) fn client_of(&self, by: ClientId) -> Option<ClientId> {
        self.0.iter().find(|held| held.by == by).map(|held| held.client)
    }

    /// The request of this connection is looked at again at this time.
    pub(crate) fn look_again(&mut self, by: ClientId, at: Time) {
        if let Some(held) = self.0.iter_mut().find(|held| held.by == by) {
            held.look_at = Some(at);
        }
    }

    /// When the next request is looked at again.
    #[inline]
    pub(crate) fn next_look(&self) -> Option<Time> {
        self.0.iter().filter_map(|held| held.look_at).min()
    }

    /// The connections whose requests are to be looked at now.
    pub(crate) fn due(&self, now: Time) -> Vec<ClientId> {
        let due = self.0.iter().filter(|held| held.look_at.is_some_and(|at| at <= now));
        due.map(|held| held.by).collect()
    }

    /// All requests, which now wait until the driver has read their clients' connections: the connection that asked,
    /// and its client.
    pub(crate) fn read_all(&mut self) -> Vec<(ClientId, ClientId)> {
        self.0.iter_mut().for_each(|held| held.look_at = None);
        self.0.iter().map(|held| (held.by, held.client)).collect()
    }

    /// The request of this connection is not held any longer.
    pub(crate) fn forget(&mut self, by: ClientId) {
        self.0.retain(|held| held.by != by);
    }

    /// Removes the requests for this client, and returns the connections that asked.
    pub(crate) fn take_for(&mut self, client: ClientId) -> Vec<ClientId> {
        let gone = self.0.extract_if(.., |held| held.client == client);
        gone.map(|held| held.by).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ids::Slot;

    fn id(index: u32) -> ClientId {
        ClientId(Slot { index, generation: 0 })
    }

    #[test]
    fn only_so_many_are_held() {
        let mut held = HeldCancels::default();
        for n in 0..HELD_CANCELS_MAX as u32 {
            assert!(held.hold(id(n), id(9999)));
        }
        assert!(!held.hold(id(9998), id(9999)));
        assert_eq!(held.take_for(id(9999)).len(), HELD_CANCELS_MAX);
        assert!(held.hold(id(9998), id(9999)));
    }

    #[test]
    fn each_is_due_at_its_time() {
        let mut held = HeldCancels::default();
        held.hold(id(1), id(11));
        held.hold(id(2), id(12));
        assert_eq!((held.next_look(), held.due(Time(9))), (None, vec![]));
        held.look_again(id(2), Time(5));
        assert_eq!((held.next_look(), held.due(Time(4))), (Some(Time(5)), vec![]));
        assert_eq!(held.due(Time(5)), [id(2)]);
        assert_eq!(held.read_all(), [(id(1), id(11)), (id(2), id(12))]);
        assert_eq!(held.due(Time(5)), []);
        held.forget(id(2));
        assert_eq!((held.client_of(id(1)), held.client_of(id(2))), (Some(id(11)), None));
    }
}
