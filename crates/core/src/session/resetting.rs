//! RESET returns to the values of the client's startup packet.
//!
//! A server's startup values are those of the pool. A client may have others, which `set_config()` restores. So if a
//! client resets a setting of its startup packet, the pooler sets it again right after the RESET. The client gets
//! ParameterStatus for the final values only, before one ReadyForQuery, as on a direct connection.
//!
//! A RESET among other statements of a Query may be undone if one of them fails, so there the pooler decides after the
//! server's answer.

use crate::base::reasons::Waiting;
use crate::exchange::Exchange;
use crate::server_side::ServerSide;
use crate::state::beyond_ascii::{bytes_of, in_database_encoding};
use crate::state::difference::{Change, difference};
use crate::statements::parse_settings::CLIENT_ENCODING;
use crate::statements::prepared;
use crate::upstream::entry::{Entry, Expect, Ready, To};
use pgweir_sql::Returns;
use std::sync::Arc;

impl ServerSide<'_> {
    /// Prepares the statement that sets a setting, and returns it. An unanswered message may be a DEALLOCATE ALL, which
    /// may run or fail: then a statement is prepared for this use alone.
    fn prepare_set_config(&mut self) -> Arc<prepared::Statement> {
        let statement = self.shared.internal.set_config.clone();
        if !self.server.conversation.queue().segment_outstanding() {
            self.prepare(&statement);
            return statement;
        }
        self.prepare_scratch(&statement.query, &statement.types);
        self.shared.internal.scratch.clone()
    }
}

impl Exchange<'_> {
    /// The client's startup values that differ from the server's.
    fn startup_values(&self, returns: &Returns) -> Vec<(Arc<str>, Arc<str>)> {
        let (client, server) = (&*self.client, &*self.server);
        if Arc::ptr_eq(client.session.base(), server.session.base()) {
            return Vec::new();
        }
        difference(server.session.base(), client.session.base())
            .into_iter()
            .filter(|(name, _)| returns.includes(name))
            .filter_map(|(name, value)| Some((name, value?)))
            .collect()
    }

    /// The changes that set these startup values. A value that is not ASCII is set in the encoding of the database,
    /// whatever client_encoding the session has: the server may not have answered the RESET.
    fn in_database_encoding(&self, returns: &Returns, values: Vec<(Arc<str>, Arc<str>)>) -> Vec<Change> {
        let set = values.into_iter().map(|(name, value)| (name, Some(value))).collect();
        let after = match returns.includes(CLIENT_ENCODING) {
            true => self.client.session.base(),
            false => self.server.session.shape(),
        };
        in_database_encoding(None, self.server.session.base(), after, set)
    }

    /// What becomes of the ReadyForQuery of a Query that resets, if the client's startup values are set again.
    pub(crate) fn return_to_startup(&mut self, returns: &Returns) -> Ready {
        if self.startup_values(returns).is_empty() {
            Ready::Passes
        } else if self.server.conversation.queue().in_pipeline() || self.server.conversation.is_queried_in_pipeline() {
            // The server may ignore the messages, or their Sync may end an open transaction. The probe finds out what
            // happened.
            Ready::Passes
        } else {
            Ready::Decides
        }
    }

    /// A segment in which DISCARD ALL has run has failed, perhaps because of a cancel request. The client's startup
    /// values, which were set after DISCARD ALL, are lost with the segment, and are set again in a separate segment.
    /// This is not needed where a probe follows, and not possible if the client has already sent more, which runs
    /// without them.
    #[cold]
    pub(crate) fn makes_startup_values_later(&mut self) {
        let sent_more = !self.server.conversation.queue().is_one_whole_segment();
        if sent_more || self.keeps_session() || !matches!(self.client.waiting, Waiting::No | Waiting::ForReplies) {
            return;
        }
        if self.startup_values(&Returns::All).is_empty() {
            return;
        }
        if let Some(sync) = self
            .server
            .conversation
            .queue_mut()
            .front_mut()
            .filter(|e| e.to() == To::Forward)
        {
            sync.swallow_ready();
            self.client.session.resets(Returns::All);
            self.client.waiting = Waiting::ForReplies;
        }
    }

    /// Sends the segment that follows a Query whose ReadyForQuery went to no client.
    fn send_startup_values(&mut self, returns: &Returns) {
        self.make_startup_values(returns);
        let entry = Entry::forward(Expect::Sync).with_ready(Ready::Told);
        self.to().asks(To::Forward, |r| r.special(entry).sync());
    }

    /// Sets the client's startup values in the present segment.
    pub(crate) fn make_startup_values(&mut self, returns: &Returns) {
        let values = self.startup_values(returns);
        if values.is_empty() {
            return;
        }
        let kept = self.kept_encoding(returns, &values);
        let values = match &kept {
            Some(_) => values.into_iter().map(|(name, value)| (name, Some(value))).collect(),
            None => self.in_database_encoding(returns, values),
        };
        self.shared.state_stats.returns_to_startup += 1;
        if let Some(kept) = &kept {
            self.to().set_and_keep(kept);
        }
        let name = self.to().prepare_set_config();
        let portal = &*self.shared.internal.names.portal;
        let queue = self.server.conversation.queue_mut();
        queue.ask(self.server_id, &mut self.shared.outbox, To::Skip, |r| {
            for (setting, value) in &values {
                // The unnamed portal may be the client's, which may execute it again.
                let value = value.as_ref().map(|value| bytes_of(value));
                let values = [Some(&*bytes_of(setting)), value.as_deref()];
                r.run_in(portal, name.server_name(), &values);
            }
        });
        if let Some(kept) = &kept {
            self.to().set_back(kept);
        }
    }

    /// The encoding of the database, if these startup values must be set in it and only the server knows which one the
    /// client has chosen: an earlier message of the segment may have set it.
    fn kept_encoding(&self, returns: &Returns, values: &[(Arc<str>, Arc<str>)]) -> Option<[Change; 1]> {
        let is_ascii = values.iter().all(|(name, value)| name.is_ascii() && value.is_ascii());
        if is_ascii || returns.includes(CLIENT_ENCODING) || !self.encoding_in_doubt() {
            return None;
        }
        let [database, _] = self.server.session.shape().encodings()?;
        Some([(CLIENT_ENCODING.into(), Some(database.clone()))])
    }

    /// A Query whose answer decides about a reset has ended. Returns whether the client's startup values are set again
    /// now, so that the ReadyForQuery of that segment goes to the client.
    pub(crate) fn decide_on_reset(&mut self, undone: bool) -> bool {
        if !undone {
            self.make_what_was_reset();
            return true;
        }
        self.client.session.reset_is_undone();
        self.replies_came();
        self.tell_differences();
        false
    }

    /// Sets a client's startup values again, after the server has reset them. The client's messages wait until the
    /// server has confirmed the values. If a cancel request that could hit these settings is on its way, they wait,
    /// too.
    pub(crate) fn make_what_was_reset(&mut self) {
        let may_be_hit = self.server.cancels.may_hit() || !self.server.conversation.queue().is_empty();
        if may_be_hit {
            return;
        }
        if let Some(returns) = self.client.session.take_reset() {
            self.send_startup_values(&returns);
        }
    }
}
