//! A server's message is handled in a `Reply`: the server and the client that is linked to it, looked up once.

use crate::base::deeds::{Deed, Question};
use crate::base::ids::{ClientId, ServerId};
use crate::base::reasons::{Passed, Waiting};
use crate::base::time::Time;
use crate::client::{Client, ClientPhase};
use crate::exchange::{Exchange, Granted};
use crate::pools::pool::Pool;
use crate::server::Server;
use crate::server_side::ServerSide;
use crate::shared::Shared;
use pgweir_wire::Writer;
use std::ops::Range;

/// What a server's message changes on the server, the linked client, and what all connections share. What it means
/// for other connections is returned as a [`Deed`].
pub(crate) struct Reply<'a> {
    pub(crate) now: Time,
    pub(crate) id: ServerId,
    pub(crate) server: &'a mut Server,
    /// The linked client.
    pub(crate) client: Option<(ClientId, &'a mut Client)>,
    pub(crate) pool: &'a mut Pool,
    pub(crate) shared: &'a mut Shared,
    /// What the pooler must do after the message, in order.
    pub(crate) deeds: Vec<Deed>,
    /// The bytes of the input that go to the client and are not in the outbox yet.
    pub(crate) run: Range<usize>,
}

impl Reply<'_> {
    /// The server without its client.
    #[inline]
    pub(crate) fn to(&mut self) -> ServerSide<'_> {
        ServerSide {
            id: self.id,
            server: self.server,
            pool: self.pool,
            shared: self.shared,
        }
    }

    /// The server and its client.
    #[inline]
    pub(crate) fn exchange(&mut self) -> Option<Exchange<'_>> {
        let (id, client) = self.client.as_mut()?;
        Some(Exchange {
            now: self.now,
            id: *id,
            server_id: self.id,
            client,
            server: self.server,
            pool: self.pool,
            shared: self.shared,
            wish: None,
            granted: Granted::default(),
        })
    }

    /// The linked client.
    #[inline]
    pub(crate) fn client(&mut self) -> Option<&mut Client> {
        self.client.as_mut().map(|(_, client)| &mut **client)
    }

    #[inline]
    pub(crate) fn is_linked(&self) -> bool {
        self.client.is_some()
    }

    /// Whether the linked client is logged in.
    pub(crate) fn is_of_session(&self) -> bool {
        self.client.as_ref().is_some_and(|(_, client)| client.is_session())
    }

    /// Whether the server works for a login: it runs auth_query, or tries startup parameters.
    pub(crate) fn is_of_login(&self) -> bool {
        let phase = self.client.as_ref().map(|(_, client)| &client.phase);
        matches!(phase, Some(ClientPhase::Login(_)))
    }

    /// Moves the run into the outbox.
    #[inline(always)]
    pub(crate) fn flush(&mut self) {
        let end = self.run.end;
        let run = std::mem::replace(&mut self.run, end..end);
        if let (false, Some((client, _))) = (run.is_empty(), &self.client) {
            self.pool.stats_mut().bytes_sent += run.len() as u64;
            self.shared.outbox.forward((*client).into(), run);
        }
    }

    /// Writes to the client, after the bytes that have been forwarded.
    pub(crate) fn tell(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.flush();
        if let Some((client, _)) = &self.client {
            self.shared.outbox.insert((*client).into(), write);
        }
    }

    /// Writes messages of the pooler's to the client.
    pub(crate) fn say(&mut self, write: impl FnOnce(&mut Writer<'_>)) {
        self.tell(|bytes| write(&mut Writer::new(bytes)));
    }

    /// Asks the pooler about the message, after the forwarded bytes are in the outbox.
    pub(crate) fn asks(&mut self, question: Question) -> Passed {
        self.flush();
        Passed::Asks(question)
    }

    /// The server has sent bytes that PostgreSQL never sends.
    #[cold]
    pub(crate) fn misbehaves(&mut self, what: String) -> Passed {
        self.flush();
        self.deeds.push(Deed::Misbehaves(what));
        Passed::Closed
    }

    /// A ReadyForQuery has come: a client that has held back a message may look at it again. Returns whether the
    /// client's flight ends.
    #[inline(always)]
    pub(crate) fn note_waiting(&mut self) -> bool {
        match &self.client {
            Some((_, client)) if client.waiting != Waiting::No => self.note_why_it_waits(),
            _ => false,
        }
    }

    #[cold]
    fn note_why_it_waits(&mut self) -> bool {
        self.replies_came();
        matches!(self.client(), Some(client) if matches!(client.waiting, Waiting::Flying { .. }))
    }

    /// The client may look again at a message that waited for the server's replies.
    #[inline]
    pub(crate) fn replies_came(&mut self) {
        if let Some((_, client)) = &self.client
            && client.waiting == Waiting::ForReplies
            && let Some(mut exchange) = self.exchange()
        {
            exchange.replies_came();
        }
    }
}
