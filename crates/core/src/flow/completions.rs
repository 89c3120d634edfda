//! CommandComplete: facts that its command tag shows and the text of its statement did not.

use crate::base::admits::Admits;
use crate::base::close_reason::CloseReason;
use crate::base::deeds::Deed;
use crate::base::weakness::Weakness;
use crate::reply::Reply;
use crate::statements::client_names::StatementName;
use crate::upstream::entry::{Entry, Expect, To};
use crate::upstream::phase::Begin;
use pgweir_wire::backend;

impl Reply<'_> {
    /// A CommandComplete of the request at the front that
    /// [`Server::passes_plainly`](crate::server::Server::passes_plainly) has not handled.
    pub(crate) fn command_completes(&mut self, body: &[u8]) {
        let rolls_back = body.starts_with(b"ROLLBACK") && !self.server.conversation.is_guarded();
        match body.first() {
            Some(b'D') if body.starts_with(b"DROP ROLE") => self.server.session.roles_have_changed(),
            Some(b'D') => self.ends_statements(body),
            Some(b'C') if body.starts_with(b"COMMIT") => self.committed(),
            Some(b'A' | b'C' | b'G') => self.logins_may_be_admitted(body),
            Some(b'P') if body.starts_with(b"PREPARE\0") => self.prepared(),
            Some(b'R') if rolls_back => self.rolled_back(),
            Some(b'U') if body.starts_with(b"UNLISTEN\0") => self.unlistened(),
            Some(b'B') if self.server.conversation.begin() == Begin::Owed => self.begun(),
            _ => {}
        }
        let server = &mut *self.server;
        let commits = body.starts_with(b"COMMIT");
        server.held.command_may_end_transaction(commits, rolls_back);
        server.conversation.command_succeeds();
        let queue = server.conversation.queue_mut();
        queue.counts_answered();
        let executed = queue.front().is_some_and(|e| e.expect() == Expect::Execute);
        let ends = body.starts_with(b"DEALLOCATE") || body.starts_with(b"DISCARD");
        if let Some(entry) = executed.then(|| queue.pop()).flatten()
            && entry.to() != To::Skip
            && !ends
        {
            self.ends_nothing(entry);
        }
    }

    /// The command tag of an Execute shows that it has ended no statements. If the pooler expected the opposite, the
    /// portal is not the one that the client's Bind would have made: the effect is undone.
    #[inline]
    pub(crate) fn ends_nothing(&mut self, mut entry: Entry) {
        let effect = entry.take_effect();
        if effect.is_some() {
            self.undo_refused(Expect::Execute, effect);
        }
    }

    /// A database or a role was made or changed, or a right was granted: the server may now admit logins that it has
    /// refused.
    #[cold]
    fn logins_may_be_admitted(&mut self, body: &[u8]) {
        let admits = backend::command_tag(body).ok().and_then(Admits::by_tag);
        if let Some(Admits::CreateRole | Admits::AlterRole) = admits {
            self.server.session.roles_have_changed();
        }
        self.deeds.extend(admits.map(Deed::TryLoginsAgain));
    }

    /// The server has begun the transaction: what follows may be cancelled.
    #[cold]
    fn begun(&mut self) {
        self.server.conversation.begin_is_settled();
        self.cancel_what_was_wanted();
    }

    /// The client's transaction so far has been committed.
    fn committed(&mut self) {
        let channels = self.client().and_then(|client| client.channels.as_ref());
        if channels.is_some_and(|channels| channels.has_unlistened()) {
            self.deeds.push(Deed::Unlisten);
        }
    }

    /// The client no longer listens to a channel, or to any, if the present transaction commits.
    #[cold]
    fn unlistened(&mut self) {
        let next = self.server.conversation.queue_mut().next_unlistened();
        let channels = self.client().and_then(|client| client.channels.as_mut());
        if let (Some(name), Some(channels)) = (next, channels) {
            channels.note_unlistened(name.as_deref());
        }
    }

    /// The client's transaction has failed or was rolled back, perhaps to a savepoint only. Its channels stay as they
    /// are, because it is not known which UNLISTEN was behind which savepoint.
    pub(crate) fn rolled_back(&mut self) {
        if let Some(channels) = self.client().and_then(|client| client.channels.as_mut()) {
            channels.forget_unlisten();
        }
    }

    /// DEALLOCATE ALL and DISCARD ALL, recognized by their command tags if their text did not show them; and DEALLOCATE
    /// among other statements of a Query.
    fn ends_statements(&mut self, body: &[u8]) {
        let discards = match backend::command_tag(body) {
            Ok(b"DEALLOCATE") => return self.deallocated(),
            Ok(b"DISCARD SEQUENCES") => return self.forgot_sequences(),
            Ok(b"DEALLOCATE ALL") => false,
            Ok(b"DISCARD ALL") => true,
            _ => return,
        };
        let effect = self.server.conversation.queue().front().and_then(Entry::effect);
        let seen_coming = effect.is_some_and(|effect| effect.server_lost_all.is_some());
        if discards {
            if let Some(channels) = self.client().and_then(|client| client.channels.as_mut()) {
                channels.note_unlistened(None);
            }
            self.server.conversation.discards_all();
            self.forgot_sequences();
            self.forget_explicit_settings();
        }
        if !seen_coming {
            self.all_have_ended();
        }
    }

    /// A Query has failed whose last statement is a DEALLOCATE, of this name or of all; those in front of it were answered.
    /// It has run, and the commit has failed, unless the error is that there is no such statement, or an interruption.
    #[cold]
    pub(crate) fn commit_has_failed(&mut self, name: Option<StatementName>, sqlstate: &[u8]) {
        let (interrupted, missing) = (sqlstate.starts_with(b"57"), sqlstate == b"26000");
        if interrupted || self.shared.is_weak(Weakness::TrustsCommandTags) {
            return;
        }
        match name {
            Some(name) if !missing => self.has_ended(&name),
            Some(_) => {}
            None => self.all_have_ended(),
        }
    }

    /// All statements of the server, and of its client, have ended at the request at the front.
    fn all_have_ended(&mut self) {
        let Some(later) = self.server.conversation.queue_mut().all_ended_in_front() else {
            return;
        };
        self.server.held.keep_only(later.statements());
        if let Some(client) = self.client() {
            client.statements.keep_only(later.names());
        }
    }

    /// A PREPARE has succeeded. If its name was the client's already, a statement has ended without the pooler's
    /// knowledge, and the name means another one on this server now.
    fn prepared(&mut self) {
        let effect = self.server.conversation.queue().front().and_then(Entry::effect);
        if effect.is_some_and(|effect| effect.must_be_refused) {
            self.server.close_reason.get_or_insert(CloseReason::OutOfStep);
        }
    }

    fn deallocated(&mut self) {
        let settings = &self.shared.settings;
        let tracks = settings.keeps_sessions && settings.tracks_statements_of(self.pool.settings());
        let front = self.server.conversation.queue().front();
        let is_clients = front.is_some_and(|entry| entry.to() != To::Skip);
        let is_expected = front.and_then(Entry::effect).is_some_and(|effect| {
            effect.server_loses.is_some() || effect.name.is_some() || !effect.deallocates.is_empty()
        });
        if tracks && is_clients && !is_expected {
            // It is not known which statement has ended.
            self.server.close_reason.get_or_insert(CloseReason::OutOfStep);
        }
        if let Some(name) = self.server.conversation.queue_mut().next_deallocated() {
            self.has_ended(&name);
        }
    }

    /// A statement of the client has ended.
    fn has_ended(&mut self, name: &[u8]) {
        if let Some((_, client)) = &mut self.client
            && let Some(meaning) = client.statements.end(name)
        {
            meaning
                .as_client_named()
                .iter()
                .for_each(|named| self.server.held.remove(named.id));
        }
    }
}
