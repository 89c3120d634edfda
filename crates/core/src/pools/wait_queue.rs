//! The clients of one pool that wait for a server, first come, first served.
//!
//! Only this type knows the order, so another policy can replace it here.

use crate::base::ids::ClientId;
use crate::base::time::Time;
use std::collections::VecDeque;

/// Waiting clients in order of arrival. A client that leaves is only marked, and is dropped when it comes to the front:
/// so a thousand clients that leave at once cost a thousand steps, not a million.
#[derive(Debug, Default, pgweir_freeze::Freeze)]
pub(crate) struct WaitQueue {
    queue: VecDeque<Option<(ClientId, Time)>>,
    /// Number of the entry at the front; entry `n` is at `n - first`, also where numbers have passed zero.
    first: u64,
    waiting: usize,
}

impl WaitQueue {
    /// Adds a client at the end; the returned ticket removes it again.
    pub(crate) fn push(&mut self, client: ClientId, now: Time) -> u64 {
        self.queue.push_back(Some((client, now)));
        self.waiting += 1;
        self.first.wrapping_add(self.queue.len() as u64 - 1)
    }

    /// Adds a client in front of all others.
    pub(crate) fn push_front(&mut self, client: ClientId, since: Time) -> u64 {
        self.queue.push_front(Some((client, since)));
        self.waiting += 1;
        self.first = self.first.wrapping_sub(1);
        self.first
    }

    /// The client that is served next.
    pub(crate) fn front(&self) -> Option<(ClientId, Time)> {
        self.queue.front().copied().flatten()
    }

    /// Takes the client that is served next.
    pub(crate) fn pop(&mut self) -> Option<(ClientId, Time)> {
        let (client, since) = self.front()?;
        self.remove(self.first);
        Some((client, since))
    }

    /// Removes the client with this ticket, which must be in the queue.
    pub(crate) fn remove(&mut self, ticket: u64) {
        let place = self.queue.get_mut(ticket.wrapping_sub(self.first) as usize);
        if place.and_then(Option::take).is_some() {
            self.waiting -= 1;
        }
        while matches!(self.queue.front(), Some(None)) {
            self.queue.pop_front();
            self.first = self.first.wrapping_add(1);
        }
        if self.queue.is_empty() && self.queue.capacity() > 1024 {
            self.queue.shrink_to(64);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// The client with this ticket.
    #[cfg(any(test, feature = "weaknesses"))]
    pub(crate) fn holder(&self, ticket: u64) -> Option<ClientId> {
        let at = ticket.wrapping_sub(self.first);
        self.queue.get(at as usize)?.map(|(client, _)| client)
    }

    /// All clients in order of arrival.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (ClientId, Time)> + '_ {
        self.queue.iter().copied().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ids::Slot;

    fn client(index: u32) -> ClientId {
        ClientId(Slot { index, generation: 0 })
    }

    #[test]
    fn first_come_first_served_and_leavers_are_skipped() {
        let mut q = WaitQueue::default();
        let tickets: Vec<u64> = (0..5).map(|n| q.push(client(n), Time(n.into()))).collect();
        q.remove(tickets[2]);
        q.remove(tickets[0]);
        q.remove(tickets[0]);
        assert_eq!(q.len(), 3);
        let order: Vec<_> = std::iter::from_fn(|| q.pop()).map(|(c, _)| c.0.index).collect();
        assert_eq!(order, [1, 3, 4]);
        assert!(q.is_empty() && q.front().is_none());
        let ticket = q.push(client(9), Time(9));
        q.remove(ticket);
        assert!(q.is_empty());
    }

    #[test]
    fn who_comes_back_stands_in_front() {
        let mut q = WaitQueue::default();
        let last = q.push(client(1), Time(1));
        let tickets = [q.push_front(client(2), Time(0)), q.push_front(client(3), Time(0))];
        assert_eq!(
            (q.holder(tickets[1]), q.holder(last)),
            (Some(client(3)), Some(client(1)))
        );
        q.remove(tickets[0]);
        let order: Vec<_> = std::iter::from_fn(|| q.pop()).map(|(c, _)| c.0.index).collect();
        assert_eq!(order, [3, 1]);
    }
}
