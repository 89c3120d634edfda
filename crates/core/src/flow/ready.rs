//! ReadyForQuery: the end of a request, and perhaps of a transaction and of the client's need for the server.

use crate::base::deeds::{Deed, Question};
use crate::base::pin_reason::PinReason;
use crate::base::reasons::{Passed, Passing};
use crate::base::settings::PoolMode;
use crate::client::Client;
use crate::reply::Reply;
use crate::server::Server;
use crate::upstream::ended::Ended;
use crate::upstream::entry::{Expect, Ready, To};
use crate::upstream::job::Job;
use crate::upstream::phase::{Begin, ServerPhase};
use pgweir_wire::TransactionStatus;

/// What is left of a transaction whose ReadyForQuery has come.
struct Rest {
    /// Neither side owes anything.
    is_done: bool,
    suspected: bool,
}

impl Rest {
    #[inline(always)]
    fn of(server: &Server, client: &Client) -> Self {
        Rest {
            is_done: server.is_clean() && client.passing == Passing::None,
            suspected: client.session.suspicion().is_some(),
        }
    }
}

impl Reply<'_> {
    #[inline(always)]
    pub(crate) fn ready(&mut self, body: &[u8]) -> Passed {
        let Some(status) = TransactionStatus::read(body) else {
            return self.is_ready_unasked();
        };
        let Some(entry) = self.server.conversation.queue_mut().take_end() else {
            return self.is_ready_unasked();
        };
        let in_block = self.server.conversation.reports(status);
        let has_failed = self.server.held.take_segment_failed();
        let undone =
            entry.ready() == Ready::Decides && (status == TransactionStatus::Failed || !in_block && has_failed);
        let owes_more = !self.server.conversation.queue().is_empty();
        if owes_more && status == TransactionStatus::Idle {
            self.server
                .held
                .transaction_ends(self.shared.statements.now(), in_block);
        }
        let fails_next = !owes_more && self.nothing_owed(&entry, in_block);
        let server = &mut *self.server;
        server.conversation.takes_requests_from_here();
        let worked = self.now.us_since(server.conversation.request_time());
        let session = &server.session;
        let defined = session.changes_objects() && (status == TransactionStatus::Idle || session.may_publish());
        server.conversation.is_idle_from(self.now);
        let is_usual = server.is_usual() && entry.passes();
        if defined {
            self.note_changed_objects(has_failed && entry.expect() == Expect::Query);
        }
        let flies = self.note_waiting();
        if fails_next {
            self.absorb_failure();
        }
        if !is_usual && let Some(passed) = self.ready_unusually(entry, undone) {
            return passed;
        }
        self.server.asked = None;
        self.pool.stats_mut().query_count += 1;
        self.pool.stats_mut().query_time += worked;
        let xact_start = self.client.as_ref().map(|(_, client)| client.xact_start);
        if status == TransactionStatus::Idle {
            self.pool.stats_mut().xact_count += 1;
            self.pool.stats_mut().xact_time += xact_start.map_or(0, |start| self.now.us_since(start));
        } else if self.pool.settings().mode == PoolMode::Statement && self.is_linked() {
            return self.asks(Question::BlockInStatementMode);
        }
        if flies {
            return self.flight_ends(status);
        }
        self.client_goes_on(status)
    }

    #[cold]
    fn is_ready_unasked(&mut self) -> Passed {
        self.misbehaves("unexpected ReadyForQuery".into())
    }

    /// All requests have been answered. Returns whether the server will fail the next command, whatever it is.
    #[inline(always)]
    fn nothing_owed(&mut self, entry: &Ended, in_block: bool) -> bool {
        let server = &mut *self.server;
        let between = server.conversation.status() == TransactionStatus::Idle;
        // A client's Sync ends what a Query in a pipeline may have left open.
        let may_be_open = !between && entry.expect() != Expect::Sync;
        let was_queried = server.conversation.take_queried_in_pipeline(may_be_open);
        server.session.settings_are_told();
        if between && server.session.transaction_ends() {
            server.held.reads_as_known();
        }
        server.held.note_ready(self.shared.statements.now(), between, in_block);
        if between && server.held.take_doubt_at_end() {
            server.held.doubt_for_good(self.shared.statements.tick());
        }
        was_queried && between && server.link.is_some()
    }

    /// A client's request has ended: decides whether the client still needs the server.
    #[inline(always)]
    fn client_goes_on(&mut self, status: TransactionStatus) -> Passed {
        let Some((_, client)) = &self.client else {
            if self.server.flies() {
                return self.flight_ends(status);
            }
            return Passed::skip_and_release_if(self.server.conversation.queue().is_empty());
        };
        let mut rest = Rest::of(self.server, client);
        let (listens, creates) = (client.channels.is_some(), client.session.shape().creates_temporary());
        if creates && let Some(mut exchange) = self.exchange() {
            rest.suspected |= exchange.suspect_creation();
        }
        if listens && status == TransactionStatus::Idle {
            return self.asks(Question::TransactionEnded);
        }
        self.ends(rest)
    }

    /// Decides whether a client that listens still needs the server, after its notifications were sent.
    pub(crate) fn request_ended(&mut self) -> Passed {
        let Some((_, client)) = &self.client else {
            return Passed::skip_and_release_if(self.server.conversation.queue().is_empty());
        };
        let rest = Rest::of(self.server, client);
        self.ends(rest)
    }

    #[inline(always)]
    fn ends(&mut self, rest: Rest) -> Passed {
        if !rest.is_done {
            return Passed::Forward;
        }
        let always = self.shared.settings.probe_always;
        if (always || rest.suspected) && self.asks_what_was_done(always) {
            return Passed::Forward;
        }
        let Some(client) = self.client() else {
            return Passed::Forward;
        };
        if client.session.pins().is_empty() {
            return Passed::ForwardAndRelease;
        }
        if client.session.pins().contains(PinReason::Listening) {
            self.deeds.push(Deed::MoveOn);
        }
        Passed::Forward
    }

    /// Sends a probe for the changes that a suspected transaction has made to the session. Returns whether there was a
    /// reason to.
    #[inline(never)]
    fn asks_what_was_done(&mut self, always: bool) -> bool {
        self.exchange().is_some_and(|mut exchange| {
            if always {
                exchange.client.session.uses_server();
            }
            exchange.probe()
        })
    }

    /// Handles a ReadyForQuery that is not only the end of a client's request, or for which something has waited.
    /// `None`: it ends the client's request as well.
    #[cold]
    fn ready_unusually(&mut self, entry: Ended, undone: bool) -> Option<Passed> {
        if matches!(self.server.phase, ServerPhase::Listening) {
            return Some(Passed::Asks(Question::ListenerAnswered));
        }
        self.cancel_what_was_wanted();
        if let Some(passed) = self.begin_ends(&entry) {
            return Some(passed);
        }
        if entry.to() == To::Skip {
            self.idle_since_begin();
            if self.server.session.is_half_restored() {
                return Some(Passed::Skip);
            }
            return Some(match self.server.session.restoration() {
                Some(_) => self.asks(Question::Restored),
                None => Passed::skip_and_release_if(self.server.conversation.queue().is_empty()),
            });
        }
        if let To::Job(job) = entry.to() {
            return Some(self.job_ends(job));
        }
        self.server.asked = None;
        match entry.ready() {
            Ready::Passes => None,
            Ready::Decides => {
                self.flush();
                let makes = self
                    .exchange()
                    .is_some_and(|mut exchange| exchange.decide_on_reset(undone));
                makes.then_some(Passed::Skip)
            }
            Ready::Makes => {
                self.flush();
                if let Some(mut exchange) = self.exchange() {
                    exchange.make_what_was_reset();
                }
                Some(Passed::Skip)
            }
            Ready::Told => {
                self.flush();
                if let Some(mut exchange) = self.exchange() {
                    exchange.tell_differences();
                }
                None
            }
        }
    }

    /// A deferred BEGIN was sent alone: its client has been idle since it sent the BEGIN.
    fn idle_since_begin(&mut self) {
        if self.server.conversation.status() == TransactionStatus::InTransaction
            && self.server.conversation.queue().is_empty()
            && let Some((_, client)) = &self.client
        {
            self.server.conversation.is_idle_since(client.xact_start);
        }
    }

    /// Handles the ReadyForQuery of a deferred BEGIN that has failed.
    fn begin_ends(&mut self, entry: &Ended) -> Option<Passed> {
        let server = &mut *self.server;
        match server.conversation.begin() {
            Begin::Owed if server.conversation.queue().is_empty() => Some(self.misbehaves("no answer to BEGIN".into())),
            Begin::Refused
                if entry.to() == To::Forward || entry.to() == To::Skip && server.conversation.queue().is_empty() =>
            {
                server.conversation.begin_is_settled();
                let of_client = entry.to() == To::Forward;
                Some(self.asks(Question::NeverBegan { of_client }))
            }
            _ => None,
        }
    }

    /// The server has answered a job completely.
    fn job_ends(&mut self, job: Job) -> Passed {
        self.flush();
        match job {
            Job::Probe(_) => {
                self.probed();
                Passed::Asks(Question::Probed)
            }
            Job::MoveChannels | Job::ListChannels => Passed::Asks(Question::MoveAnswered),
            // The client that asked goes on with its call, on this server.
            Job::AskRight
                if self
                    .client()
                    .is_some_and(|client| client.session.asked_right().is_some()) =>
            {
                Passed::Skip
            }
            Job::Nothing
            | Job::Restore
            | Job::ReadCatalog
            | Job::ReadPosition
            | Job::ReadObjects
            | Job::ReadSources
            | Job::CheckPlan
            | Job::AskRight => Passed::Asks(Question::Probed),
        }
    }

    /// Sends a cancel that had to wait for its request.
    pub(crate) fn cancel_what_was_wanted(&mut self) {
        if self.to().cancel_what_was_wanted() {
            self.deeds.push(Deed::EndCancelling);
        }
    }

    /// After a Query in a pipeline, PostgreSQL 18 fails the next command with XX000, also an internal one that restores
    /// or probes. This internal query has no other purpose than to take the error. It is not sent if the client leaves
    /// the server, which is then closed, or if a message of the client is already under way, which no internal request
    /// may precede.
    #[cold]
    fn absorb_failure(&mut self) {
        let keeps = |client: &Client| !client.session.pins().is_empty() && client.passing == Passing::None;
        if self.client.as_ref().is_some_and(|(_, client)| keeps(client)) {
            self.to().query_for_nothing(b"");
        }
    }
}
