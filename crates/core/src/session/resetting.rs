//! RESET goes back to what the client's own startup packet said.
//!
//! A server's startup values are those of the pool; a client's may be others, restored by `set_config()`. So where a client
//! resets a setting that its startup packet gave, the pooler makes it again right behind the RESET. The client is told of
//! what differs in the end, in front of one ReadyForQuery, as it would be by a server of its own.
//!
//! A RESET among other statements of a Query may be undone by an error of theirs, so there the server's answer decides.

use crate::base::reasons::Waiting;
use crate::exchange::Exchange;
use crate::server_side::ServerSide;
use crate::state::difference::difference;
use crate::statements::prepared;
use crate::upstream::entry::{Entry, Expect, Ready, To};
use pgweir_sql::Returns;
use std::sync::Arc;

impl ServerSide<'_> {
    /// Prepares what makes a setting; the statement by whose name it is known. Among the messages that the server has not
    /// answered yet there may be one that deallocates all, or would have and fails: then it is prepared for this use alone.
    fn prepare_set_config(&mut self) -> Arc<prepared::Statement> {
        let statement = self.shared.own_statements.set_config.clone();
        if !self.server.conversation.queue.segment_outstanding() {
            self.prepare(&statement);
            return statement;
        }
        self.prepare_scratch(&statement.query, &statement.types);
        self.shared.own_statements.scratch.clone()
    }
}

impl Exchange<'_> {
    /// The client's startup values that the server does not return to by itself.
    fn startup_values(&self, returns: &Returns) -> Vec<(Arc<str>, Arc<str>)> {
        let (client, server) = (&*self.client, &*self.server);
        if Arc::ptr_eq(&client.session.base, &server.session.base) {
            return Vec::new();
        }
        difference(&server.session.base, &client.session.base)
            .into_iter()
            .filter(|(name, _)| returns.includes(name))
            .filter_map(|(name, value)| Some((name, value?)))
            .collect()
    }

    /// What becomes of the ReadyForQuery of a Query that resets, because the client's startup values are made again.
    pub(crate) fn return_to_startup(&mut self, returns: &Returns) -> Ready {
        if self.startup_values(returns).is_empty() {
            Ready::Passes
        } else if self.server.conversation.queue.in_pipeline() || self.server.conversation.queried_in_pipeline {
            // The server may pass over it, or the Sync end what is left open; the probe finds it out.
            Ready::Passes
        } else {
            Ready::Decides
        }
    }

    /// A segment in which DISCARD ALL has run has failed, and with it the client's startup values that were made behind that, if
    /// only by a cancel: they are made in a segment of their own. Where a probe follows, that finds it out; and the client may
    /// have sent more already, which runs without them.
    #[cold]
    pub(crate) fn makes_startup_values_later(&mut self) {
        let sent_more = !self.server.conversation.queue.is_one_whole_segment();
        if sent_more || self.keeps_session() || !matches!(self.client.waiting, Waiting::No | Waiting::ForReplies) {
            return;
        }
        if self.startup_values(&Returns::All).is_empty() {
            return;
        }
        if let Some(sync) = self
            .server
            .conversation
            .queue
            .front_mut()
            .filter(|e| e.to == To::Forward)
        {
            sync.ready = Ready::Makes;
            self.client.session.reset_among = Some(Box::new(Returns::All));
            self.client.waiting = Waiting::ForReplies;
        }
    }

    /// The segment behind a Query whose ReadyForQuery was swallowed.
    fn send_startup_values(&mut self, returns: &Returns) {
        self.make_startup_values(returns);
        let mut entry = Entry::forward(Expect::Sync);
        entry.ready = Ready::Told;
        self.to().asks(To::Forward, |r| r.special(entry).sync());
    }

    /// Makes the client's startup values in the segment at hand.
    pub(crate) fn make_startup_values(&mut self, returns: &Returns) {
        let values = self.startup_values(returns);
        if values.is_empty() {
            return;
        }
        self.shared.state_stats.returns_to_startup += 1;
        let name = self.to().prepare_set_config();
        let portal = &*self.shared.own_statements.names.portal;
        let queue = &mut self.server.conversation.queue;
        queue.ask(self.server_id, &mut self.shared.outbox, To::Skip, |r| {
            for (setting, value) in &values {
                // The unnamed portal may be the client's, to be executed once more.
                let values = [Some(setting.as_bytes()), Some(value.as_bytes())];
                r.run_in(portal, name.server_name(), &values);
            }
        });
    }

    /// A Query whose answer decides has ended: whether the client's startup values are made again now, and the
    /// ReadyForQuery is theirs.
    pub(crate) fn decide_on_reset(&mut self, undone: bool) -> bool {
        if !undone {
            self.make_what_was_reset();
            return true;
        }
        self.client.session.reset_among = None;
        self.replies_came();
        self.tell_differences();
        false
    }

    /// Makes a client's startup values again, now that the server has reset them. Its messages wait until the server has
    /// confirmed them, and so do the values where a cancel is on its way that could hit them.
    pub(crate) fn make_what_was_reset(&mut self) {
        let may_be_hit = self.server.cancels.in_flight > 0 || !self.server.conversation.queue.is_empty();
        if may_be_hit {
            return;
        }
        if let Some(returns) = self.client.session.reset_among.take() {
            self.send_startup_values(&returns);
        }
    }
}
