//! ErrorResponse: what the server has refused, what is undone, and who gets the error.

use crate::base::close_reason::CloseReason;
use crate::base::deeds::Deed;
use crate::base::errors::TRANSACTION_FAILED;
use crate::base::reasons::{Dropping, Passed};
use crate::base::request::LogLevel;
use crate::client::Client;
use crate::flow::error_text::{Refusal, mentions_ours, renamed};
use crate::flow::lost_servers::SERVER_CRASHED;
use crate::flow::refused::Refused;
use crate::reply::Reply;
use crate::server_side::ServerSide;
use crate::statements::prepared::INTERNAL_ID_MAX;
use crate::upstream::entry::{Entry, Ready, To};
use crate::upstream::job::Job;
use crate::upstream::phase::{Begin, Intake, ServerPhase};
use pgweir_wire::{ErrorFields, HEADER_BYTES, TransactionStatus};

/// Bytes of an ErrorResponse that are looked at: its severity and SQLSTATE come first.
const ERROR_BYTES_SEEN_MAX: usize = 16 * 1024;

/// The consequences of a failed message in a segment.
struct SegmentFailed {
    /// The sequence values that the server should forget are still there.
    not_forgotten: bool,
    /// A deferred BEGIN has failed in front of a Query: its client waits for a ReadyForQuery.
    begin_failed: bool,
    /// The names of the statements that it was to prepare.
    unprepared: Vec<Box<[u8]>>,
}

impl Reply<'_> {
    pub(crate) fn error(&mut self, message_bytes: usize, bytes: &[u8], whole: bool) -> Passed {
        if !whole && bytes.len() < ERROR_BYTES_SEEN_MAX && message_bytes < super::replies::SEEN_WHOLE_BYTES_MAX {
            return Passed::NeedBytes;
        }
        let body = &bytes[HEADER_BYTES.min(bytes.len())..];
        // If the error is incomplete, its fields before the cut are used.
        let fields = ErrorFields::read_prefix(body);
        let error = Refusal { bytes, whole, fields };
        if error.fields.is_fatal() {
            return self.fatal(&error);
        }
        if self.server.conversation.queue().is_empty() {
            return self.error_outside_requests(&error);
        }
        self.note_refusal_to_write(error.fields.sqlstate);
        if error.fields.is_refusal() {
            self.text_refused(&error.fields);
        }
        let guarded = self.server.conversation.is_guarded();
        if !guarded {
            self.rolled_back();
        }
        let server = &mut *self.server;
        server.conversation.begin_may_be_refused();
        if server.conversation.command_fails()
            && let Some(closed) = self.copy_failed(&error)
        {
            return closed;
        }
        let Some(refused) = self.note_error(&error) else {
            return Passed::Skip;
        };
        let mut not_forgotten = false;
        if refused.expect.ends_with_ready() {
            self.request_failed(&refused, error.fields.sqlstate);
        } else {
            let failed = self.segment_failed(&refused);
            if self.replace_behind_internal_parse(&error, guarded, &failed.unprepared) {
                return Passed::Skip;
            }
            self.goes_on_behind(&failed);
            not_forgotten = failed.not_forgotten;
        }
        self.tell_error(&error, &refused, not_forgotten)
    }

    /// FATAL and PANIC: the server says why it closes. The client gets the message; then both connections end.
    fn fatal(&mut self, error: &Refusal<'_>) -> Passed {
        let hears = |(_, client): &(_, &mut crate::client::Client)| client.is_session() && !client.may_go_elsewhere();
        if error.whole && self.client.as_ref().is_some_and(hears) {
            // The end of the server's connection follows and closes the client. The client gets nothing behind this
            // message.
            if let Some(client) = self.client() {
                client.dropping = Dropping::Everything;
            }
            self.server.conversation.ends_by_fatal(self.now);
            return Passed::Forward;
        }
        if self.server.flies() {
            // The client in front has left. The server has begun none of the flights behind it.
            self.server.conversation.ends_by_fatal(self.now);
        }
        let reason = match self.server.is_idle() {
            true => self.ends_between_clients(&error.text()),
            false => error.text().into_owned(),
        };
        self.deeds.push(Deed::Close(reason));
        Passed::Closed
    }

    /// An idle server has said why it ends. Returns the reason for the log, which begins with PgBouncer's words.
    fn ends_between_clients(&mut self, text: &str) -> String {
        let label = self.server.label(self.id, self.pool.key());
        let line = format!("{label} got packet 'E' from server when not linked: {text}");
        self.shared.log(LogLevel::Warning, line);
        format!("{SERVER_CRASHED} {text}")
    }

    /// An error outside of any request: it is not known how the server will treat its next one.
    fn error_outside_requests(&mut self, error: &Refusal<'_>) -> Passed {
        let text = format!("{}: error outside a query: {}", self.id, error.text());
        self.server.close_reason.get_or_insert(CloseReason::ErrorOutsideQuery);
        self.shared.log(LogLevel::Warning, text);
        if !self.is_linked() {
            return self.misbehaves("unexpected ErrorResponse".into());
        }
        match self.is_of_session() {
            true => Passed::Forward,
            false => Passed::Skip,
        }
    }

    /// A copy with Syncs among its data has failed: it is not known which of the Syncs the server has swallowed.
    fn copy_failed(&mut self, error: &Refusal<'_>) -> Option<Passed> {
        if error.fields.sqlstate == b"57014" && self.is_linked() {
            // Usually the error comes from CopyFail, and everything in front of it had been swallowed. If it comes from
            // a cancel, no other client is affected.
            self.server.close_reason.get_or_insert(CloseReason::SyncAmongCopyData);
            return None;
        }
        let text = format!("{}: a copy failed: {}", self.id, error.text());
        self.shared.log(LogLevel::Warning, text);
        self.flush();
        self.deeds
            .push(Deed::Close(CloseReason::SyncAmongCopyData.text().into()));
        Some(Passed::Closed)
    }

    /// Records what the error shows about prepared statements. `None`: nothing else is to be done.
    fn note_error(&mut self, error: &Refusal<'_>) -> Option<Refused> {
        let refused = Refused::of(self.server.conversation.queue().front()?);
        let sqlstate = error.fields.sqlstate;
        self.server.held.note_error(self.shared.statements.now());
        if refused.uses > 0 {
            self.to().note_refusal(sqlstate);
        }
        if let To::Job(job @ Job::CheckPlan) = refused.to {
            self.to().job_refused(job, &error.fields);
            return None;
        }
        let front = self.server.conversation.queue().front()?;
        let gains = front.effect().and_then(|e| e.server_gains.as_ref());
        if sqlstate == b"42P05" && gains.is_some_and(|s| !s.is_client_named()) {
            // The server holds a statement that the pooler did not expect. So the pooler can no longer rely on what it
            // knows of the server's statements.
            self.server.close_reason.get_or_insert(CloseReason::OutOfStep);
        }
        Some(refused)
    }

    /// A request that ends with ReadyForQuery has failed, or the Sync that commits a segment.
    fn request_failed(&mut self, refused: &Refused, sqlstate: &[u8]) {
        let entry = self
            .server
            .conversation
            .queue_mut()
            .front_mut()
            .expect("looked at above");
        let mut effect = entry.take_effect();
        if refused.expect.is_whole_request() {
            self.server.conversation.takes_requests_from_here();
        }
        let last = effect.as_mut().filter(|effect| effect.before_deallocate == Some(0));
        let deallocated = last.map(|effect| effect.deallocates.pop_front());
        self.undo_refused(refused.expect, effect);
        if let Some(name) = deallocated {
            self.commit_has_failed(name, sqlstate);
        }
    }

    /// A message of a segment has failed: the server ignores everything up to the next Sync.
    fn segment_failed(&mut self, refused: &Refused) -> SegmentFailed {
        let server = &mut *self.server;
        let discarded = server.conversation.has_discarded_all();
        let taken = server.conversation.segment_fails();
        let not_forgotten = server.session.is_forgetting() && !server.conversation.queue().executes_ours();
        if not_forgotten {
            server.session.has_not_forgotten();
        }
        server.held.awaits_nothing();
        if taken.iter().any(Entry::executes_ours) {
            // It may have been DISCARD PLANS.
            server.session.plans_become_new(false);
        }
        let is_query = |e: &Entry| e.expect().is_whole_request();
        let begin_failed =
            refused.is_skipped() && server.conversation.intake() == Intake::ToSync && taken.iter().any(is_query);
        let decides = taken.iter().any(|e| e.ready() == Ready::Decides);
        if let Some(client) = self.client().filter(|_| decides) {
            // The server ignores the RESET: nothing must be restored after it.
            client.session.reset_is_undone();
        }
        let gained = taken.iter().filter_map(|e| e.effect()?.server_gains.as_ref());
        let unprepared = match refused.is_skipped() {
            true => gained.map(|statement| statement.server_name().into()).collect(),
            false => Vec::new(),
        };
        self.undo(taken);
        if let Some(mut exchange) = self.exchange().filter(|_| discarded) {
            exchange.makes_startup_values_later();
        }
        SegmentFailed {
            not_forgotten,
            begin_failed,
            unprepared,
        }
    }

    /// If a separate internal segment with a Parse has failed, the client's next message gets the error of that Parse.
    /// Returns whether such a segment has failed.
    fn replace_behind_internal_parse(&mut self, error: &Refusal<'_>, guarded: bool, names: &[Box<[u8]>]) -> bool {
        let server = &mut *self.server;
        // An error about internal statements or about the transaction does not answer a Query.
        let of_statement = !matches!(error.fields.sqlstate, b"26000" | b"25P02");
        let in_block = server.conversation.status() != TransactionStatus::Idle && of_statement && !guarded;
        let queue = server.conversation.queue_mut();
        if error.fields.sqlstate == b"57014" && queue.prepares_for_client() {
            // The client's message fails with this error: a cancel that waits for it has done its work.
            server.cancels.wait_for_none();
        }
        queue.replace_behind_internal_parse(in_block, !of_statement, names, || error.kept_for_use())
    }

    /// Continues after a failed segment.
    fn goes_on_behind(&mut self, failed: &SegmentFailed) {
        if failed.begin_failed {
            self.to().sync_after_failed_begin();
        }
        // A held-back message may have waited for a ReadyForQuery that was removed, or is a part of the segment that the
        // server ignores.
        let conversation = &self.server.conversation;
        if conversation.begin() != Begin::Refused || conversation.intake() == Intake::ToSync {
            self.replies_came();
        }
        if self.server.conversation.intake() == Intake::ToSync && matches!(self.server.phase, ServerPhase::Draining) {
            // The client has left before the error came: nobody else sends the Sync that the server waits for.
            self.to().end_what_client_began();
        }
    }

    /// Decides who gets the error, and with which text.
    fn tell_error(&mut self, error: &Refusal<'_>, refused: &Refused, not_forgotten: bool) -> Passed {
        let sqlstate = error.fields.sqlstate;
        let skipped = refused.is_skipped();
        if refused.to == To::Swallow {
            return Passed::Skip;
        }
        if skipped
            && self
                .server
                .conversation
                .queue()
                .front()
                .is_some_and(|e| e.ready() == Ready::Told)
        {
            // In a failed transaction nothing was reset, so nothing must be restored. Otherwise a probe finds out.
            let suspicion = self.client().and_then(|client| client.session.suspicion());
            let asks = suspicion.is_some_and(|s| !s.waits_for_text());
            if sqlstate != b"25P02" && !asks {
                self.server.close_reason.get_or_insert(CloseReason::NotRestored);
            }
            return Passed::Skip;
        }
        let alone =
            self.server.session.restoration().is_none() && self.server.conversation.queue().internal_sync_in_front();
        if skipped && alone && not_forgotten {
            return self.answers_waiting_request(error);
        }
        if self.server.session.restoration().is_some() {
            self.server.session.restoration_refused(&error.fields);
            return Passed::Skip;
        }
        if let To::Job(job) = refused.to {
            self.to().job_refused(job, &error.fields);
            // A question in the midst of the client's segment has failed it: the client must know why.
            if job != Job::AskRight || self.server.conversation.intake() != Intake::ToSync {
                return Passed::Skip;
            }
        }
        self.tell_client(error, refused)
    }

    fn tell_client(&mut self, error: &Refusal<'_>, refused: &Refused) -> Passed {
        if !self.is_linked() {
            self.deeds.push(Deed::InternalQueryFailed {
                severity: error.fields.severity.into(),
                message: error.fields.message.into(),
            });
            return Passed::Skip;
        }
        if let Some(reply) = refused.instead_of(error) {
            self.tell(|to| to.extend_from_slice(&reply));
            return Passed::Skip;
        }
        if self.is_of_login() {
            let (severity, text) = (error.severity(), error.text());
            let asks_roles = self
                .client()
                .and_then(Client::login_mut)
                .is_some_and(|login| login.asks_roles());
            let what = if asks_roles {
                "the question about roles"
            } else {
                "auth_query"
            };
            self.shared
                .log(LogLevel::Error, format!("S: error in {what}: {severity}: {text}"));
            return Passed::Skip;
        }
        if refused.is_skipped() && self.misses_internal_statement(&error.fields) {
            self.say(|w| w.error(&TRANSACTION_FAILED));
            return Passed::Skip;
        }
        let without_place = || refused.is_skipped().then(|| error.without_place())?;
        match self.in_clients_words(refused.uses, error).or_else(without_place) {
            Some(reply) => {
                self.tell(|to| to.extend_from_slice(&reply));
                Passed::Skip
            }
            None => Passed::Forward,
        }
    }

    /// Values that other clients have drawn from sequences could not be forgotten in front of the client's request,
    /// which waits and has not been sent. The error answers that request, because the time limit or cancel was meant
    /// for it. If the transaction had failed before, the request is sent, and gets the server's reply.
    #[cold]
    fn answers_waiting_request(&mut self, error: &Refusal<'_>) -> Passed {
        self.flush();
        let failed_before = error.fields.sqlstate == b"25P02";
        let Some(client) = self.client().filter(|_| !failed_before) else {
            return Passed::Skip;
        };
        client.dropping = Dropping::Request;
        if !mentions_ours(error.bytes) {
            return Passed::Forward;
        }
        self.server.close_reason.get_or_insert(CloseReason::OutOfStep);
        self.say(|w| w.error(&TRANSACTION_FAILED));
        Passed::Skip
    }

    /// Whether a failed transaction has kept the server from preparing an internal statement, whose name a client must
    /// not see.
    fn misses_internal_statement(&self, fields: &ErrorFields<'_>) -> bool {
        let failed = self.server.conversation.status() == TransactionStatus::Failed;
        fields.sqlstate == b"26000" && failed && mentions_ours(fields.message)
    }

    /// An error with the client's name of a prepared statement instead of the server's name.
    fn in_clients_words(&self, uses: u64, error: &Refusal<'_>) -> Option<Vec<u8>> {
        if uses <= INTERNAL_ID_MAX || !error.whole || !mentions_ours(error.bytes) {
            return None;
        }
        let (_, client) = self.client.as_ref()?;
        let present = client.statements.names().and_then(|names| names.name_of(uses));
        // The client may have closed the statement meanwhile.
        let (name, statement) = present.or_else(|| self.server.conversation.queue().name_given_up(uses))?;
        renamed(error.bytes, statement.server_name(), name)
    }
}

impl ServerSide<'_> {
    fn sync_after_failed_begin(&mut self) {
        self.server.conversation.takes_requests_from_here();
        self.asks(To::Forward, |r| r.sync());
    }
}
