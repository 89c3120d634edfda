//! One client's transaction that shares a server with those of other clients: see [`crate::upstream::flights`].

use crate::base::ids::ClientId;
use crate::base::reasons::Waited;
use crate::base::time::Time;
use crate::statements::prepared::Statement;
use std::sync::Arc;
use std::time::Duration;

/// What messages a flight consists of.
#[derive(Debug, Clone, pgweir_freeze::Freeze)]
pub(crate) enum Form {
    /// It is one Query.
    Query,
    /// Bind of a named statement, perhaps Describe of its portal, Execute, Sync.
    Bind,
    /// Parse of the unnamed statement, which is this one, and then the messages of [`Form::Bind`].
    Parse(Arc<Statement>),
}

/// One client's segment that is a whole transaction.
#[derive(Debug, Clone, pgweir_freeze::Freeze)]
pub(crate) struct Flight {
    /// Its messages, as the client has sent them.
    bytes: Box<[u8]>,
    form: Form,
    /// Flights of one class take similar time: see [`crate::pools::classes`].
    class: u64,
    /// A cancel that was meant for another flight hit it, and it is run again.
    pub(super) runs_again: bool,
}

impl Flight {
    /// `bytes`: its messages, as the client has sent them.
    pub(crate) fn new(bytes: &[u8], form: Form, class: u64) -> Self {
        Flight {
            bytes: bytes.into(),
            form,
            class,
            runs_again: false,
        }
    }

    /// Its messages, as the client has sent them.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// What messages it consists of.
    pub(crate) fn form(&self) -> &Form {
        &self.form
    }

    /// Its class: flights of one class take similar time.
    pub(crate) fn class(&self) -> u64 {
        self.class
    }

    /// Whether a cancel that was meant for another flight hit it, and it is run again.
    pub(crate) fn runs_again(&self) -> bool {
        self.runs_again
    }
}

/// A flight that was sent to a server.
#[derive(Debug, pgweir_freeze::Freeze)]
pub(crate) struct Aboard {
    /// `None`: its client has left, and nobody gets its reply.
    pub(super) client: Option<ClientId>,
    pub(super) flight: Box<Flight>,
    /// How its client waits, until the server can begin the flight.
    pub(super) waited: Waited,
    /// Its client wants it cancelled.
    pub(super) is_cancelled: bool,
    /// A cancel that is meant for a flight in front of it may hit this one. So its client gets no part of the reply
    /// before ReadyForQuery has come.
    pub(super) is_exposed: bool,
    /// The clients that wait behind it have been counted, because it is late.
    pub(super) is_late: bool,
    /// When the pooler stopped reading the server, because too much of this flight's reply waits for its client.
    pub(super) unread_since: Option<Time>,
}

impl Aboard {
    pub(super) fn new(client: ClientId, flight: Box<Flight>, waited: Waited) -> Self {
        Aboard {
            client: Some(client),
            flight,
            waited,
            is_cancelled: false,
            is_exposed: false,
            is_late: false,
            unread_since: None,
        }
    }

    /// Whether its client wants it cancelled.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.is_cancelled
    }

    /// Its client, unless that has left.
    pub(crate) fn client(&self) -> Option<ClientId> {
        self.client
    }

    pub(crate) fn flight(&self) -> &Flight {
        &self.flight
    }

    /// When its client began to wait.
    pub(crate) fn since(&self) -> Time {
        self.waited.since
    }

    /// Its reply is dropped, and it is run again. `in_front`: how long the server has worked on it.
    pub(super) fn runs_again(&mut self, in_front: Duration) -> Again {
        self.client = None;
        let mut flight = self.flight.clone();
        flight.runs_again = true;
        Again {
            flight,
            waited: self.waited,
            in_front,
        }
    }

    /// What its client needs to wait again. The server has not begun it.
    pub(crate) fn into_again(self) -> Again {
        Again {
            flight: self.flight,
            waited: self.waited,
            in_front: Duration::ZERO,
        }
    }
}

/// A flight that its client sends to another server, because it has not been answered.
pub(crate) struct Again {
    /// The flight.
    pub(crate) flight: Box<Flight>,
    /// How its client waits.
    pub(crate) waited: Waited,
    /// How long a server has worked on it: for so long its client has not waited.
    pub(crate) in_front: Duration,
}
