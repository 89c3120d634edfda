//! The turns of TLS handshakes.
//!
//! A step of a handshake costs the pooler up to some milliseconds (a signature by its private key) and the other side
//! nothing. So it is not done when its bytes arrive, but at the end of a turn of the event loop, when everybody else
//! has been served, and only as many as fit into a share of time. The others wait for the next turns.
//!
//! Handshakes that the pooler has asked for have a share of their own: clients that come and handshakes with servers do
//! not delay each other.

use crate::event_loop::EventLoop;
use crate::securing::origin;
use crate::token::Subject;
use crate::transport::Transport;
use crate::turns::{Place, Turns};
use pgweir_core::ConnectionId;

/// The time in one turn of the event loop after which no further handshake of a share goes on, microseconds. One always
/// does.
const SHARE_US: u64 = 2_000;

/// Who has begun the handshakes of a share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Share {
    /// The pooler: with servers, and for cancel requests.
    Pooler,
    /// Clients, most of whom nobody knows yet.
    Clients,
}

impl Share {
    fn of(subject: Subject) -> Share {
        match subject {
            Subject::Connection(ConnectionId::Client(_)) => Share::Clients,
            _ => Share::Pooler,
        }
    }
}

/// The turn of one handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Nothing has arrived for it.
    None,
    /// It waits in the queue.
    At(Place),
    /// It may do one step.
    Now,
}

/// The handshakes that wait for their turn: each connection at most once, and none that is closed.
#[derive(Debug, Default)]
pub(crate) struct Handshakes {
    of_pooler: Turns<Subject>,
    of_clients: Turns<Subject>,
}

impl Handshakes {
    pub(crate) fn is_empty(&self) -> bool {
        self.of_pooler.is_empty() && self.of_clients.is_empty()
    }

    fn of(&mut self, share: Share) -> &mut Turns<Subject> {
        match share {
            Share::Pooler => &mut self.of_pooler,
            Share::Clients => &mut self.of_clients,
        }
    }

    /// Whether the handshake may do a step now. If not, it waits for its turn from now on.
    pub(crate) fn may_step(&mut self, subject: Subject, turn: &mut Turn, transport: &Transport) -> bool {
        match turn {
            Turn::Now => {
                *turn = Turn::None;
                return true;
            }
            Turn::At(_) => {}
            Turn::None => {
                let waiting = self.of(Share::of(subject));
                *turn = Turn::At(waiting.push(origin(transport), subject));
            }
        }
        false
    }

    /// The connection is closed.
    pub(crate) fn leave(&mut self, subject: Subject, turn: Turn) {
        if let Turn::At(place) = turn {
            self.of(Share::of(subject)).remove(place);
        }
    }
}

impl EventLoop {
    /// Goes on with handshakes that wait, in turn.
    #[inline]
    pub(crate) fn shake_hands(&mut self, scratch: &mut Vec<u8>) {
        if !self.connections.handshakes.is_empty() {
            self.shake_some_hands(scratch);
        }
    }

    #[cold]
    fn shake_some_hands(&mut self, scratch: &mut Vec<u8>) {
        for share in [Share::Pooler, Share::Clients] {
            let begun_us = self.since_look_at_clock_us();
            while let Some(subject) = self.connections.handshakes.of(share).pop() {
                match subject {
                    Subject::Connection(id) => self.shake_hands_with(id, scratch),
                    Subject::Cancel(slot) => self.shake_hands_for_cancel(slot),
                    _ => unreachable!("nothing else has a handshake"),
                }
                if self.since_look_at_clock_us() - begun_us >= SHARE_US {
                    break;
                }
            }
        }
    }

    fn shake_hands_with(&mut self, id: ConnectionId, scratch: &mut Vec<u8>) {
        if let Some(connection) = self.connections.get(id)
            && let Some(tls) = &mut connection.tls
        {
            tls.turn = Turn::Now;
            self.read_again(id, scratch);
        }
    }
}
